"""Clusters over short rows: each lane is a row, and rows are turned into columns on the stack.

Row by row, short rows leave lanes idle and fold lanes often. Here as many rows as a vector has
lanes are loaded, turned by a network of shuffles, and kept as columns; the passes then run over
columns without masks, and what they store is turned back.
"""

from __future__ import annotations

from tapeline.compiler.codegen.lanes import LaneSweep
from tapeline.compiler.codegen.loops import ZERO, FunctionBuilder, Index, int64
from tapeline.compiler.codegen.nest import Nest
from tapeline.compiler.codegen.passplan import Plan
from tapeline.compiler.codegen.schedule import Schedule
from tapeline.compiler.codegen.sweep import Bases, PassForm
from tapeline.compiler.codegen.transpose import network
from tapeline.compiler.codegen.values import Value, type_of

FEWEST = 256
"""Fewer rows are not worth the longer code."""

LONGEST = 48
"""Longer rows are better off row by row."""


def turned_streams(nest: Nest, found: Schedule) -> list[int]:
    """The operands that move along lanes and along rows."""
    dims = found.vector, found.inner[0]
    streams = found.space.streams[: len(nest.operands)]
    return [k for k, s in enumerate(streams) if s.strides[dims[0]] and s.strides[dims[1]]]


def across(nest: Nest, found: Schedule) -> Schedule | None:
    """The schedule with rows in lanes, if that fits."""
    space, kept = found.space, found.space.dims(False)
    if len(space.dims(True)) != 1 or not kept:
        return None
    inner = space.dims(True)[0]
    row = max(kept, key=lambda d: space.extents[d])
    if space.extents[inner] > LONGEST or space.extents[row] < FEWEST:
        return None
    order = [*(d for d in kept if d != row), row, inner]
    turned = Schedule(space.reorder(order), "lanes", len(kept) - 1, -1)
    picked = turned_streams(nest, turned)
    if any(turned.space.streams[k].access(len(kept)) != "contiguous" for k in picked):
        return None
    if not any(turned.access(k) != "contiguous" for k in picked):
        return None
    first = turned.n_outer and turned.space.extents[0] >= 16
    return Schedule(turned.space, "lanes", turned.n_outer, 0 if first else turned.vector)


class AcrossSweep(LaneSweep):
    """Emits a cluster with a row in each lane."""

    def __init__(
        self,
        f: FunctionBuilder,
        plan: Plan,
        schedule: Schedule,
        lanes: int,
        forms: tuple[PassForm, ...],
    ) -> None:
        super().__init__(f, plan, schedule, lanes, forms)
        room = -(-LONGEST // lanes) * lanes
        self._columns = {
            k: f.stack(self._column_type(k), room) for k in turned_streams(self.nest, schedule)
        }

    def _column_type(self, operand: int) -> str:
        code = self.operand_code(operand)
        return type_of("u1" if code == "b1" else code, self.lanes)

    def strip(self, bases: Bases, groups: int, left: Value | None) -> None:
        """Turns rows, runs the passes over them, and turns results back."""
        assert left is not None
        moved = list(bases)
        for k, columns in self._columns.items():
            moved[k] = columns
            if k < self.nest.n_inputs:
                self._turn(k, bases[k], left, load=True)
        super().strip(moved, groups, left)
        for k in self._columns:
            if k >= self.nest.n_inputs:
                self._turn(k, bases[k], left, load=False)

    def _turn(self, operand: int, base: str | Value, left: Value, *, load: bool) -> None:
        """Rows in memory to columns on the stack, or back."""
        f, lanes, code = self.f, self.lanes, self.operand_code(operand)
        assert isinstance(base, str)
        row_stride = self.stride(operand, self.schedule.vector)
        length = self.extent(self.schedule.inner[0])
        columns = self._columns[operand]

        def block(first: Value, _: list[Value]) -> list[Value]:
            within = f.mask_first(f.sub(length, first), lanes)
            none = f.fixed(False, "b1", lanes)
            rows, pointer = [], f.element(base, code, Index(first))
            for number in range(lanes):
                exists = f.compare("lt", int64(number), left)
                rows.append((pointer, f.select(exists, within, none)))
                pointer = f.pointer_offset(pointer, row_stride)
            places = [
                f.element(columns, code, Index(f.mul(first, int64(lanes)), number * lanes))
                for number in range(lanes)
            ]
            if load:
                values = [f.load(row, code, lanes, mask=mask) for row, mask in rows]
                for value, place in zip(network(f, values), places, strict=True):
                    f.store(value, place)
            else:
                values = network(f, [f.load(place, code, lanes) for place in places])
                for value, (row, mask) in zip(values, rows, strict=True):
                    f.store(value, row, mask=mask)
            return []

        f.loop(ZERO, length, lanes, [], block)

    def advance(self, bases: Bases, dim: int, count: Value) -> Bases:
        """Along a row, turned operands move from column to column."""
        moved = super().advance(bases, dim, count)
        if dim in self.schedule.inner:
            for k in self._columns:
                start = bases[k]
                assert isinstance(start, str)
                code = self.operand_code(k)
                moved[k] = self.f.element(start, code, Index(self.f.mul(count, int64(self.lanes))))
        return moved

    def load(self, operand: int, bases: Bases, index: Index, mask: Value | None) -> Value:
        """A column of a turned operand is on the stack."""
        if operand not in self._columns:
            return super().load(operand, bases, index, mask)
        pointer = bases[operand]
        assert isinstance(pointer, str)
        return self.f.load(pointer, self.operand_code(operand), self.lanes)

    def store(self, x: Value, operand: int, bases: Bases, index: Index, mask: Value | None) -> None:
        """See `load`."""
        if operand not in self._columns:
            super().store(x, operand, bases, index, mask)
            return
        pointer = bases[operand]
        assert isinstance(pointer, str)
        self.f.store(self.f.splat(x, self.lanes), pointer)
