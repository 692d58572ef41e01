"""The gamma function's kin.

Arguments between 8 and infinity go by Stirling's series, smaller ones by recurrence to where a
polynomial serves that has its roots taken out, negative ones by reflection: NIST Digital Library of
Mathematical Functions, 5.5 and 5.11.
"""

from __future__ import annotations

import math
from typing import Any

from tapeline.runtime.errors import ArgumentError
from tapeline.runtime.op import OUT, Attrs, get_op
from tapeline.runtime.operators import make_unary
from tapeline.runtime.ops.pointwise import along, call
from tapeline.runtime.ops.steps import Real, define_special
from tapeline.runtime.promotion import promote_one
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
    """z in [2, 3) and a product with gamma(x) = product * gamma(z), for 3 <= x < 8; less stay."""
    product = x.like(1.0)
    x = (x >= FAR).otherwise(1.0, x)
    for _ in range(5):
        is_above = x >= 3.0
        if not is_above.may_hold():
            break
        below = x - 1.0
        product = is_above.where(product * below, product)
        x = is_above.where(below, x)
    return x, product


def _log_gamma_above_0(x: Real) -> Real:
    z, product = _moved_down(x)
    is_far = x >= FAR
    log = ((x < 1.0) | is_far).where(x, product).call("log")
    return is_far.choose(_log_gamma_far, _log_gamma_near, x, log, z)


def _log_gamma_far(x: Real, log: Real, z: Real) -> Real:
    return (x - 0.5) * (log - 1.0) + (stirling(x) + (HALF_LOG_TWO_PI - 0.5))


def _log_gamma_near(x: Real, log: Real, z: Real) -> Real:
    is_small = x < 1.0
    t = is_small.where(x - 1.0, z - 2.0)
    return t * (t + 1.0) * t.polynomial("log_gamma") + is_small.where(-log, log)


def log_gamma(x: Real) -> Real:
    """The logarithm of |gamma(x)|."""
    a = abs(x)
    return (x < 0.0).choose(_log_gamma_below_0, lambda a, above: above, a, _log_gamma_above_0(a))


def _log_gamma_below_0(a: Real, above: Real) -> Real:
    """By gamma(-a) * gamma(1 + a) = -pi / sin(pi * a)."""
    sine = abs((remainder_of(a) * math.pi).call("sin"))
    below = _LOG_PI - (sine * a).call("log") - above
    return ((a < 1e-100) | a.equals(math.inf)).where(above, below)


def remainder_of(a: Real) -> Real:
    """a less the nearest integer."""
    return a - a.rint()


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
    is_far = a >= FAR
    bounded = (a > 200.0).otherwise(200.0, a)
    root = is_far.choose(
        lambda a: a.call("power", (a - 0.5) * 0.5), lambda a: (a - a) + 1.0, bounded
    )
    first = is_far.choose(_gamma_far, _gamma_near, a, x, bounded, root)
    return ((x < 0.0) & (a >= 1.0)).where(first * a, first), root


def _gamma_far(a: Real, x: Real, bounded: Real, root: Real) -> Real:
    """gamma(a) / root."""
    tail = (1.0 / bounded).polynomial("gamma_tail")
    return root * (-bounded).call("exp") * tail * math.sqrt(2.0 * math.pi)


def _gamma_near(a: Real, x: Real, bounded: Real, root: Real) -> Real:
    z, product = _moved_down(a)
    is_small, is_low = a < 1.0, a < 2.0
    z = is_low.where(z + 1.0, z)
    z = is_small.where(z + 1.0, z)
    divisor = is_small.where((x < 0.0).otherwise(1.0, a) * (a + 1.0), a)
    near = (z - 2.5).polynomial("gamma")
    return is_low.where(near / divisor, near * product)


def gamma_of(x: Real) -> Real:
    """gamma(x)."""
    first, second = _gamma_factors(x)
    result = (x < 0.0).choose(_gamma_below_0, lambda x, a, b: a * b, x, first, second)
    return x.equals(0.0).where(x.like(math.inf).copysign(x), result)


def _gamma_below_0(x: Real, first: Real, second: Real) -> Real:
    """By gamma(-a) * gamma(1 + a) = -pi / sin(pi * a), from factors of gamma(1 + a)."""
    a = abs(x)
    whole = a.rint()
    half = whole * 0.5
    is_even = half.equals(half.rint())
    sine = ((a - whole) * math.pi).call("sin")
    found = math.pi / is_even.where(-sine, sine) / first / second
    return sine.equals(0.0).otherwise(math.nan, found)


def _gamma_vjp(ct: Any, attrs: Attrs, x: Any, out: Any) -> Any:
    return along(ct, out * call(DIGAMMA, x))


GAMMA = define_special(
    "gamma_function", gamma_of, saves=(0, OUT), vjps=(_gamma_vjp,), domain=(0.3, 9.0)
)

# -- digamma ---------------------------------------------------------------------------------------


def _digamma_near(x: Real) -> Real:
    is_small = x < 1.0
    z = is_small.where(x + 1.0, x)
    above = is_small.otherwise(-1.0, x.like(0.0))
    below = is_small.where(x, x.like(1.0))
    for _ in range(6):
        is_above = z >= 2.0
        if not is_above.may_hold():
            break
        lower = z - 1.0
        above = is_above.where(above * lower + below, above)
        below = is_above.where(below * lower, below)
        z = is_above.where(lower, z)
    root, rest = DIGAMMA_ROOT
    return (z - root - rest) * (z - 1.5).polynomial("digamma") + above / below


def _digamma_far(x: Real) -> Real:
    inverse = 1.0 / x
    square = inverse * inverse
    return x.call("log") - 0.5 * inverse - square * square.polynomial("digamma_tail")


def _digamma(x: Real) -> Real:
    is_negative = x < 0.0
    positive = is_negative.where(1.0 - x, x)
    found = (positive >= FAR).choose(_digamma_far, _digamma_near, positive)
    return is_negative.choose(_digamma_below_0, lambda x, found: found, x, found)


def _digamma_below_0(x: Real, found: Real) -> Real:
    """By digamma(-a) = digamma(1 + a) + pi / tan(pi * a)."""
    below = found + math.pi * cotangent_of_half_turns(abs(x))
    return (abs(below) < math.inf).where(below, below.like(math.nan))


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


def multigammaln(a: TensorLike, d: int, /) -> Tensor:
    """The logarithm of the multivariate gamma function of dimension `d`.

    Parameters
    ----------
    a : TensorLike of float
        Above `(d - 1) / 2`; of any shape. Ints are taken as floats.
    d : int
        At least 1.

    Returns
    -------
    Tensor
        Of the shape of `a`.

    Raises
    ------
    ArgumentError
        If d is no such int.
    DTypeError
        If the operand is not of float, nor of a dtype taken as such.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.special.multigammaln([1.5, 10.0], 3).numpy()
    array([ 2.16867753, 36.81285863])
    """
    if isinstance(d, bool) or not isinstance(d, int) or d < 1:
        raise ArgumentError(f"multigammaln: d must be an int of at least 1, got {d!r}")
    x = promote_one(GAMMALN, a)
    total = gammaln(x)
    for k in range(1, d):
        total = total + gammaln(x - 0.5 * k)
    return total + 0.25 * d * (d - 1) * _LOG_PI
