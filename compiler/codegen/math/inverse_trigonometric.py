"""arcsin, arccos, arctan and arctan2."""

from __future__ import annotations

import math

from tapeline.compiler.codegen.math.constants import HALF_PI, PI
from tapeline.compiler.codegen.math.floats import Floats
from tapeline.compiler.codegen.values import Value


def _arcsin_terms(m: Floats, x: Value) -> tuple[Value, Value, Value, Value]:
    """Where |x| > 0.5; z, s and P with arcsin(s) = s + s * z * P, s being |x| or, above 0.5,
    sqrt((1 - |x|) / 2)."""
    a = m.abs(x)
    upper = m.compare("ogt", a, 0.5)
    z = m.select(upper, m.fma(a, -0.5, 0.5), m.mul(a, a))
    s = m.select(upper, m.sqrt(z), a)
    return upper, z, s, m.fitted("arcsin", z)


def arcsin(m: Floats, x: Value) -> Value:
    """Inverse sine."""
    upper, z, s, series = _arcsin_terms(m, x)
    high, low = m.parts(HALF_PI, 2)
    product = m.mul(s, z)
    lead = m.fma(s, -2.0, high)
    lost = m.add(m.fma(s, -2.0, m.sub(high, lead)), low)
    large = m.add(lead, m.fma(m.mul(product, -2.0), series, lost))
    return m.copysign(m.select(upper, large, m.fma(product, series, s)), x)


def arccos(m: Floats, x: Value) -> Value:
    """Inverse cosine."""
    upper, z, s, series = _arcsin_terms(m, x)
    high, low = m.parts(HALF_PI, 2)
    t = m.fma(m.mul(s, z), series, s)
    small = m.add(m.sub(low, m.copysign(t, x)), high)
    twice = m.add(t, t)
    negative = m.compare("olt", x, 0.0)
    large = m.select(negative, m.add(m.sub(2 * low, twice), 2 * high), twice)
    return m.select(upper, large, small)


def _quadrant_arctan(m: Floats, y: Value, x: Value) -> tuple[Value, Value]:
    """Two parts of arctan(y / x) for y, x >= 0, the first one being 0, pi/4 or pi/2. One division
    serves all cases."""
    high_case = m.compare("ogt", y, m.mul(x, math.sqrt(2) + 1))
    middle = m.compare("ogt", y, m.mul(x, math.sqrt(2) - 1))
    upper = m.select(high_case, m.neg(x), m.select(middle, m.sub(y, x), y))
    lower = m.select(high_case, y, m.select(middle, m.add(y, x), x))
    t = m.div(upper, lower)
    z = m.mul(t, t)
    high, low = m.parts(HALF_PI, 2)
    base = m.select(high_case, high, m.select(middle, high / 2, 0.0))
    below = m.select(high_case, low, m.select(middle, low / 2, 0.0))
    return base, m.add(t, m.fma(m.mul(t, z), m.fitted("arctan", z), below))


def arctan(m: Floats, x: Value) -> Value:
    """Inverse tangent."""
    base, rest = _quadrant_arctan(m, m.abs(x), m.number(1.0))
    return m.copysign(m.add(base, rest), x)


def arctan2(m: Floats, y: Value, x: Value) -> Value:
    """The angle of the point (x, y)."""
    ay, ax = m.abs(y), m.abs(x)
    least, most = 2.0 ** -(m.bias - 30), 2.0 ** (m.bias - 3)
    huge = m.either(m.compare("ogt", ay, most), m.compare("ogt", ax, most))

    def scale_down(ay: Value, ax: Value) -> list[Value]:
        infinity = float("inf")
        infinite = m.both(m.compare("oeq", ax, infinity), m.compare("oeq", ay, infinity))
        zero = m.both(m.compare("oeq", ay, 0.0), m.compare("oeq", ax, 0.0))
        factor = m.select(huge, 0.125, 1.0)
        ay = m.select(infinite, 1.0, ay)
        ax = m.select(m.either(infinite, zero), 1.0, ax)
        return [m.mul(ay, factor), m.mul(ax, factor)]

    ay, ax = m.rare(m.either(huge, m.compare("olt", ax, least)), scale_down, [ay, ax])
    base, rest = _quadrant_arctan(m, ay, ax)
    high, low = m.parts(PI, 2)
    left = m.add(m.sub(high, base), m.sub(low, rest))
    return m.copysign(m.select(m.b.sign_bit(x), left, m.add(base, rest)), y)
