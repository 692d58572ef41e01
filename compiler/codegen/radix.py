"""Long axes sorted digit by digit: stable, and without a branch that depends on data.

Each pass brings the elements into the order of one byte of their keys, from the lowest byte to the
highest: it counts how often each digit occurs, and so knows where each element goes.
"""

from __future__ import annotations

from dataclasses import dataclass

from tapeline.compiler.codegen.loops import ONE, ZERO, FunctionBuilder, Index, int64
from tapeline.compiler.codegen.nest import Kernel
from tapeline.compiler.codegen.order_keys import order_key, stored_code
from tapeline.compiler.codegen.routine import each_row, single_launch
from tapeline.compiler.codegen.target import Target
from tapeline.compiler.codegen.values import Value, code_of, is_signed, size_of
from tapeline.runtime.spec import DType

_DIGITS = 256
_POSITION = "u4"
LONGEST_AXIS = (1 << 32) - 1
"""Positions are kept in 32 bits."""


@dataclass(frozen=True, slots=True)
class RadixSort:
    """`out[o, :, k]` are the elements of `x[o, :, k]` in order, or their positions.

    Equal elements keep their order; in sorted elements that descend they are turned around, as
    NumPy's reversed results have them.
    """

    dtype: DType
    outer: int
    count: int
    inner: int
    descending: bool
    gives_positions: bool

    def emit(self, target: Target, name: str) -> Kernel:
        """The kernel, of one chunk: rows share the memory in which they are sorted."""
        f = FunctionBuilder(target)
        _RadixEmitter(f, self).write()
        key = ("radix sort", target, code_of(self.dtype), self.descending, self.gives_positions)
        function = f.finish(name, key)
        numbers = {"count": self.count, "inner": self.inner, "outer": self.outer}
        size = size_of(stored_code(self.dtype))
        per_element = size + (size_of(_POSITION) if self.gives_positions else 0)
        numbers["positions"] = -(-2 * self.count * size // 64) * 64
        room = numbers["positions"] + 2 * self.count * (per_element - size)
        work = self.outer * self.inner * self.count * (size + 1) * 8
        title = "argsort" if self.gives_positions else "sort"
        operands = ["source", "result"]
        return single_launch(
            title, function, numbers, operands, extent=1, work=work, scratch_bytes=room
        )


class _RadixEmitter:
    """Writes the kernel; the two halves of the scratch memory take turns."""

    def __init__(self, f: FunctionBuilder, sort: RadixSort) -> None:
        self.f, self.sort = f, sort
        self.code = stored_code(sort.dtype)
        self.passes = size_of(self.code)
        self.source, self.result = f.pointer_slot("source"), f.pointer_slot("result")
        self.count, self.inner = f.slot("count"), f.slot("inner")
        self.elements = f.pointer_slot("scratch")
        self.positions = ""
        if sort.gives_positions:
            self.positions = f.pointer_offset(self.elements, f.slot("positions"))
        self.places = f.stack("i64", self.passes * _DIGITS)

    def write(self) -> None:
        """The loops over rows."""
        f = self.f

        def whole(_: Value, __: list[Value]) -> list[Value]:
            each_row(f, (ZERO, f.slot("outer")), self.count, self.inner, self._row)
            return []

        f.loop(f.low, f.high, 1, [], whole)

    def _row(self, first: Value) -> None:
        self._clear()
        self._take(first)
        start = ZERO
        for number in range(self.passes):
            start = self._pass(number, start)
        self._give(first, start)

    # ---- keys

    def _digit(self, x: Value, number: int) -> Value:
        """A byte of an element's key, as an index."""
        f = self.f
        key = order_key(f, x)
        unsigned = "u" + key.code[1:]
        bits = f.bits(key, unsigned)
        flips = 0
        if is_signed(key.code):
            flips = 1 << (8 * self.passes - 1)
        if self.sort.descending and self.sort.gives_positions:
            flips ^= (1 << (8 * self.passes)) - 1
        if flips:
            bits = f.bit_xor(bits, f.fixed(flips, unsigned))
        if number:
            bits = f.shift_bits("lshr", bits, 8 * number)
        return f.bit_and(f.cast_code(bits, "i8"), int64(_DIGITS - 1))

    def _place(self, number: int, digit: Value) -> str:
        """Where the count of a digit is, and later where the next element with it goes."""
        return self.f.element(self.places, "i8", Index(digit, number * _DIGITS))

    # ---- stages

    def _clear(self) -> None:
        f = self.f

        def zero(i: Value, _: list[Value]) -> list[Value]:
            f.store(ZERO, f.element(self.places, "i8", Index(i)))
            return []

        f.loop(ZERO, int64(self.passes * _DIGITS), 1, [], zero)

    def _take(self, first: Value) -> None:
        """The row, side by side, and how often each digit occurs at each place."""
        f = self.f

        def one(i: Value, _: list[Value]) -> list[Value]:
            at = Index(f.add(first, f.mul(i, self.inner)))
            x = f.load(f.element(self.source, self.code, at), self.code)
            f.store(x, f.element(self.elements, self.code, Index(i)))
            if self.positions:
                f.store(f.cast_code(i, _POSITION), f.element(self.positions, _POSITION, Index(i)))
            for number in range(self.passes):
                place = self._place(number, self._digit(x, number))
                f.store(f.add(f.load(place, "i8"), ONE), place)
            return []

        f.loop(ZERO, self.count, 1, [], one)

    def _pass(self, number: int, start: Value) -> Value:
        """Sorts by one digit from the half that begins at `start`; where the result begins. A digit
        that is the same everywhere moves nothing."""
        f = self.f
        head = f.load(f.element(self.elements, self.code, Index(start)), self.code)
        same = f.compare("eq", f.load(self._place(number, self._digit(head, number)), "i8"),
                         self.count)  # fmt: skip
        target = f.sub(self.count, start)

        def total(i: Value, carry: list[Value]) -> list[Value]:
            place = self._place(number, i)
            count = f.load(place, "i8")
            f.store(carry[0], place)
            return [f.add(carry[0], count)]

        f.loop(ZERO, f.select(same, ZERO, int64(_DIGITS)), 1, [target], total)

        def move(i: Value, _: list[Value]) -> list[Value]:
            at = Index(f.add(start, i))
            x = f.load(f.element(self.elements, self.code, at), self.code)
            place = self._place(number, self._digit(x, number))
            to = f.load(place, "i8")
            f.store(f.add(to, ONE), place)
            f.store(x, f.element(self.elements, self.code, Index(to)))
            if self.positions:
                position = f.load(f.element(self.positions, _POSITION, at), _POSITION)
                f.store(position, f.element(self.positions, _POSITION, Index(to)))
            return []

        f.loop(ZERO, f.select(same, ZERO, self.count), 1, [], move)
        return f.select(same, start, target)

    def _give(self, first: Value, start: Value) -> None:
        """Writes the row where it belongs."""
        f, sort = self.f, self.sort
        last = f.sub(self.count, ONE)

        def one(i: Value, _: list[Value]) -> list[Value]:
            to = Index(f.add(first, f.mul(i, self.inner)))
            if sort.gives_positions:
                at = f.element(self.positions, _POSITION, Index(f.add(start, i)))
                position = f.cast_code(f.load(at, _POSITION), "i8")
                f.store(position, f.element(self.result, "i8", to))
                return []
            k = f.sub(last, i) if sort.descending else i
            x = f.load(f.element(self.elements, self.code, Index(f.add(start, k))), self.code)
            f.store(x, f.element(self.result, self.code, to))
            return []

        f.loop(ZERO, self.count, 1, [], one)
