"""What an executable runs: buffers and the steps that fill them, in order. Nothing here emits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from tapeline.compiler.codegen.nest import Nest
from tapeline.compiler.codegen.routine import Routine
from tapeline.compiler.codegen.views import Layout
from tapeline.compiler.ir.graph import Graph
from tapeline.compiler.ir.location import Location
from tapeline.runtime.op import Attrs, Op, Trait
from tapeline.runtime.spec import TensorSpec

BufferKind: TypeAlias = Literal["input", "output", "constant", "arena", "row"]
"""A "row" is a part of another buffer, where an index says."""


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
    epilogue: NestStep | None = None
    """A nest over the elements of `out`, carried out tile by tile."""


@dataclass(frozen=True, slots=True)
class HostStep:
    """A call of an op's NumPy kernel, for ops that have no lowering.

    With a `routine` a native kernel does the work, and the NumPy kernel is called only to raise
    what it raises for bad values; that of a check only where it does not hold.
    """

    op: Op
    attrs: Attrs
    inputs: tuple[Placed, ...]
    outputs: tuple[Placed, ...]
    label: str
    nodes: tuple[int, ...]
    location: Location | None = None
    routine: Routine | None = None

    @property
    def is_rare(self) -> bool:
        """Whether the NumPy kernel is called only to raise something."""
        return self.routine is not None or bool(self.op.traits & Trait.CHECK)


@dataclass(frozen=True, slots=True)
class Body:
    """A graph of an op of control flow, lowered: a program, and where the values of its nodes
    lie. Numbers are passed in registers, and have no place unless an array step needs one."""

    graph: Graph
    program: Program
    places: Mapping[int, Placed]
    in_place: Mapping[int, int]
    """Outputs that are written over an input: its position."""


@dataclass(frozen=True, slots=True)
class ControlStep:
    """A choice or a loop over bodies. An input or output without a place is in a register."""

    op: Op
    attrs: Attrs
    inputs: tuple[Placed | None, ...]
    known: tuple[Any, ...]
    """Per input the number that it is; None where that is not known."""
    outputs: tuple[Placed | None, ...]
    bodies: tuple[Body, ...]
    """One per sub-graph of the op, in its order."""
    label: str
    nodes: tuple[int, ...]
    """The node of the op, then the nodes of its outputs (-1: nobody takes it)."""
    location: Location | None = None


@dataclass(frozen=True, slots=True)
class ScalarStep:
    """In a body: a number, computed in registers; `buffers` hold what it reads from memory."""

    buffers: tuple[int, ...]
    label: str
    nodes: tuple[int, ...]
    location: Location | None = None


@dataclass(frozen=True, slots=True)
class RowStep:
    """In a body: where one entry of `source` along an axis begins. `buffer` stands for that
    pointer; `buffers` hold what is read from memory."""

    source: Placed
    axis: int
    index: int
    """The node of the index."""
    buffer: int
    buffers: tuple[int, ...]
    label: str
    nodes: tuple[int, ...]
    location: Location | None = None


@dataclass(frozen=True, slots=True)
class PutStep:
    """In a body: one element of `target` is written; `buffers` hold what is read from memory."""

    target: Placed
    buffers: tuple[int, ...]
    label: str
    nodes: tuple[int, ...]
    location: Location | None = None


ProgramStep: TypeAlias = (
    NestStep | MatmulStep | HostStep | ControlStep | ScalarStep | RowStep | PutStep
)
"""The last three occur in bodies only."""


@dataclass(frozen=True, slots=True)
class Program:
    """Steps over buffers. Inputs, outputs and constants are passed in; the arena is planned from
    this."""

    name: str
    buffers: tuple[Buffer, ...]
    steps: tuple[ProgramStep, ...]
    inputs: tuple[Placed, ...]
    outputs: tuple[TensorSpec, ...]
    based: tuple[tuple[int, int], ...] = ()
    """Buffers that lie in another one: (buffer, the other), in order of first use."""
    kept: tuple[int, ...] = ()
    """Buffers that are read when all steps are done."""

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
        more = () if step.epilogue is None else step.epilogue.buffers
        return step.a.buffer, step.b.buffer, step.out.buffer, *more
    if isinstance(step, ScalarStep):
        return step.buffers
    if isinstance(step, RowStep):
        return (step.source.buffer, step.buffer, *step.buffers)
    if isinstance(step, PutStep):
        return (step.target.buffer, *step.buffers)
    return tuple(placed.buffer for placed in (*step.inputs, *step.outputs) if placed is not None)
