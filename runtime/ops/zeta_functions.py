"""The Hurwitz zeta function, by the formula of Euler and Maclaurin, and the derivatives of digamma
that it gives: NIST Digital Library of Mathematical Functions, 25.11.5 and 25.11.12, 5.15.
"""

from __future__ import annotations

import functools
import math
from fractions import Fraction
from typing import Any

import numpy as np

from tapeline.runtime.errors import ArgumentError
from tapeline.runtime.op import Attrs, Sample
from tapeline.runtime.operators import make_unary
from tapeline.runtime.ops.comparison import equal
from tapeline.runtime.ops.evenly_spaced import arange
from tapeline.runtime.ops.gamma_functions import cotangent_of_half_turns, digamma
from tapeline.runtime.ops.logic import logical_and, logical_or
from tapeline.runtime.ops.pointwise import along, call, check_dtype
from tapeline.runtime.ops.powers import power
from tapeline.runtime.ops.promotion import promote_to_float
from tapeline.runtime.ops.reduction import sum as add_up
from tapeline.runtime.ops.selection import where
from tapeline.runtime.ops.shaping import expand_dims
from tapeline.runtime.ops.steps import Real, define_special
from tapeline.runtime.tensor import Tensor, TensorLike, as_tensor, cast_tensor

# -- zeta and polygamma ----------------------------------------------------------------------------

_FLOAT64 = np.dtype(np.float64)
_SHIFT = 10
"""Terms that are added one by one."""


@functools.cache
def _bernoulli_terms(count: int) -> tuple[Fraction, ...]:
    """B(2j) / (2j)! for j = 1, 2, ..."""
    numbers: list[Fraction] = [Fraction(1)]
    for n in range(1, 2 * count + 1):
        total = sum((math.comb(n + 1, k) * numbers[k] for k in range(n)), Fraction(0))
        numbers.append(-total / (n + 1))
    return tuple(numbers[2 * j] / math.factorial(2 * j) for j in range(1, count + 1))


def _power(x: Real, exponent: int) -> Real:
    """x to an integer of at least 1."""
    result, square = None, x
    while exponent:
        if exponent & 1:
            result = square if result is None else result * square
        exponent >>= 1
        square = square * square if exponent else square
    assert result is not None
    return result


def _zeta_at_integer(s: int, q: Real) -> Real:
    """The sum of (q + k)**-s over k >= 0, for q > 0."""
    total = 1.0 / _power(q, s)
    for k in range(1, _SHIFT):
        total = total + 1.0 / _power(q + float(k), s)
    y = q + float(_SHIFT)
    last = 1.0 / _power(y, s)
    rising, terms = Fraction(s), []
    for j, number in enumerate(_bernoulli_terms(12), 1):
        terms.append(float(number * rising))
        rising *= (s + 2 * j - 1) * (s + 2 * j)
    inverse = 1.0 / y
    series = inverse * (inverse * inverse).polynomial(terms)
    return total + (y * last * (1.0 / (s - 1)) + last * 0.5 + last * series)


@functools.cache
def _cotangent_derivative(n: int) -> tuple[int, ...]:
    """The n-th derivative of the cotangent as a polynomial in it."""
    terms = [0, 1]
    for _ in range(n):
        slope = [k * c for k, c in enumerate(terms)][1:]
        terms = [-(a + b) for a, b in zip([*slope, 0, 0], [0, 0, *slope], strict=True)]
    return tuple(terms)


def _polygamma(x: Real, n: int) -> Real:
    is_negative = x < 0.0
    scale = (-1.0) ** (n + 1) * math.factorial(n)
    found = scale * _zeta_at_integer(n + 1, is_negative.where(1.0 - x, x))
    cotangent = -cotangent_of_half_turns(abs(x))
    terms = [math.pi ** (n + 1) * c for c in _cotangent_derivative(n)]
    below = (-1.0) ** n * found - cotangent.polynomial(terms)
    pole = math.copysign(math.inf, scale)
    below = abs(cotangent).equals(math.inf).otherwise(pole, below)
    result = is_negative.where(below, found)
    return x.equals(math.inf).otherwise(0.0, result)


def _polygamma_vjp(ct: Any, attrs: Attrs, x: Any) -> Any:
    (n,) = attrs
    assert isinstance(n, int)
    return along(ct, call(POLYGAMMA, x, attrs=(n + 1,)))


_ORDERS = tuple(Sample((shape,), (n,)) for n in (1, 2, 5) for shape in ((), (0,), (7,), (3, 4)))
POLYGAMMA = define_special(
    "polygamma",
    _polygamma,
    saves=(0,),
    vjps=(_polygamma_vjp,),
    attr_names=("n",),
    domain=(0.8, 9.0),
    samples=_ORDERS,
)


def _series(s: Tensor, q: Tensor) -> Tensor:
    """The sum for s > 1 and q > 0, in ops, so that both have derivatives of every order."""
    steps = arange(_SHIFT, dtype=_FLOAT64)
    terms = power(expand_dims(q, axis=-1) + steps, expand_dims(-s, axis=-1))
    y = q + _SHIFT
    last = power(y, -s)
    square = 1.0 / (y * y)
    factor, series = s / y, 0.0 * s
    for j, number in enumerate(_bernoulli_terms(12), 1):
        series = series + factor * float(number)
        factor = factor * ((s + (2.0 * j - 1.0)) * (s + 2.0 * j) * square)
    tail = where(equal(last, 0.0), 0.0, last * (y / (s - 1.0) + 0.5 + series))
    return add_up(terms, axis=-1) + tail


def zeta(s: TensorLike, q: TensorLike = 1.0, /) -> Tensor:
    """The Hurwitz zeta function, the sum of `(q + k)**-s` over all `k >= 0`; that of Riemann for
    `q = 1`.

    Infinity where `s` is 1 or `q` is 0, NaN for smaller ones.

    Parameters
    ----------
    s, q : TensorLike of float
        With shapes that broadcast. Ints are taken as floats.

    Returns
    -------
    Tensor
        Of the broadcast shape.

    Raises
    ------
    DTypeError
        If an operand is not of float, nor of a dtype taken as such.
    ShapeError
        If the shapes do not broadcast.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.special.zeta([2.0, 4.0]).numpy()
    array([1.64493407, 1.08232323])
    """
    for x in (s, q):
        check_dtype("zeta", as_tensor(x, None, "zeta").dtype, "biuf")
    s, q = promote_to_float(POLYGAMMA, s, q)
    dtype = s.dtype
    s, q = cast_tensor(s, _FLOAT64), cast_tensor(q, _FLOAT64)
    is_inside = logical_and(s > 1.0, q > 0.0)
    found = _series(where(is_inside, s, 2.0), where(is_inside, q, 1.0))
    is_edge = logical_or(logical_and(equal(s, 1.0), q >= 0.0), logical_and(equal(q, 0.0), s >= 1.0))
    outside = where(is_edge, math.inf, math.nan)
    return cast_tensor(where(is_inside, found, outside), dtype)


_polygamma_of = make_unary(POLYGAMMA)


def polygamma(n: int, x: TensorLike, /) -> Tensor:
    """The `n`-th derivative of `digamma`.

    Parameters
    ----------
    n : int
        At least 0 and below 100.
    x : TensorLike of float
        Of any shape; ints are taken as floats.

    Returns
    -------
    Tensor
        Of the shape of `x`.

    Raises
    ------
    ArgumentError
        If n is not such an int.
    DTypeError
        If `x` is not of float, nor of a dtype taken as such.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.special.polygamma(1, [0.5, 1.0, 100.0]).numpy()
    array([4.9348022 , 1.64493407, 0.01005017])
    """
    if isinstance(n, bool) or not isinstance(n, int | np.integer) or not 0 <= n < 100:
        raise ArgumentError(f"polygamma: n must be an int from 0 to 99, got {n!r}")
    return _polygamma_of(x, (int(n),)) if n else digamma(x)
