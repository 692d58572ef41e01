"""Rows picked by index, and rows added up by index: `take` along an axis, and its transpose.

Arrays are dense. Indices are data, so they are checked: where one is out of range, nothing is taken
for its chunk, and 1 plus its position is left in the error cell.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Literal, TypeAlias

from tapeline.compiler.codegen.loops import ONE, ZERO, FunctionBuilder, Index
from tapeline.compiler.codegen.nest import Kernel, KernelFunction, Launch, SlotValue
from tapeline.compiler.codegen.target import Target
from tapeline.compiler.codegen.values import Value, bits_of, code_of, is_signed, size_of
from tapeline.runtime.spec import DType, TensorSpec

PARTS = 8
"""Into how many chunks of destination rows an addition by index may be split: each reads all
indices."""


RowMode: TypeAlias = Literal[
    "take", "take_grad", "take_along_axis", "take_along_axis_grad", "check_indices", "wrap_indices"
]
INDEX_MODES = ("check_indices", "wrap_indices")


@dataclass(frozen=True, slots=True)
class TakeShape:
    """`taken[o, i, k] = source[o, indices[i], k]`, for o < outer, i < count, k < inner.

    Mode "take_grad" adds up rows instead, `source[o, indices[i], k] += taken[o, i, k]`. In the
    modes "..._along_axis" there are indices for each o and k, as in `indices[o, i, k]`. The mode
    "check_indices" copies `indices`, none of which may be negative; "wrap_indices" counts them
    from the front, as int64.
    """

    dtype: DType
    index_dtype: DType
    outer: int
    size: int
    """The extent of the axis of `source` that is indexed."""
    count: int
    inner: int
    mode: RowMode = "take"


def take_shape(mode: RowMode, specs: Sequence[TensorSpec], attribute: Hashable) -> TakeShape:
    """What there is to do for an op: its inputs and its output, and its attribute 0."""
    assert isinstance(attribute, int)
    if mode in INDEX_MODES:
        dtype = specs[0].dtype
        return TakeShape(dtype, dtype, 1, attribute, specs[0].size, 1, mode)
    first, indices, result = specs
    axis = attribute
    source = (result if mode.endswith("_grad") else first).static_shape
    along = mode.startswith("take_along")
    return TakeShape(
        first.dtype,
        indices.dtype,
        prod(source[:axis]),
        source[axis],
        indices.static_shape[axis] if along else indices.size,
        prod(source[axis + 1 :]),
        mode,
    )


def emit_check(shape: TakeShape, target: Target, name: str) -> Kernel:
    """Copies indices that are all in range, or counts them from the front as int64."""
    f = FunctionBuilder(target)
    code, lanes = code_of(shape.index_dtype), target.lanes(8)
    wraps = shape.mode == "wrap_indices"
    check_range(f, shape, f.low, f.high)
    source, result = f.pointer_slot("indices"), f.pointer_slot("second")

    def copy(index: Index, mask: Value | None, _: int, carry: list[Value]) -> list[Value]:
        x = f.load(f.element(source, code, index), code, lanes, mask=mask)
        if wraps:
            x = f.cast_code(x, "i8")
            if is_signed(code):
                negative = f.compare("lt", x, f.fixed(0, "i8", lanes))
                x = f.select(negative, f.add(x, f.splat(f.slot("size"), lanes)), x)
        f.store(x, f.element(result, x.code, index), mask=mask)
        return carry

    f.vector_loop(f.low, f.high, lanes, 0, [], copy)
    function = f.finish(name, (shape.mode, target, code))
    return launch_rows(shape.mode, function, shape, 1, shape.count, 1, shape.count * 8)


def emit_take(shape: TakeShape, target: Target, name: str) -> Kernel:
    """The kernel of a `take`.

    Its operands are the source, the indices, the result, and an int64 error cell that is 0 before.
    """
    if not shape.outer * shape.count * shape.inner:
        return _checked_only(shape, target, name)
    words, code = words_of(shape)
    f = FunctionBuilder(target)
    check_range(f, shape, f.low, f.high)
    body = _TakeRows(f, shape, code, target.lanes(size_of(code)))
    f.loop(ZERO, f.slot("outer"), 1, [], body.outer)
    function = f.finish(name, ("take", target, code, code_of(shape.index_dtype), body.form))
    work = shape.outer * shape.count * (words * shape.inner + 8)
    return launch_rows("take", function, shape, words, shape.count, 1, work)


def emit_take_grad(shape: TakeShape, target: Target, name: str) -> Kernel:
    """The kernel that adds up rows by index: `source[o, indices[i], k] += taken[o, i, k]` from 0.

    Its operands are `taken`, the indices, `source`, and an int64 error cell that is 0 before.
    Rows are added in the order of their indices, whatever the chunks.
    """
    words, code = words_of(shape)
    f = FunctionBuilder(target)
    check_range(f, shape, ZERO, f.slot("count"))
    body = _AddRows(f, shape, code, target.lanes(size_of(code)))
    f.loop(ZERO, f.slot("outer"), 1, [], body.outer)
    function = f.finish(name, ("take_grad", target, code, code_of(shape.index_dtype), body.form))
    work = shape.outer * (shape.count + shape.size) * (words * shape.inner + 8)
    grain = max(1, -(-shape.size // PARTS))
    return launch_rows("take_grad", function, shape, words, shape.size, grain, work)


def words_of(shape: TakeShape) -> tuple[int, str]:
    """What elements consist of, and its dtype code: floats to add, else unsigned words."""
    size = shape.dtype.itemsize
    if shape.mode in ("take_grad", "take_along_axis_grad"):
        return (2, f"f{size // 2}") if shape.dtype.kind == "c" else (1, code_of(shape.dtype))
    return (2, "u8") if size == 16 else (1, f"u{size}")


def launch_rows(
    strategy: str,
    function: KernelFunction,
    shape: TakeShape,
    words: int,
    extent: int,
    grain: int,
    work: int,
) -> Kernel:
    numbers = {
        "outer": shape.outer, "size": shape.size, "count": shape.count,
        "inner": words * shape.inner,
    }  # fmt: skip
    pointers = ["first", "indices", "second", "error"]
    if shape.mode in INDEX_MODES:
        del pointers[0]
    values: list[SlotValue] = []
    for slot in function.slots:
        if slot in numbers:
            values.append(numbers[slot])
        else:
            values.append(("operand", pointers.index(slot), 0))
    return Kernel(strategy, (Launch(function, tuple(values), extent, grain, work),))


def _checked_only(shape: TakeShape, target: Target, name: str) -> Kernel:
    """Without elements to move, indices are still checked."""
    f = FunctionBuilder(target)
    check_range(f, shape, f.low, f.high)
    function = f.finish(name, ("check", target, code_of(shape.index_dtype)))
    return launch_rows("take", function, shape, 1, shape.count, 1, shape.count)


def check_range(f: FunctionBuilder, shape: TakeShape, low: Value, high: Value) -> None:
    """Returns from the function, with the error cell set, if an index of a range is bad."""
    code = code_of(shape.index_dtype)
    lanes = f.target.lanes(8)
    pointer = f.pointer_slot("indices")

    def bad_lanes(index: Index, mask: Value | None) -> Value:
        x = f.load(f.element(pointer, code, index), code, lanes, mask=mask)
        wide = f.cast_code(x, "i8")
        above = f.compare("ge", wide, f.splat(f.slot("size"), lanes))
        if code == "u8":
            above = f.bit_or(above, f.compare("lt", wide, f.fixed(0, "i8", lanes)))
        bad = above
        if is_signed(code):
            least = f.fixed(0, "i8", lanes)
            if shape.mode != "check_indices":
                least = f.splat(f.neg(f.slot("size")), lanes)
            bad = f.bit_or(bad, f.compare("lt", wide, least))
        return bad if mask is None else f.bit_and(bad, mask)

    def look(index: Index, mask: Value | None, _: int, carry: list[Value]) -> list[Value]:
        return [f.bit_or(carry[0], bad_lanes(index, mask))]

    (found,) = f.vector_loop(low, high, lanes, 0, [f.fixed(False, "b1", lanes)], look)
    report, good = f.new_label("report"), f.new_label("good")
    f.branch_if(f.any_lane(found), report, good, unlikely=True)
    f.start_block(report)

    def locate(i: Value, _: list[Value]) -> list[Value]:
        x = f.cast_code(f.load(f.element(pointer, code, Index(i)), code), "i8")
        wrapped = f.select(f.compare("lt", x, ZERO), f.add(x, f.slot("size")), x)
        if not is_signed(code) or shape.mode == "check_indices":
            wrapped = x
        inside = f.value(f"icmp ult i64 {wrapped.name}, {f.slot('size').name}", "b1", 1)
        f.when(f.bit_not(inside), lambda: f.store(f.add(i, ONE), f.pointer_slot("error")))
        return []

    f.loop(low, high, 1, [], locate)
    f.line("ret void")
    f.start_block(good)


def place_of(f: FunctionBuilder, code: str, i: Value) -> Value:
    """The index at a position, counted from the front; indices have this dtype code."""
    pointer = f.pointer_slot("indices")
    x = f.cast_code(f.load(f.element(pointer, code, Index(i)), code), "i8")
    if not is_signed(code):
        return x
    return f.select(f.compare("lt", x, ZERO), f.add(x, f.slot("size")), x)


class _Rows:
    """Moves rows between a dense array and places that indices name."""

    def __init__(self, f: FunctionBuilder, shape: TakeShape, code: str, lanes: int) -> None:
        self.f = f
        self.code = code
        self.lanes = lanes
        self.index_code = code_of(shape.index_dtype)
        words = shape.dtype.itemsize // size_of(code)
        self.unroll = 0 if words * shape.inner < 2 * lanes else 2
        self.single = words * shape.inner == 1 and size_of(code) >= 4

    @property
    def form(self) -> tuple[int, bool]:
        """What the emitted text depends on besides the dtypes."""
        return self.unroll, self.single

    def place(self, i: Value) -> Value:
        """The index at a position, counted from the front."""
        return place_of(self.f, self.index_code, i)

    def row(self, pointer: str, number: Value) -> str:
        """The pointer to a row of `inner` elements."""
        return self.f.element(pointer, self.code, Index(self.f.mul(number, self.f.slot("inner"))))


class _TakeRows(_Rows):
    def outer(self, o: Value, _: list[Value]) -> list[Value]:
        """Takes along one of the outer indices."""
        f = self.f
        source = self.row(f.pointer_slot("first"), f.mul(o, f.slot("size")))
        result = self.row(f.pointer_slot("second"), f.mul(o, f.slot("count")))
        if self.single:
            self._single(source, result)
            return []

        def one(i: Value, _: list[Value]) -> list[Value]:
            start, end = self.row(source, self.place(i)), self.row(result, i)

            def move(index: Index, mask: Value | None, _: int, carry: list[Value]) -> list[Value]:
                x = f.load(f.element(start, self.code, index), self.code, self.lanes, mask=mask)
                f.store(x, f.element(end, self.code, index), mask=mask)
                return carry

            f.vector_loop(ZERO, f.slot("inner"), self.lanes, self.unroll, [], move)
            return []

        f.loop(f.low, f.high, 1, [], one)
        return []

    def _single(self, source: str, result: str) -> None:
        """Rows of one element: a gather."""
        f, lanes = self.f, self.f.target.lanes(8)
        indices = f.pointer_slot("indices")
        shift = {32: 2, 64: 3}[bits_of(self.code)]

        def move(index: Index, mask: Value | None, _: int, carry: list[Value]) -> list[Value]:
            where = f.element(indices, self.index_code, index)
            x = f.cast_code(f.load(where, self.index_code, lanes, mask=mask), "i8")
            if is_signed(self.index_code):
                negative = f.compare("lt", x, f.fixed(0, "i8", lanes))
                x = f.select(negative, f.add(x, f.splat(f.slot("size"), lanes)), x)
            taken = f.gather(f.shift_bits("shl", x, shift), source, self.code, mask)
            f.store(taken, f.element(result, self.code, index), mask=mask)
            return carry

        f.vector_loop(f.low, f.high, lanes, 0, [], move)


class _AddRows(_Rows):
    def outer(self, o: Value, _: list[Value]) -> list[Value]:
        """Adds along one of the outer indices, into the rows of this chunk."""
        f = self.f
        taken = self.row(f.pointer_slot("first"), f.mul(o, f.slot("count")))
        source = self.row(f.pointer_slot("second"), f.mul(o, f.slot("size")))
        zero = f.fixed(0, self.code, self.lanes)

        def clear(index: Index, mask: Value | None, _: int, carry: list[Value]) -> list[Value]:
            f.store(zero, f.element(source, self.code, index), mask=mask)
            return carry

        first, last = (f.mul(bound, f.slot("inner")) for bound in (f.low, f.high))
        f.vector_loop(first, last, self.lanes, 2, [], clear)
        rows = f.sub(f.high, f.low)

        def one(i: Value, _: list[Value]) -> list[Value]:
            place = self.place(i)
            offset = f.sub(place, f.low)
            mine = f.value(f"icmp ult i64 {offset.name}, {rows.name}", "b1", 1)
            f.when(mine, lambda: self._add(self.row(taken, i), self.row(source, place)))
            return []

        f.loop(ZERO, f.slot("count"), 1, [], one)
        return []

    def _add(self, start: str, end: str) -> None:
        f = self.f

        def add(index: Index, mask: Value | None, _: int, carry: list[Value]) -> list[Value]:
            where = f.element(end, self.code, index)
            old = f.load(where, self.code, self.lanes, mask=mask)
            x = f.load(f.element(start, self.code, index), self.code, self.lanes, mask=mask)
            f.store(f.add(old, x), where, mask=mask)
            return carry

        f.vector_loop(ZERO, f.slot("inner"), self.lanes, self.unroll, [], add)
