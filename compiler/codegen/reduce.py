"""The reductions: what they carry through a loop, per lane or as a scalar, and how parts combine.

A reducer's state is a list of values. The same methods serve vectors of lanes and scalars.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tapeline.compiler.codegen.builder import Builder
from tapeline.compiler.codegen.nest import Step
from tapeline.compiler.codegen.values import (
    Value,
    bits_of,
    code_of,
    constant_of,
    is_float,
    is_signed,
)

State = list[Value]

DEPTH = 64
"""Elements that an accumulator adds up, one after the other, before they join a total."""

ROWS = 128
"""Rows that are added up before they join a column's total."""


@dataclass(frozen=True, slots=True)
class Reducer:
    """One reduction of values of dtype code `code` (for argmax the dtype of what is compared)."""

    kind: str
    code: str
    position_code: str = "i8"
    """The dtype of positions on the way; the result is int64."""

    @staticmethod
    def of(step: Step, argument_code: str, position_code: str = "i8") -> Reducer:
        """The reducer of a step."""
        code = argument_code if step.kind in ("argmax", "argmin") else code_of(step.dtype)
        return Reducer(step.kind, code, position_code)

    @property
    def compensated(self) -> bool:
        """Whether parts are combined with their rounding errors kept: sums of floats."""
        return self.kind == "sum" and is_float(self.code)

    @property
    def needs_position(self) -> bool:
        """Whether `step` takes the position of the element."""
        return self.kind in ("argmax", "argmin")

    @property
    def flags_nan(self) -> bool:
        """Whether NaNs are noted aside, which is cheaper than letting them through each step."""
        return self.kind in ("max", "min") and is_float(self.code)

    @property
    def identity(self) -> float | int | bool:
        """The neutral element."""
        if self.kind in ("sum", "prod"):
            return 0 if self.kind == "sum" else 1
        if self.kind in ("any", "all"):
            return self.kind == "all"
        lowest = self.kind in ("max", "argmax")
        if is_float(self.code):
            return float("-inf") if lowest else float("inf")
        if self.code == "b1":
            return not lowest
        bits = bits_of(self.code)
        if is_signed(self.code):
            return -(1 << (bits - 1)) if lowest else (1 << (bits - 1)) - 1
        return 0 if lowest else (1 << bits) - 1

    def initial(self, lanes: int) -> State:
        """The state before the first element."""
        start = [constant_of(self.identity, self.code, lanes)]
        if self.flags_nan:
            start.append(constant_of(False, "b1", lanes))
        if self.needs_position:
            start.append(constant_of(0, self.position_code, lanes))
        return start

    def combine(self, b: Builder, a: Value, x: Value) -> Value:
        """Two values without regard to NaN and position."""
        if self.kind in ("sum", "prod"):
            return b.add(a, x) if self.kind == "sum" else b.mul(a, x)
        if self.kind in ("any", "all"):
            return b.bit_or(a, x) if self.kind == "any" else b.bit_and(a, x)
        if is_float(self.code):
            better = b.compare("gt" if self.kind == "max" else "lt", x, a)
            return b.select(better, x, a)
        return b.maximum(a, x) if self.kind == "max" else b.minimum(a, x)

    def take(
        self, b: Builder, state: State, x: Value, position: Value | None, mask: Value | None
    ) -> State:
        """The state after one more element per lane; lanes outside the mask stay as they are."""
        lanes = max(state[0].lanes, x.lanes)
        x = b.splat(x, lanes)
        if self.needs_position:
            assert position is not None
            replaces = self._precedes(b, x, state[0])
            found = [b.select(replaces, x, state[0]), b.select(replaces, position, state[1])]
        elif self.flags_nan:
            nan = b.bit_or(state[1], b.float_compare("uno", x, x))
            found = [self.combine(b, state[0], x), nan]
        else:
            found = [self.combine(b, state[0], x)]
        if mask is None:
            return found
        return [b.select(mask, new, old) for new, old in zip(found, state, strict=True)]

    def _precedes(self, b: Builder, x: Value, best: Value) -> Value:
        """Whether x wins against an earlier element: it is strictly better, or the first NaN."""
        if self.code == "b1":
            better = (x, best) if self.kind == "argmax" else (best, x)
            return b.bit_and(better[0], b.bit_not(better[1]))
        if not is_float(self.code):
            return b.compare("gt" if self.kind == "argmax" else "lt", x, best)
        better_or_nan = b.float_compare("ugt" if self.kind == "argmax" else "ult", x, best)
        return b.bit_and(better_or_nan, b.float_compare("ord", best, best))

    def merge(self, b: Builder, a: State, c: State) -> State:
        """Two states of different elements as one."""
        if not self.needs_position:
            joined = [self.combine(b, a[0], c[0])]
            if self.flags_nan:
                joined.append(b.bit_or(a[1], c[1]))
            return joined
        wins = self._precedes(b, c[0], a[0])
        loses = self._precedes(b, a[0], c[0])
        earlier = b.bit_and(b.compare("lt", c[1], a[1]), b.bit_not(loses))
        second = b.bit_or(wins, earlier)
        return [b.select(second, y, x) for x, y in zip(a, c, strict=True)]

    def fold_lanes(self, b: Builder, state: State) -> State:
        """The lanes of a state merged into scalars, always in the same order."""
        while state[0].lanes > 1:
            half = state[0].lanes // 2
            low = [b.shuffle(x, None, range(half)) for x in state]
            high = [b.shuffle(x, None, range(half, 2 * half)) for x in state]
            state = self.merge(b, low, high)
        return state

    def result(self, b: Builder, state: State) -> Value:
        """The reduced value."""
        if self.needs_position:
            return b.cast_code(state[1], "i8")
        if self.flags_nan:
            nan = constant_of(float("nan"), self.code, state[0].lanes)
            return b.select(state[1], nan, state[0])
        return state[0]


def merge_groups(b: Builder, reducer: Reducer, groups: Sequence[State]) -> State:
    """States of unrolled groups merged pairwise."""
    states = list(groups)
    while len(states) > 1:
        half = len(states) // 2
        states = [reducer.merge(b, states[k], states[k + half]) for k in range(half)]
    return states[0]


@dataclass(frozen=True, slots=True)
class Total:
    """Combines the parts of a long reduction, one after the other.

    Sums of floats keep the rounding errors of the additions in a second value, which is better than
    adding pairwise and needs no memory.
    """

    reducer: Reducer

    def initial(self, lanes: int) -> State:
        """The state before the first part."""
        start = self.reducer.initial(lanes)
        if self.reducer.compensated:
            start.append(constant_of(0.0, self.reducer.code, lanes))
        return start

    def add(self, b: Builder, total: State, part: State) -> State:
        """The state after one more part."""
        if not self.reducer.compensated:
            return self.reducer.merge(b, total, part)
        total_sum, error = total
        x = part[0]
        joined = b.add(total_sum, x)
        share = b.sub(joined, total_sum)
        lost = b.add(b.sub(total_sum, b.sub(joined, share)), b.sub(x, share))
        return [joined, b.add(error, lost)]

    def state(self, b: Builder, total: State) -> State:
        """The state of all parts together. Infinite sums have no error to add."""
        if not self.reducer.compensated:
            return total
        finite = b.float_compare("ord", total[1], total[1])
        return [b.select(finite, b.add(total[0], total[1]), total[0])]


@dataclass(frozen=True, slots=True)
class Totals:
    """The totals of several reductions, carried through a loop as one row of values."""

    totals: tuple[Total, ...]

    def initial(self, lanes: int) -> list[Value]:
        """The row before the first parts."""
        return [x for total in self.totals for x in total.initial(lanes)]

    def add(self, b: Builder, carry: list[Value], parts: Sequence[State]) -> list[Value]:
        """The row after one more part of each reduction."""
        states = zip(self.totals, self._split(carry), parts, strict=True)
        return [x for total, state, part in states for x in total.add(b, state, part)]

    def results(self, b: Builder, carry: list[Value]) -> list[Value]:
        """What each reduction comes to."""
        states = zip(self.totals, self._split(carry), strict=True)
        return [total.reducer.result(b, total.state(b, state)) for total, state in states]

    def _split(self, carry: list[Value]) -> list[State]:
        found, rest = [], iter(carry)
        for total in self.totals:
            found.append([next(rest) for _ in total.initial(1)])
        return found
