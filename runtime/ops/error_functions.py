"""The error function's kin: complements, scaled and inverse, and the normal distribution.

For x >= 0 all rest on one polynomial, after M. M. Shepherd and J. G. Laframboise, "Chebyshev
approximation of (1 + 2x) exp(x**2) erfc(x) in 0 <= x < infinity", Mathematics of Computation 36
(1981). Squares under exponentials are taken exactly, so that large x keep their digits.
"""

from __future__ import annotations

import math
from typing import Any

from tapeline.runtime.op import OUT, Attrs
from tapeline.runtime.operators import make_unary
from tapeline.runtime.ops.exponential import EXP
from tapeline.runtime.ops.pointwise import along, call
from tapeline.runtime.ops.special import TWO_OVER_SQRT_PI
from tapeline.runtime.ops.steps import Real, define_special
from tapeline.runtime.tensor import Tensor, TensorLike

_SQRT_HALF = math.sqrt(0.5)
_SQRT_TWO = math.sqrt(2.0)
_HALF_SQRT_PI = math.sqrt(math.pi) / 2.0
_SQRT_TWO_PI = math.sqrt(2.0 * math.pi)
_BY_ERF_BELOW = 0.3
"""Up to here `1 - erf(x)` loses no digits."""

# -- formulas --------------------------------------------------------------------------------------


def _exp_of_square(a: Real, factor: float, limit: float) -> Real:
    """exp(factor * a**2) for 0 <= a, with a**2 exact; nothing changes any more from the limit
    on."""
    a = (a > limit).otherwise(limit, a)
    short = a.shortened()
    rest = (a - short) * (a + short) * factor
    return (short * short * factor).call("exp") * rest.polynomial((1.0, 1.0, 0.5, 1.0 / 6.0))


def _erfcx_above_0(a: Real) -> Real:
    bounded = (a > 1e300).otherwise(1e300, a)
    t = (bounded - 3.75) / (bounded + 3.75)
    return a.equals(math.inf).otherwise(0.0, t.polynomial("erfcx") / (2.0 * bounded + 1.0))


def _erfc(x: Real) -> Real:
    return (x < _BY_ERF_BELOW).choose(lambda x: 1.0 - x.call("erf"), _erfc_far, x)


def _erfc_far(x: Real) -> Real:
    a = abs(x)
    return _exp_of_square(a, -1.0, 28.0) * _erfcx_above_0(a)


def _erfcx(x: Real) -> Real:
    above = _erfcx_above_0(abs(x))
    return (x < 0.0).choose(_erfcx_below_0, lambda x, above: above, x, above)


def _erfcx_below_0(x: Real, above: Real) -> Real:
    return 2.0 * _exp_of_square(abs(x), 1.0, 27.0) - above


def _normal_tail(a: Real) -> Real:
    """The probability of more than a >= 0."""
    return 0.5 * (_exp_of_square(a, -0.5, 40.0) * _erfcx_above_0(a * _SQRT_HALF))


def _ndtr(x: Real) -> Real:
    return (x < -0.5).choose(lambda x: _normal_tail(abs(x)), _ndtr_by_erf, x)


def _ndtr_by_erf(x: Real) -> Real:
    return 0.5 + 0.5 * (x * _SQRT_HALF).call("erf")


def _log_ndtr(x: Real) -> Real:
    return (x < -1.0).choose(_log_ndtr_far, lambda x: (-_above(x)).call("log1p"), x)


def _log_ndtr_far(x: Real) -> Real:
    return (0.5 * _erfcx_above_0(abs(x) * _SQRT_HALF)).call("log") - x * x * 0.5


def _above(x: Real) -> Real:
    """The probability of more than x > -1."""
    return (x > 0.5).choose(lambda x: _normal_tail(abs(x)), lambda x: _ndtr_by_erf(-x), x)


def _above_with_probability(p: Real) -> Real:
    """What a normal number exceeds with probability p < 0.255."""
    r = (-p.call("log")).sqrt()
    found = r * (r.call("log") - 1.7).polynomial("normal_tail")
    return p.equals(0.0).otherwise(math.inf, found)


def _erfinv(x: Real) -> Real:
    a = abs(x)
    return (a > 0.5).choose(_erfinv_far, _erfinv_near, a).copysign(x)


def _erfinv_near(a: Real) -> Real:
    return a * (a * a).polynomial("erfinv")


def _erfinv_far(a: Real) -> Real:
    return _above_with_probability((1.0 - a) * 0.5) * _SQRT_HALF


def _ndtri(p: Real) -> Real:
    q = p - 0.5
    return (abs(q) > 0.25).choose(_ndtri_far, _ndtri_near, q, p)


def _ndtri_near(q: Real, p: Real) -> Real:
    return q * (q * q * 4.0).polynomial("erfinv") * (2.0 * _SQRT_TWO)


def _ndtri_far(q: Real, p: Real) -> Real:
    upper = 1.0 - p
    return _above_with_probability((upper < p).where(upper, p)).copysign(q)


# -- ops -------------------------------------------------------------------------------------------


def _gaussian(x: Any, exponent: float, factor: float) -> Any:
    """factor * exp(exponent * x**2)."""
    return factor * call(EXP, exponent * (x * x))


def _erfc_vjp(ct: Any, attrs: Attrs, x: Any) -> Any:
    return along(ct, _gaussian(x, -1.0, -TWO_OVER_SQRT_PI))


def _erfcx_vjp(ct: Any, attrs: Attrs, x: Any, out: Any) -> Any:
    return along(ct, 2.0 * x * out - TWO_OVER_SQRT_PI)


def _ndtr_vjp(ct: Any, attrs: Attrs, x: Any) -> Any:
    return along(ct, _gaussian(x, -0.5, 1.0 / _SQRT_TWO_PI))


def _log_ndtr_vjp(ct: Any, attrs: Attrs, x: Any) -> Any:
    """density / ndtr, as 2 / erfcx so that neither vanishes."""
    return along(ct, (2.0 / _SQRT_TWO_PI) / call(ERFCX, x * -_SQRT_HALF))


def _erfinv_vjp(ct: Any, attrs: Attrs, out: Any) -> Any:
    return along(ct, _gaussian(out, 1.0, _HALF_SQRT_PI))


def _ndtri_vjp(ct: Any, attrs: Attrs, out: Any) -> Any:
    return along(ct, _gaussian(out, 0.5, _SQRT_TWO_PI))


ERFC = define_special("erfc", _erfc, saves=(0,), vjps=(_erfc_vjp,), domain=(-2.0, 3.0))
ERFCX = define_special("erfcx", _erfcx, saves=(0, OUT), vjps=(_erfcx_vjp,), domain=(-1.0, 4.0))
NDTR = define_special("ndtr", _ndtr, saves=(0,), vjps=(_ndtr_vjp,), domain=(-4.0, 3.0))
LOG_NDTR = define_special(
    "log_ndtr", _log_ndtr, saves=(0,), vjps=(_log_ndtr_vjp,), domain=(-9.0, 3.0)
)
ERFINV = define_special("erfinv", _erfinv, saves=(OUT,), vjps=(_erfinv_vjp,), domain=(-0.9, 0.9))
NDTRI = define_special("ndtri", _ndtri, saves=(OUT,), vjps=(_ndtri_vjp,), domain=(0.05, 0.95))


_erfc_of = make_unary(ERFC)


def erfc(x: TensorLike, /) -> Tensor:
    """`1 - erf(x)` of each element, without the loss of digits for large `x`.

    Ints and bools are taken as floats: float64, or float32 if they have 8 or 16 bits. Within 8
    units in the last place, float32 within 1.

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
    >>> tl.special.erfc([0.0, 1.0, 20.0]).numpy()
    array([1.00000000e+000, 1.57299207e-001, 5.39586561e-176])
    """
    return _erfc_of(x)


_erfcx_of = make_unary(ERFCX)


def erfcx(x: TensorLike, /) -> Tensor:
    """`exp(x**2) * erfc(x)` of each element, which neither overflows nor vanishes for large `x`.

    Ints and bools are taken as floats: float64, or float32 if they have 8 or 16 bits. Within 8
    units in the last place, float32 within 1.

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
    >>> tl.special.erfcx([0.0, 1.0, 100.0]).numpy()
    array([1.        , 0.42758358, 0.00564161])
    """
    return _erfcx_of(x)


_erfinv_of = make_unary(ERFINV)


def erfinv(x: TensorLike, /) -> Tensor:
    """The inverse of the error function: y with `erf(y) == x`, NaN outside of [-1, 1].

    Ints and bools are taken as floats: float64, or float32 if they have 8 or 16 bits. Within 8
    units in the last place, float32 within 1.

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
    >>> tl.special.erfinv([0.0, 0.5, 1.0]).numpy()
    array([0.        , 0.47693628,        inf])
    """
    return _erfinv_of(x)


_ndtr_of = make_unary(NDTR)


def ndtr(x: TensorLike, /) -> Tensor:
    """The probability that a standard normal number is at most `x`.

    Ints and bools are taken as floats: float64, or float32 if they have 8 or 16 bits. Within 8
    units in the last place, float32 within 1.

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
    >>> tl.special.ndtr([-10.0, 0.0, 1.0]).numpy()
    array([7.61985302e-24, 5.00000000e-01, 8.41344746e-01])
    """
    return _ndtr_of(x)


_log_ndtr_of = make_unary(LOG_NDTR)


def log_ndtr(x: TensorLike, /) -> Tensor:
    """The logarithm of `ndtr`, also where that itself would be 0.

    Ints and bools are taken as floats: float64, or float32 if they have 8 or 16 bits. Within 8
    units in the last place, float32 within 1.

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
    >>> tl.special.log_ndtr([-100.0, 0.0, 1.0]).numpy()
    array([-5.00552421e+03, -6.93147181e-01, -1.72753779e-01])
    """
    return _log_ndtr_of(x)


_ndtri_of = make_unary(NDTRI)


def ndtri(p: TensorLike, /) -> Tensor:
    """The inverse of `ndtr`: what a standard normal number is at most with probability `p`; NaN
    outside of [0, 1].

    Ints and bools are taken as floats: float64, or float32 if they have 8 or 16 bits. Within 8
    units in the last place, float32 within 1.

    Parameters
    ----------
    p : TensorLike of float
        Of any shape.

    Returns
    -------
    Tensor
        Of the shape of `p`.

    Raises
    ------
    DTypeError
        If the operand is not of float, nor of a dtype taken as such.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.special.ndtri([0.025, 0.5, 1.0]).numpy()
    array([-1.95996398,  0.        ,         inf])
    """
    return _ndtri_of(p)
