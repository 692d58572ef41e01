"""x to the power of y: exp(y * log|x|) with the logarithm and the product in two floats each."""

from __future__ import annotations

from tapeline.compiler.codegen.math.coefficients import POWER_TABLES
from tapeline.compiler.codegen.math.constants import LN2
from tapeline.compiler.codegen.math.exponential import exp_limits, expm1_reduced, reduce_exp
from tapeline.compiler.codegen.math.floats import Floats
from tapeline.compiler.codegen.math.logarithm import halve_upper, split_exponent, table_index
from tapeline.compiler.codegen.values import Value

_HALVED_FROM = 1.46875


def _fast_two_sum(m: Floats, a: Value, b: Value) -> tuple[Value, Value]:
    """a + b and what rounding took from it, where |a| >= |b| or a is 0."""
    total = m.add(a, b)
    return total, m.sub(b, m.sub(total, a))


def _log(m: Floats, x: Value) -> tuple[Value, Value]:
    """log(x) of a positive number as a sum of two floats."""
    k, s = split_exponent(m, x)
    index = table_index(m, s)
    k, s = halve_upper(m, k, s, _HALVED_FROM)
    reciprocal, lead, rest = (
        m.lookup(f"power{number}", values, index)
        for number, values in enumerate(POWER_TABLES[m.code])
    )
    product = m.mul(s, reciprocal)
    lost = m.fma(s, reciprocal, m.neg(product))
    r = m.sub(product, 1.0)
    bits = 2 ** m.pick(15, 41)
    high = (LN2 * bits).__floor__() / type(LN2)(bits)
    total, error_r = _fast_two_sum(m, m.fma(k, high, lead), r)
    half = m.mul(r, -0.5)
    square = m.mul(r, half)
    square_lost = m.fma(r, half, m.neg(square))
    total, error_square = _fast_two_sum(m, total, square)
    low = m.fma(k, LN2 - high, rest)
    low = m.add(low, m.add(error_r, m.add(error_square, square_lost)))
    low = m.add(low, m.fma(m.neg(lost), r, lost))
    low = m.fma(m.mul(m.mul(r, r), r), m.fitted("power", r), low)
    return _fast_two_sum(m, total, low)


def _exp(m: Floats, high: Value, low: Value) -> Value:
    """exp(high + low) where |low| is below the precision of high."""
    n, r, _ = reduce_exp(m, high)
    return m.scale(m.add(expm1_reduced(m, m.add(r, low)), 1.0), n)


def _fix_sign(m: Floats, x: Value, y: Value, result: Value) -> Value:
    """The result for a negative x, given that for |x|; and NaN for NaN."""
    a = m.abs(x)
    negative = m.b.sign_bit(x)
    integral = m.compare("oeq", m.b.rint(y), y)
    half = m.mul(y, 0.5)
    odd = m.both(integral, m.compare("one", m.b.rint(half), half))
    result = m.select(m.both(negative, odd), m.neg(result), result)
    between = m.both(m.compare("ogt", a, 0.0), m.compare("olt", a, float("inf")))
    undefined = m.both(m.both(negative, m.b.bit_not(integral)), between)
    result = m.select(undefined, float("nan"), result)
    missing = m.both(m.compare("uno", y, y), m.compare("une", x, 1.0))
    return m.select(missing, float("nan"), result)


def power(m: Floats, x: Value, y: Value) -> Value:
    """x to the power of y, with the special cases of C's `pow`."""
    a = m.abs(x)
    log_high, log_low = _log(m, a)
    high = m.mul(y, log_high)
    low = m.fma(y, log_low, m.fma(y, log_high, m.neg(high)))

    def handle_others(_: Value) -> list[Value]:
        infinity = float("inf")
        one = m.either(m.compare("oeq", y, 0.0), m.compare("oeq", a, 1.0))
        zero = m.compare("oeq", a, 0.0)
        extreme = m.either(zero, m.compare("oeq", a, infinity))
        exact = m.select(extreme, m.mul(y, m.select(zero, float("-inf"), a)), high)
        direction = m.select(extreme, m.select(zero, -1.0, 1.0), log_high)
        infinite_y = m.compare("oeq", m.abs(y), infinity)
        exact = m.select(infinite_y, m.mul(y, direction), exact)
        exact = m.select(one, 0.0, exact)
        bounded = m.clamp(exact, *exp_limits(m))
        unchanged = m.both(m.compare("oeq", bounded, high), m.compare("ord", low, low))
        result = _exp(m, bounded, m.select(unchanged, low, 0.0))
        return [_fix_sign(m, x, y, result)]

    extreme = m.compare("uge", m.abs(high), m.pick(87.0, 708.0))
    special = m.either(m.b.sign_bit(x), extreme)
    return m.rare(special, handle_others, [_exp(m, high, low)])[0]
