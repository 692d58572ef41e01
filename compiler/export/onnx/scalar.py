"""Pointwise bodies as ONNX nodes: what `ScalarEmitter` asks of a backend.

ONNX's operators exist for few dtypes, and CPU runtimes have kernels for fewer. Where one is missing
the work is done in a wider dtype that has it, and brought back: ints wrap around as they should.
"""

from __future__ import annotations

import numpy as np

from tapeline.compiler.codegen.halves import is_half
from tapeline.compiler.export.onnx.functions import FUNCTIONS
from tapeline.compiler.export.onnx.model import OnnxGraph, Ref, onnx_type
from tapeline.runtime.errors import ExportError
from tapeline.runtime.op import Predicate
from tapeline.runtime.spec import DType

BOOL = np.dtype(np.bool_)
INT32, INT64 = np.dtype(np.int32), np.dtype(np.int64)
UINT8, UINT64 = np.dtype(np.uint8), np.dtype(np.uint64)
FLOAT32, FLOAT64 = np.dtype(np.float32), np.dtype(np.float64)

COMPARISONS = {
    "lt": "Less", "le": "LessOrEqual", "gt": "Greater", "ge": "GreaterOrEqual", "eq": "Equal",
}  # fmt: skip


def computing_dtype(dtype: DType) -> DType:
    """The dtype in which values are computed: floats as they are, but for those of 16 bits; ints in
    one of two widths."""
    if is_half(dtype):
        return FLOAT32
    if dtype.kind == "f":
        return dtype
    narrow = dtype.kind == "b" or dtype.itemsize < 4 or dtype == INT32
    return INT32 if narrow else INT64


def selecting_dtype(dtype: DType) -> DType:
    """The dtype in which values are moved about by the operators that only move."""
    return UINT8 if dtype == BOOL else computing_dtype(dtype)


class OnnxScalars:
    """Operations on values, element by element, with broadcasting."""

    def __init__(self, graph: OnnxGraph) -> None:
        self.graph = graph

    # ---- values

    def dtype_of(self, x: Ref, /) -> DType:
        """The dtype."""
        return x.dtype

    def constant(self, value: complex | bool, dtype: DType, /) -> Ref:
        """A number."""
        return self.graph.constant(np.asarray(value).astype(dtype))

    def const(self, value: float | bool, like: Ref, /) -> Ref:
        """A number of the dtype of `like`."""
        return self.constant(value, like.dtype)

    def bitcast(self, x: Ref, dtype: DType, /) -> Ref:
        """The same bits as another dtype of that size."""
        return self.graph.add("BitCast", x, dtype=dtype, to=onnx_type(dtype))

    def cast(self, x: Ref, dtype: DType, /) -> Ref:
        """As NumPy's `astype`; float to int saturates, NaN gives 0."""
        if dtype == x.dtype:
            return x
        if dtype == BOOL:
            return self.compare("ne", x, self.const(0, x))
        if x.dtype.kind == "f" and dtype.kind in "iu":
            return self._saturated(x, dtype)
        if x.dtype == UINT64 and dtype.kind == "f":
            return self._large_to_float(x, dtype)
        return self.graph.cast(x, dtype)

    def _saturated(self, x: Ref, dtype: DType) -> Ref:
        limits = np.iinfo(dtype)
        least, most = x.dtype.type(limits.min), x.dtype.type(limits.max)
        inside = self.select(self.compare("eq", x, x), x, self.const(0, x))
        above = self.compare("ge", inside, self.graph.constant(most))
        below = self.compare("le", inside, self.graph.constant(least))
        safe = self.select(self.bit_or(above, below), self.const(0, x), inside)
        if dtype == UINT64:
            half = self.const(2.0**63, x)
            is_high = self.compare("ge", safe, half)
            low = self.graph.cast(self.select(is_high, self.sub(safe, half), safe), INT64)
            high = self.add(low, self.constant(-(2**63), INT64))
            whole = self.graph.cast(self.select(is_high, high, low), UINT64)
        else:
            whole = self.graph.cast(self.graph.cast(safe, INT64), dtype)
        whole = self.select(above, self.constant(limits.max, dtype), whole)
        return self.select(below, self.constant(limits.min, dtype), whole)

    def _large_to_float(self, x: Ref, dtype: DType) -> Ref:
        """A uint64 rounded once: halved with its last bit kept where the top bit is set."""
        signed = self.graph.cast(x, INT64)
        negative = self.compare("lt", signed, self.const(0, signed))
        half = self._unsigned_shift(x, self.constant(1, UINT64), "RIGHT")
        odd = self.bit_or(half, self.bit_and(x, self.constant(1, UINT64)))
        halved = self.graph.cast(self.graph.cast(odd, INT64), dtype)
        return self.select(negative, self.add(halved, halved), self.graph.cast(signed, dtype))

    def _run(self, kind: str, *values: Ref) -> Ref:
        """A node on values that are computed in a dtype which has a kernel."""
        dtype = values[0].dtype
        wide = computing_dtype(dtype)
        found = self.graph.add(kind, *[self.graph.cast(x, wide) for x in values], dtype=wide)
        return self.graph.cast(found, dtype)

    # ---- arithmetic

    def add(self, a: Ref, b: Ref, /) -> Ref:
        """Sum; `or` of bools."""
        return self.bit_or(a, b) if a.dtype == BOOL else self._run("Add", a, b)

    def sub(self, a: Ref, b: Ref, /) -> Ref:
        """Difference."""
        return self._run("Sub", a, b)

    def mul(self, a: Ref, b: Ref, /) -> Ref:
        """Product; `and` of bools."""
        return self.bit_and(a, b) if a.dtype == BOOL else self._run("Mul", a, b)

    def div(self, a: Ref, b: Ref, /) -> Ref:
        """Quotient of floats."""
        return self._run("Div", a, b)

    def fma(self, a: Ref, b: Ref, c: Ref, /) -> Ref:
        """a * b + c, rounded twice."""
        return self.add(self.mul(a, b), c)

    def neg(self, x: Ref, /) -> Ref:
        """-x."""
        return self._run("Neg", x)

    def abs(self, x: Ref, /) -> Ref:
        """|x|."""
        return x if x.dtype.kind in "bu" else self._run("Abs", x)

    def sqrt(self, x: Ref, /) -> Ref:
        """Square root."""
        return self._run("Sqrt", x)

    def floor(self, x: Ref, /) -> Ref:
        """The integer below."""
        return self._run("Floor", x)

    def ceil(self, x: Ref, /) -> Ref:
        """The integer above."""
        return self._run("Ceil", x)

    def trunc(self, x: Ref, /) -> Ref:
        """The integer towards zero."""
        return self.select(self.sign_bit(x), self.ceil(x), self.floor(x))

    def rint(self, x: Ref, /) -> Ref:
        """The nearest integer, half to even."""
        return self._run("Round", x)

    def sign_bit(self, x: Ref) -> Ref:
        """Whether a number is negative, or a zero with a sign. (A NaN is not.)"""
        zero = self.const(0, x)
        if x.dtype.kind != "f":
            return self.compare("lt", x, zero)
        inverse = self.div(self.const(1, x), x)
        return self.bit_or(self.compare("lt", x, zero), self.compare("lt", inverse, zero))

    def copysign(self, x: Ref, sign: Ref, /) -> Ref:
        """|x| with the sign of `sign`."""
        size = self.abs(x)
        return self.select(self.sign_bit(sign), self.neg(size), size)

    def maximum(self, a: Ref, b: Ref, /) -> Ref:
        """The greater one; NaN where either is."""
        return self._extremum("Max", a, b)

    def minimum(self, a: Ref, b: Ref, /) -> Ref:
        """The smaller one; NaN where either is."""
        return self._extremum("Min", a, b)

    def _extremum(self, kind: str, a: Ref, b: Ref) -> Ref:
        if a.dtype == BOOL:
            return self.bit_or(a, b) if kind == "Max" else self.bit_and(a, b)
        if a.dtype != UINT64:
            return self._run(kind, a, b)
        return self.select(self.compare("gt" if kind == "Max" else "lt", a, b), a, b)

    def floor_divide(self, a: Ref, b: Ref, /) -> Ref:
        """NumPy's `//`."""
        return self._float_floor(a, b) if a.dtype.kind == "f" else self._int_divmod(a, b)[0]

    def remainder(self, a: Ref, b: Ref, /) -> Ref:
        """NumPy's `%`."""
        if a.dtype.kind != "f":
            return self._int_divmod(a, b)[1]
        rest = self._float_divmod(a, b)[1]
        by_zero = self.compare("eq", b, self.const(0, b))
        return self.select(by_zero, self.const(np.nan, b), rest)

    def _float_divmod(self, a: Ref, b: Ref) -> tuple[Ref, Ref]:
        """C's `fmod`, and the remainder with the sign of the divisor."""
        zero = self.const(0, a)
        rest = self.graph.add("Mod", a, b, fmod=1)
        differs = self.bit_xor(self.compare("lt", rest, zero), self.compare("lt", b, zero))
        adjust = self.bit_and(differs, self.compare("ne", rest, zero))
        moved = self.select(adjust, self.add(rest, b), rest)
        return adjust, self.select(self.compare("eq", moved, zero), self.copysign(moved, b), moved)

    def _float_floor(self, a: Ref, b: Ref) -> Ref:
        """From the exact remainder, so that no rounding makes an integer of too much; with an
        infinity the floor of the quotient."""
        zero, one = self.const(0, a), self.const(1, a)
        adjust, _ = self._float_divmod(a, b)
        rest = self.graph.add("Mod", a, b, fmod=1)
        quotient = self.div(self.sub(a, rest), b)
        quotient = self.select(adjust, self.sub(quotient, one), quotient)
        below = self.floor(quotient)
        far = self.compare("gt", self.sub(quotient, below), self.const(0.5, a))
        whole = self.select(far, self.add(below, one), below)
        plain = self.div(a, b)
        whole = self.select(self.compare("eq", quotient, zero), self.copysign(zero, plain), whole)
        infinity = self.const(np.inf, a)
        infinite = self.bit_or(
            self.compare("eq", self.abs(a), infinity), self.compare("eq", self.abs(b), infinity)
        )
        whole = self.select(infinite, self.floor(plain), whole)
        return self.select(self.compare("eq", b, zero), plain, whole)

    def _int_divmod(self, a: Ref, b: Ref) -> tuple[Ref, Ref]:
        """Quotient rounded down and remainder; 0 where b is 0. No operands reach a division that
        trap."""
        dtype = a.dtype
        if dtype == UINT64:
            return self._large_divmod(a, b)
        wide = computing_dtype(dtype)
        x, y = self.graph.cast(a, wide), self.graph.cast(b, wide)
        zero, one = self.const(0, x), self.const(1, x)
        by_zero = self.compare("eq", y, zero)
        minus = self.compare("eq", y, self.const(-1, y))
        safe = self.select(self.bit_or(by_zero, minus), one, y)
        quotient = self.graph.add("Div", x, safe)
        rest = self.sub(x, self.mul(quotient, safe))
        differs = self.bit_xor(self.compare("lt", rest, zero), self.compare("lt", safe, zero))
        adjust = self.bit_and(differs, self.compare("ne", rest, zero))
        quotient = self.select(adjust, self.sub(quotient, one), quotient)
        rest = self.select(adjust, self.add(rest, safe), rest)
        quotient = self.select(minus, self.neg(x), quotient)
        quotient = self.select(by_zero, zero, quotient)
        rest = self.select(by_zero, zero, rest)
        return self.graph.cast(quotient, dtype), self.graph.cast(rest, dtype)

    def _large_divmod(self, a: Ref, b: Ref) -> tuple[Ref, Ref]:
        """Of uint64: twice the quotient of half, and a correction, where the top bit is set."""
        zero = self.const(0, a)
        one = self.const(1, a)
        by_zero = self.compare("eq", b, zero)
        y = self.select(by_zero, one, b)
        signed = self.graph.cast(y, INT64)
        large = self.compare("lt", signed, self.const(0, signed))
        divisor = self.select(large, self.const(1, signed), signed)
        half = self.graph.cast(self._unsigned_shift(a, one, "RIGHT"), INT64)
        halved = self.graph.cast(self.graph.add("Div", half, divisor), UINT64)
        quotient = self._unsigned_shift(halved, one, "LEFT")
        rest = self.sub(a, self.mul(quotient, y))
        more = self.compare("ge", rest, y)
        quotient = self.select(more, self.add(quotient, one), quotient)
        whole = self.cast(self.compare("ge", a, y), UINT64)
        quotient = self.select(large, whole, quotient)
        rest = self.sub(a, self.mul(quotient, y))
        return self.select(by_zero, zero, quotient), self.select(by_zero, zero, rest)

    # ---- comparisons and choices

    def compare(self, predicate: Predicate, a: Ref, b: Ref, /) -> Ref:
        """A bool."""
        if predicate == "ne":
            return self.bit_not(self.compare("eq", a, b))
        wide = computing_dtype(a.dtype)
        x, y = self.graph.cast(a, wide), self.graph.cast(b, wide)
        if a.dtype == UINT64 and predicate != "eq":
            least = self.constant(-(2**63), INT64)
            x, y = self.add(x, least), self.add(y, least)
        return self.graph.add(COMPARISONS[predicate], x, y, dtype=BOOL)

    def select(self, condition: Ref, a: Ref, b: Ref, /) -> Ref:
        """a where the condition holds, else b."""
        dtype = a.dtype
        wide = selecting_dtype(dtype)
        x, y = self.graph.cast(a, wide), self.graph.cast(b, wide)
        return self.graph.cast(self.graph.add("Where", condition, x, y, dtype=wide), dtype)

    # ---- bits

    def bit_and(self, a: Ref, b: Ref, /) -> Ref:
        """Bitwise, or of bools."""
        return self.graph.add("And" if a.dtype == BOOL else "BitwiseAnd", a, b)

    def bit_or(self, a: Ref, b: Ref, /) -> Ref:
        """Bitwise, or of bools."""
        return self.graph.add("Or" if a.dtype == BOOL else "BitwiseOr", a, b)

    def bit_xor(self, a: Ref, b: Ref, /) -> Ref:
        """Bitwise, or of bools."""
        return self.graph.add("Xor" if a.dtype == BOOL else "BitwiseXor", a, b)

    def bit_not(self, x: Ref, /) -> Ref:
        """Bitwise, or of bools."""
        return self.graph.add("Not" if x.dtype == BOOL else "BitwiseNot", x)

    def shift_left(self, a: Ref, b: Ref, /) -> Ref:
        """0 where b is negative or not below the bit width."""
        inside, amount = self._shift_amount(a, b)
        shifted = self._unsigned_shift(self.graph.cast(a, UINT64), amount, "LEFT")
        return self.select(inside, self.graph.cast(shifted, a.dtype), self.const(0, a))

    def shift_right(self, a: Ref, b: Ref, /) -> Ref:
        """Arithmetic; all sign bits where b is not below the bit width."""
        inside, amount = self._shift_amount(a, b)
        zero = self.const(0, a)
        if a.dtype.kind == "u":
            found = self._unsigned_shift(self.graph.cast(a, UINT64), amount, "RIGHT")
            return self.select(inside, self.graph.cast(found, a.dtype), zero)
        negative = self.compare("lt", a, zero)
        flipped = self.select(negative, self.bit_not(a), a)
        found = self._unsigned_shift(self.graph.cast(flipped, UINT64), amount, "RIGHT")
        kept = self.select(inside, self.graph.cast(found, a.dtype), zero)
        return self.select(negative, self.bit_not(kept), kept)

    def _shift_amount(self, a: Ref, b: Ref) -> tuple[Ref, Ref]:
        """Whether the amount is one, and the amount, or 0 where it is none."""
        width = self.const(8 * a.dtype.itemsize, b)
        zero = self.const(0, b)
        inside = self.compare("lt", b, width)
        if b.dtype.kind == "i":
            inside = self.bit_and(inside, self.compare("ge", b, zero))
        return inside, self.graph.cast(self.select(inside, b, zero), UINT64)

    def _unsigned_shift(self, a: Ref, amount: Ref, direction: str) -> Ref:
        return self.graph.add("BitShift", a, amount, direction=direction)

    # ---- functions

    def call(self, name: str, /, *args: Ref) -> Ref:
        """A function of the math library."""
        found = FUNCTIONS.get(name)
        if found is None:
            raise ExportError(f"there is no ONNX form of the function {name}")
        result: Ref = found(self, *args)
        return result

    def unary(self, kind: str, x: Ref) -> Ref:
        """A node of one float."""
        return self._run(kind, x)
