"""Elementwise nests whose innermost dimension is tiny: rows are run together into full vectors.

As many rows as a vector has lanes are as many full vectors as a row has elements. An operand that
is the same in every row becomes that many constant vectors; one that has an element per row is
loaded once and spread by shuffles. The innermost extent is part of the code.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from tapeline.compiler.codegen.loops import ZERO, FunctionBuilder, Index, int64
from tapeline.compiler.codegen.nest import Nest
from tapeline.compiler.codegen.passplan import Plan
from tapeline.compiler.codegen.schedule import Schedule
from tapeline.compiler.codegen.sweep import Bases, PassForm, Sweep
from tapeline.compiler.codegen.values import Value

LONGEST = 10
"""The longest row that is worth as many copies of the program."""

MOST_LINES = 160
"""How many instructions the copies may have together."""

Kind: TypeAlias = Literal["full", "row", "column", "same"]


def kind_of(found: Schedule, stream: int) -> Kind | None:
    """How an operand lies in the two innermost dimensions; None: not in a way that fits."""
    moves = found.space.streams[stream]
    row, inner = moves.strides[-2:]
    extent = found.space.extents[-1]
    if not row and not inner:
        return "same"
    if inner == moves.unit and row == extent * moves.unit:
        return "full"
    if inner == moves.unit and not row:
        return "row"
    return "column" if row == moves.unit and not inner else None


def flattened(nest: Nest, found: Schedule, lanes: int, cost: int) -> Schedule | None:
    """The schedule with rows as part of the vector loop, if that is worth it."""
    extents = found.space.extents
    first_output = found.space.streams[nest.n_inputs]
    dense = [d for d in range(len(extents)) if first_output.access(d) == "contiguous"]
    if len(extents) < 2 or len(dense) != 1 or any(found.space.reduced):
        return None
    inner = dense[0]
    if extents[inner] > min(LONGEST, lanes) or extents[inner] * cost > MOST_LINES:
        return None
    row = max((d for d in range(len(extents)) if d != inner), key=lambda d: extents[d])
    order = [*(d for d in range(len(extents)) if d not in (row, inner)), row, inner]
    turned = Schedule(found.space.reorder(order), "rows", len(order) - 2, -1)
    if extents[row] < 2 * lanes or any(step.kind == "index" for step in nest.steps):
        return None
    kinds = [kind_of(turned, k) for k in range(len(nest.operands))]
    if None in kinds or any(kind != "full" for kind in kinds[nest.n_inputs :]):
        return None
    chunked = 0 if turned.n_outer and turned.space.extents[0] >= 16 else turned.n_outer
    return Schedule(turned.space, "rows", turned.n_outer, chunked)


@dataclass(slots=True)
class _Block:
    """As many rows as lanes, from a row on."""

    row: Value
    left: Value | None
    """How many rows there are, where fewer."""
    columns: dict[int, Value]


class FlatSweep(Sweep):
    """Emits an elementwise nest with rows run together."""

    def __init__(
        self,
        f: FunctionBuilder,
        plan: Plan,
        schedule: Schedule,
        lanes: int,
        forms: tuple[PassForm, ...],
    ) -> None:
        super().__init__(f, plan, schedule, lanes, forms)
        self._length = schedule.space.extents[-1]
        self._kinds = [kind_of(schedule, k) for k in range(len(self.nest.operands))]
        self._rows: dict[int, list[Value]] = {}
        self._block = _Block(ZERO, None, {})

    def build(self) -> None:
        """Emits everything."""
        self.outer_loops(self._run)

    def _run(self, bases: Bases) -> None:
        f, lanes = self.f, self.lanes
        start, stop = self.bounds(self.schedule.n_outer)
        inner, rows = self.plan.closure(0)
        known: dict[int, Value] = {}

        def read(value: int) -> Value:
            return f.load(_pointer(bases[value]), self.codes[value])

        fixed = {v: f.splat(self.row_value(v, known, read), lanes) for v in rows}
        self._rows = {
            k: self._repeated(_pointer(bases[k]), k)
            for k in range(self.nest.n_inputs)
            if self._kinds[k] == "row"
        }

        def block(row: Value, left: Value | None) -> None:
            self._block = self._begin(bases, row, left)
            for number in range(self._length):
                self._vector(inner, fixed, bases, number)

        def whole(row: Value, _: list[Value]) -> list[Value]:
            block(row, None)
            return []

        def rest(row: Value, _: list[Value]) -> list[Value]:
            block(row, f.sub(stop, row))
            return []

        if self.forms[0].exact:
            f.loop(start, stop, lanes, [], whole)
            return
        middle = f.add(start, f.bit_and(f.sub(stop, start), int64(-lanes)))
        f.loop(start, middle, lanes, [], whole)
        f.loop(middle, stop, lanes, [], rest)

    def _begin(self, bases: Bases, row: Value, left: Value | None) -> _Block:
        f = self.f
        mask = None if left is None else f.mask_first(left, self.lanes)
        columns = {}
        for k in range(self.nest.n_inputs):
            if self._kinds[k] == "column":
                where = f.element(_pointer(bases[k]), self.operand_code(k), Index(row))
                columns[k] = f.load(where, self.operand_code(k), self.lanes, mask=mask)
        return _Block(f.mul(row, int64(self._length)), left, columns)

    def _repeated(self, pointer: str, operand: int) -> list[Value]:
        """The vectors of an operand that is the same in every row."""
        f, length, lanes = self.f, self._length, self.lanes
        mask = f.mask_first(int64(length), lanes)
        row = f.load(pointer, self.operand_code(operand), lanes, mask=mask)
        return [
            f.shuffle(row, None, [(number * lanes + i) % length for i in range(lanes)])
            for number in range(length)
        ]

    def _vector(self, inner: list[int], fixed: dict[int, Value], bases: Bases, number: int) -> None:
        f, lanes = self.f, self.lanes
        mask = None
        if self._block.left is not None:
            total = f.mul(self._block.left, int64(self._length))
            left = f.intrinsic("smax", f.sub(total, int64(number * lanes)), ZERO)
            mask = f.mask_first(left, lanes)
        index = Index(self._block.row, number * lanes)
        known = self.evaluate(inner, {}, fixed, bases, index, mask)
        for value, operand in self.plan.passes[0].stores:
            where = f.element(_pointer(bases[operand]), self.operand_code(operand), index)
            f.store(f.splat(known[value], lanes), where, mask=mask)

    def load(self, operand: int, bases: Bases, index: Index, mask: Value | None) -> Value:
        """One vector of a block; `index` counts elements."""
        f, number = self.f, index.extra // self.lanes
        if self._kinds[operand] == "row":
            return self._rows[operand][number]
        if self._kinds[operand] == "column":
            picks = [(index.extra + i) // self._length for i in range(self.lanes)]
            return f.shuffle(self._block.columns[operand], None, picks)
        where = f.element(_pointer(bases[operand]), self.operand_code(operand), index)
        return f.load(where, self.operand_code(operand), self.lanes, mask=mask)


def _pointer(base: str | Value) -> str:
    assert isinstance(base, str)
    return base
