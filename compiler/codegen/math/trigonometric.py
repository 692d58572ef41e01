"""sin, cos and tan.

|x| is reduced by multiples of pi/2 in three parts (Cody and Waite). Where some lane is too large
for that, a helper reduces by as many digits of 2/pi as it takes (Payne and Hanek).
"""

from __future__ import annotations

from tapeline.compiler.codegen.math.constants import HALF_PI, TWO_PER_PI
from tapeline.compiler.codegen.math.floats import Floats
from tapeline.compiler.codegen.math.reduction import define_reduction
from tapeline.compiler.codegen.values import Value


def _reduce(m: Floats, x: Value, *, low: bool = False) -> tuple[Value, Value, Value | None]:
    """q, r and a correction to r with `|x| = q * pi/2 + r`, |r| at most pi/4; q is right modulo 4.
    The correction is computed if asked for, and else None."""
    a = m.abs(x)
    near = m.fma(a, TWO_PER_PI, m.magic)
    n, q = m.sub(near, m.magic), m.to_bits(near)
    first, second, third = m.parts(HALF_PI, 3)
    rest = m.fma(n, -first, a)  # exact
    values = [q, m.fma(n, -third, m.fma(n, -second, rest))]
    if low:
        product = m.mul(n, second)
        lost = m.fma(n, second, m.neg(product))
        high = m.sub(rest, product)
        below = m.sub(m.sub(m.sub(rest, high), product), lost)
        below = m.fma(n, -third, below)
        values[1] = m.add(high, below)
        values.append(m.sub(below, m.sub(values[1], high)))
    large = m.compare("ugt", a, 2.0 ** m.pick(16, 27))

    def reduce_large(*fast: Value) -> list[Value]:
        finite = m.both(large, m.compare("olt", a, float("inf")))
        # The helper's table ends where smaller arguments would look.
        exact = _reduce_large(m, m.select(finite, a, 2.0**30))
        results = [m.b.select(finite, exact[0], fast[0])]
        results.append(m.select(finite, exact[1], m.select(large, float("nan"), fast[1])))
        if low:
            results.append(m.select(finite, exact[2], m.select(large, 0.0, fast[2])))
        return results

    values = m.rare(large, reduce_large, values)
    return values[0], values[1], values[2] if low else None


def _reduce_large(m: Floats, a: Value) -> tuple[Value, Value, Value]:
    name = define_reduction(m.b.parts)
    argument = m.b.cast_code(a, "f8")
    q, r, low = m.b.call_per_lane(name, [argument], ["i8", "f8", "f8"])
    if not m.single:
        return q, r, low
    lead = m.b.cast_code(r, "f4")
    below = m.b.sub(r, m.b.cast_code(lead, "f8"))
    return m.b.cast_code(q, "i4"), lead, m.b.cast_code(below, "f4")


def _sine_cosine(m: Floats, r: Value) -> tuple[Value, Value]:
    square = m.mul(r, r)
    sine = m.fma(m.mul(r, square), m.horner(square, m.coefficients("sin")), r)
    inner = m.fma(square, m.horner(square, m.coefficients("cos")), -0.5)
    return sine, m.fma(square, inner, 1.0)


def _sign_of_half_turns(m: Floats, q: Value) -> Value:
    """A sign bit where q modulo 4 is 2 or 3."""
    return m.int_op("and", m.int_op("shl", q, m.bits - 2), -(1 << (m.bits - 1)))


def sin(m: Floats, x: Value) -> Value:
    """Sine."""
    q, r, _ = _reduce(m, x)
    sine, cosine = _sine_cosine(m, r)
    sign = m.int_op("xor", _sign_of_half_turns(m, q), m.sign_of(x))
    return m.flip_sign(m.select(m.is_odd(q), cosine, sine), sign)


def cos(m: Floats, x: Value) -> Value:
    """Cosine, the sine a quarter turn on."""
    q, r, _ = _reduce(m, x)
    q = m.int_op("add", q, 1)
    sine, cosine = _sine_cosine(m, r)
    return m.flip_sign(m.select(m.is_odd(q), cosine, sine), _sign_of_half_turns(m, q))


def tan(m: Floats, x: Value) -> Value:
    """Tangent, or minus the reciprocal of that of the rest after an odd number of quarter turns."""
    q, r, low = _reduce(m, x, low=True)
    assert low is not None
    odd, square = m.is_odd(q), m.mul(r, r)
    tail = m.fma(m.mul(r, square), m.fitted("tan", square), low)
    tangent = m.add(r, tail)
    ratio = m.div(m.select(odd, 1.0, tangent), m.select(odd, tangent, 1.0))
    # Just above pi/4 the reciprocal has half the unit of the tangent: what the sum lost counts.
    lost = m.add(m.sub(r, tangent), tail)
    ratio = m.fma(m.mul(ratio, ratio), m.select(odd, m.neg(lost), 0.0), ratio)
    sign = m.int_op("xor", m.int_op("shl", q, m.bits - 1), m.sign_of(x))
    return m.flip_sign(ratio, sign)
