"""Elements picked by indices of their own along an axis: `take_along_axis`, and its transpose.

As in `gather`, arrays are dense and indices are checked before anything is written for a chunk,
here of outer rows.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from tapeline.compiler.codegen.gather import (
    INDEX_MODES,
    RowMode,
    TakeShape,
    check_range,
    emit_check,
    emit_take,
    emit_take_grad,
    launch_rows,
    place_of,
    take_shape,
    words_of,
)
from tapeline.compiler.codegen.loops import ZERO, FunctionBuilder, Index
from tapeline.compiler.codegen.nest import Kernel
from tapeline.compiler.codegen.target import Target
from tapeline.compiler.codegen.values import Value, code_of, size_of
from tapeline.runtime.spec import TensorSpec


@dataclass(frozen=True, slots=True)
class Indexed:
    """Rows or elements that indices name, taken or added up."""

    shape: TakeShape

    def emit(self, target: Target, name: str) -> Kernel:
        """The kernel for the mode of the shape."""
        return emit_indexed(self.shape, target, name)


def indexed_routine(mode: RowMode, specs: Sequence[TensorSpec], attribute: Hashable) -> Indexed:
    """The routine for a mode, the op's inputs and output, and its attribute 0."""
    return Indexed(take_shape(mode, specs, attribute))


def emit_indexed(shape: TakeShape, target: Target, name: str) -> Kernel:
    """The kernel for a mode; its operands are the op's inputs, its output and the error cell."""
    if shape.mode in INDEX_MODES:
        return emit_check(shape, target, name)
    if shape.mode == "take":
        return emit_take(shape, target, name)
    if shape.mode == "take_grad":
        return emit_take_grad(shape, target, name)
    return emit_along(shape, target, name)


def emit_along(shape: TakeShape, target: Target, name: str) -> Kernel:
    """`taken[o, i, k] = source[o, indices[o, i, k], k]` for a range of o, or, in the mode of the
    transpose, the addition of `taken` into `source`, which is 0 before."""
    adds = shape.mode == "take_along_axis_grad"
    words, code = words_of(shape)
    index_code = code_of(shape.index_dtype)
    f = FunctionBuilder(target)
    size, count, inner = f.slot("size"), f.slot("count"), f.slot("inner")
    per_row, span = f.mul(count, inner), f.mul(size, inner)
    check_range(f, shape, f.mul(f.low, per_row), f.mul(f.high, per_row))
    first, second = f.pointer_slot("first"), f.pointer_slot("second")
    picked, source = (first, second) if adds else (second, first)
    if adds:
        _clear(f, source, code, words, f.mul(f.low, span), f.mul(f.high, span))

    def element(k: Value, at: Value, start: Value) -> None:
        number = f.add(at, k)
        place = f.add(start, f.add(f.mul(place_of(f, index_code, number), inner), k))
        for word in range(words):
            here, there = (
                _word(f, p, code, n, words, word) for p, n in ((picked, number), (source, place))
            )
            if adds:
                f.store(f.add(f.load(there, code), f.load(here, code)), there)
            else:
                f.store(f.load(there, code), here)

    def row(o: Value, _: list[Value]) -> list[Value]:
        start = f.mul(o, span)

        def index(i: Value, _: list[Value]) -> list[Value]:
            at = f.add(f.mul(o, per_row), f.mul(i, inner))

            def lane(k: Value, _: list[Value]) -> list[Value]:
                element(k, at, start)
                return []

            return f.loop(ZERO, inner, 1, [], lane)

        return f.loop(ZERO, count, 1, [], index)

    f.loop(f.low, f.high, 1, [], row)
    function = f.finish(name, (shape.mode, target, code, words, index_code))
    work = shape.outer * (shape.count + adds * shape.size) * shape.inner * 4
    return launch_rows(shape.mode, function, shape, 1, shape.outer, 1, work)


def _word(f: FunctionBuilder, pointer: str, code: str, number: Value, words: int, word: int) -> str:
    """The pointer to one word of an element."""
    first = f.mul(number, f.fixed(words, "i8")) if words > 1 else number
    return f.element(pointer, code, Index(first, word))


def _clear(
    f: FunctionBuilder, pointer: str, code: str, words: int, low: Value, high: Value
) -> None:
    """Zeros for a range of elements."""
    lanes = f.target.lanes(size_of(code))
    zero = f.fixed(0, code, lanes)

    def clear(index: Index, mask: Value | None, _: int, carry: list[Value]) -> list[Value]:
        f.store(zero, f.element(pointer, code, index), mask=mask)
        return carry

    scale = f.fixed(words, "i8")
    f.vector_loop(f.mul(low, scale), f.mul(high, scale), lanes, 0, [], clear)
