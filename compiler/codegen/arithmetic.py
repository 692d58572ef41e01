"""Operations on values of one or many lanes, as `ScalarEmitter` of `tapeline.runtime.op` defines
them.

A scalar operand is repeated in every lane of the other one. The dtype's code decides between signed
and unsigned instructions.
"""

from __future__ import annotations

from typing import Any

from tapeline.compiler.codegen.lines import Lines
from tapeline.compiler.codegen.values import (
    Value,
    bits_of,
    code_of,
    constant_of,
    dtype_of,
    integer_like,
    is_float,
    is_signed,
    size_of,
    suffix_of,
    type_of,
)
from tapeline.runtime.op import Predicate
from tapeline.runtime.spec import DType

_BOOL_ADD = {"add": "or", "mul": "and", "sub": "xor"}


class Arithmetic(Lines):
    """Everything of `ScalarEmitter` but division with a remainder and the math library."""

    __slots__ = ()

    def dtype_of(self, x: Value, /) -> DType:
        """The dtype of a value."""
        return dtype_of(x.code)

    def constant(self, value: Any, dtype: DType, /) -> Value:
        """A scalar constant."""
        return constant_of(value, code_of(dtype))

    def const(self, value: Any, like: Value, /) -> Value:
        """A constant of the dtype and the lanes of `like`."""
        return constant_of(value, like.code, like.lanes)

    # ---- conversions

    def cast(self, x: Value, dtype: DType, /) -> Value:
        """As NumPy's `astype`; float to int saturates and NaN gives 0."""
        return self.cast_code(x, code_of(dtype))

    def cast_code(self, x: Value, code: str) -> Value:
        """`cast` to the dtype of a code."""
        if x.code == code:
            return x
        if code == "b1":
            return self.compare("ne", x, constant_of(0, x.code, x.lanes))
        if is_float(x.code) and not is_float(code):
            sign = "s" if is_signed(code) else "u"
            name = f"fpto{sign}i.sat.{suffix_of(code, x.lanes)}"
            return self.intrinsic(name, x, code=code)
        operation = self._conversion(x.code, code)
        if not operation:
            return x._replace(code=code)
        text = f"{operation} {x.operand} to {type_of(code, x.lanes)}"
        return self.value(text, code, x.lanes)

    @staticmethod
    def _conversion(source: str, code: str) -> str:
        """The instruction that converts; empty for another signedness of the same bits."""
        if is_float(code):
            if is_float(source):
                return "fpext" if size_of(code) > size_of(source) else "fptrunc"
            return "sitofp" if is_signed(source) else "uitofp"
        if source == "b1":
            return "zext"
        if size_of(code) > size_of(source):
            return "sext" if is_signed(source) else "zext"
        return "trunc" if size_of(code) < size_of(source) else ""

    def bitcast(self, x: Value, dtype: DType, /) -> Value:
        """The same bits as another dtype of the same size."""
        return self.bits(x, code_of(dtype))

    def bits(self, x: Value, code: str) -> Value:
        """`bitcast` to the dtype of a code."""
        if type_of(x.code) == type_of(code):
            return x._replace(code=code)
        return self.value(f"bitcast {x.operand} to {type_of(code, x.lanes)}", code, x.lanes)

    # ---- arithmetic

    def _binary(self, instruction: str, a: Value, b: Value) -> Value:
        a, b = self.align_lanes(a, b)
        return self.value(f"{instruction} {a.operand}, {b.name}", a.code, a.lanes)

    def _plain(self, name: str, a: Value, b: Value) -> Value:
        if a.code == "b1":
            return self._binary(_BOOL_ADD[name], a, b)
        if not is_float(a.code):
            return self._binary(name, a, b)
        return self._binary(f"f{name} reassoc contract" if self.relaxed else f"f{name}", a, b)

    def add(self, a: Value, b: Value, /) -> Value:
        """Sum; `or` of bools."""
        return self._plain("add", a, b)

    def sub(self, a: Value, b: Value, /) -> Value:
        """Difference."""
        return self._plain("sub", a, b)

    def mul(self, a: Value, b: Value, /) -> Value:
        """Product; `and` of bools."""
        return self._plain("mul", a, b)

    def div(self, a: Value, b: Value, /) -> Value:
        """Quotient of floats."""
        return self._binary("fdiv", a, b)

    def fma(self, a: Value, b: Value, c: Value, /) -> Value:
        """`a * b + c`, rounded once if float."""
        if not is_float(a.code):
            return self.add(self.mul(a, b), c)
        return self.intrinsic("fma", *self.align_lanes(a, b, c))

    def neg(self, x: Value, /) -> Value:
        """`-x`; unsigned ints wrap."""
        if is_float(x.code):
            return self.value(f"fneg {x.operand}", x.code, x.lanes)
        return self.sub(constant_of(0, x.code, x.lanes), x)

    def abs(self, x: Value, /) -> Value:
        """Absolute value; the least signed int stays as it is."""
        if is_float(x.code):
            return self.intrinsic("fabs", x)
        if not is_signed(x.code):
            return x
        function = f"llvm.abs.{suffix_of(x.code, x.lanes)}"
        call = self.raw_call(x.type, function, (x.type, x.name), ("i1", "false"), declare=True)
        return self.value(call, x.code, x.lanes)

    def sqrt(self, x: Value, /) -> Value:
        """Square root."""
        return self.intrinsic("sqrt", x)

    def floor(self, x: Value, /) -> Value:
        """The greatest integer not above x; ints stay as they are."""
        return self._round("floor", x)

    def ceil(self, x: Value, /) -> Value:
        """The least integer not below x."""
        return self._round("ceil", x)

    def trunc(self, x: Value, /) -> Value:
        """x without its fraction."""
        return self._round("trunc", x)

    def rint(self, x: Value, /) -> Value:
        """The nearest integer, the even one of two."""
        return self._round("roundeven", x)

    def _round(self, name: str, x: Value) -> Value:
        return self.intrinsic(name, x) if is_float(x.code) else x

    def copysign(self, x: Value, sign: Value, /) -> Value:
        """`x` with the sign bit of `sign`."""
        return self.intrinsic("copysign", *self.align_lanes(x, sign))

    def maximum(self, a: Value, b: Value, /) -> Value:
        """The greater one, NaN where either is NaN; `or` of bools."""
        return self._extremum("max", "or", a, b)

    def minimum(self, a: Value, b: Value, /) -> Value:
        """The lesser one, NaN where either is NaN; `and` of bools."""
        return self._extremum("min", "and", a, b)

    def _extremum(self, name: str, of_bools: str, a: Value, b: Value) -> Value:
        a, b = self.align_lanes(a, b)
        if a.code == "b1":
            return self._binary(of_bools, a, b)
        if is_float(a.code):
            return self.intrinsic(f"{name}imum", a, b)
        return self.intrinsic(("s" if is_signed(a.code) else "u") + name, a, b)

    # ---- choices

    def compare(self, predicate: Predicate, a: Value, b: Value, /) -> Value:
        """A bool per lane; with a NaN only `ne` holds."""
        a, b = self.align_lanes(a, b)
        if is_float(a.code):
            name = "fcmp " + ("une" if predicate == "ne" else "o" + predicate)
        elif predicate in ("eq", "ne"):
            name = "icmp " + predicate
        else:
            name = "icmp " + ("s" if is_signed(a.code) else "u") + predicate
        return self.value(f"{name} {a.operand}, {b.name}", "b1", a.lanes)

    def float_compare(self, predicate: str, a: Value, b: Value) -> Value:
        """`fcmp` with any of LLVM's predicates, as in "ult": less, or a NaN."""
        a, b = self.align_lanes(a, b)
        return self.value(f"fcmp {predicate} {a.operand}, {b.name}", "b1", a.lanes)

    def is_nan(self, x: Value) -> Value:
        """Where x is NaN."""
        return self.float_compare("uno", x, x)

    def select(self, condition: Value, a: Value, b: Value, /) -> Value:
        """`a` where the bool holds, else `b`."""
        if condition.lanes == 1:
            a, b = self.align_lanes(a, b)
        else:
            condition, a, b = self.align_lanes(condition, a, b)
        text = f"select {condition.operand}, {a.operand}, {b.operand}"
        return self.value(text, a.code, a.lanes)

    # ---- bits

    def bit_and(self, a: Value, b: Value, /) -> Value:
        """Bitwise `and`."""
        return self._binary("and", a, b)

    def bit_or(self, a: Value, b: Value, /) -> Value:
        """Bitwise `or`."""
        return self._binary("or", a, b)

    def bit_xor(self, a: Value, b: Value, /) -> Value:
        """Bitwise `xor`."""
        return self._binary("xor", a, b)

    def bit_not(self, x: Value, /) -> Value:
        """Every bit flipped; `not` of bools."""
        ones = 1 if x.code == "b1" else -1
        return self._binary("xor", x, constant_of(ones, x.code, x.lanes))

    def shift_left(self, a: Value, b: Value, /) -> Value:
        """0 where b is negative or not below the bit width."""
        a, b = self.align_lanes(a, b)
        inside = self._shift_inside(b)
        zero = constant_of(0, a.code, a.lanes)
        shifted = self._binary("shl", a, self.select(inside, b, constant_of(0, b.code, b.lanes)))
        return self.select(inside, shifted, zero)

    def shift_right(self, a: Value, b: Value, /) -> Value:
        """Arithmetic for signed ints; all sign bits where b is negative or not below the bit
        width."""
        a, b = self.align_lanes(a, b)
        inside = self._shift_inside(b)
        if is_signed(a.code):
            last = constant_of(bits_of(a.code) - 1, b.code, b.lanes)
            return self._binary("ashr", a, self.select(inside, b, last))
        zero = constant_of(0, a.code, a.lanes)
        shifted = self._binary("lshr", a, self.select(inside, b, constant_of(0, b.code, b.lanes)))
        return self.select(inside, shifted, zero)

    def _shift_inside(self, amount: Value) -> Value:
        width = constant_of(bits_of(amount.code), amount.code, amount.lanes)
        return self.value(f"icmp ult {amount.operand}, {width.name}", "b1", amount.lanes)

    def shift_bits(self, instruction: str, x: Value, amount: int) -> Value:
        """`shl`, `lshr` or `ashr` by a constant below the bit width."""
        return self._binary(instruction, x, constant_of(amount, x.code, x.lanes))

    def sign_bit(self, x: Value) -> Value:
        """Where the sign bit of a float or int is set, also that of -0.0 and of NaN."""
        code = integer_like(x.code)
        return self.compare("lt", self.bits(x, code), constant_of(0, code, x.lanes))
