"""exp and what is made of it.

The argument is reduced by multiples of log(2), which are rounded by adding a magic number and
subtracted in two parts (Cody and Waite); a polynomial gives exp of the rest, and the multiple
becomes the exponent.
"""

from __future__ import annotations

from tapeline.compiler.codegen.math.constants import LN2, PER_LN2, rounded
from tapeline.compiler.codegen.math.floats import Floats
from tapeline.compiler.codegen.values import Value


def exp_limits(m: Floats) -> tuple[float, float]:
    """Beyond these exp is 0 or infinite."""
    limits: tuple[float, float] = m.pick((-104.0, 89.0), (-746.0, 710.0))
    return limits


def reduce_exp(m: Floats, x: Value) -> tuple[Value, Value, Value]:
    """n and r with `x = n * log(2) + r`, |r| at most about log(2)/2, and r before its last
    correction."""
    high = rounded(LN2, m.pick(15, 40))
    n = m.sub(m.fma(x, PER_LN2, m.magic), m.magic)
    partial = m.fma(n, -high, x)
    return n, m.fma(n, -(LN2 - high), partial), partial


def expm1_reduced(m: Floats, r: Value, low: Value | None = None) -> Value:
    """exp(r + low) - 1 for a reduced argument."""
    square = m.mul(r, r)
    series = m.fitted("exp", r)
    if low is None:
        return m.fma(square, series, r)
    return m.add(r, m.fma(square, series, low))


def exp(m: Floats, x: Value) -> Value:
    """e to the power of x."""
    n, r, _ = reduce_exp(m, m.clamp(x, *exp_limits(m)))
    return m.scale(m.add(expm1_reduced(m, r), 1.0), n)


def exp2(m: Floats, x: Value) -> Value:
    """2 to the power of x."""
    x = m.clamp(x, *m.pick((-151.0, 129.0), (-1076.0, 1025.0)))
    n = m.sub(m.add(x, m.magic), m.magic)
    r = m.sub(x, n)
    return m.scale(m.fma(r, m.fitted("exp2", r), 1.0), n)


def expm1(m: Floats, x: Value) -> Value:
    """exp(x) - 1, exact to the last digits near 0 too."""
    inside = m.clamp(x, *m.pick((-25.0, 89.0), (-50.0, 710.0)))
    n, r, partial = reduce_exp(m, inside)
    low = None
    if not m.single:
        high = rounded(LN2, 40)
        low = m.fma(n, -(LN2 - high), m.sub(partial, r))
    power = m.scale(m.number(1.0), m.neg(n))
    return m.copysign(m.scale(m.add(expm1_reduced(m, r, low), m.sub(1.0, power)), n), x)


def sigmoid(m: Floats, x: Value) -> Value:
    """1 / (1 + exp(-x)), with the rounding error of the sum put back."""
    u = exp(m, m.neg(m.abs(x)))
    negative = m.compare("olt", x, 0.0)
    total = m.add(u, 1.0)
    lost = m.sub(u, m.sub(total, 1.0))
    ratio = m.div(m.select(negative, u, 1.0), total)
    factor = m.select(negative, m.sub(1.0, ratio), ratio)
    return m.fma(m.mul(ratio, m.neg(lost)), factor, ratio)


def half_exp(m: Floats, x: Value) -> Value:
    """exp(x) / 2, finite wherever that is."""
    n, r, _ = reduce_exp(m, m.at_most(x, exp_limits(m)[1] + 1.5))
    return m.scale(m.add(expm1_reduced(m, r), 1.0), m.sub(n, 1.0))


def cosh(m: Floats, x: Value) -> Value:
    """Hyperbolic cosine."""
    half = half_exp(m, m.abs(x))
    return m.add(half, m.div(0.25, half))


def sinh(m: Floats, x: Value) -> Value:
    """Hyperbolic sine: an odd polynomial below 1."""
    a = m.abs(x)
    half = half_exp(m, a)
    large = m.sub(half, m.div(0.25, half))
    square = m.mul(a, a)
    small = m.fma(m.mul(a, square), m.fitted("sinh", square), a)
    return m.copysign(m.select(m.compare("olt", a, 1.0), small, large), x)


def tanh_by_exp(m: Floats, x: Value) -> Value:
    """Hyperbolic tangent: an odd polynomial below 0.55, else 1 - 2 / (exp(2|x|) + 1)."""
    a = m.at_most(m.abs(x), m.pick(10.0, 20.0))
    n, r, _ = reduce_exp(m, m.add(a, a))
    power = m.scale(m.add(expm1_reduced(m, r), 1.0), n)
    large = m.sub(1.0, m.div(2.0, m.add(power, 1.0)))
    square = m.mul(a, a)
    small = m.fma(m.mul(a, square), m.fitted("tanh", square), a)
    return m.copysign(m.select(m.compare("olt", a, 0.55), small, large), x)
