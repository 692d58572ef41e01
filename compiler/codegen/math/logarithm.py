"""Logarithms, and what is made of log1p.

x is taken apart into 2**k * m. float32: m lies around 1 and a polynomial gives the logarithm of
m = 1 + f. float64: m is first brought near 1 by one of 16 tabled reciprocals, whose logarithms are
almost exactly doubles.
"""

from __future__ import annotations

from fractions import Fraction

from tapeline.compiler.codegen.math.coefficients import LOG_RECIPROCALS, LOG_TABLES
from tapeline.compiler.codegen.math.constants import LN2, LN10, PER_LN2, rounded_down
from tapeline.compiler.codegen.math.exponential import exp, exp2
from tapeline.compiler.codegen.math.floats import Floats
from tapeline.compiler.codegen.values import Value

_HALVED_FROM = 1.46875
_BASES = {
    "log": (Fraction(1), LN2),
    "log2": (PER_LN2, Fraction(1)),
    "log10": (1 / LN10, LN2 / LN10),
}
"""Per function log(e) and log(2) to its base."""


def split_exponent(m: Floats, x: Value) -> tuple[Value, Value]:
    """k and s with `x = 2**k * s`, s in [1, 2): s is NaN where x is below 0 or NaN, k is -inf for 0
    and inf for inf."""
    if m.avx512:
        return m.exponent(x), m.significand(x)
    least = 2.0 ** (1 - m.bias)

    def handle_others(*_: Value) -> list[Value]:
        tiny = m.compare("olt", x, least)
        k, s = _split_normal(m, m.select(tiny, m.mul(x, 2.0**m.mantissa), x))
        k = m.sub(k, m.select(tiny, float(m.mantissa), 0.0))
        zero, infinite = m.compare("oeq", x, 0.0), m.compare("oeq", x, float("inf"))
        k = m.select(infinite, float("inf"), m.select(zero, float("-inf"), k))
        s = m.select(m.either(zero, infinite), 1.0, s)
        return [k, m.select(m.compare("ult", x, 0.0), float("nan"), s)]

    special = m.either(m.compare("ult", x, least), m.compare("oeq", x, float("inf")))
    k, s = m.rare(special, handle_others, _split_normal(m, x))
    return k, s


def _split_normal(m: Floats, x: Value) -> tuple[Value, Value]:
    """`split_exponent` of positive normal numbers."""
    bits = m.to_bits(x)
    biased = m.int_op("lshr", bits, m.mantissa)
    if m.single:
        k = m.b.cast_code(m.int_op("sub", biased, m.bias), m.code)
    else:
        # The bits 0x433... are 2**52 plus an integer; AVX2 cannot convert 64-bit ints.
        k = m.sub(m.from_bits(m.int_op("or", biased, 0x4330000000000000)), 2.0**52 + m.bias)
    fraction = m.int_op("and", bits, (1 << m.mantissa) - 1)
    return k, m.from_bits(m.int_op("or", fraction, m.bias << m.mantissa))


def halve_upper(m: Floats, k: Value, s: Value, limit: float) -> tuple[Value, Value]:
    """k and s with s halved where it is not below the limit."""
    upper = m.compare("oge", s, limit)
    return m.select(upper, m.add(k, 1.0), k), m.select(upper, m.mul(s, 0.5), s)


def table_index(m: Floats, s: Value) -> Value:
    """The number of the sixteenth that s in [1, 2) is nearest to; higher bits are to be ignored."""
    rounded = m.int_op("add", m.to_bits(s), 1 << (m.mantissa - 5))
    return m.int_op("lshr", rounded, m.mantissa - 4)


def _balanced(m: Floats, x: Value) -> tuple[Value, Value]:
    """k and s with `x = 2**k * s`, s in [0.75, 1.5)."""
    if m.avx512:
        s = m.significand(x, balanced=True)
        return m.sub(m.exponent(x), m.exponent(s)), s
    return halve_upper(m, *split_exponent(m, x), 1.5)


def _log_near_one(m: Floats, k: Value, f: Value, base: str) -> Value:
    """float32: the logarithm of 2**k * (1 + f)."""
    scale, log_of_2 = _BASES[base]
    series, square = m.fitted(base, f), m.mul(f, f)
    lead = m.rounded(scale)
    if base == "log":
        return m.fma(k, log_of_2, m.fma(square, series, f))
    if base == "log2":
        rest = m.fma(square, series, m.mul(f, scale - lead))
        return m.add(k, m.fma(f, lead, rest))
    high = rounded_down(log_of_2, 12)
    rest = m.fma(f, scale - lead, m.mul(k, log_of_2 - high))
    return m.fma(k, high, m.fma(f, lead, m.fma(square, series, rest)))


def _tabled(m: Floats, x: Value, base: str) -> tuple[Value, Value, Value, Value]:
    """float64: k, s, a reciprocal close to 1/s and minus its logarithm."""
    k, s = split_exponent(m, x)
    index = table_index(m, s)
    k, s = halve_upper(m, k, s, _HALVED_FROM)
    reciprocal = m.lookup("log_reciprocals", LOG_RECIPROCALS, index)
    return k, s, reciprocal, m.lookup(f"{base}_values", LOG_TABLES[base], index)


def _log_from_table(m: Floats, k: Value, r: Value, tabled: Value, base: str) -> Value:
    """float64: the logarithm of 2**k * c * (1 + r), where that of c is tabled."""
    scale, log_of_2 = _BASES[base]
    series, square = m.fitted(base, r), m.mul(r, r)
    if base == "log2":
        total, rest = m.add(k, tabled), m.mul(square, series)
    else:
        # Rounded down, so that both parts are positive and an infinite k gives no NaN.
        high = rounded_down(log_of_2, 40)
        total = m.fma(k, high, tabled)
        rest = m.fma(square, series, m.mul(k, log_of_2 - high))
    if base == "log":
        return m.add(total, m.add(r, rest))
    lead = m.rounded(scale)
    return m.add(total, m.fma(r, lead, m.fma(r, scale - lead, rest)))


def _logarithm(m: Floats, x: Value, base: str) -> Value:
    if m.single:
        k, s = _balanced(m, x)
        return _log_near_one(m, k, m.sub(s, 1.0), base)
    k, s, reciprocal, tabled = _tabled(m, x, base)
    return _log_from_table(m, k, m.fma(s, reciprocal, -1.0), tabled, base)


def log(m: Floats, x: Value) -> Value:
    """Natural logarithm."""
    return _logarithm(m, x, "log")


def log2(m: Floats, x: Value) -> Value:
    """Logarithm to base 2."""
    return _logarithm(m, x, "log2")


def log10(m: Floats, x: Value) -> Value:
    """Logarithm to base 10."""
    return _logarithm(m, x, "log10")


def log1p(m: Floats, x: Value) -> Value:
    """log(1 + x): the sum only serves to find the scale, the fraction is computed from x."""
    total = m.add(x, 1.0)
    infinity = float("inf")
    if m.single:
        k, s = _balanced(m, total)
        factor = m.scale(m.number(1.0), m.neg(m.clamp(k, -126.0, 128.0)))
    else:
        k, s, reciprocal, tabled = _tabled(m, total, "log")
        factor = m.scale(reciprocal, m.neg(m.clamp(k, -1022.0, 1024.0)))
    f = m.fma(x, factor, m.sub(factor, 1.0))
    f = m.select(m.compare("one", total, infinity), f, 0.0)
    f = m.select(m.compare("olt", s, 2.0), f, float("nan"))
    if m.single:
        return m.copysign(_log_near_one(m, k, f, "log"), x)
    return m.copysign(_log_from_table(m, k, f, tabled, "log"), x)


def softplus(m: Floats, x: Value) -> Value:
    """log(1 + exp(x)) without overflow."""
    positive = m.select(m.compare("olt", x, 0.0), 0.0, x)
    return m.add(positive, log1p(m, exp(m, m.neg(m.abs(x)))))


def logaddexp(m: Floats, a: Value, b: Value) -> Value:
    """log(exp(a) + exp(b)) without overflow."""
    return _log_of_sum(m, a, b, log1p(m, exp(m, _minus_distance(m, a, b))))


def logaddexp2(m: Floats, a: Value, b: Value) -> Value:
    """log2(2**a + 2**b) without overflow."""
    power = exp2(m, _minus_distance(m, a, b))
    return _log_of_sum(m, a, b, m.mul(log1p(m, power), PER_LN2))


def _minus_distance(m: Floats, a: Value, b: Value) -> Value:
    """-|a - b|, 0 for equal infinities."""
    difference = m.select(m.compare("oeq", a, b), 0.0, m.sub(a, b))
    return m.neg(m.abs(difference))


def _log_of_sum(m: Floats, a: Value, b: Value, above: Value) -> Value:
    greater = m.select(m.compare("ogt", a, b), a, b)
    return m.add(greater, above)


def arcsinh(m: Floats, x: Value) -> Value:
    """Inverse hyperbolic sine."""
    a = m.abs(x)
    limit = 2.0 ** m.pick(40, 300)
    large = m.compare("ogt", a, limit)
    c = m.at_most(a, limit)
    square = m.mul(c, c)
    root = m.add(m.sqrt(m.add(square, 1.0)), 1.0)
    t = m.add(c, m.div(square, root))
    result = m.add(log1p(m, m.select(large, a, t)), m.select(large, LN2, 0.0))
    return m.copysign(result, x)


def arccosh(m: Floats, x: Value) -> Value:
    """Inverse hyperbolic cosine, log1p(t + sqrt(t**2 + 2t)) of t = x - 1."""
    limit = 2.0 ** m.pick(40, 300)
    large = m.compare("ogt", x, limit)
    t = m.sub(m.at_most(x, limit), 1.0)
    square = m.fma(t, t, m.add(t, t))
    root = m.sqrt(square)
    total = m.add(t, root)
    # What rounding took from the root and from the sum goes in by the derivative of log1p.
    lost_root = m.div(m.mul(m.fma(m.neg(root), root, square), 0.5), root)
    lost = m.add(m.sub(t, m.sub(total, root)), m.select(m.compare("ogt", t, 0.0), lost_root, 0.0))
    correction = m.div(lost, m.add(total, 1.0))
    result = m.add(log1p(m, m.select(large, x, total)), m.select(large, LN2, correction))
    return m.select(m.compare("olt", x, 1.0), float("nan"), result)


def arctanh(m: Floats, x: Value) -> Value:
    """Inverse hyperbolic tangent, log1p(2a + 2a * a / (1 - a)) / 2."""
    a = m.at_most(m.abs(x), 2.0)
    twice = m.add(a, a)
    t = m.fma(twice, m.div(a, m.sub(1.0, a)), twice)
    return m.copysign(m.mul(log1p(m, t), 0.5), x)
