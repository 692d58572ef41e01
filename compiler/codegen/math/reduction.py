"""The helper function that reduces large angles modulo pi/2 (Payne and Hanek)."""

from __future__ import annotations

from functools import cache

from tapeline.compiler.codegen.math.coefficients import TWO_OVER_PI
from tapeline.compiler.codegen.math.constants import HALF_PI, rounded
from tapeline.compiler.codegen.parts import ModuleParts
from tapeline.compiler.codegen.values import literal

_NAME = "tl_reduce_angles"
_DIGIT_BITS = 1280
_PADDING = 128
"""Zero bits above the digits of 2/pi, for arguments whose window begins before the first digit."""
_TABLE_BYTES = (_DIGIT_BITS + _PADDING) // 8


def define_reduction(parts: ModuleParts) -> str:
    """Adds the helper to a module and returns its name.

    It is `void (ptr x, ptr q, ptr r, ptr low, i64 n)` and writes, for each of n doubles
    x >= 1024, the number q of quarter turns (int64) and the rest as a sum of two doubles.
    """
    parts.declare("declare double @llvm.fma.f64(double, double, double)")
    parts.define(_NAME, _helper_text())
    return _NAME


@cache
def _helper_text() -> str:
    digits = TWO_OVER_PI.to_bytes(_TABLE_BYTES, "little")
    high = rounded(HALF_PI, 53)
    return _TEXT.format(
        name=_NAME,
        bytes=_TABLE_BYTES,
        items=", ".join(f"i8 {byte}" for byte in digits),
        offset=_PADDING - 1077,
        last=_TABLE_BYTES - 24,
        half=1 << 189,
        high=literal(high, "f8"),
        low=literal(HALF_PI - high, "f8"),
        unit=literal(2.0**-62, "f8"),
        unit_low=literal(2.0**-126, "f8"),
    )


# The 53 bits of x times a window of 192 bits of 2/pi, chosen so that bit 190 of the product counts
# quarter turns. The rest is a signed fraction, whose leading 128 bits are multiplied by pi/2.
_TEXT = """\
@{name}_digits = private unnamed_addr constant [{bytes} x i8] [{items}]
define internal void @{name}(ptr %px, ptr %pq, ptr %pr, ptr %pl, i64 %n) noinline nounwind {{
entry:
  br label %lane
lane:
  %i = phi i64 [ 0, %entry ], [ %next, %lane ]
  %px.i = getelementptr double, ptr %px, i64 %i
  %pq.i = getelementptr i64, ptr %pq, i64 %i
  %pr.i = getelementptr double, ptr %pr, i64 %i
  %pl.i = getelementptr double, ptr %pl, i64 %i
  %bits = load i64, ptr %px.i, align 8
  %biased = lshr i64 %bits, 52
  %exponent = and i64 %biased, 2047
  %fraction = and i64 %bits, 4503599627370495
  %mantissa = or i64 %fraction, 4503599627370496
  %first = add i64 %exponent, {offset}
  %byte = lshr i64 %first, 3
  %shift = and i64 %first, 7
  %place = sub i64 {last}, %byte
  %address = getelementptr i8, ptr @{name}_digits, i64 %place
  %window = load i192, ptr %address, align 1
  %shifted = shl i64 %mantissa, %shift
  %factor = zext i64 %shifted to i192
  %turns = mul i192 %window, %factor
  %nearest = add i192 %turns, {half}
  %whole = lshr i192 %nearest, 190
  %q = trunc i192 %whole to i64
  %whole.back = shl i192 %whole, 190
  %rest = sub i192 %turns, %whole.back
  %lead.wide = lshr i192 %rest, 128
  %lead = trunc i192 %lead.wide to i64
  %follow.wide = lshr i192 %rest, 64
  %follow = trunc i192 %follow.wide to i64
  %lead.f = sitofp i64 %lead to double
  %lead.back = fptosi double %lead.f to i64
  %lead.lost = sub i64 %lead, %lead.back
  %lead.lost.f = sitofp i64 %lead.lost to double
  %follow.f = uitofp i64 %follow to double
  %a = fmul double %lead.f, {unit}
  %b1 = fmul double %lead.lost.f, {unit}
  %b = call double @llvm.fma.f64(double %follow.f, double {unit_low}, double %b1)
  %sum = fadd double %a, %b
  %sum.a = fsub double %sum, %a
  %sum.low = fsub double %b, %sum.a
  %r1 = fmul double %sum, {high}
  %r1.neg = fneg double %r1
  %l1 = call double @llvm.fma.f64(double %sum, double {high}, double %r1.neg)
  %l2 = call double @llvm.fma.f64(double %sum, double {low}, double %l1)
  %l3 = call double @llvm.fma.f64(double %sum.low, double {high}, double %l2)
  %r = fadd double %r1, %l3
  %r.back = fsub double %r, %r1
  %l = fsub double %l3, %r.back
  store i64 %q, ptr %pq.i, align 8
  store double %r, ptr %pr.i, align 8
  store double %l, ptr %pl.i, align 8
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, %n
  br i1 %more, label %lane, label %exit
exit:
  ret void
}}"""
