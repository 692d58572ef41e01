"""The gamma function's kin.

Arguments between 8 and infinity go by Stirling's series, smaller ones by recurrence to where a
polynomial serves that has its roots taken out, negative ones by reflection: NIST Digital Library of
Mathematical Functions, 5.5 and 5.11.
"""

from __future__ import annotations

import math
from typing import Any

from tapeline.runtime.op import OUT, Attrs, get_op
from tapeline.runtime.operators import make_unary
from tapeline.runtime.ops.pointwise import along, call
from tapeline.runtime.ops.steps import Real, define_special
from tapeline.runtime.series import DIGAMMA_ROOT
from tapeline.runtime.tensor import Tensor, TensorLike

HALF_LOG_TWO_PI = 0.5 * math.log(2.0 * math.pi)
_LOG_PI = math.log(math.pi)
FAR = 8.0
"""From here on Stirling's series serves."""

# -- gammaln ---------------------------------------------------------------------------------------


def stirling(x: Real) -> Real:
    """log(gamma(x)) less the leading terms of Stirling's series, for x >= 8."""
    inverse = 1.0 / x
    return inverse * (inverse * inverse).polynomial("log_gamma_tail")


def _moved_down(x: Real) -> tuple[Real, Real]:
    """z in [2, 3) and a product with gamma(x) = product * gamma(z), for 3 <= x < 8; others stay."""
    product = x.like(1.0)
    for _ in range(5):
        is_above = x >= 3.0
        below = x - 1.0
        product = is_above.where(product * below, product)
        x = is_above.where(below, x)
    return x, product


def _log_gamma_parts(x: Real) -> tuple[Real, Real]:
    """log(gamma(x)) for x >= 0, and log(gamma(1 + x)) where x < 1."""
    z, product = _moved_down(x)
    is_small, is_far = x < 1.0, x >= FAR
    t = is_small.where(x - 1.0, z - 2.0)
    near = t * (t + 1.0) * t.polynomial("log_gamma")
    log = (is_small | is_far).where(x, product).call("log")
    far = (x - 0.5) * (log - 1.0) + (stirling(x) + (HALF_LOG_TWO_PI - 0.5))
    return is_far.where(far, near + is_small.where(-log, log)), near


def _log_gamma_above_0(x: Real) -> Real:
    return _log_gamma_parts(x)[0]


def log_gamma(x: Real) -> Real:
    """Below 0 by gamma(-a) * gamma(1 + a) = -pi / sin(pi * a)."""
    a = abs(x)
    above, following = _log_gamma_parts(a)
    sine = abs(_sine_of_half_turns(a))
    is_small = a < 1.0
    below = _LOG_PI - (sine * is_small.otherwise(1.0, a)).call("log")
    below = below - is_small.where(following, above)
    result = (x < 0.0).where(below, above)
    return a.equals(math.inf).otherwise(math.inf, result)


def remainder_of(a: Real) -> Real:
    """a less the nearest integer."""
    return a - a.rint()


def _sine_of_half_turns(a: Real) -> Real:
    """sin(pi * a), but for the sign."""
    return (remainder_of(a) * math.pi).call("sin")


def cotangent_of_half_turns(a: Real) -> Real:
    """cot(pi * a), to the last digits also near its roots."""
    part = remainder_of(a)
    size = abs(part)
    is_steep = size <= 0.25
    tangent = (is_steep.where(size, 0.5 - size) * math.pi).call("tan")
    return is_steep.where(1.0 / tangent, tangent).copysign(part)


def _gammaln_vjp(ct: Any, attrs: Attrs, x: Any) -> Any:
    return along(ct, call(DIGAMMA, x))


GAMMALN = define_special("gammaln", log_gamma, saves=(0,), vjps=(_gammaln_vjp,), domain=(0.3, 9.0))

# -- gamma -----------------------------------------------------------------------------------------


def _gamma_factors(x: Real) -> tuple[Real, Real]:
    """Two factors of gamma(|x|), or of gamma(1 + |x|) where x < 0."""
    a = abs(x)
    is_negative = x < 0.0
    z, product = _moved_down(a)
    is_small, is_low, is_far = a < 1.0, a < 2.0, a >= FAR
    z = is_low.where(z + 1.0, z)
    z = is_small.where(z + 1.0, z)
    divisor = is_small.where(is_negative.otherwise(1.0, a) * (a + 1.0), a)
    near = (z - 2.5).polynomial("gamma")
    near = is_low.where(near / divisor, near * product)
    bounded = (a > 200.0).otherwise(200.0, a)
    half = bounded.call("power", (bounded - 0.5) * 0.5)
    far = half * (-bounded).call("exp") * (1.0 / bounded).polynomial("gamma_tail")
    first = is_far.where(far * math.sqrt(2.0 * math.pi), near)
    first = (is_negative & (a >= 1.0)).where(first * a, first)
    return first, is_far.where(half, a.like(1.0))


def gamma_of(x: Real) -> Real:
    first, second = _gamma_factors(x)
    a = abs(x)
    whole = a.rint()
    half = whole * 0.5
    is_odd = (half - half.rint()).equals(0.0).otherwise(0.0, x.like(1.0)) > 0.5
    sine = ((a - whole) * math.pi).call("sin")
    below = math.pi / is_odd.where(sine, -sine) / first / second
    is_pole = (x < 0.0) & sine.equals(0.0)
    result = (x < 0.0).where(is_pole.otherwise(math.nan, below), first * second)
    return x.equals(0.0).where(x.like(math.inf).copysign(x), result)


def _gamma_vjp(ct: Any, attrs: Attrs, x: Any, out: Any) -> Any:
    return along(ct, out * call(DIGAMMA, x))


GAMMA = define_special(
    "gamma_function", gamma_of, saves=(0, OUT), vjps=(_gamma_vjp,), domain=(0.3, 9.0)
)

# -- digamma ---------------------------------------------------------------------------------------


def _digamma_above_0(x: Real) -> Real:
    is_small, is_far = x < 1.0, x >= FAR
    z = is_small.where(x + 1.0, x)
    above = is_small.otherwise(-1.0, x.like(0.0))
    below = is_small.where(x, x.like(1.0))
    for _ in range(6):
        is_above = z >= 2.0
        lower = z - 1.0
        above = is_above.where(above * lower + below, above)
        below = is_above.where(below * lower, below)
        z = is_above.where(lower, z)
    root, rest = DIGAMMA_ROOT
    near = (z - root - rest) * (z - 1.5).polynomial("digamma") + above / below
    inverse = 1.0 / x
    square = inverse * inverse
    far = x.call("log") - 0.5 * inverse - square * square.polynomial("digamma_tail")
    return is_far.where(far, near)


def _digamma(x: Real) -> Real:
    """Below 0 by digamma(-a) = digamma(1 + a) + pi / tan(pi * a)."""
    is_negative = x < 0.0
    found = _digamma_above_0(is_negative.where(1.0 - x, x))
    below = found + math.pi * cotangent_of_half_turns(abs(x))
    return is_negative.where((abs(below) < math.inf).where(below, math.nan), found)


def _digamma_vjp(ct: Any, attrs: Attrs, x: Any) -> Any:
    return along(ct, call(get_op("polygamma"), x, attrs=(1,)))


DIGAMMA = define_special("digamma", _digamma, saves=(0,), vjps=(_digamma_vjp,), domain=(0.3, 9.0))


_gammaln_of = make_unary(GAMMALN)


def gammaln(x: TensorLike, /) -> Tensor:
    """The logarithm of the magnitude of the gamma function of each element.

    Ints and bools are taken as floats: float64, or float32 if they have 8 or 16 bits. Within 8
    units in the last place for `x > 0`, float32 within 1; close to roots below 0 the error is as
    small as that of numbers around 1.

    Parameters
    ----------
    x : TensorLike of float
        Of any shape.

    Returns
    -------
    Tensor
        Of the shape of `x`.

    Raises
    ------
    DTypeError
        If the operand is not of float, nor of a dtype taken as such.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.special.gammaln([0.5, 1.0, 100.0]).numpy()
    array([  0.57236494,   0.        , 359.13420537])
    """
    return _gammaln_of(x)


lgamma = gammaln
"""Its name in C and in PyTorch."""


_gamma_of = make_unary(GAMMA)


def gamma(x: TensorLike, /) -> Tensor:
    """The gamma function of each element: `factorial(x - 1)` at integers, NaN at negative ones.

    Ints and bools are taken as floats: float64, or float32 if they have 8 or 16 bits. Within 8
    units in the last place for `x > 0`, float32 within 1; close to roots below 0 the error is as
    small as that of numbers around 1.

    Parameters
    ----------
    x : TensorLike of float
        Of any shape.

    Returns
    -------
    Tensor
        Of the shape of `x`.

    Raises
    ------
    DTypeError
        If the operand is not of float, nor of a dtype taken as such.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.special.gamma([0.5, 1.0, 5.0]).numpy()
    array([ 1.77245385,  1.        , 24.        ])
    """
    return _gamma_of(x)


_digamma_of = make_unary(DIGAMMA)


def digamma(x: TensorLike, /) -> Tensor:
    """The derivative of the logarithm of the gamma function, NaN at negative integers.

    Ints and bools are taken as floats: float64, or float32 if they have 8 or 16 bits. Within 8
    units in the last place for `x > 0`, float32 within 1; close to roots below 0 the error is as
    small as that of numbers around 1.

    Parameters
    ----------
    x : TensorLike of float
        Of any shape.

    Returns
    -------
    Tensor
        Of the shape of `x`.

    Raises
    ------
    DTypeError
        If the operand is not of float, nor of a dtype taken as such.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.special.digamma([0.5, 1.0, 100.0]).numpy()
    array([-1.96351003, -0.57721566,  4.60016185])
    """
    return _digamma_of(x)


psi = digamma
"""Its name in SciPy."""
