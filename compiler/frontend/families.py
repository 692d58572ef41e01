"""Families: the traces of a function for arguments that differ in nothing but the sizes of tensors.

A dimension that comes with a second size is left open in the next trace, so that this one serves
other sizes as well. Dimensions whose sizes have always agreed share a symbol. A dimension whose
size the program asked for itself, twice, is not left open again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from tapeline.runtime.dims import Sizes
from tapeline.runtime.spec import Shape, TensorSpec

if TYPE_CHECKING:
    from tapeline.compiler.open_function import OpenFunction

Place: TypeAlias = tuple[int, int]
"""The number of a tensor among the arguments, and one of its dimensions."""
Places: TypeAlias = tuple[tuple[Place, ...], ...]
"""For each symbol where it stands."""

MAX_OPEN_TRACES = 8
"""How many traces with open sizes a family may have; they differ in what their code asked."""
_REMEMBERED = 8
_MAX_FIXED = 2


class Family:
    """The sizes seen so far, and the traces with open sizes, the last used first."""

    def __init__(self) -> None:
        self.seen: list[tuple[Shape, ...]] = []
        self.traces: list[OpenFunction] = []
        self._fixed: dict[Place, int] = {}

    def find(
        self, shapes: Sequence[Shape], wanted: Iterable[Place] = ()
    ) -> tuple[OpenFunction, tuple[int, ...]] | None:
        """A trace that serves tensors of these shapes and leaves at least the dimensions `wanted`
        open; and what its symbols are then."""
        for number, trace in enumerate(self.traces):
            if not {place for group in trace.places for place in group}.issuperset(wanted):
                continue
            values = trace.values_for(shapes)
            if values is not None and (trace.guards is None or trace.guards.hold()):
                if number:
                    self.traces.insert(0, self.traces.pop(number))
                return trace, values
        return None

    def plan(self, shapes: tuple[Shape, ...], wanted: tuple[Place, ...]) -> Places:
        """The dimensions to leave open in a trace for these shapes: those `wanted`, if any."""
        if wanted:
            return tuple([(place,) for place in wanted])
        if len(self.traces) >= MAX_OPEN_TRACES:
            return ()
        groups: dict[tuple[int, ...], list[Place]] = {}
        for number, shape in enumerate(shapes):
            for axis, size in enumerate(shape):
                history = (*(before[number][axis] for before in self.seen), size)
                is_varying = size > 1 and any(other != size for other in history)
                if is_varying and self._fixed.get((number, axis), 0) < _MAX_FIXED:
                    groups.setdefault(history, []).append((number, axis))
        return tuple(map(tuple, groups.values()))

    def observe(self, shapes: tuple[Shape, ...]) -> None:
        """Remembers that a trace was made for these shapes."""
        if shapes not in self.seen:
            self.seen.append(shapes)
            del self.seen[:-_REMEMBERED]

    def add(self, trace: OpenFunction) -> None:
        """A further trace, and what it found out about the sizes."""
        self.traces.insert(0, trace)
        for number in trace.sizes.fixed():
            for place in trace.places[number]:
                self._fixed[place] = self._fixed.get(place, 0) + 1


def open_shapes(shapes: Sequence[Shape], places: Places) -> tuple[Sizes, list[Shape]]:
    """Symbols for these places, and the shapes with the symbols in them."""
    sizes = Sizes([shapes[group[0][0]][group[0][1]] for group in places])
    opened = [list(shape) for shape in shapes]
    for symbol, group in zip(sizes.symbols, places, strict=True):
        for number, axis in group:
            opened[number][axis] = symbol
    return sizes, [tuple(shape) for shape in opened]


def open_places(specs: Iterable[TensorSpec | None]) -> tuple[Place, ...]:
    """The dimensions that specs of tensors, in order, do not fix."""
    return tuple(
        (number, axis)
        for number, spec in enumerate(specs)
        for axis, size in enumerate((spec and spec.shape) or ())
        if size is None
    )
