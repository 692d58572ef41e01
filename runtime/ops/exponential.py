"""Exponentials and logarithms."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tapeline.runtime.op import OUT, Attrs, ScalarEmitter, Trait, V
from tapeline.runtime.operators import make_binary, make_unary
from tapeline.runtime.ops.pointwise import (
    along,
    call,
    define_pointwise,
    emit_call,
    over,
    unbroadcast,
)
from tapeline.runtime.ops.promotion import promote_to_float
from tapeline.runtime.ops.special import SIGMOID
from tapeline.runtime.tensor import Tensor, TensorLike, register_ufunc

_LN2 = math.log(2.0)
_LN10 = math.log(10.0)

# -- exponentials ----------------------------------------------------------------------------------


def _exp_vjp(ct: Any, attrs: Attrs, out: Any) -> Any:
    return along(ct, out)


EXP = define_pointwise(
    "exp",
    kernel=np.exp,
    kinds="fc",
    saves=(OUT,),
    vjps=(_exp_vjp,),
    emit=emit_call("exp"),
    domain=(-4.0, 4.0),
    ulp=(2.0, 2.0),
)

_exp = make_unary(EXP)


def exp(x: TensorLike, /) -> Tensor:
    """e to the power of each element.

    Ints and bools are taken as floats: float64, or float32 if they have 8 or 16 bits.

    Parameters
    ----------
    x : TensorLike of float or complex
        Of any shape.

    Returns
    -------
    Tensor
        Of the shape of `x`.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.exp([0.0, 1.0]).numpy()
    array([1.        , 2.71828183])
    """
    return _exp(x)


register_ufunc(np.exp, exp)


def _exp2_vjp(ct: Any, attrs: Attrs, out: Any) -> Any:
    return along(ct * _LN2, out)


EXP2 = define_pointwise(
    "exp2",
    kernel=np.exp2,
    kinds="fc",
    saves=(OUT,),
    vjps=(_exp2_vjp,),
    emit=emit_call("exp2"),
    domain=(-4.0, 4.0),
    ulp=(2.0, 2.0),
)

_exp2 = make_unary(EXP2)


def exp2(x: TensorLike, /) -> Tensor:
    """2 to the power of each element.

    Ints and bools are taken as floats: float64, or float32 if they have 8 or 16 bits.

    Parameters
    ----------
    x : TensorLike of float or complex
        Of any shape.

    Returns
    -------
    Tensor
        Of the shape of `x`.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.exp2([0.0, 3.0]).numpy()
    array([1., 8.])
    """
    return _exp2(x)


register_ufunc(np.exp2, exp2)


def _expm1_vjp(ct: Any, attrs: Attrs, out: Any) -> Any:
    return along(ct, out + 1)


def _expm1_kernel(x: Any) -> Any:
    """NumPy's, which is wrong for complex infinities, NaN and zero, and where it overflows."""
    result = np.expm1(x)
    if x.dtype.kind == "c":
        special = ~np.isfinite(x) | ~np.isfinite(result) | (x == 0)
        if special.any():
            return np.where(special, np.exp(x) - 1, result)
    return result


EXPM1 = define_pointwise(
    "expm1",
    kernel=_expm1_kernel,
    kinds="fc",
    saves=(OUT,),
    vjps=(_expm1_vjp,),
    emit=emit_call("expm1"),
    domain=(-4.0, 4.0),
    ulp=(2.0, 2.0),
)

_expm1 = make_unary(EXPM1)


def expm1(x: TensorLike, /) -> Tensor:
    """`exp(x) - 1`, element by element, exact for small x too.

    Ints and bools are taken as floats: float64, or float32 if they have 8 or 16 bits.

    Parameters
    ----------
    x : TensorLike of float or complex
        Of any shape.

    Returns
    -------
    Tensor
        Of the shape of `x`.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.expm1([0.0, 1e-12]).numpy()
    array([0.e+00, 1.e-12])
    """
    return _expm1(x)


register_ufunc(np.expm1, expm1)

# -- logarithms ------------------------------------------------------------------------------------


def _log_vjp(ct: Any, attrs: Attrs, x: Any) -> Any:
    return over(ct, x)


LOG = define_pointwise(
    "log",
    kernel=np.log,
    kinds="fc",
    saves=(0,),
    vjps=(_log_vjp,),
    emit=emit_call("log"),
    domain=(0.1, 4.0),
    ulp=(2.0, 2.0),
)

_log = make_unary(LOG)


def log(x: TensorLike, /) -> Tensor:
    """The natural logarithm of each element, NaN for negative reals.

    Ints and bools are taken as floats: float64, or float32 if they have 8 or 16 bits.

    Parameters
    ----------
    x : TensorLike of float or complex
        Of any shape.

    Returns
    -------
    Tensor
        Of the shape of `x`.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.log([1.0, 2.0]).numpy()
    array([0.        , 0.69314718])
    """
    return _log(x)


register_ufunc(np.log, log)


def _log1p_vjp(ct: Any, attrs: Attrs, x: Any) -> Any:
    return over(ct, x + 1)


LOG1P = define_pointwise(
    "log1p",
    kernel=np.log1p,
    kinds="fc",
    saves=(0,),
    vjps=(_log1p_vjp,),
    emit=emit_call("log1p"),
    domain=(-0.5, 4.0),
    ulp=(2.0, 2.0),
)

_log1p = make_unary(LOG1P)


def log1p(x: TensorLike, /) -> Tensor:
    """`log(1 + x)`, element by element, exact for small x too.

    Ints and bools are taken as floats: float64, or float32 if they have 8 or 16 bits.

    Parameters
    ----------
    x : TensorLike of float or complex
        Of any shape.

    Returns
    -------
    Tensor
        Of the shape of `x`.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.log1p([0.0, 1e-12]).numpy()
    array([0.e+00, 1.e-12])
    """
    return _log1p(x)


register_ufunc(np.log1p, log1p)


def _log2_vjp(ct: Any, attrs: Attrs, x: Any) -> Any:
    return over(ct * (1.0 / _LN2), x)


LOG2 = define_pointwise(
    "log2",
    kernel=np.log2,
    kinds="fc",
    saves=(0,),
    vjps=(_log2_vjp,),
    emit=emit_call("log2"),
    domain=(0.1, 4.0),
    ulp=(2.0, 2.0),
)

_log2 = make_unary(LOG2)


def log2(x: TensorLike, /) -> Tensor:
    """The logarithm to base 2 of each element.

    Ints and bools are taken as floats: float64, or float32 if they have 8 or 16 bits.

    Parameters
    ----------
    x : TensorLike of float or complex
        Of any shape.

    Returns
    -------
    Tensor
        Of the shape of `x`.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.log2([1.0, 8.0]).numpy()
    array([0., 3.])
    """
    return _log2(x)


register_ufunc(np.log2, log2)


def _log10_vjp(ct: Any, attrs: Attrs, x: Any) -> Any:
    return over(ct * (1.0 / _LN10), x)


LOG10 = define_pointwise(
    "log10",
    kernel=np.log10,
    kinds="fc",
    saves=(0,),
    vjps=(_log10_vjp,),
    emit=emit_call("log10"),
    domain=(0.1, 4.0),
    ulp=(2.0, 2.0),
)

_log10 = make_unary(LOG10)


def log10(x: TensorLike, /) -> Tensor:
    """The logarithm to base 10 of each element.

    Ints and bools are taken as floats: float64, or float32 if they have 8 or 16 bits.

    Parameters
    ----------
    x : TensorLike of float or complex
        Of any shape.

    Returns
    -------
    Tensor
        Of the shape of `x`.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.log10([1.0, 1000.0]).numpy()
    array([0., 3.])
    """
    return _log10(x)


register_ufunc(np.log10, log10)

# -- logaddexp -------------------------------------------------------------------------------------


def _logaddexp_vjp_x(ct: Any, attrs: Attrs, x: Any, y: Any) -> Any:
    return unbroadcast(along(ct, call(SIGMOID, x - y)), x.shape)


def _logaddexp_vjp_y(ct: Any, attrs: Attrs, x: Any, y: Any) -> Any:
    return unbroadcast(along(ct, call(SIGMOID, y - x)), y.shape)


def _logaddexp_emit(b: ScalarEmitter[V], x: V, y: V) -> V:
    """The larger plus log(1 + exp(-|x - y|)); equal operands, infinities too, apart."""
    larger = b.maximum(x, y)
    distance = b.abs(b.sub(x, y))
    apart = b.add(larger, b.call("log1p", b.call("exp", b.neg(distance))))
    return b.select(b.compare("eq", x, y), b.add(x, b.const(_LN2, x)), apart)


LOGADDEXP = define_pointwise(
    "logaddexp",
    kernel=np.logaddexp,
    kinds="f",
    n_inputs=2,
    saves=(0, 1),
    vjps=(_logaddexp_vjp_x, _logaddexp_vjp_y),
    emit=_logaddexp_emit,
    traits=Trait.COMMUTATIVE,
    domain=(0.1, 4.0),
    ulp=(3.0, 3.0),
)

_logaddexp = make_binary(LOGADDEXP, promote=promote_to_float)


def logaddexp(x1: TensorLike, x2: TensorLike, /) -> Tensor:
    """`log(exp(x1) + exp(x2))` without overflow on the way, element by element.

    Ints and bools are taken as floats: float64, or float32 if they have 8 or 16 bits.

    Parameters
    ----------
    x1, x2 : TensorLike of float
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
    >>> tl.logaddexp([0.0, 1000.0], [0.0, 1000.0]).numpy()
    array([6.93147181e-01, 1.00069315e+03])
    """
    return _logaddexp(x1, x2)


register_ufunc(np.logaddexp, logaddexp)
