"""Division with a remainder by NumPy's rules: the quotient is rounded down, the remainder has the
sign of the divisor. No operands trap.
"""

from __future__ import annotations

import numpy as np

from tapeline.compiler.codegen.memory import Memory
from tapeline.compiler.codegen.values import (
    Value,
    bits_of,
    constant_of,
    dtype_of,
    is_float,
    is_signed,
    size_of,
    suffix_of,
    type_of,
)


class Division(Memory):
    """`floor_divide` and `remainder`."""

    __slots__ = ()

    def floor_divide(self, a: Value, b: Value, /) -> Value:
        """NumPy's `//`; 0 where an int is divided by 0."""
        a, b = self.align_lanes(a, b)
        return self._float_floor_divide(a, b) if is_float(a.code) else self._int_divmod(a, b)[0]

    def remainder(self, a: Value, b: Value, /) -> Value:
        """NumPy's `%`; 0 where an int is divided by 0."""
        a, b = self.align_lanes(a, b)
        if not is_float(a.code):
            return self._int_divmod(a, b)[1]
        by_zero = self.compare("eq", b, self.const(0, b))
        modulus = self._float_divmod(a, b)[1]
        return self.select(by_zero, self.const(float("nan"), b), modulus)

    def truncated_remainder(self, a: Value, b: Value) -> Value:
        """C's `fmod`, exactly: the remainder has the sign of `a`."""
        a, b = self.align_lanes(a, b)
        code = a.code
        x, y = self.abs(a), self.abs(b)
        quotient = self.trunc(self.div(x, y))
        rest = self.fma(self.neg(quotient), y, x)
        # The quotient may have been rounded up to the next integer; the remainder is exact in both
        # cases, as long as all integers up to the quotient are floats.
        rest = self.select(self.compare("lt", rest, self.const(0, a)), self.add(rest, y), rest)
        infinity = self.const(float("inf"), a)
        rest = self.select(self.compare("eq", y, infinity), x, rest)
        limit = self.const(2.0 ** (22 if code == "f4" else 51), a)
        far = self.float_compare("oge", quotient, limit)

        def reduce(fast: Value) -> list[Value]:
            solvable = self.bit_and(
                self.compare("lt", x, infinity), self.compare("gt", y, self.const(0, y))
            )
            needed = self.bit_and(far, solvable)
            one = self.const(1, a)
            safe = [self.select(needed, x, one), self.select(needed, y, one)]
            self._define_far_remainder(code)
            slow = self.call_per_lane(f"tl_fmod_{code}", safe, [code])[0]
            invalid = self.select(far, self.const(float("nan"), a), fast)
            return [self.select(needed, slow, invalid)]

        rest = self.rare(far, reduce, [rest])[0]
        invalid = self.bit_or(self.is_nan(b), self.float_compare("uge", x, infinity))
        rest = self.select(invalid, self.const(float("nan"), a), rest)
        return self.copysign(rest, a)

    def call_per_lane(
        self, function: str, arguments: list[Value], results: list[str]
    ) -> list[Value]:
        """Calls a helper `void @function(ptr in, ..., ptr out, ..., i64 n)` that handles n elements
        of each; for rare branches only, since values pass through memory."""
        lanes = arguments[0].lanes
        pointers = [self.stack(x.type) for x in arguments]
        outputs = [self.stack(type_of(code, lanes)) for code in results]
        for x, pointer in zip(arguments, pointers, strict=True):
            self.line(f"store {x.operand}, ptr {pointer}, align 64")
        texts = [("ptr", pointer) for pointer in pointers + outputs] + [("i64", str(lanes))]
        self.line(self.raw_call("void", function, *texts, declare=False))
        return [
            self.value(f"load {type_of(code, lanes)}, ptr {pointer}, align 64", code, lanes)
            for code, pointer in zip(results, outputs, strict=True)
        ]

    # ---- ints

    def _int_divmod(self, a: Value, b: Value) -> tuple[Value, Value]:
        zero, one = self.const(0, a), self.const(1, a)
        by_zero = self.compare("eq", b, zero)
        unsafe = by_zero
        if is_signed(a.code):
            least = self.const(-(1 << (bits_of(a.code) - 1)), a)
            wraps = self.bit_and(
                self.compare("eq", a, least), self.compare("eq", b, self.const(-1, b))
            )
            unsafe = self.bit_or(by_zero, wraps)
        divisor = self.select(unsafe, one, b)
        quotient = self._int_quotient(a, divisor)
        rest = self.sub(a, self.mul(quotient, divisor))
        if is_signed(a.code):
            differs = self.compare("lt", self.bit_xor(rest, divisor), zero)
            adjust = self.bit_and(differs, self.compare("ne", rest, zero))
            quotient = self.select(adjust, self.sub(quotient, one), quotient)
            rest = self.select(adjust, self.add(rest, divisor), rest)
            # The least int by -1 was divided by 1: the quotient has wrapped around as it should.
        return self.select(by_zero, zero, quotient), self.select(by_zero, zero, rest)

    def _int_quotient(self, a: Value, divisor: Value) -> Value:
        """The truncated quotient; through floats where those are wide enough to be exact, since
        there is no vector instruction for ints."""
        if a.lanes == 1 or size_of(a.code) == 8:
            return self._binary("sdiv" if is_signed(a.code) else "udiv", a, divisor)
        code = "f8" if size_of(a.code) == 4 else "f4"
        ratio = self.div(self.cast_code(a, code), self.cast_code(divisor, code))
        if a.code == "u4":
            wide = self.value(f"fptoui {ratio.operand} to {a.type}", a.code, a.lanes)
            return wide
        whole = self.value(f"fptosi {ratio.operand} to {type_of('i4', a.lanes)}", "i4", a.lanes)
        return self.cast_code(whole, a.code)

    # ---- floats

    def _float_divmod(self, a: Value, b: Value) -> tuple[Value, Value]:
        """Quotient before it is rounded, and remainder, where b is not 0."""
        zero = self.const(0, a)
        modulus = self.truncated_remainder(a, b)
        quotient = self.div(self.sub(a, modulus), b)
        nonzero = self.float_compare("une", modulus, zero)
        negative, below = self.compare("lt", b, zero), self.compare("lt", modulus, zero)
        adjust = self.bit_and(nonzero, self.bit_xor(negative, below))
        quotient = self.select(adjust, self.sub(quotient, self.const(1, a)), quotient)
        shifted = self.select(adjust, self.add(modulus, b), modulus)
        return quotient, self.select(nonzero, shifted, self.copysign(zero, b))

    def _float_floor_divide(self, a: Value, b: Value) -> Value:
        zero = self.const(0, a)
        exact = self._float_divmod(a, b)[0]
        ratio = self.div(a, b)
        floor = self.floor(exact)
        above = self.compare("gt", self.sub(exact, floor), self.const(0.5, a))
        floor = self.select(above, self.add(floor, self.const(1, a)), floor)
        rounded = self.select(
            self.float_compare("une", exact, zero), floor, self.copysign(zero, ratio)
        )
        largest = self.const(float(np.finfo(dtype_of(a.code)).max), a)
        finite = self.bit_and(
            self.compare("le", self.abs(a), largest), self.compare("le", self.abs(b), largest)
        )
        rounded = self.select(finite, rounded, self.floor(ratio))
        return self.select(self.compare("eq", b, zero), ratio, rounded)

    def _define_far_remainder(self, code: str) -> None:
        kind, size = type_of(code), size_of(code)
        half, zero = constant_of(0.5, code).name, constant_of(0, code).name
        name = f"tl_fmod_{code}"
        self.parts.declare(f"declare {kind} @llvm.fma.{suffix_of(code)}({kind}, {kind}, {kind})")
        self.parts.define(name, _FAR_REMAINDER.format(
            name=name, kind=kind, size=size, half=half, zero=zero
        ))  # fmt: skip


_FAR_REMAINDER = """\
define internal void @{name}(ptr %a, ptr %b, ptr %out, i64 %n) noinline nounwind {{
entry:
  br label %lane
lane:
  %i = phi i64 [ 0, %entry ], [ %next, %done ]
  %pa = getelementptr {kind}, ptr %a, i64 %i
  %pb = getelementptr {kind}, ptr %b, i64 %i
  %po = getelementptr {kind}, ptr %out, i64 %i
  %x = load {kind}, ptr %pa, align {size}
  %y = load {kind}, ptr %pb, align {size}
  %half = fmul {kind} %x, {half}
  br label %grow
grow:
  %t = phi {kind} [ %y, %lane ], [ %t2, %grow ]
  %t2 = fadd {kind} %t, %t
  %more = fcmp ole {kind} %t2, %half
  br i1 %more, label %grow, label %shrink
shrink:
  %u = phi {kind} [ %t2, %grow ], [ %u2, %shrink ]
  %r = phi {kind} [ %x, %grow ], [ %r2, %shrink ]
  %fits = fcmp oge {kind} %r, %u
  %part = select i1 %fits, {kind} %u, {kind} {zero}
  %r2 = fsub {kind} %r, %part
  %u2 = fmul {kind} %u, {half}
  %again = fcmp ogt {kind} %u, %y
  br i1 %again, label %shrink, label %done
done:
  store {kind} %r2, ptr %po, align {size}
  %next = add i64 %i, 1
  %left = icmp ult i64 %next, %n
  br i1 %left, label %lane, label %exit
exit:
  ret void
}}"""
