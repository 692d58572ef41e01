"""Order: short axes sorted by counting, and places found in sorted arrays.

Elements are compared by the keys of `order_keys`; `radix` sorts longer axes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Literal

from tapeline.compiler.codegen.loops import ONE, ZERO, FunctionBuilder, Index
from tapeline.compiler.codegen.nest import Kernel
from tapeline.compiler.codegen.order_keys import order_key, stored_code
from tapeline.compiler.codegen.radix import LONGEST_AXIS, RadixSort
from tapeline.compiler.codegen.routine import each_row, single_launch
from tapeline.compiler.codegen.target import Target
from tapeline.compiler.codegen.values import Value, code_of, integer_like, is_float, size_of
from tapeline.runtime.op import Predicate
from tapeline.runtime.spec import DType, TensorSpec

SHORT_AXIS = 128
"""Work grows with the square of the extent, so longer axes are sorted by digits."""


@dataclass(frozen=True, slots=True)
class Sort:
    """`out[o, :, k]` are the elements of `x[o, :, k]` in order, or their positions.

    The place of an element is how many come before it, counted a vector at a time. So no branch
    depends on data, and equal elements keep their order; in sorted elements that descend they are
    turned around, as NumPy's reversed results have them.
    """

    dtype: DType
    outer: int
    count: int
    inner: int
    descending: bool
    gives_positions: bool

    def emit(self, target: Target, name: str) -> Kernel:
        """The kernel; a chunk is a range of outer indices."""
        f = FunctionBuilder(target)
        _SortEmitter(f, self).write()
        key = (
            "sort", target, code_of(self.dtype), self.descending, self.gives_positions,
            self.inner == 1,
        )  # fmt: skip
        function = f.finish(name, key)
        numbers = {"count": self.count, "inner": self.inner}
        work = self.outer * self.inner * self.count * (self.count + 8)
        title = "argsort" if self.gives_positions else "sort"
        return single_launch(
            title, function, numbers, ["source", "result"], extent=self.outer, work=work
        )


def sort_routine(
    gives_positions: bool, specs: Sequence[TensorSpec], axis: int, descending: bool
) -> Sort | RadixSort | None:
    """The routine for an input and an output; None for long axes of wide ints, whose order NumPy
    need not keep where they are equal, so that it sorts them faster, and for endless ones."""
    spec = specs[0]
    shape = spec.static_shape
    if shape[axis] > LONGEST_AXIS:
        return None
    is_wide_int = spec.dtype.kind in "iu" and spec.dtype.itemsize >= 4
    if shape[axis] > SHORT_AXIS and is_wide_int and not gives_positions:
        return None
    outer, inner = prod(shape[:axis]), prod(shape[axis + 1 :])
    kind = Sort if shape[axis] <= SHORT_AXIS else RadixSort
    return kind(spec.dtype, outer, shape[axis], inner, descending, gives_positions)


class _SortEmitter:
    def __init__(self, f: FunctionBuilder, sort: Sort) -> None:
        self.f, self.sort = f, sort
        self.code = stored_code(sort.dtype)
        self.key_code = integer_like(self.code) if is_float(self.code) else self.code
        self.lanes = f.target.lanes(size_of(self.code))
        self.source, self.result = f.pointer_slot("source"), f.pointer_slot("result")
        self.count, self.inner = f.slot("count"), f.slot("inner")
        room = SHORT_AXIS * size_of(self.code) + f.target.vector_bytes
        self.keys = f.stack("i8", room)

    def write(self) -> None:
        """The loops over rows."""
        each_row(self.f, (self.f.low, self.f.high), self.count, self.inner, self._row)

    def _row(self, first: Value) -> None:
        f = self.f
        self._fill(first)

        def place(i: Value, _: list[Value]) -> list[Value]:
            key = f.load(f.element(self.keys, self.key_code, Index(i)), self.key_code)
            rank = self._rank(i, key)
            target = Index(f.add(first, f.mul(rank, self.inner)))
            if self.sort.gives_positions:
                f.store(i, f.element(self.result, "i8", target))
            else:
                at = Index(f.add(first, f.mul(i, self.inner)))
                x = f.load(f.element(self.source, self.code, at), self.code)
                f.store(x, f.element(self.result, self.code, target))
            return []

        f.loop(ZERO, self.count, 1, [], place)

    def _fill(self, first: Value) -> None:
        """The keys of a row, side by side."""
        f = self.f

        def one(i: Value, _: list[Value]) -> list[Value]:
            at = Index(f.add(first, f.mul(i, self.inner)))
            x = f.load(f.element(self.source, self.code, at), self.code)
            f.store(order_key(f, x), f.element(self.keys, self.key_code, Index(i)))
            return []

        def several(i: Index, mask: Value | None, _: int, __: list[Value]) -> list[Value]:
            at = Index(f.add(first, i.base), i.extra)
            x = f.load(f.element(self.source, self.code, at), self.code, self.lanes, mask=mask)
            f.store(order_key(f, x), f.element(self.keys, self.key_code, i), mask=mask)
            return []

        if self.sort.inner == 1:
            f.vector_loop(ZERO, self.count, self.lanes, 0, [], several)
        else:
            f.loop(ZERO, self.count, 1, [], one)

    def _rank(self, i: Value, key: Value) -> Value:
        """How many elements come before element i."""
        f, sort = self.f, self.sort
        strict: Predicate = "gt" if sort.descending else "lt"
        loose: Predicate = "ge" if sort.descending else "le"
        if sort.descending and not sort.gives_positions:
            middle = f.add(i, ONE)
            return self._counted(middle, self.count, loose, key,
                                 self._counted(ZERO, middle, strict, key, ZERO))  # fmt: skip
        return self._counted(i, self.count, strict, key,
                             self._counted(ZERO, i, loose, key, ZERO))  # fmt: skip

    def _counted(
        self, low: Value, high: Value, predicate: Predicate, key: Value, total: Value
    ) -> Value:
        """`total` and how many keys from `low` up to `high` compare so with `key`."""
        f, lanes = self.f, self.lanes
        wide = f.splat(key, lanes)

        def look(i: Index, mask: Value | None, _: int, carry: list[Value]) -> list[Value]:
            place = f.element(self.keys, self.key_code, i)
            found = f.compare(predicate, f.load(place, self.key_code, lanes, mask=mask), wide)
            if mask is not None:
                found = f.bit_and(found, mask)
            return [f.add(carry[0], _population(f, found))]

        (count,) = f.vector_loop(low, high, lanes, 0, [total], look)
        return count


def _population(f: FunctionBuilder, found: Value) -> Value:
    """The number of lanes that hold."""
    word = f.assign(f"bitcast {found.operand} to i{found.lanes}")
    full = word if found.lanes == 64 else f.assign(f"zext i{found.lanes} {word} to i64")
    return f.intrinsic("ctpop", Value(full, "i8", 1))


@dataclass(frozen=True, slots=True)
class Search:
    """`out[i]` is where `wanted[i]` goes in the sorted `table`, by halving without branches."""

    dtype: DType
    size: int
    count: int
    side: Literal["left", "right"]

    def emit(self, target: Target, name: str) -> Kernel:
        """The kernel; a chunk is a range of wanted elements."""
        f = FunctionBuilder(target)
        code = stored_code(self.dtype)
        table, wanted, result = (f.pointer_slot(s) for s in ("table", "wanted", "result"))
        size = f.slot("size")
        predicate: Predicate = "lt" if self.side == "left" else "le"

        def find(i: Value, _: list[Value]) -> list[Value]:
            key = order_key(f, f.load(f.element(wanted, code, Index(i)), code))

            def halve(_: Value, carry: list[Value]) -> list[Value]:
                place, step = carry
                ahead = f.add(place, step)
                inside = f.compare("le", ahead, size)
                last = f.sub(f.select(inside, ahead, size), ONE)
                x = order_key(f, f.load(f.element(table, code, Index(last)), code))
                goes_on = f.bit_and(f.compare(predicate, x, key), inside)
                return [f.select(goes_on, ahead, place), f.shift_bits("lshr", step, 1)]

            found, *_ = f.loop(ZERO, f.slot("turns"), 1, [ZERO, f.slot("step")], halve)
            f.store(found, f.element(result, "i8", Index(i)))
            return []

        f.loop(f.low, f.high, 1, [], find)
        function = f.finish(name, ("searchsorted", target, code, self.side))
        turns = self.size.bit_length()
        numbers = {"size": self.size, "turns": turns, "step": 1 << max(turns - 1, 0)}
        return single_launch(
            "searchsorted", function, numbers, ["table", "wanted", "result"],
            extent=self.count, work=self.count * (turns + 1) * 4,
        )  # fmt: skip


def search_routine(specs: Sequence[TensorSpec], side: Literal["left", "right"]) -> Search:
    """The routine for a table, the wanted elements and their places."""
    table, wanted, _ = specs
    return Search(table.dtype, table.static_shape[0], wanted.size, side)
