"""Row-wise emission: vectors run along the innermost dimension of a row, rows one after the other.

Serves elementwise nests too: there a row is the innermost dimension and the only pass stores.
"""

from __future__ import annotations

from collections.abc import Sequence

from tapeline.compiler.codegen.loops import ZERO, Index, int64
from tapeline.compiler.codegen.reduce import State, Total, Totals, merge_groups
from tapeline.compiler.codegen.sweep import Bases, Sweep
from tapeline.compiler.codegen.values import Value


class RowSweep(Sweep):
    """Emits a nest row by row."""

    def build(self) -> None:
        """Emits everything."""
        self.outer_loops(self._row)

    def _row(self, bases: Bases) -> None:
        known: dict[int, Value] = {}
        read = self.row_reader(bases)
        for number, this in enumerate(self.plan.passes):
            _, rows = self.plan.closure(number)
            fixed = {v: self.f.splat(self.row_value(v, known, read), self.lanes) for v in rows}
            reduced = self._pass(number, bases, fixed)
            known.update(zip(this.reductions, reduced, strict=True))
        results = [self.row_value(value, known, read) for value, _ in self.plan.row_stores]
        for x, (_, operand) in zip(results, self.plan.row_stores, strict=True):
            pointer = bases[operand]
            assert isinstance(pointer, str)
            self.f.store(x, pointer)

    def _pass(self, number: int, bases: Bases, fixed: dict[int, Value]) -> list[Value]:
        """Emits a pass; returns what it reduces, as scalars."""
        runner = _PassRunner(self, number, fixed)
        outer = self.schedule.inner[:-1]
        if self.forms[number].block:
            return runner.blocked(outer, bases)
        return runner.straight(outer, bases)


class _PassRunner:
    """One pass over a row."""

    def __init__(self, sweep: RowSweep, number: int, fixed: dict[int, Value]) -> None:
        self.sweep = sweep
        self.f = sweep.f
        self.number = number
        self.fixed = fixed
        self.inner, _ = sweep.plan.closure(number)
        self.reducers = sweep.reducers(number)
        self.unroll = sweep.forms[number].unroll
        self.groups = max(self.unroll, 1)

    def straight(self, outer: tuple[int, ...], bases: Bases) -> list[Value]:
        """The whole row with one set of accumulators."""
        start, stop = self.sweep.bounds(self.sweep.schedule.vector)

        def run(at: Bases, carry: list[Value]) -> list[Value]:
            return self.span(at, start, stop, carry)

        states = self.split(self.sweep.inner_loops(outer, bases, self.initial(), run))
        folded = self.fold(states)
        return [r.result(self.f, s) for r, s in zip(self.reducers, folded, strict=True)]

    def blocked(self, outer: tuple[int, ...], bases: Bases) -> list[Value]:
        """The row in blocks, each folded into scalars and added to the totals."""
        totals = Totals(tuple(Total(reducer) for reducer in self.reducers))
        extent = self.sweep.extent(self.sweep.schedule.vector)
        size = self.sweep.forms[self.number].block

        def run(at: Bases, carry: list[Value]) -> list[Value]:
            def block(low: Value, values: list[Value]) -> list[Value]:
                high = self.f.intrinsic("smin", self.f.add(low, int64(size)), extent)
                states = self.split(self.span(at, low, high, self.initial()))
                return totals.add(self.f, values, self.fold(states))

            return self.f.loop(ZERO, extent, size, carry, block)

        carry = self.sweep.inner_loops(outer, bases, totals.initial(1), run)
        return totals.results(self.f, carry)

    # ---- accumulators: per group, per reducer, the values of a state

    def initial(self) -> list[Value]:
        """Fresh accumulators."""
        one = [x for reducer in self.reducers for x in reducer.initial(self.sweep.lanes)]
        return one * self.groups

    def split(self, carry: Sequence[Value]) -> list[list[State]]:
        """For each reducer its states, one per group."""
        found: list[list[State]] = [[] for _ in self.reducers]
        rest = list(carry)
        for _ in range(self.groups):
            for k, reducer in enumerate(self.reducers):
                count = len(reducer.initial(1))
                found[k].append(rest[:count])
                rest = rest[count:]
        return found

    def fold(self, states: list[list[State]]) -> list[State]:
        """Each reducer's groups and lanes as scalars."""
        folded = []
        for reducer, groups in zip(self.reducers, states, strict=True):
            merged = merge_groups(self.f, reducer, groups)
            folded.append(reducer.fold_lanes(self.f, merged))
        return folded

    def span(self, bases: Bases, start: Value, stop: Value, carry: list[Value]) -> list[Value]:
        """The vector loop over a range of the innermost dimension."""
        sweep = self.sweep
        this = sweep.plan.passes[self.number]

        def body(index: Index, mask: Value | None, group: int, values: list[Value]) -> list[Value]:
            known = sweep.evaluate(self.inner, dict(this.loads), self.fixed, bases, index, mask)
            for value, operand in this.stores:
                sweep.store(known[value], operand, bases, index, mask)
            self._bring_near(bases, index)
            return self._take(known, group, index, bases, mask, values)

        exact = sweep.forms[self.number].exact
        return self.f.vector_loop(start, stop, sweep.lanes, self.unroll, carry, body, exact)

    def _bring_near(self, bases: Bases, index: Index) -> None:
        """Asks for memory that is used next, so that waiting for it overlaps with computing."""
        sweep = self.sweep
        for operand in sweep.forms[self.number].ahead:
            base = bases[operand]
            assert isinstance(base, str)
            result = operand >= sweep.nest.n_inputs
            if not result:
                base = self.f.pointer_offset(
                    base, sweep.stride(operand, sweep.schedule.n_outer - 1)
                )
            self.f.prefetch(sweep.address(operand, base, index), write=result)

    def _take(
        self,
        known: dict[int, Value],
        group: int,
        index: Index,
        bases: Bases,
        mask: Value | None,
        values: list[Value],
    ) -> list[Value]:
        found = list(values)
        place = group * (len(values) // self.groups)
        for value, reducer in zip(
            self.sweep.plan.passes[self.number].reductions, self.reducers, strict=True
        ):
            count = len(reducer.initial(1))
            argument = known[self.sweep.argument(value)]
            position = None
            if reducer.needs_position:
                position = self.sweep.flat_position(bases, index)
            state = found[place : place + count]
            found[place : place + count] = reducer.take(self.f, state, argument, position, mask)
            place += count
        return found
