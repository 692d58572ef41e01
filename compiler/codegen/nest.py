"""What codegen is asked for and what it gives back: the border between graphs and kernels.

A `Nest` says what to compute over an iteration space; a `Kernel` is emitted LLVM text and how to
launch it.
Nothing here knows graphs, and nothing here emits. Both forms print as text.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeAlias

from tapeline.runtime.spec import DType, Shape

StepKind: TypeAlias = Literal[
    "map", "sum", "prod", "max", "min", "any", "all", "argmax", "argmin", "index"
]


@dataclass(frozen=True, slots=True)
class Operand:
    """An array as the nest sees it: byte strides per dimension of the nest (0: broadcast, or
    reduced away)
    and a byte offset from the buffer's start."""

    dtype: DType
    strides: tuple[int, ...]
    offset: int = 0


class LoopKey(NamedTuple):
    """The key of a map step that is a loop: for each vector of elements, all turns."""

    name: str
    position: int
    """Which state of the loop the step gives."""
    text: str
    vectors: int
    """How many vectors stay in registers while it turns."""
    turns: int
    """How many turns there may be; a guess where nobody knows."""


@dataclass(frozen=True, slots=True)
class Step:
    """One value of the nest's program.

    kind "map": `emit(b, *args)` of pointwise values (or of values reduced earlier).
    kind "index": the position along dimension `axis` of the nest, as int64.
    Other kinds reduce their one argument over the nest's `axes`; the result no longer varies along
    them.
    """

    kind: StepKind
    dtype: DType
    args: tuple[int, ...] = ()
    emit: Callable[..., Any] | None = field(default=None, compare=False)
    key: Hashable = None
    """What tells this step's `emit` from others, such as (op name, attrs)."""
    axis: int = -1


@dataclass(frozen=True, slots=True)
class Nest:
    """A program over an iteration space.

    Values are numbered: operand i for i < n_inputs, then the steps in order. `results[k]` is stored
    to operand
    `n_inputs + k`. A result that varies along the reduced axes is stored for every point, one that
    does
    not has stride 0 there. All reducing steps reduce the same axes. Buffers never overlap one
    another,
    except that an output may be exactly an input of the same dtype and strides (`in_place`).
    """

    shape: Shape
    axes: tuple[int, ...]
    operands: tuple[Operand, ...]
    n_inputs: int
    steps: tuple[Step, ...]
    results: tuple[int, ...]
    in_place: tuple[tuple[int, int], ...] = ()

    def __str__(self) -> str:
        lines = [f"nest {list(self.shape)} reduce {list(self.axes)}"]
        for number, operand in enumerate(self.operands):
            role = f"%{number} = in " if number < self.n_inputs else "out "
            lines.append(f"  {role}{operand.dtype.name} strides {list(operand.strides)}")
        for number, step in enumerate(self.steps, self.n_inputs):
            args = ", ".join(f"%{arg}" for arg in step.args)
            name = step.kind if step.kind != "map" else _shown(step.key)
            lines.append(f"  %{number} = {name}({args}) : {step.dtype.name}")
        lines.append("  store " + ", ".join(f"%{value}" for value in self.results))
        return "\n".join(lines)


def _shown(key: Hashable) -> str:
    """A map's key: a name, or a tuple that begins with one or with an op."""
    if not isinstance(key, tuple) or not key:
        return str(key)
    details = [part for part in key[1:] if part != ()]
    name = str(getattr(key[0], "name", key[0]))
    return f"{name}{details}" if details else name


SlotValue: TypeAlias = int | tuple[Literal["operand", "scratch"], int, int]
"""A plain int, or (kind, operand number or 0, byte offset): a pointer known only when the graph
runs."""


@dataclass(frozen=True, slots=True)
class KernelFunction:
    """One emitted function `void name(ptr A, i64 lo, i64 hi)`; A is an array of i64 slots.

    `text` names the function `@name` and holds no declarations; functions with equal `key` are the
    same code.
    """

    key: Hashable
    name: str
    text: str
    declarations: frozenset[str]
    slots: tuple[str, ...]
    definitions: tuple[tuple[str, str], ...] = ()
    """Global tables and helper functions that the text uses: (key, text), once per module."""


@dataclass(frozen=True, slots=True)
class Launch:
    """One call of a kernel function over chunks of [0, extent); any split at multiples of `grain`
    gives the
    same bits."""

    function: KernelFunction
    values: tuple[SlotValue, ...]
    extent: int
    grain: int = 1
    work: int = 0
    """Rough cost in element operations, for deciding on threads and on releasing the GIL."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """The launches that carry out one nest, in order, and the scratch bytes they need (64-byte
    aligned)."""

    strategy: str
    launches: tuple[Launch, ...]
    scratch_bytes: int = 0
