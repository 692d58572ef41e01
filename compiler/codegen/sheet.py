"""Reductions down wide columns: rows are streamed, accumulators wait in a buffer on the stack.

A strip of lanes touches one cache line per row; with long rows those lie far apart. Here a longer
stretch of each row is read at a time, a few rows together, and added to accumulators that stay
in the first-level cache.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tapeline.compiler.codegen.lanes import LaneSweep
from tapeline.compiler.codegen.loops import ZERO, Index, int64
from tapeline.compiler.codegen.nest import Nest
from tapeline.compiler.codegen.reduce import ROWS, Reducer, State, Total
from tapeline.compiler.codegen.schedule import Schedule
from tapeline.compiler.codegen.sweep import Bases
from tapeline.compiler.codegen.values import Value, type_of

WIDTH = 256
"""Columns whose accumulators are kept at a time; a multiple of all lanes."""

WIDE_ROW = 2048
"""From so many bytes per row on, strips of lanes lie too far apart."""

TOGETHER = 8
"""Rows that are added at a time."""


def is_wide(nest: Nest, found: Schedule) -> bool:
    """Whether a lane-wise schedule would touch cache lines far apart."""
    space = found.space
    if found.mode != "lanes" or len(found.inner) != 1 or space.extents[found.inner[0]] < 4 * ROWS:
        return False
    dims = (found.inner[0], found.vector)
    moving = [s for s in space.streams[: len(nest.operands)] if all(s.strides[d] for d in dims)]
    return bool(moving) and all(
        stream.access(found.vector) == "contiguous"
        and abs(stream.strides[found.inner[0]]) >= WIDE_ROW
        and space.extents[found.vector] * stream.unit >= WIDE_ROW
        for stream in moving
    )


@dataclass(frozen=True, slots=True)
class _Buffers:
    """The values of a state, each in a buffer of its own."""

    pointers: tuple[str, ...]
    codes: tuple[str, ...]


class SheetSweep(LaneSweep):
    """Emits a nest of one pass that reduces one dimension."""

    def build(self) -> None:
        """Emits everything."""
        self._inner, self._rows = self.plan.closure(0)
        self._reducers = self.reducers(0)
        self._totals = [Total(reducer) for reducer in self._reducers]
        self._parts = [self._room(reducer.initial(self.lanes)) for reducer in self._reducers]
        self._sums = [self._room(total.initial(self.lanes)) for total in self._totals]
        self.outer_loops(self._sheet)

    def _room(self, state: State) -> _Buffers:
        pointers = []
        for x in state:
            code = "u1" if x.code == "b1" else x.code
            pointers.append(self.f.stack(type_of(code), WIDTH))
        return _Buffers(tuple(pointers), tuple(x.code for x in state))

    def _read(self, room: _Buffers, index: Index) -> State:
        f = self.f
        return [
            f.load(f.element(pointer, code, index), code, self.lanes)
            for pointer, code in zip(room.pointers, room.codes, strict=True)
        ]

    def _write(self, state: State, room: _Buffers, index: Index) -> None:
        f = self.f
        for x, pointer, code in zip(state, room.pointers, room.codes, strict=True):
            f.store(x, f.element(pointer, code, index))

    def _sheet(self, bases: Bases) -> None:
        f = self.f
        start, stop = self.bounds(self.schedule.vector)

        def tile(first: Value, _: list[Value]) -> list[Value]:
            width = f.intrinsic("smin", f.sub(stop, first), int64(WIDTH))
            self._tile(self._moved_to(bases, first), width)
            return []

        f.loop(start, stop, WIDTH, [], tile)

    def _vectors(self, width: Value, body: Callable[[Index], None]) -> None:
        """Runs `body(index)` for the vectors of a buffer, the last one possibly partly used."""

        def turn(i: Value, _: list[Value]) -> list[Value]:
            body(Index(i))
            return []

        self.f.loop(ZERO, width, self.lanes, [], turn)

    def _tile(self, bases: Bases, width: Value) -> None:
        f, dim = self.f, self.schedule.inner[0]
        block = self.forms[0].block
        extent = self.extent(dim)

        def clear(index: Index) -> None:
            for total, room in zip(self._totals, self._sums, strict=True):
                self._write(total.initial(self.lanes), room, index)

        def add(index: Index) -> None:
            for total, part, room in zip(self._totals, self._parts, self._sums, strict=True):
                state = total.add(f, self._read(room, index), self._read(part, index))
                self._write(state, room, index)

        def run(low: Value, _: list[Value]) -> list[Value]:
            high = extent if not block else f.intrinsic("smin", f.add(low, int64(block)), extent)
            self._block(bases, width, low, high)
            self._vectors(width, add)
            return []

        self._vectors(width, clear)
        if block:
            f.loop(ZERO, extent, block, [], run)
        else:
            run(ZERO, [])
        f.loop(ZERO, width, self.lanes, [], lambda i, _: self._finish(bases, width, Index(i)))

    def _block(self, bases: Bases, width: Value, low: Value, high: Value) -> None:
        """Reduces some rows into the part buffers."""
        f = self.f

        def clear(index: Index) -> None:
            for reducer, room in zip(self._reducers, self._parts, strict=True):
                self._write(reducer.initial(self.lanes), room, index)

        self._vectors(width, clear)
        together = max(self.forms[0].unroll, 1)

        def several(row: Value, _: list[Value]) -> list[Value]:
            self._rows_of(bases, width, row, together)
            return []

        def single(row: Value, _: list[Value]) -> list[Value]:
            self._rows_of(bases, width, row, 1)
            return []

        middle = f.add(low, f.bit_and(f.sub(high, low), int64(-together)))
        f.loop(low, middle, together, [], several)
        f.loop(middle, high, 1, [], single)

    def _rows_of(self, bases: Bases, width: Value, first: Value, count: int) -> None:
        """Adds `count` rows."""
        f, dim = self.f, self.schedule.inner[0]
        places = [
            self.advance(bases, dim, f.add(first, int64(k)) if k else first) for k in range(count)
        ]

        def body(index: Index, mask: Value | None, _: int, carry: list[Value]) -> list[Value]:
            fixed = self._fixed(bases, index, mask)
            states = [self._read(room, index) for room in self._parts]
            for place in places:
                known = self.evaluate(self._inner, {}, fixed, place, index, mask)
                for value, operand in self.plan.passes[0].stores:
                    self.store(known[value], operand, place, index, mask)
                states = [
                    self._taken(value, reducer, state, known, place, index)
                    for value, reducer, state in zip(
                        self.plan.passes[0].reductions, self._reducers, states, strict=True
                    )
                ]
            for state, room in zip(states, self._parts, strict=True):
                self._write(state, room, index)
            return carry

        f.vector_loop(ZERO, width, self.lanes, 0 if f.target.avx512 else 1, [], body)

    def _taken(
        self,
        value: int,
        reducer: Reducer,
        state: State,
        known: dict[int, Value],
        place: Bases,
        index: Index,
    ) -> State:
        position = None
        if reducer.needs_position:
            position = self.flat_position(place, index)
        return reducer.take(self.f, state, known[self.argument(value)], position, None)

    def _fixed(self, bases: Bases, index: Index, mask: Value | None) -> dict[int, Value]:
        known: dict[int, Value] = {}
        for value in self._rows:
            self._known_row(value, known, bases, index, mask)
        return known

    def _known_row(
        self,
        value: int,
        known: dict[int, Value],
        bases: Bases,
        index: Index,
        mask: Value | None,
    ) -> Value:
        def read(source: int) -> Value:
            if self.plan.step(source) is None:
                return self.load(source, bases, index, mask)
            return self.position(self.plan.stream(source), bases, index)

        return self.row_value(value, known, read)

    def _finish(self, bases: Bases, width: Value, index: Index) -> list[Value]:
        """Stores the results of one vector of columns."""
        f = self.f
        mask = f.mask_first(f.sub(width, index.base), self.lanes)
        known: dict[int, Value] = {}
        for value, total, room in zip(
            self.plan.passes[0].reductions, self._totals, self._sums, strict=True
        ):
            state = total.state(f, self._read(room, index))
            known[value] = total.reducer.result(f, state)
        stores = self.plan.row_stores
        results = [self._known_row(value, known, bases, index, mask) for value, _ in stores]
        for x, (_, operand) in zip(results, stores, strict=True):
            self.store(x, operand, bases, index, mask)
        return []
