"""Elementwise nests with transposed inputs: square tiles, transposed in registers.

Where outputs are dense along one dimension and an input along another, no loop order is good for
both. The two dimensions are walked in tiles; each block of as many rows as a vector has lanes is
loaded along the input's dense dimension, and a network of shuffles turns it.
"""

from __future__ import annotations

from tapeline.compiler.codegen.builder import Builder
from tapeline.compiler.codegen.loops import ONE, ZERO, Index, int64
from tapeline.compiler.codegen.nest import Nest
from tapeline.compiler.codegen.schedule import Schedule
from tapeline.compiler.codegen.sweep import Bases, Sweep
from tapeline.compiler.codegen.values import Value

TILE = 64
"""Rows and columns of a tile; a multiple of the lanes."""

LANES = 8
"""Wider networks take twice the time to compile and are hardly faster."""


def network(b: Builder, rows: list[Value]) -> list[Value]:
    """The columns of a square of lanes: lane bits are exchanged with row bits, one per stage."""
    count, bit = len(rows), 1
    while bit < count:
        turned = list(rows)
        low = [i if not i & bit else count + (i ^ bit) for i in range(count)]
        high = [i | bit if not i & bit else count + i for i in range(count)]
        for i in range(count):
            if not i & bit:
                turned[i] = b.shuffle(rows[i], rows[i | bit], low)
                turned[i | bit] = b.shuffle(rows[i], rows[i | bit], high)
        rows, bit = turned, 2 * bit
    return rows


def transposed_inputs(nest: Nest, found: Schedule, dim: int) -> list[int]:
    """The inputs that are dense along an outer dimension and strided along the vector's."""
    streams = found.space.streams[: nest.n_inputs]
    return [
        k
        for k, stream in enumerate(streams)
        if found.access(k) == "strided" and stream.access(dim) == "contiguous"
    ]


def tiled(nest: Nest, found: Schedule) -> Schedule | None:
    """The schedule with the dimension to tile just outside the vector's, if that is worth it."""
    extents, vector = found.space.extents, found.vector
    if found.mode != "rows" or found.n_outer != vector or extents[vector] < 2 * LANES:
        return None
    if any(found.access(k) != "contiguous" for k in range(nest.n_inputs, len(nest.operands))):
        return None
    candidates = [d for d in range(found.n_outer) if extents[d] >= 2 * LANES]
    counts = {d: len(transposed_inputs(nest, found, d)) for d in candidates}
    best = max(candidates, key=lambda d: counts[d], default=-1)
    if best < 0 or not counts[best]:
        return None
    order = [*(d for d in range(found.n_outer) if d != best), best, vector]
    chunked = 0 if found.n_outer > 1 and extents[order[0]] >= 16 else found.n_outer - 1
    return Schedule(found.space.reorder(order), "rows", found.n_outer, chunked)


class TileSweep(Sweep):
    """Emits an elementwise nest in tiles of the last outer dimension and the vector's."""

    def build(self) -> None:
        """Emits everything."""
        self._row_dim = self.schedule.n_outer - 1
        self._turned = transposed_inputs(self.nest, self.schedule, self._row_dim)
        self._block: dict[int, Value] = {}
        self._inner, self._row_values = self.plan.closure(0)
        self.outer_loops(self._tiles, self._row_dim)

    def load(self, operand: int, bases: Bases, index: Index, mask: Value | None) -> Value:
        """An operand's elements; those of a turned block are in registers already."""
        if operand in self._block:
            return self._block[operand]
        return super().load(operand, bases, index, mask)

    def _tiles(self, bases: Bases) -> None:
        f = self.f
        start, stop = self.bounds(self._row_dim)
        width = self.extent(self.schedule.vector)

        def row_tile(row: Value, _: list[Value]) -> list[Value]:
            rows = row, f.intrinsic("smin", f.add(row, int64(TILE)), stop)

            def column_tile(column: Value, _: list[Value]) -> list[Value]:
                columns = column, f.intrinsic("smin", f.add(column, int64(TILE)), width)
                self._tile(bases, rows, columns)
                return []

            return f.loop(ZERO, width, TILE, [], column_tile)

        f.loop(start, stop, TILE, [], row_tile)

    def _tile(self, bases: Bases, rows: tuple[Value, Value], columns: tuple[Value, Value]) -> None:
        f, lanes = self.f, self.lanes
        whole = [
            f.add(low, f.bit_and(f.sub(high, low), int64(-lanes))) for low, high in (rows, columns)
        ]

        def block_column(column: Value, _: list[Value]) -> list[Value]:
            def block(row: Value, _: list[Value]) -> list[Value]:
                self._turn(self.advance(bases, self._row_dim, row), column)
                return []

            return f.loop(rows[0], whole[0], lanes, [], block)

        def edge_row(row: Value, _: list[Value]) -> list[Value]:
            at = self.advance(bases, self._row_dim, row)
            first = f.select(f.compare("lt", row, whole[0]), whole[1], columns[0])

            def edge(column: Value, _: list[Value]) -> list[Value]:
                mask = f.mask_first(f.sub(columns[1], column), lanes)
                self._vector(at, Index(column), mask)
                return []

            return f.loop(first, columns[1], lanes, [], edge)

        f.loop(columns[0], whole[1], lanes, [], block_column)
        f.loop(rows[0], rows[1], 1, [], edge_row)

    def _turn(self, bases: Bases, column: Value) -> None:
        """One block of as many rows as lanes, at a column."""
        f, vector = self.f, self.schedule.vector
        self._bring_near(bases, column)
        turned = {}
        for k in self._turned:
            pointer = self.address(k, bases[k], Index(column))
            lines = []
            for number in range(self.lanes):
                if number:
                    pointer = f.pointer_offset(pointer, self.stride(k, vector))
                lines.append(f.load(pointer, self.operand_code(k), self.lanes))
            turned[k] = network(f, lines)
        for number in range(self.lanes):
            if number:
                bases = self.advance(bases, self._row_dim, ONE)
            self._block = {k: columns[number] for k, columns in turned.items()}
            self._vector(bases, Index(column), None)
        self._block = {}

    def _bring_near(self, bases: Bases, column: Value) -> None:
        """Asks for what the same block of the next tile touches: the rows of a tile are too many
        and too short for the processor to see that they go on."""
        ahead, next_tile = self.forms[0].ahead, Index(column, TILE)
        along = [(k, self.stride(k, self.schedule.vector)) for k in ahead if k in self._turned]
        across = [(k, self.stride(k, self._row_dim)) for k in ahead if k not in self._turned]
        for k, stride in along + across:
            pointer = self.address(k, bases[k], next_tile)
            for number in range(self.lanes):
                if number:
                    pointer = self.f.pointer_offset(pointer, stride)
                self.f.prefetch(pointer, write=False, nearest=False)

    def _vector(self, bases: Bases, index: Index, mask: Value | None) -> None:
        """One vector of one row."""
        known: dict[int, Value] = {}
        read = self.row_reader(bases)
        fixed = {v: self.row_value(v, known, read) for v in self._row_values}
        values = self.evaluate(self._inner, {}, fixed, bases, index, mask)
        for value, operand in self.plan.passes[0].stores:
            self.store(values[value], operand, bases, index, mask)
