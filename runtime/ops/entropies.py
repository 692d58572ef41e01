"""Products with logarithms that mean 0 where a factor is 0, the terms of entropies made of them,
and the inverse of the logistic function.
"""

from __future__ import annotations

import math
from typing import Any

from tapeline.runtime.op import Attrs
from tapeline.runtime.operators import make_binary, make_unary
from tapeline.runtime.ops.exponential import EXPM1, LOG, LOG1P
from tapeline.runtime.ops.pointwise import along, call, one_minus, unbroadcast
from tapeline.runtime.ops.promotion import promote_to_float
from tapeline.runtime.ops.rectifiers import number_like
from tapeline.runtime.ops.selection import WHERE
from tapeline.runtime.ops.steps import Real, define_special
from tapeline.runtime.tensor import Tensor, TensorLike

# -- formulas --------------------------------------------------------------------------------------


def _product(x: Real, log: Real, y: Real) -> Real:
    """x * log, and 0 where x is 0 and y is a number."""
    return (x.equals(0.0) & y.equals(y)).otherwise(0.0, x * log)


def _xlogy(x: Real, y: Real) -> Real:
    return _product(x, y.call("log"), y)


def _xlog1py(x: Real, y: Real) -> Real:
    return _product(x, y.call("log1p"), y)


def _entr(x: Real) -> Real:
    return (x < 0.0).otherwise(-math.inf, 0.0 - _product(x, x.call("log"), x))


def _rel_entr(x: Real, y: Real) -> Real:
    """Near equality by log1p of the difference, which is exact."""
    ratio = x / y
    is_close = (ratio > 0.5) & (ratio < 2.0)
    log = is_close.where(((x - y) / y).call("log1p"), ratio.call("log"))
    is_huge = ratio.equals(math.inf) | ratio.equals(0.0)
    log = is_huge.where(x.call("log") - y.call("log"), log)
    is_positive = (x > 0.0) & (y > 0.0)
    outside = (x.equals(0.0) & (y >= 0.0)).otherwise(0.0, x.like(math.inf))
    found = is_positive.where(x * log, outside)
    return (x.equals(x) & y.equals(y)).where(found, x + y)


def _kl_div(x: Real, y: Real) -> Real:
    found = _rel_entr(x, y)
    return found.equals(math.inf).where(found, found - x + y)


def _log1mexp(x: Real) -> Real:
    """After M. Maechler, "Accurately computing log(1 - exp(-|a|))" (2012)."""
    return (x < math.log(2.0)).choose(
        lambda x: (-(-x).call("expm1")).call("log"),
        lambda x: (-(-x).call("exp")).call("log1p"),
        x,
    )


def _logit(x: Real) -> Real:
    near = 2.0 * (2.0 * x - 1.0).call("arctanh")
    far = x.call("log") - (-x).call("log1p")
    return ((x > 0.25) & (x < 0.75)).where(near, far)


# -- gradient rules --------------------------------------------------------------------------------


def _quotient(x: Any, y: Any) -> Any:
    """x / y, and 0 where x is 0."""
    is_zero = x == 0
    return call(WHERE, is_zero, x, x / call(WHERE, is_zero, number_like(y, 1.0), y))


def _xlogy_vjp_x(ct: Any, attrs: Attrs, x: Any, y: Any) -> Any:
    """0 where neither x nor y differs from 0."""
    known = call(WHERE, (x == 0) & (y == 0), number_like(y, 1.0), y)
    return unbroadcast(along(ct, call(LOG, known)), x.shape)


def _xlogy_vjp_y(ct: Any, attrs: Attrs, x: Any, y: Any) -> Any:
    return unbroadcast(along(ct, _quotient(x, y)), y.shape)


def _xlog1py_vjp_x(ct: Any, attrs: Attrs, x: Any, y: Any) -> Any:
    known = call(WHERE, (x == 0) & (y == -1), number_like(y, 0.0), y)
    return unbroadcast(along(ct, call(LOG1P, known)), x.shape)


def _xlog1py_vjp_y(ct: Any, attrs: Attrs, x: Any, y: Any) -> Any:
    return unbroadcast(along(ct, _quotient(x, 1.0 + y)), y.shape)


def _entr_vjp(ct: Any, attrs: Attrs, x: Any) -> Any:
    return along(ct, -1.0 - call(LOG, x))


def _rel_entr_vjp_x(ct: Any, attrs: Attrs, x: Any, y: Any) -> Any:
    return unbroadcast(along(ct, call(LOG, x / y) + 1.0), x.shape)


def _rel_entr_vjp_y(ct: Any, attrs: Attrs, x: Any, y: Any) -> Any:
    return unbroadcast(along(-ct, _quotient(x, y)), y.shape)


def _kl_div_vjp_x(ct: Any, attrs: Attrs, x: Any, y: Any) -> Any:
    return unbroadcast(along(ct, call(LOG, x / y)), x.shape)


def _kl_div_vjp_y(ct: Any, attrs: Attrs, x: Any, y: Any) -> Any:
    return unbroadcast(along(ct, 1.0 - _quotient(x, y)), y.shape)


def _log1mexp_vjp(ct: Any, attrs: Attrs, x: Any) -> Any:
    return along(ct, 1.0 / call(EXPM1, x))


def _logit_vjp(ct: Any, attrs: Attrs, x: Any) -> Any:
    return along(ct, 1.0 / (x * one_minus(x)))


# -- ops -------------------------------------------------------------------------------------------

_PAIR: dict[str, Any] = {"n_inputs": 2, "saves": (0, 1), "domain": (0.5, 3.0)}

XLOGY = define_special("xlogy", _xlogy, vjps=(_xlogy_vjp_x, _xlogy_vjp_y), **_PAIR)
XLOG1PY = define_special("xlog1py", _xlog1py, vjps=(_xlog1py_vjp_x, _xlog1py_vjp_y), **_PAIR)
REL_ENTR = define_special("rel_entr", _rel_entr, vjps=(_rel_entr_vjp_x, _rel_entr_vjp_y), **_PAIR)
KL_DIV = define_special("kl_div", _kl_div, vjps=(_kl_div_vjp_x, _kl_div_vjp_y), **_PAIR)
ENTR = define_special("entr", _entr, saves=(0,), vjps=(_entr_vjp,), domain=(0.1, 3.0))
LOG1MEXP = define_special(
    "log1mexp", _log1mexp, saves=(0,), vjps=(_log1mexp_vjp,), domain=(0.1, 4.0)
)
LOGIT = define_special("logit", _logit, saves=(0,), vjps=(_logit_vjp,), domain=(0.1, 0.9))


_xlogy_of = make_binary(XLOGY, promote=promote_to_float)


def xlogy(x: TensorLike, y: TensorLike, /) -> Tensor:
    """`x * log(y)`, and 0 where `x` is 0, whatever number `y` is.

    Ints and bools are taken as floats: float64, or float32 if they have 8 or 16 bits.

    Parameters
    ----------
    x, y : TensorLike of float
        With shapes that broadcast.

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
    >>> tl.special.xlogy([0.0, 2.0], [0.0, 3.0]).numpy()
    array([0.        , 2.19722458])
    """
    return _xlogy_of(x, y)


_xlog1py_of = make_binary(XLOG1PY, promote=promote_to_float)


def xlog1py(x: TensorLike, y: TensorLike, /) -> Tensor:
    """`x * log1p(y)`, and 0 where `x` is 0, whatever number `y` is.

    Ints and bools are taken as floats: float64, or float32 if they have 8 or 16 bits.

    Parameters
    ----------
    x, y : TensorLike of float
        With shapes that broadcast.

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
    >>> tl.special.xlog1py([0.0, 2.0], [-1.0, 3.0]).numpy()
    array([0.        , 2.77258872])
    """
    return _xlog1py_of(x, y)


_rel_entr_of = make_binary(REL_ENTR, promote=promote_to_float)


def rel_entr(x: TensorLike, y: TensorLike, /) -> Tensor:
    """`x * log(x / y)` of positive numbers, 0 where `x` is 0 and `y` is not below 0, infinity
    elsewhere.

    Ints and bools are taken as floats: float64, or float32 if they have 8 or 16 bits.

    Parameters
    ----------
    x, y : TensorLike of float
        With shapes that broadcast.

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
    >>> tl.special.rel_entr([0.0, 0.5, 0.5], [0.5, 0.25, 0.0]).numpy()
    array([0.        , 0.34657359,        inf])
    """
    return _rel_entr_of(x, y)


_kl_div_of = make_binary(KL_DIV, promote=promote_to_float)


def kl_div(x: TensorLike, y: TensorLike, /) -> Tensor:
    """`x * log(x / y) - x + y` of positive numbers, `y` where `x` is 0, infinity outside of that.

    Ints and bools are taken as floats: float64, or float32 if they have 8 or 16 bits.

    Parameters
    ----------
    x, y : TensorLike of float
        With shapes that broadcast.

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
    >>> tl.special.kl_div([0.0, 0.5, 0.5], [0.5, 0.25, 0.0]).numpy()
    array([0.5       , 0.09657359,        inf])
    """
    return _kl_div_of(x, y)


_entr_of = make_unary(ENTR)


def entr(x: TensorLike, /) -> Tensor:
    """`-x * log(x)`, 0 where `x` is 0 and minus infinity below.

    Ints and bools are taken as floats: float64, or float32 if they have 8 or 16 bits.

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
    >>> tl.special.entr([0.0, 0.5, -1.0]).numpy()
    array([0.        , 0.34657359,       -inf])
    """
    return _entr_of(x)


_logit_of = make_unary(LOGIT)


def logit(p: TensorLike, /) -> Tensor:
    """`log(p / (1 - p))`, the inverse of the logistic function; NaN outside of [0, 1].

    Ints and bools are taken as floats: float64, or float32 if they have 8 or 16 bits.

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
    >>> tl.special.logit([0.0, 0.5, 0.75]).numpy()
    array([      -inf, 0.        , 1.09861229])
    """
    return _logit_of(p)


_log1mexp_of = make_unary(LOG1MEXP)


def log1mexp(x: TensorLike, /) -> Tensor:
    """`log(1 - exp(-x))`, without the loss of digits for small and for large `x`; NaN below 0.

    Ints and bools are taken as floats: float64, or float32 if they have 8 or 16 bits.

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
    >>> tl.special.log1mexp([0.0, 1e-20, 1.0, 40.0]).numpy()
    array([           -inf, -4.60517019e+01, -4.58675145e-01, -4.24835426e-18])
    """
    return _log1mexp_of(x)
