"""erf and tanh by 16 segments: every lane takes its segment's coefficients from tables that stay in
registers, without exp and without a division.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from tapeline.compiler.codegen.math.coefficients import SEGMENTS
from tapeline.compiler.codegen.math.exponential import tanh_by_exp
from tapeline.compiler.codegen.math.floats import Floats
from tapeline.compiler.codegen.values import Value


def _chain(m: Floats, x: Value, terms: Sequence[Value]) -> Value:
    """The polynomial with these coefficients, the lowest first."""
    result = terms[-1]
    for term in terms[-2::-1]:
        result = m.fma(x, result, term)
    return result


def _saturating(m: Floats, name: str, x: Value, spacing: Fraction) -> Value:
    """An odd function that is constant from segment 16 on."""
    a = m.at_most(m.abs(x), float(Fraction(15499, 1000) * spacing))
    index = m.to_bits(m.fma(a, 1 / spacing, m.magic))
    rows = SEGMENTS[f"{name}_{m.code}"]
    *terms, centre = (
        m.lookup(f"{name}{number}", values, index) for number, values in enumerate(rows)
    )
    t = m.sub(a, centre)
    square = m.mul(t, t)
    series = m.fma(t, _chain(m, square, terms[2::2]), _chain(m, square, terms[1::2]))
    # Segment 0 is x + x * P(x), so that it is exact to the last digits near 0.
    lead = m.select(m.compare("olt", a, float(spacing / 2)), t, terms[0])
    return m.copysign(m.fma(t, series, lead), x)


def erf(m: Floats, x: Value) -> Value:
    """The error function."""
    return _saturating(m, "erf", x, m.pick(Fraction(33, 128), Fraction(25, 64)))


def tanh(m: Floats, x: Value) -> Value:
    """Hyperbolic tangent; by exp where that is faster."""
    if m.single and m.avx512:
        return _saturating(m, "tanh", x, Fraction(37, 64))
    return tanh_by_exp(m, x)
