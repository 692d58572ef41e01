"""Functions of complex numbers, in terms of the real ones: infinities, NaN and signs of zero as C's
annex G and NumPy have them.

Each takes a builder and the two parts of its argument, floats of one dtype, and gives two parts.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from tapeline.runtime.op import Predicate

Real: TypeAlias = Any
Parts: TypeAlias = tuple[Real, Real]
_INT = np.dtype(np.int32)

_LARGEST_EXPONENT = {4: 88.0, 8: 709.0}
"""Up to here e to that power is finite."""
_FLAT_TANH = {4: 11.0, 8: 22.0}
"""From here on tanh is 1 but for what is rounded off."""
_LEAST = {4: 2.0**-60, 8: 2.0**-500}
_LARGEST = {4: 2.0**120, 8: 2.0**1000}
"""Beyond these a sum of squares loses digits or overflows."""
_STEP = {4: 2.0**64, 8: 2.0**600}


class Reals:
    """A builder, and words for the choices that these functions make."""

    def __init__(self, b: Any, like: Real) -> None:
        self.b = b
        self.like = like
        self.size: int = b.dtype_of(like).itemsize

    def number(self, value: float) -> Real:
        """A constant."""
        return self.b.const(value, self.like)

    def times(self, x: Real, factor: float) -> Real:
        """A product with a constant."""
        return self.b.mul(x, self.number(factor))

    def call(self, name: str, *args: Real) -> Real:
        """A function of the math library."""
        return self.b.call(name, *args)

    def compare(self, predicate: Predicate, x: Real, value: float) -> Real:
        """A comparison with a constant."""
        return self.b.compare(predicate, x, self.number(value))

    def is_infinite(self, x: Real) -> Real:
        """Where x is an infinity of either sign."""
        return self.compare("eq", self.b.abs(x), math.inf)

    def is_odd(self, x: Real) -> Real:
        """Where x is an infinity or NaN."""
        return self.compare("ne", self.b.sub(x, x), 0.0)

    def both(self, x: Real, y: Real) -> Real:
        """Where both hold."""
        return self.b.bit_and(x, y)


def exponential(b: Any, x: Real, y: Real) -> Parts:
    """e to the power of x + iy."""
    r = Reals(b, x)
    limit = _LARGEST_EXPONENT[r.size]
    large = r.compare("gt", x, limit)
    power = r.call("exp", b.select(large, b.sub(x, r.number(limit)), x))
    scale = b.select(large, r.number(math.exp(limit)), r.number(1.0))
    real = b.mul(b.mul(power, r.call("cos", y)), scale)
    imag = b.mul(b.mul(power, r.call("sin", y)), scale)
    odd = r.is_odd(y)
    to_zero = r.both(odd, r.compare("eq", x, -math.inf))
    to_infinity = r.both(odd, r.compare("eq", x, math.inf))
    zero = r.number(0.0)
    real = b.select(to_zero, zero, b.select(to_infinity, x, real))
    imag = b.select(to_zero, b.copysign(zero, y), imag)
    return real, b.select(r.compare("eq", y, 0.0), y, imag)


def _hyperbolic(r: Reals, x: Real) -> tuple[Real, Real, Real]:
    """sinh and cosh of x, both to be multiplied by a scale where they would overflow."""
    b = r.b
    limit = _LARGEST_EXPONENT[r.size]
    size = b.abs(x)
    large = r.compare("gt", size, limit)
    half = r.times(r.call("exp", b.sub(size, r.number(limit))), 0.5)
    inside = b.select(large, r.number(1.0), x)
    sinh = b.select(large, b.copysign(half, x), r.call("sinh", inside))
    cosh = b.select(large, half, r.call("cosh", inside))
    return sinh, cosh, b.select(large, r.number(math.exp(limit)), r.number(1.0))


def hyperbolic_sine(b: Any, x: Real, y: Real) -> Parts:
    """sinh(x + iy)."""
    r = Reals(b, x)
    sinh, cosh, scale = _hyperbolic(r, x)
    real = b.mul(b.mul(sinh, r.call("cos", y)), scale)
    imag = b.mul(b.mul(cosh, r.call("sin", y)), scale)
    odd = r.is_odd(y)
    real = b.select(r.both(odd, r.is_infinite(x)), r.number(math.inf), real)
    real = b.select(r.both(odd, r.compare("eq", x, 0.0)), x, real)
    return real, b.select(r.compare("eq", y, 0.0), y, imag)


def hyperbolic_cosine(b: Any, x: Real, y: Real) -> Parts:
    """cosh(x + iy)."""
    r = Reals(b, x)
    sinh, cosh, scale = _hyperbolic(r, x)
    real = b.mul(b.mul(cosh, r.call("cos", y)), scale)
    imag = b.mul(b.mul(sinh, r.call("sin", y)), scale)
    odd = r.is_odd(y)
    real = b.select(r.both(odd, r.is_infinite(x)), r.number(math.inf), real)
    imag = b.select(r.both(odd, r.compare("eq", x, 0.0)), r.number(0.0), imag)
    flat = b.mul(y, b.copysign(r.number(1.0), x))
    return real, b.select(r.compare("eq", y, 0.0), flat, imag)


def hyperbolic_tangent(b: Any, x: Real, y: Real) -> Parts:
    """tanh(x + iy), by Kahan's way through tan and sinh, which does not overflow."""
    r = Reals(b, x)
    one = r.number(1.0)
    size = b.abs(x)
    large = r.compare("gt", size, _FLAT_TANH[r.size])
    tangent = r.call("tan", y)
    slope = b.add(one, b.mul(tangent, tangent))
    sinh = r.call("sinh", b.select(large, one, x))
    square = b.mul(sinh, sinh)
    below = b.add(one, b.mul(slope, square))
    root = b.sqrt(b.add(one, square))
    real = b.div(b.mul(b.mul(slope, root), sinh), below)
    imag = b.div(tangent, below)
    product = r.times(b.mul(r.call("sin", y), r.call("cos", y)), 4.0)
    far = b.mul(product, r.call("exp", r.times(size, -2.0)))
    odd = r.is_odd(y)
    far = b.select(r.is_infinite(x), b.copysign(r.number(0.0), y), far)
    real = b.select(large, b.copysign(one, x), real)
    real = b.select(r.both(odd, b.bit_not(r.is_infinite(x))), r.number(math.nan), real)
    real = b.select(r.both(odd, r.compare("eq", x, 0.0)), x, real)
    imag = b.select(large, far, imag)
    return real, b.select(r.compare("eq", y, 0.0), y, imag)


def _turned(function: Callable[[Any, Real, Real], Parts], b: Any, x: Real, y: Real) -> Parts:
    """f(iz) / i, as the sine is the hyperbolic one of a quarter turn."""
    real, imag = function(b, b.neg(y), x)
    return imag, b.neg(real)


def sine(b: Any, x: Real, y: Real) -> Parts:
    """sin(x + iy)."""
    return _turned(hyperbolic_sine, b, x, y)


def cosine(b: Any, x: Real, y: Real) -> Parts:
    """cos(x + iy)."""
    return hyperbolic_cosine(b, b.neg(y), x)


def tangent(b: Any, x: Real, y: Real) -> Parts:
    """tan(x + iy)."""
    return _turned(hyperbolic_tangent, b, x, y)


def _scale(r: Reals, x: Real, y: Real) -> Real:
    """A power of two that brings both parts where their squares neither vanish nor overflow."""
    b = r.b
    greater = b.maximum(b.abs(x), b.abs(y))
    small = b.select(r.compare("lt", greater, _LEAST[r.size]), r.number(_STEP[r.size]),
                     r.number(1.0))  # fmt: skip
    return b.select(r.compare("gt", greater, _LARGEST[r.size]), r.number(2.0**-8), small)


def logarithm(b: Any, x: Real, y: Real) -> Parts:
    """The natural logarithm of x + iy; exact also where its modulus is near 1."""
    r = Reals(b, x)
    scale = _scale(r, x, y)
    modulus = r.call("hypot", b.mul(x, scale), b.mul(y, scale))
    step = math.log(_STEP[r.size])
    down = b.select(r.compare("lt", scale, 1.0), r.number(-8 * math.log(2.0)), r.number(0.0))
    shift = b.select(r.compare("gt", scale, 1.0), r.number(step), down)
    far = b.sub(r.call("log", modulus), shift)
    first, second = b.abs(x), b.abs(y)
    swapped = b.compare("lt", first, second)
    greater, lesser = b.select(swapped, second, first), b.select(swapped, first, second)
    square, small = b.mul(greater, greater), b.mul(lesser, lesser)
    lost = b.add(b.fma(greater, greater, b.neg(square)), b.fma(lesser, lesser, b.neg(small)))
    excess = b.add(b.add(b.sub(square, r.number(1.0)), small), lost)
    near = r.times(r.call("log1p", excess), 0.5)
    is_near = r.both(r.compare("gt", modulus, 0.5), r.compare("lt", modulus, 2.0))
    is_near = r.both(is_near, r.compare("eq", scale, 1.0))
    return b.select(is_near, near, far), r.call("arctan2", y, x)


def logarithm_of_one_plus(b: Any, x: Real, y: Real) -> Parts:
    """log(1 + x + iy), as NumPy's."""
    r = Reals(b, x)
    above = b.add(x, r.number(1.0))
    return r.call("log", r.call("hypot", above, y)), r.call("arctan2", y, above)


def _in_base(factor: float) -> Callable[[Any, Real, Real], Parts]:
    def function(b: Any, x: Real, y: Real) -> Parts:
        r = Reals(b, x)
        real, imag = logarithm(b, x, y)
        return r.times(real, factor), r.times(imag, factor)

    return function


def power_of_two(b: Any, x: Real, y: Real) -> Parts:
    """2 to the power of x + iy."""
    r = Reals(b, x)
    return exponential(b, r.times(x, math.log(2.0)), r.times(y, math.log(2.0)))


def exponential_minus_one(b: Any, x: Real, y: Real) -> Parts:
    """e to the power of x + iy, minus 1; exact near 0."""
    r = Reals(b, x)
    half = r.call("sin", r.times(y, 0.5))
    lost = r.times(b.mul(half, half), 2.0)
    real = b.sub(b.mul(r.call("expm1", x), r.call("cos", y)), lost)
    whole, imag = exponential(b, x, y)
    zero = r.both(r.compare("eq", x, 0.0), r.compare("eq", y, 0.0))
    special = b.bit_or(zero, b.bit_or(r.is_odd(x), r.is_odd(y)))
    return b.select(special, b.sub(whole, r.number(1.0)), real), imag


def square_root(b: Any, x: Real, y: Real) -> Parts:
    """The root of x + iy in the right half plane."""
    r = Reals(b, x)
    scale = _scale(r, x, y)
    a, c = b.mul(x, scale), b.mul(y, scale)
    root = b.sqrt(r.times(b.add(b.abs(a), r.call("hypot", a, c)), 0.5))
    other = b.div(c, r.times(root, 2.0))
    right = r.compare("ge", x, 0.0)
    up = b.select(r.compare("gt", scale, 1.0), r.number(_STEP[r.size] ** -0.5), r.number(1.0))
    up = b.select(r.compare("lt", scale, 1.0), r.number(16.0), up)
    real = b.mul(b.select(right, root, b.abs(other)), up)
    imag = b.mul(b.select(right, other, b.copysign(root, y)), up)
    zero = r.both(r.compare("eq", x, 0.0), r.compare("eq", y, 0.0))
    tall = r.is_infinite(y)
    real = b.select(tall, b.abs(y), b.select(zero, r.number(0.0), real))
    return real, b.select(b.bit_or(tall, zero), y, imag)


def product(b: Any, x: Parts, y: Parts) -> Parts:
    """x * y, as NumPy's: infinities are not mended."""
    return (
        b.sub(b.mul(x[0], y[0]), b.mul(x[1], y[1])),
        b.add(b.mul(x[0], y[1]), b.mul(x[1], y[0])),
    )


def _chosen(b: Any, condition: Real, x: Parts, y: Parts) -> Parts:
    return b.select(condition, x[0], y[0]), b.select(condition, x[1], y[1])


def _whole_power(b: Any, x: Parts, count: Real) -> Parts:
    """x to the power of an int from 1 to 127, by squaring."""
    zero, bit = b.constant(0, _INT), 1
    found, begun = x, b.compare("ne", b.bit_and(count, b.constant(1, _INT)), zero)
    for _ in range(6):
        x, bit = product(b, x, x), 2 * bit
        here = b.compare("ne", b.bit_and(count, b.constant(bit, _INT)), zero)
        taken = _chosen(b, begun, product(b, found, x), x)
        found, begun = _chosen(b, here, taken, found), b.bit_or(begun, here)
    return found


def power(b: Any, x: Parts, y: Parts, inverse: Callable[[Parts], Parts]) -> Parts:
    """x to the power of y: whole powers below 100 by products, as NumPy's, others by logarithms;
    `inverse` gives 1 / z."""
    r = Reals(b, x[0])
    flat = r.compare("eq", y[1], 0.0)
    size = b.abs(y[0])
    whole = r.both(flat, b.compare("eq", b.floor(size), size))
    whole = r.both(whole, r.compare("lt", size, 100.0))
    count = b.cast(b.select(whole, size, r.number(1.0)), _INT)
    by_products = _whole_power(b, x, count)
    falls = r.compare("lt", y[0], 0.0)
    by_products = _chosen(b, falls, inverse(by_products), by_products)
    general = exponential(b, *product(b, y, logarithm(b, *x)))
    result = _chosen(b, whole, by_products, general)
    at_zero = r.both(r.compare("eq", x[0], 0.0), r.compare("eq", x[1], 0.0))
    edge = b.select(r.compare("gt", y[0], 0.0), r.number(0.0), r.number(math.nan))
    result = _chosen(b, at_zero, (edge, edge), result)
    to_zero = r.both(flat, r.compare("eq", y[0], 0.0))
    return _chosen(b, to_zero, (r.number(1.0), r.number(0.0)), result)


FUNCTIONS: dict[str, Callable[[Any, Real, Real], Parts]] = {
    "exp": exponential,
    "exp2": power_of_two,
    "expm1": exponential_minus_one,
    "log": logarithm,
    "log2": _in_base(1 / math.log(2.0)),
    "log10": _in_base(1 / math.log(10.0)),
    "log1p": logarithm_of_one_plus,
    "sin": sine,
    "cos": cosine,
    "tan": tangent,
    "sinh": hyperbolic_sine,
    "cosh": hyperbolic_cosine,
    "tanh": hyperbolic_tangent,
}
"""By the names of the real functions."""
