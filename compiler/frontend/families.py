"""Families: the traces of a function for arguments that differ in nothing but the sizes of tensors
and in Python numbers.

A dimension that comes with a second size is left open in the next trace, so that this one serves
other sizes as well. Dimensions whose sizes have always agreed share a symbol. A dimension whose
size the program asked for itself, twice, is not left open again. A number that comes with a third
value is left open too, until the program asks for its value: then it is a constant for good.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from tapeline.runtime.dispatch import STATE
from tapeline.runtime.open_numbers import is_general
from tapeline.runtime.sizes import Sizes
from tapeline.runtime.spec import Shape, TensorSpec

if TYPE_CHECKING:
    from tapeline.compiler.concrete import ConcreteFunction
    from tapeline.compiler.open_function import OpenFunction

Place: TypeAlias = tuple[int, int]
"""The number of a tensor among the arguments, and one of its dimensions."""
Places: TypeAlias = tuple[tuple[Place, ...], ...]
"""For each symbol where it stands."""


Order: TypeAlias = tuple[tuple[Any, ...], ...]


class Plan(NamedTuple):
    """What a trace is to leave open: dimensions, and numbers by their position."""

    places: Places = ()
    numbers: tuple[int, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.places or self.numbers)


class Given(NamedTuple):
    """What calls of one family differ in: the shapes of the tensors, and the numbers."""

    shapes: tuple[Shape, ...]
    numbers: tuple[float, ...]
    order: Order = ()
    """In which order dicts and arguments by name came."""


MAX_OPEN_TRACES = 8
"""How many traces with open sizes a family may have; they differ in what their code asked."""
_REMEMBERED = 8
_MAX_FIXED = 2
_VARYING_NUMBER = 3
"""As many values make a number open."""


class Family:
    """The sizes seen so far, and the traces with open sizes, the last used first."""

    def __init__(self) -> None:
        self.seen: list[Given] = []
        self.traces: list[OpenFunction] = []
        self.constant_numbers: set[int] = set()
        """Positions of numbers whose value was asked for."""
        self.has_fixed_sizes = False
        """Whether the code fails where sizes are left open."""
        self._fixed: dict[Place, int] = {}

    def find(
        self, given: Given, wanted: Places = ()
    ) -> tuple[OpenFunction, tuple[int, ...]] | None:
        """A trace that serves such a call and leaves at least the dimensions `wanted` open; and
        what its symbols are then."""
        for number, trace in enumerate(self.traces):
            if not set(_flat(wanted)).issubset(_flat(trace.places)):
                continue
            if trace.results.has_numbers and STATE.handler is not None:
                continue  # nobody knows them yet
            if not trace.serves(given.order):
                continue
            values = trace.values_for(given.shapes) if trace.has_numbers(given.numbers) else None
            if values is not None:
                if number:
                    self.traces.insert(0, self.traces.pop(number))
                return trace, values
        return None

    def all_for(self, given: Given) -> list[ConcreteFunction]:
        """What serves such a call of all traces, whatever they ask of sizes that values tell."""
        found = []
        for trace in self.traces:
            values = trace.values_for(given.shapes) if trace.has_numbers(given.numbers) else None
            if values is not None:
                found.append(trace.at(values))
        return found

    def plan(self, given: Given, wanted: Places, is_reducing: bool) -> Plan:
        """What to leave open in a trace for such a call: the dimensions `wanted`, if any, and if
        `is_reducing` what varies."""
        if not is_reducing or len(self.traces) >= MAX_OPEN_TRACES:
            return Plan(wanted)
        places = wanted
        if not wanted and not self.has_fixed_sizes:
            places = self._varying_sizes(given.shapes)
        return Plan(places, self._varying_numbers(given))

    def _varying_numbers(self, given: Given) -> tuple[int, ...]:
        found = []
        for position, number in enumerate(given.numbers):
            if position not in self.constant_numbers and is_general(number):
                values = {before.numbers[position] for before in self.seen} | {number}
                if len(values) >= _VARYING_NUMBER:
                    found.append(position)
        return tuple(found)

    def _varying_sizes(self, shapes: tuple[Shape, ...]) -> Places:
        groups: dict[tuple[int, ...], list[Place]] = {}
        for number, shape in enumerate(shapes):
            for axis, size in enumerate(shape):
                history = (*(before.shapes[number][axis] for before in self.seen), size)
                is_varying = size > 1 and any(other != size for other in history)
                if is_varying and self._fixed.get((number, axis), 0) < _MAX_FIXED:
                    groups.setdefault(history, []).append((number, axis))
        return tuple(map(tuple, groups.values()))

    def observe(self, given: Given) -> None:
        """Remembers that a trace was made for such a call."""
        if given not in self.seen:
            self.seen.append(given)
            del self.seen[:-_REMEMBERED]

    def add(self, trace: OpenFunction) -> None:
        """A further trace, and what it found out about the sizes."""
        self.traces.insert(0, trace)
        for number in trace.sizes.fixed():
            if number >= len(trace.places):
                continue  # values tell it
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


def _flat(places: Places) -> list[Place]:
    return [place for group in places for place in group]


def open_places(specs: Iterable[TensorSpec | None]) -> Places:
    """The dimensions that specs of tensors, in order, do not fix; each by itself."""
    return tuple(
        ((number, axis),)
        for number, spec in enumerate(specs)
        for axis, size in enumerate((spec and spec.shape) or ())
        if size is None
    )
