"""From shapes and strides to a loop order: which dimensions merge, and which one is vectorised.

Pure: nothing here emits, and nothing depends on how many threads there are.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from tapeline.compiler.codegen.memory import Access
from tapeline.compiler.codegen.nest import Nest

Mode: TypeAlias = Literal["rows", "lanes"]
"""rows: the innermost loop runs along the vector dimension.
lanes: the reduced dimensions are looped over inside each vector."""

_VECTOR_COST: dict[Access, int] = {
    "broadcast": 0, "contiguous": 1, "reversed": 2, "stride2": 4, "strided": 20,
}  # fmt: skip
_PER_VECTOR = 2
_PER_LOOP = 4
_PER_FOLD = 14


@dataclass(frozen=True, slots=True)
class Stream:
    """A number that grows linearly with the loop counters.

    The byte offset of an operand (`unit` is its item size), or a position (`unit` is 1).
    """

    unit: int
    strides: tuple[int, ...]
    position: bool = False

    def varies(self, dims: tuple[int, ...]) -> bool:
        """Whether it moves along any of these dimensions."""
        return any(self.strides[d] for d in dims)

    def access(self, dim: int) -> Access:
        """How it moves along a dimension when that is vectorised."""
        stride = self.strides[dim]
        if stride == 0:
            return "broadcast"
        if stride == self.unit:
            return "contiguous"
        if self.position:
            return "strided"
        if stride == -self.unit:
            return "reversed"
        return "stride2" if stride == 2 * self.unit else "strided"


@dataclass(frozen=True, slots=True)
class Ragged:
    """Dimension `inner` of a nest in parts: part p along dimension `part` is as long as `inner`'s
    extent, or what is left of `total`."""

    part: int
    inner: int
    total: int


@dataclass(frozen=True, slots=True)
class Space:
    """An iteration space: extents, which dimensions are reduced, and what moves along them.

    The streams are the operands of the nest in order, then one position per index step, then one
    for the flattened position along all reduced axes if a step needs it.
    """

    extents: tuple[int, ...]
    reduced: tuple[bool, ...]
    streams: tuple[Stream, ...]
    ragged: Ragged | None = None

    def dims(self, reduced: bool) -> tuple[int, ...]:
        """The dimensions that are reduced, or those that are kept."""
        return tuple(d for d, flag in enumerate(self.reduced) if flag == reduced)

    def size(self, dims: tuple[int, ...]) -> int:
        """The number of points along some dimensions."""
        total = 1
        for d in dims:
            total *= self.extents[d]
        return total

    def reorder(self, order: list[int]) -> Space:
        """The same space with its dimensions in another order, without those not named."""
        ragged = self.ragged
        if ragged is not None:
            ragged = Ragged(order.index(ragged.part), order.index(ragged.inner), ragged.total)
        return Space(
            tuple(self.extents[d] for d in order),
            tuple(self.reduced[d] for d in order),
            tuple(replace(s, strides=tuple(s.strides[d] for d in order)) for s in self.streams),
            ragged,
        )

    def is_ragged(self, dim: int) -> bool:
        """Whether a dimension is one of the two of a split one."""
        return self.ragged is not None and dim in (self.ragged.part, self.ragged.inner)


@dataclass(frozen=True, slots=True)
class Schedule:
    """A space in loop order, and what to do with it.

    rows: kept dimensions, then inner dimensions, the last of which is vectorised (for a nest that
    reduces nothing only that one is inner).
    lanes: kept dimensions, the last of which is vectorised, then the reduced dimensions.
    `chunked` is the dimension that a launch may split, or -1.
    """

    space: Space
    mode: Mode
    n_outer: int
    """Number of dimensions looped over outside of rows, or outside of strips of lanes."""
    chunked: int

    @property
    def vector(self) -> int:
        """The vectorised dimension."""
        return len(self.space.extents) - 1 if self.mode == "rows" else self.n_outer

    @property
    def inner(self) -> tuple[int, ...]:
        """The dimensions that passes run over."""
        first = self.n_outer + (self.mode == "lanes")
        return tuple(range(first, len(self.space.extents)))

    def access(self, stream: int) -> Access:
        """How a stream moves along the vector dimension."""
        return self.space.streams[stream].access(self.vector)


ARG_KINDS = ("argmax", "argmin")


def position_streams(nest: Nest) -> list[Stream]:
    """One stream per index step, and one for flattened positions if a step asks for them."""
    ndim = len(nest.shape)
    streams = []
    for step in nest.steps:
        if step.kind == "index":
            strides = tuple(int(d == step.axis) for d in range(ndim))
            streams.append(Stream(1, strides, position=True))
    if any(step.kind in ARG_KINDS for step in nest.steps):
        flat, scale = [0] * ndim, 1
        for axis in sorted(nest.axes, reverse=True):
            flat[axis] = scale
            scale *= nest.shape[axis]
        streams.append(Stream(1, tuple(flat), position=True))
    return streams


def space_of(nest: Nest, ragged: Ragged | None = None) -> Space:
    """The nest's space without extents of 1, in memory order, with neighbours merged."""
    streams = [Stream(o.dtype.itemsize, o.strides) for o in nest.operands]
    streams += position_streams(nest)
    reduced = tuple(d in nest.axes for d in range(len(nest.shape)))
    space = Space(nest.shape, reduced, tuple(streams), ragged)
    keeps_order = any(step.kind in ARG_KINDS for step in nest.steps)
    kept = [d for d in space.dims(False) if space.extents[d] != 1 or space.is_ragged(d)]
    folded = [d for d in space.dims(True) if space.extents[d] != 1 or space.is_ragged(d)]
    outputs, inputs = streams[nest.n_inputs : len(nest.operands)], streams[: nest.n_inputs]
    kept.sort(key=lambda d: _rank(d, outputs, streams))
    if not keeps_order:
        folded.sort(key=lambda d: _rank(d, outputs + inputs, streams))
    space = space.reorder(kept + folded)
    for d in range(len(space.extents) - 2, -1, -1):
        space = _merge(space, d)
    if not space.extents:
        units = tuple(replace(s, strides=(0 if s.position else s.unit,)) for s in streams)
        space = Space((1,), (False,), units)
    return space


def _rank(dim: int, leading: list[Stream], every: list[Stream]) -> tuple[int, int]:
    """Sorts dimensions by stride, largest first: of the first leading stream that moves."""
    for stream in (*leading, *every):
        if stream.strides[dim] and not stream.position:
            return -abs(stream.strides[dim]), dim
    return 0, dim


def _merge(space: Space, d: int) -> Space:
    """The space with dimensions d and d + 1 as one, if every stream allows."""
    extent = space.extents[d + 1]
    if space.reduced[d] != space.reduced[d + 1]:
        return space
    if space.is_ragged(d) or space.is_ragged(d + 1):
        return space
    if any(s.strides[d] != s.strides[d + 1] * extent for s in space.streams):
        return space
    order = [k for k in range(len(space.extents)) if k != d]
    extents = list(space.extents)
    extents[d + 1] *= extents[d]
    return replace(space, extents=tuple(extents)).reorder(order)


def vector_price(space: Space, dim: int, lanes: int, n_inputs: int, n_operands: int) -> float:
    """A rough cost per point of vectorising a dimension."""
    cost = float(_PER_VECTOR)
    for number, stream in enumerate(space.streams[:n_operands]):
        weight = 2 if number >= n_inputs else 1
        cost += weight * _VECTOR_COST[stream.access(dim)]
    extent = space.extents[dim]
    vectors = -(-extent // lanes)
    overhead = _PER_LOOP + (_PER_FOLD if space.reduced[dim] else 0)
    return (vectors * cost + overhead) / extent


def schedule(nest: Nest, lanes: int, ragged: Ragged | None = None) -> Schedule:
    """The loop order of a nest for vectors of `lanes` elements."""
    space = space_of(nest, ragged)
    numbers = range(len(space.extents))
    n_operands = len(nest.operands)
    prices = {d: vector_price(space, d, lanes, nest.n_inputs, n_operands) for d in numbers}
    argument = any(step.kind in ARG_KINDS for step in nest.steps)
    folded = space.dims(True)
    candidates = [d for d in numbers if not (argument and d in folded[:-1])]
    chosen = min(candidates, key=lambda d: (prices[d], -d))
    outer = [d for d in space.dims(False) if d != chosen]
    if folded and not space.reduced[chosen]:
        order, mode = [*outer, chosen, *folded], "lanes"
    else:
        order, mode = [*outer, *(d for d in folded if d != chosen), chosen], "rows"
    space = space.reorder(order)
    return _with_chunks(Schedule(space, mode, len(outer), -1))  # type: ignore[arg-type]


def _with_chunks(found: Schedule) -> Schedule:
    """Settles which dimension launches split: the vector dimension where it is kept and long and
    the others are few; otherwise the longest outer dimension, moved outermost if the first is
    short."""
    space, outer = found.space, tuple(range(found.n_outer))
    vector_kept = not space.reduced[found.vector]
    if vector_kept and (not outer or max(space.extents[d] for d in outer) < 16):
        return replace(found, chunked=found.vector)
    if not outer:
        return found
    longest = max(outer, key=lambda d: (space.extents[d], -d))
    if space.extents[0] >= 16:
        longest = 0
    order = [longest, *(d for d in range(len(space.extents)) if d != longest)]
    return replace(found, space=space.reorder(order), chunked=0)
