"""The vocabulary that the math functions are written in: a builder for one float dtype, whose
operations also take plain numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, TypeAlias

from tapeline.compiler.codegen.division import Division
from tapeline.compiler.codegen.math.coefficients import POLYNOMIALS
from tapeline.compiler.codegen.math.constants import parts, rounded
from tapeline.compiler.codegen.values import (
    Value,
    bits_of,
    constant_of,
    integer_like,
    type_of,
)

Number: TypeAlias = Value | float | Fraction
_REGISTER_BITS = (128, 256, 512)


class Floats:
    """Operations on values of one float dtype and so many lanes.

    Integers are values of the signed dtype of the same size. `avx512` tells whether the
    instructions for exponents and table lookup in registers may be used.
    """

    __slots__ = ("avx512", "b", "bias", "bits", "code", "int_code", "lanes", "mantissa", "single")

    def __init__(self, b: Division, code: str, lanes: int) -> None:
        self.b = b
        self.code = code
        self.int_code = integer_like(code)
        self.lanes = lanes
        self.bits = bits_of(code)
        self.single = code == "f4"
        self.mantissa = 23 if self.single else 52
        self.bias = 127 if self.single else 1023
        self.avx512 = b.target.avx512

    def resized(self, lanes: int) -> Floats:
        """The same with another number of lanes."""
        return Floats(self.b, self.code, lanes)

    def pick(self, single: Any, double: Any) -> Any:
        """The one that is for this dtype."""
        return single if self.single else double

    # ---- constants

    def number(self, x: Number) -> Value:
        """A float operand."""
        if isinstance(x, Value):
            return x
        return constant_of(x, self.code, self.lanes)

    def integer(self, x: Value | int) -> Value:
        """An integer operand."""
        if isinstance(x, Value):
            return x
        return constant_of(x, self.int_code, self.lanes)

    def rounded(self, x: Fraction) -> Fraction:
        """The nearest number of this dtype."""
        return rounded(x, self.mantissa + 1)

    def parts(self, x: Fraction, count: int) -> tuple[Fraction, ...]:
        """Numbers of this dtype with the sum `x`, the greatest first."""
        return parts(x, count, self.mantissa + 1)

    @property
    def magic(self) -> float:
        """Added to a float it leaves the nearest integer in the low bits."""
        return 12582912.0 if self.single else 6755399441055744.0

    @property
    def magic_bits(self) -> int:
        """The bits of `magic`."""
        return 0x4B400000 if self.single else 0x4338000000000000

    # ---- float operations

    def add(self, a: Number, b: Number) -> Value:
        """`a + b`."""
        return self.b.add(self.number(a), self.number(b))

    def sub(self, a: Number, b: Number) -> Value:
        """`a - b`."""
        return self.b.sub(self.number(a), self.number(b))

    def mul(self, a: Number, b: Number) -> Value:
        """`a * b`."""
        return self.b.mul(self.number(a), self.number(b))

    def div(self, a: Number, b: Number) -> Value:
        """`a / b`."""
        return self.b.div(self.number(a), self.number(b))

    def fma(self, a: Number, b: Number, c: Number) -> Value:
        """`a * b + c`, rounded once."""
        return self.b.fma(self.number(a), self.number(b), self.number(c))

    def neg(self, x: Value) -> Value:
        """`-x`."""
        return self.b.neg(x)

    def abs(self, x: Value) -> Value:
        """`|x|`."""
        return self.b.abs(x)

    def sqrt(self, x: Value) -> Value:
        """Square root."""
        return self.b.sqrt(x)

    def copysign(self, x: Value, sign: Value) -> Value:
        """`x` with the sign of `sign`."""
        return self.b.copysign(x, sign)

    def compare(self, predicate: str, a: Number, b: Number) -> Value:
        """LLVM's `fcmp`: "olt" fails for a NaN, "ult" holds for it."""
        return self.b.float_compare(predicate, self.number(a), self.number(b))

    def select(self, condition: Value, a: Number, b: Number) -> Value:
        """`a` where the condition holds, else `b`."""
        return self.b.select(condition, self.number(a), self.number(b))

    def either(self, a: Value, b: Value) -> Value:
        """`or` of conditions."""
        return self.b.bit_or(a, b)

    def both(self, a: Value, b: Value) -> Value:
        """`and` of conditions."""
        return self.b.bit_and(a, b)

    def at_most(self, x: Value, limit: float) -> Value:
        """`limit` where x is greater; a NaN stays."""
        return self.select(self.compare("ogt", x, limit), limit, x)

    def at_least(self, x: Value, limit: float) -> Value:
        """`limit` where x is less; a NaN stays."""
        return self.select(self.compare("olt", x, limit), limit, x)

    def clamp(self, x: Value, low: float, high: float) -> Value:
        """x within limits; a NaN stays."""
        return self.at_least(self.at_most(x, high), low)

    def rare(
        self, condition: Value, fallback: Callable[..., Any], values: Sequence[Value]
    ) -> list[Value]:
        """`Lines.rare`."""
        return self.b.rare(condition, fallback, values)

    # ---- bits

    def to_bits(self, x: Value) -> Value:
        """The bits of a float as an integer."""
        return self.b.bits(x, self.int_code)

    def from_bits(self, x: Value) -> Value:
        """The float with these bits."""
        return self.b.bits(x, self.code)

    def int_op(self, name: str, a: Value | int, b: Value | int) -> Value:
        """An integer instruction: add, sub, and, or, xor, shl, lshr."""
        left, right = self.integer(a), self.integer(b)
        text = f"{name} {left.operand}, {right.name}"
        return self.b.value(text, self.int_code, self.lanes)

    def is_odd(self, x: Value) -> Value:
        """Where the lowest bit of an integer is set."""
        return self.b.compare("ne", self.int_op("and", x, 1), self.integer(0))

    def sign_of(self, x: Value) -> Value:
        """An integer with the sign bit of a float and no other."""
        return self.int_op("and", self.to_bits(x), -(1 << (self.bits - 1)))

    def flip_sign(self, x: Value, sign: Value) -> Value:
        """x negated where the integer `sign` has its sign bit, the only one it may have."""
        return self.from_bits(self.int_op("xor", self.to_bits(x), sign))

    # ---- polynomials

    def horner(self, x: Value, coefficients: Sequence[float]) -> Value:
        """The polynomial with these coefficients, the lowest first, in one chain."""
        result = self.number(coefficients[-1])
        for coefficient in coefficients[-2::-1]:
            result = self.fma(x, result, coefficient)
        return result

    def polynomial(self, x: Value, coefficients: Sequence[float]) -> Value:
        """The polynomial, in two chains of even and odd powers if it is long."""
        if len(coefficients) < 6:
            return self.horner(x, coefficients)
        square = self.mul(x, x)
        even = self.horner(square, coefficients[0::2])
        return self.fma(x, self.horner(square, coefficients[1::2]), even)

    def coefficients(self, name: str) -> tuple[float, ...]:
        """A row of the table for this dtype."""
        return POLYNOMIALS[name][0 if self.single else 1]

    def fitted(self, name: str, x: Value) -> Value:
        """A polynomial of the table at x."""
        return self.polynomial(x, self.coefficients(name))

    # ---- exponents

    def by_register(
        self, emit: Callable[..., Value], *arguments: Value, least_bits: int = 128
    ) -> Value:
        """`emit(floats, *arguments)` on values that fill a register of at least so many bits: fewer
        lanes are filled up, more are split."""
        lanes = max(least_bits // self.bits, 1 << (self.lanes - 1).bit_length())
        if lanes != self.lanes:
            padded = (self._padded(x, lanes) for x in arguments)
            result = self.resized(lanes).by_register(emit, *padded, least_bits=least_bits)
            return self.b.shuffle(result, None, range(self.lanes))
        if lanes * self.bits <= _REGISTER_BITS[-1]:
            return emit(self, *arguments)
        half = self.resized(lanes // 2)
        low, high = (
            half.by_register(
                emit,
                *(self.b.shuffle(x, None, range(start, start + half.lanes)) for x in arguments),
                least_bits=least_bits,
            )
            for start in (0, half.lanes)
        )
        return self.b.concatenate(low, high)

    def _padded(self, x: Value, lanes: int) -> Value:
        if x.lanes == 1:
            zeros = Value("zeroinitializer", x.code, lanes)
            return self.b.insert_lane(zeros, x, 0)
        return self.b.shuffle(x, None, [*range(x.lanes), *[-1] * (lanes - x.lanes)])

    def _avx512(self, name: str, *arguments: Value, immediate: int | None = None) -> Value:
        """An unmasked `llvm.x86.avx512.mask` intrinsic on whole registers."""
        width = self.lanes * self.bits
        kind = "ps" if self.single else "pd"
        mask = "i16" if self.lanes == 16 else "i8"
        operands = [(x.type, x.name) for x in arguments]
        if immediate is not None:
            operands.append(("i32", str(immediate)))
        operands += [(type_of(self.code, self.lanes), "zeroinitializer"), (mask, "-1")]
        if width == _REGISTER_BITS[-1]:
            operands.append(("i32", "4"))
        function = f"llvm.x86.avx512.mask.{name}.{kind}.{width}"
        result = type_of(self.code, self.lanes)
        text = self.b.raw_call(result, function, *operands, declare=True)
        return self.b.value(text, self.code, self.lanes)

    def exponent(self, x: Value) -> Value:
        """The exponent of |x| as a float: -inf for 0, inf for inf. AVX-512 only."""
        return self.by_register(lambda m, v: m._avx512("getexp", v), x)

    def significand(self, x: Value, *, balanced: bool = False) -> Value:
        """x scaled into [1, 2), or into [0.75, 1.5); NaN where x < 0. AVX-512 only."""
        immediate = 11 if balanced else 8
        return self.by_register(lambda m, v: m._avx512("getmant", v, immediate=immediate), x)

    def scale(self, x: Value, n: Value) -> Value:
        """`x * 2**n`, where n is integral and below twice the exponent bias."""
        if self.avx512:
            return self.by_register(lambda m, v, k: m._avx512("scalef", v, k), x, n)
        # Two factors, each a normal number. There is no vector conversion of 64-bit ints before
        # AVX-512, hence the sum with a magic number instead.
        shifted = self.to_bits(self.add(n, self.magic))
        exponent = self.int_op("sub", shifted, self.magic_bits - 2 * self.bias)
        high = self.int_op("lshr", exponent, 1)
        low = self.int_op("sub", exponent, high)
        for half in (high, low):
            x = self.mul(x, self.from_bits(self.int_op("shl", half, self.mantissa)))
        return x

    def lookup(self, name: str, values: tuple[float, ...], index: Value) -> Value:
        """`values[index % 16]` of 16 values; equal names mean equal values."""
        pointer = self.b.table(f"tl_table_{name}_{self.code}", values, self.code)
        if self.avx512 and self.lanes > 1:

            def in_register(m: Floats, i: Value) -> Value:
                return m._permute(pointer, i)

            return self.by_register(in_register, index, least_bits=512)
        place = self.int_op("and", index, 15)
        offset = self.b.cast_code(self.b.mul(place, self.integer(self.bits // 8)), "i8")
        return self.b.gather(offset, pointer, self.code)

    def _permute(self, pointer: str, index: Value) -> Value:
        """Table lookup by a permutation of one or two registers."""
        count = 16 if self.single else 8
        low = self.b.load(pointer, self.code, count)
        operands = [(low.type, low.name), (index.type, index.name)]
        name = "permvar.sf.512"
        if not self.single:
            high = self.b.load(self.b.pointer_offset(pointer, 64), self.code, count)
            operands.append((high.type, high.name))
            name = "vpermi2var.pd.512"
        text = self.b.raw_call(low.type, f"llvm.x86.avx512.{name}", *operands, declare=True)
        return self.b.value(text, self.code, count)
