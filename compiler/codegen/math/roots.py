"""Roots: rsqrt, cbrt, hypot."""

from __future__ import annotations

from fractions import Fraction

from tapeline.compiler.codegen.math.floats import Floats
from tapeline.compiler.codegen.math.logarithm import split_exponent
from tapeline.compiler.codegen.values import Value

_THIRD = Fraction(1, 3)


def rsqrt(m: Floats, x: Value) -> Value:
    """1 / sqrt(x)."""
    return m.div(1.0, m.sqrt(x))


def cbrt(m: Floats, x: Value) -> Value:
    """Cube root: an approximation of the reciprocal root, corrected without a division."""
    a = m.abs(x)
    k, s = split_exponent(m, a)
    third = m.sub(m.add(m.fma(k, _THIRD, -_THIRD), m.magic), m.magic)
    rest = m.fma(third, -3.0, k)  # 0, 1 or 2
    scaled = m.scale(s, rest)
    root = m.horner(s, m.coefficients("inverse_cbrt"))
    by_two = m.select(m.compare("oeq", rest, 1.0), 2 ** (-1 / 3), 1.0)
    root = m.mul(root, m.select(m.compare("oeq", rest, 2.0), 2 ** (-2 / 3), by_two))
    if not m.single:
        cube = m.mul(m.mul(root, root), root)
        root = m.fma(m.mul(root, _THIRD), m.fma(m.neg(scaled), cube, 1.0), root)
    square = m.mul(root, root)
    y = m.mul(scaled, square)
    y = m.fma(m.mul(square, _THIRD), m.fma(m.neg(m.mul(y, y)), y, scaled), y)
    usual = m.both(m.compare("ogt", a, 0.0), m.compare("olt", a, float("inf")))
    return m.copysign(m.select(usual, m.scale(y, third), a), x)


def hypot(m: Floats, x: Value, y: Value) -> Value:
    """sqrt(x**2 + y**2) without overflow or underflow on the way."""
    a, b = m.abs(x), m.abs(y)
    swapped = m.compare("olt", a, b)
    greater, lesser = m.select(swapped, b, a), m.select(swapped, a, b)
    large = m.compare("ogt", greater, 2.0 ** (m.bias // 2 - 1))
    small = m.compare("olt", greater, 2.0 ** -(m.bias // 4))
    step = m.pick(90, 700)
    down = m.select(large, 2.0**-step, m.select(small, 2.0**step, 1.0))
    up = m.select(large, 2.0**step, m.select(small, 2.0**-step, 1.0))
    greater, lesser = m.mul(greater, down), m.mul(lesser, down)
    result = m.mul(m.sqrt(m.fma(greater, greater, m.mul(lesser, lesser))), up)
    infinite = m.either(m.compare("oeq", a, float("inf")), m.compare("oeq", b, float("inf")))
    return m.select(infinite, float("inf"), result)
