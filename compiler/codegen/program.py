"""What an executable runs: buffers and the steps that fill them, in order. Nothing here emits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from tapeline.compiler.codegen.gather import TakeShape
from tapeline.compiler.codegen.nest import Nest
from tapeline.compiler.codegen.views import Layout
from tapeline.compiler.ir.location import Location
from tapeline.runtime.op import Attrs, Op
from tapeline.runtime.spec import TensorSpec

BufferKind: TypeAlias = Literal["input", "output", "constant", "arena"]


@dataclass(frozen=True, slots=True)
class Buffer:
    """A stretch of memory; `index` counts within its kind."""

    kind: BufferKind
    index: int
    nbytes: int


@dataclass(frozen=True, slots=True)
class Placed:
    """Where a value lies: its buffer and its layout in it."""

    buffer: int
    layout: Layout
    spec: TensorSpec


@dataclass(frozen=True, slots=True)
class NestStep:
    """A loop nest; `buffers[k]` is the buffer of the nest's operand k."""

    nest: Nest
    buffers: tuple[int, ...]
    label: str
    nodes: tuple[int, ...]
    location: Location | None = None


@dataclass(frozen=True, slots=True)
class MatmulStep:
    """A matrix product by NumPy's rules for operands of two dimensions or more."""

    a: Placed
    b: Placed
    out: Placed
    label: str
    nodes: tuple[int, ...]
    location: Location | None = None


@dataclass(frozen=True, slots=True)
class HostStep:
    """A call of an op's NumPy kernel, for ops that have no lowering.

    With `rows` a native kernel does the work, and the NumPy kernel is called only to raise what it
    raises for bad indices.
    """

    op: Op
    attrs: Attrs
    inputs: tuple[Placed, ...]
    outputs: tuple[Placed, ...]
    label: str
    nodes: tuple[int, ...]
    location: Location | None = None
    rows: TakeShape | None = None


ProgramStep: TypeAlias = NestStep | MatmulStep | HostStep


@dataclass(frozen=True, slots=True)
class Program:
    """Steps over buffers. Inputs, outputs and constants are passed in; the arena is planned from
    this."""

    name: str
    buffers: tuple[Buffer, ...]
    steps: tuple[ProgramStep, ...]
    inputs: tuple[Placed, ...]
    outputs: tuple[TensorSpec, ...]

    def __str__(self) -> str:
        lines = [f"program {self.name}"]
        for number, buffer in enumerate(self.buffers):
            lines.append(f"  @{number} {buffer.kind}{buffer.index} {buffer.nbytes} bytes")
        for step in self.steps:
            lines.append(f"  {step.label}: {', '.join(f'@{b}' for b in touched(step))}")
        return "\n".join(lines)


def touched(step: ProgramStep) -> tuple[int, ...]:
    """The buffers a step reads or writes."""
    if isinstance(step, NestStep):
        return step.buffers
    if isinstance(step, MatmulStep):
        return step.a.buffer, step.b.buffer, step.out.buffer
    return tuple(placed.buffer for placed in (*step.inputs, *step.outputs))
