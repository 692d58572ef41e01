"""Lane-wise emission: each lane is a point that is kept, and reduced dimensions are looped over.

Nothing is ever combined across lanes, so this is the form for columns and middle axes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from tapeline.compiler.codegen.loops import ZERO, Index, int64
from tapeline.compiler.codegen.reduce import Reducer, State, Total, Totals
from tapeline.compiler.codegen.sweep import Bases, Sweep
from tapeline.compiler.codegen.values import Value

RowValues: TypeAlias = dict[int, Value]
Point: TypeAlias = Callable[[Bases, list[Value]], list[Value]]
"""Takes one point of the inner dimensions into the accumulators of all groups."""


class LaneSweep(Sweep):
    """Emits a nest in strips of lanes. All passes have the same unroll: vectors per strip."""

    def build(self) -> None:
        """Emits everything."""
        self.outer_loops(self._strips)

    @property
    def unroll(self) -> int:
        """Vectors per strip; 0: only single masked vectors."""
        return self.forms[0].unroll if self.forms else 0

    def _strips(self, bases: Bases) -> None:
        f, lanes, groups = self.f, self.lanes, max(self.unroll, 1)
        start, stop = self.bounds(self.schedule.vector)

        def main(i: Value, _: list[Value]) -> list[Value]:
            self.strip(self._moved_to(bases, i), groups, None)
            return []

        def rest(i: Value, _: list[Value]) -> list[Value]:
            self.strip(self._moved_to(bases, i), 1, f.sub(stop, i))
            return []

        middle = start
        if self.forms and self.forms[0].exact:
            f.loop(start, stop, lanes * groups, [], main)
            return
        if self.unroll:
            whole = f.bit_and(f.sub(stop, start), int64(-lanes * groups))
            middle = f.add(start, whole)
            f.loop(start, middle, lanes * groups, [], main)
        f.loop(middle, stop, lanes, [], rest)

    def strip(self, bases: Bases, groups: int, left: Value | None) -> None:
        """Emits some vectors of lanes; `left` is given where there may be fewer points than
        lanes."""
        mask = None if left is None else self.f.mask_first(left, self.lanes)
        _Strip(self, bases, groups, mask).run()

    def _moved_to(self, bases: Bases, i: Value) -> Bases:
        moved: Bases = []
        for k, base in enumerate(bases):
            if isinstance(base, str):
                moved.append(self.address(k, base, Index(i)))
            elif not self.schedule.space.streams[k].strides[self.schedule.vector]:
                moved.append(base)
            elif self.schedule.access(k) == "contiguous":
                moved.append(i if base == ZERO else self.f.add(base, i))
            else:
                moved.append(self._moved(base, i, self.stride(k, self.schedule.vector)))
        return moved


class _Strip:
    """Some vectors of lanes, through all passes."""

    def __init__(self, sweep: LaneSweep, bases: Bases, groups: int, mask: Value | None) -> None:
        self.sweep = sweep
        self.f = sweep.f
        self.bases = bases
        self.mask = mask
        self.groups = groups
        self.known: list[RowValues] = [{} for _ in range(groups)]

    def run(self) -> None:
        """Emits the passes, then the stores of what they reduced."""
        plan = self.sweep.plan
        for number in range(len(plan.passes)):
            self._pass(number)
        for group in range(self.groups):
            results = [self._row_value(value, group) for value, _ in plan.row_stores]
            for x, (_, operand) in zip(results, plan.row_stores, strict=True):
                self.sweep.store(x, operand, self.bases, self._index(group), self.mask)

    def _index(self, group: int) -> Index:
        return Index(ZERO, group * self.sweep.lanes)

    def _row_value(self, value: int, group: int) -> Value:
        sweep, index = self.sweep, self._index(group)

        def read(source: int) -> Value:
            if sweep.plan.step(source) is None:
                return sweep.load(source, self.bases, index, self.mask)
            return sweep.position(sweep.plan.stream(source), self.bases, index)

        return sweep.row_value(value, self.known[group], read)

    def _pass(self, number: int) -> None:
        sweep, plan = self.sweep, self.sweep.plan
        inner, rows = plan.closure(number)
        fixed = [{v: self._row_value(v, g) for v in rows} for g in range(self.groups)]
        this, reducers = plan.passes[number], sweep.reducers(number)
        loads = dict(this.loads)

        def point(bases: Bases, carry: list[Value]) -> list[Value]:
            found: list[Value] = []
            rest = carry
            for group in range(self.groups):
                index = self._index(group)
                known = sweep.evaluate(inner, loads, fixed[group], bases, index, self.mask)
                for value, operand in this.stores:
                    sweep.store(known[value], operand, bases, index, self.mask)
                for value, reducer in zip(this.reductions, reducers, strict=True):
                    count = len(reducer.initial(1))
                    position = None
                    if reducer.needs_position:
                        position = sweep.flat_position(bases, index)
                    argument = known[sweep.argument(value)]
                    found += reducer.take(self.f, rest[:count], argument, position, None)
                    rest = rest[count:]
            return found

        form = sweep.forms[number]
        reduced = self._blocked if form.block else self._straight
        for group, results in enumerate(reduced(reducers, point, form.block)):
            self.known[group].update(zip(this.reductions, results, strict=True))

    def _initial(self, reducers: list[Reducer]) -> list[Value]:
        return [x for r in reducers for x in r.initial(self.sweep.lanes)] * self.groups

    def _states(self, reducers: list[Reducer], carry: list[Value]) -> list[list[State]]:
        """For each group the state of each reducer."""
        found, rest = [], carry
        for _ in range(self.groups):
            states = []
            for reducer in reducers:
                count = len(reducer.initial(1))
                states.append(rest[:count])
                rest = rest[count:]
            found.append(states)
        return found

    def _straight(self, reducers: list[Reducer], point: Point, _: int) -> list[list[Value]]:
        dims = self.sweep.schedule.inner
        carry = self.sweep.inner_loops(dims, self.bases, self._initial(reducers), point)
        return [
            [r.result(self.f, s) for r, s in zip(reducers, states, strict=True)]
            for states in self._states(reducers, carry)
        ]

    def _blocked(self, reducers: list[Reducer], point: Point, size: int) -> list[list[Value]]:
        sweep, f = self.sweep, self.f
        dims = sweep.schedule.inner
        last, extent = dims[-1], sweep.extent(dims[-1])
        totals = Totals(tuple(Total(reducer) for _ in range(self.groups) for reducer in reducers))

        def run(bases: Bases, carry: list[Value]) -> list[Value]:
            def block(low: Value, values: list[Value]) -> list[Value]:
                high = f.intrinsic("smin", f.add(low, int64(size)), extent)

                def row(i: Value, accumulators: list[Value]) -> list[Value]:
                    return point(sweep.advance(bases, last, i), accumulators)

                ends = f.loop(low, high, 1, self._initial(reducers), row)
                parts = [s for states in self._states(reducers, ends) for s in states]
                return totals.add(f, values, parts)

            return f.loop(ZERO, extent, size, carry, block)

        start = totals.initial(sweep.lanes)
        carry = sweep.inner_loops(dims[:-1], self.bases, start, run)
        results = totals.results(f, carry)
        count = len(reducers)
        return [results[k * count : (k + 1) * count] for k in range(self.groups)]
