"""Trigonometric functions and their inverses."""

from __future__ import annotations

from typing import Any

import numpy as np

from tapeline.runtime.op import OUT, Attrs
from tapeline.runtime.operators import make_binary, make_unary
from tapeline.runtime.ops.pointwise import (
    along,
    call,
    define_pointwise,
    emit_call,
    over,
    unbroadcast,
)
from tapeline.runtime.ops.powers import SQRT
from tapeline.runtime.ops.promotion import promote_to_float
from tapeline.runtime.tensor import Tensor, TensorLike, register_ufunc

# -- sin, cos, tan ---------------------------------------------------------------------------------


def _sin_vjp(ct: Any, attrs: Attrs, x: Any) -> Any:
    return along(ct, call(COS, x))


SIN = define_pointwise(
    "sin",
    kernel=np.sin,
    kinds="fc",
    saves=(0,),
    vjps=(_sin_vjp,),
    emit=emit_call("sin"),
    domain=(-4.0, 4.0),
    ulp=(2.0, 2.0),
)

_sin = make_unary(SIN)


def sin(x: TensorLike, /) -> Tensor:
    """The sine of each element, given in radians.

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
    >>> tl.sin([0.0, 0.5]).numpy()
    array([0.        , 0.47942554])
    """
    return _sin(x)


register_ufunc(np.sin, sin)


def _cos_vjp(ct: Any, attrs: Attrs, x: Any) -> Any:
    return -along(ct, call(SIN, x))


COS = define_pointwise(
    "cos",
    kernel=np.cos,
    kinds="fc",
    saves=(0,),
    vjps=(_cos_vjp,),
    emit=emit_call("cos"),
    domain=(-4.0, 4.0),
    ulp=(2.0, 2.0),
)

_cos = make_unary(COS)


def cos(x: TensorLike, /) -> Tensor:
    """The cosine of each element, given in radians.

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
    >>> tl.cos([0.0, 0.5]).numpy()
    array([1.        , 0.87758256])
    """
    return _cos(x)


register_ufunc(np.cos, cos)


def _tan_vjp(ct: Any, attrs: Attrs, out: Any) -> Any:
    return along(ct, out * out + 1)


TAN = define_pointwise(
    "tan",
    kernel=np.tan,
    kinds="fc",
    saves=(OUT,),
    vjps=(_tan_vjp,),
    emit=emit_call("tan"),
    domain=(-1.2, 1.2),
    ulp=(2.0, 2.0),
)

_tan = make_unary(TAN)


def tan(x: TensorLike, /) -> Tensor:
    """The tangent of each element, given in radians.

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
    >>> tl.tan([0.0, 0.5]).numpy()
    array([0.        , 0.54630249])
    """
    return _tan(x)


register_ufunc(np.tan, tan)

# -- asin, acos, atan, atan2 -----------------------------------------------------------------------


def _asin_slope(x: Any) -> Any:
    return call(SQRT, (1 - x) * (1 + x))


def _asin_vjp(ct: Any, attrs: Attrs, x: Any) -> Any:
    return over(ct, _asin_slope(x))


ASIN = define_pointwise(
    "asin",
    kernel=np.arcsin,
    kinds="fc",
    saves=(0,),
    vjps=(_asin_vjp,),
    emit=emit_call("arcsin"),
    domain=(-0.9, 0.9),
    ulp=(2.0, 2.0),
)

_asin = make_unary(ASIN)


def asin(x: TensorLike, /) -> Tensor:
    """The angle in [-pi/2, pi/2] whose sine is x, element by element.

    Ints and bools are taken as floats: float64, or float32 if they have 8 or 16 bits. NaN for reals
    outside of [-1, 1].

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
    >>> tl.asin([0.0, 0.5]).numpy()
    array([0.        , 0.52359878])
    """
    return _asin(x)


register_ufunc(np.arcsin, asin)


def _acos_vjp(ct: Any, attrs: Attrs, x: Any) -> Any:
    return over(-ct, _asin_slope(x))


ACOS = define_pointwise(
    "acos",
    kernel=np.arccos,
    kinds="fc",
    saves=(0,),
    vjps=(_acos_vjp,),
    emit=emit_call("arccos"),
    domain=(-0.9, 0.9),
    ulp=(2.0, 2.0),
)

_acos = make_unary(ACOS)


def acos(x: TensorLike, /) -> Tensor:
    """The angle in [0, pi] whose cosine is x, element by element.

    Ints and bools are taken as floats: float64, or float32 if they have 8 or 16 bits. NaN for reals
    outside of [-1, 1].

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
    >>> tl.acos([1.0, 0.5]).numpy()
    array([0.        , 1.04719755])
    """
    return _acos(x)


register_ufunc(np.arccos, acos)


def _atan_vjp(ct: Any, attrs: Attrs, x: Any) -> Any:
    return over(ct, x * x + 1)


ATAN = define_pointwise(
    "atan",
    kernel=np.arctan,
    kinds="fc",
    saves=(0,),
    vjps=(_atan_vjp,),
    emit=emit_call("arctan"),
    domain=(-4.0, 4.0),
    ulp=(2.0, 2.0),
)

_atan = make_unary(ATAN)


def atan(x: TensorLike, /) -> Tensor:
    """The angle in [-pi/2, pi/2] whose tangent is x, element by element.

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
    >>> tl.atan([0.0, 1.0]).numpy()
    array([0.        , 0.78539816])
    """
    return _atan(x)


register_ufunc(np.arctan, atan)


def _share_of(x: Any, square: Any) -> Any:
    """x / square, and 0 at the origin."""
    return x / (square + (square == 0))


def _atan2_vjp_y(ct: Any, attrs: Attrs, y: Any, x: Any) -> Any:
    return unbroadcast(along(ct, _share_of(x, y * y + x * x)), y.shape)


def _atan2_vjp_x(ct: Any, attrs: Attrs, y: Any, x: Any) -> Any:
    return unbroadcast(along(-ct, _share_of(y, y * y + x * x)), x.shape)


ATAN2 = define_pointwise(
    "atan2",
    kernel=np.arctan2,
    kinds="f",
    n_inputs=2,
    saves=(0, 1),
    vjps=(_atan2_vjp_y, _atan2_vjp_x),
    emit=emit_call("arctan2"),
    domain=(0.5, 3.0),
    ulp=(2.0, 2.0),
)

_atan2 = make_binary(ATAN2, promote=promote_to_float)


def atan2(x1: TensorLike, x2: TensorLike, /) -> Tensor:
    """The angle of the point (`x2`, `x1`), in [-pi, pi], element by element.

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
    >>> tl.atan2([1.0, -1.0], [1.0, -1.0]).numpy()
    array([ 0.78539816, -2.35619449])
    """
    return _atan2(x1, x2)


register_ufunc(np.arctan2, atan2)
