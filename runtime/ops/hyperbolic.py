"""Hyperbolic functions and their inverses."""

from __future__ import annotations

from typing import Any

import numpy as np

from tapeline.runtime.op import OUT, Attrs
from tapeline.runtime.operators import make_unary
from tapeline.runtime.ops.pointwise import along, call, define_pointwise, emit_call, one_minus, over
from tapeline.runtime.ops.powers import SQRT
from tapeline.runtime.tensor import Tensor, TensorLike, register_ufunc

# -- sinh, cosh, tanh ------------------------------------------------------------------------------


def _sinh_vjp(ct: Any, attrs: Attrs, x: Any) -> Any:
    return along(ct, call(COSH, x))


SINH = define_pointwise(
    "sinh",
    kernel=np.sinh,
    kinds="fc",
    saves=(0,),
    vjps=(_sinh_vjp,),
    emit=emit_call("sinh"),
    domain=(-3.0, 3.0),
    ulp=(2.0, 2.0),
)

_sinh = make_unary(SINH)


def sinh(x: TensorLike, /) -> Tensor:
    """The hyperbolic sine of each element.

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
    >>> tl.sinh([0.0, 1.0]).numpy()
    array([0.        , 1.17520119])
    """
    return _sinh(x)


register_ufunc(np.sinh, sinh)


def _cosh_vjp(ct: Any, attrs: Attrs, x: Any) -> Any:
    return along(ct, call(SINH, x))


COSH = define_pointwise(
    "cosh",
    kernel=np.cosh,
    kinds="fc",
    saves=(0,),
    vjps=(_cosh_vjp,),
    emit=emit_call("cosh"),
    domain=(-3.0, 3.0),
    ulp=(2.0, 2.0),
)

_cosh = make_unary(COSH)


def cosh(x: TensorLike, /) -> Tensor:
    """The hyperbolic cosine of each element.

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
    >>> tl.cosh([0.0, 1.0]).numpy()
    array([1.        , 1.54308063])
    """
    return _cosh(x)


register_ufunc(np.cosh, cosh)


def _tanh_vjp(ct: Any, attrs: Attrs, out: Any) -> Any:
    return along(ct, one_minus(out * out))


def _tanh_kernel(x: Any) -> Any:
    """NumPy's; at infinity the imaginary part keeps its sign, as the array API standard has it."""
    result = np.tanh(x)
    if x.dtype.kind == "c":
        far = np.isinf(x.real) & np.isfinite(x.imag)
        if far.any():
            limit = np.empty_like(x)
            limit.real, limit.imag = np.copysign(1, x.real), np.copysign(0, x.imag)
            return np.where(far, limit, result)
    return result


TANH = define_pointwise(
    "tanh",
    kernel=_tanh_kernel,
    kinds="fc",
    saves=(OUT,),
    vjps=(_tanh_vjp,),
    emit=emit_call("tanh"),
    domain=(-3.0, 3.0),
    ulp=(2.0, 2.0),
)

_tanh = make_unary(TANH)


def tanh(x: TensorLike, /) -> Tensor:
    """The hyperbolic tangent of each element.

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
    >>> tl.tanh([0.0, 1.0]).numpy()
    array([0.        , 0.76159416])
    """
    return _tanh(x)


register_ufunc(np.tanh, tanh)

# -- asinh, acosh, atanh ---------------------------------------------------------------------------


def _asinh_vjp(ct: Any, attrs: Attrs, x: Any) -> Any:
    return over(ct, call(SQRT, x * x + 1))


ASINH = define_pointwise(
    "asinh",
    kernel=np.arcsinh,
    kinds="fc",
    saves=(0,),
    vjps=(_asinh_vjp,),
    emit=emit_call("arcsinh"),
    domain=(-4.0, 4.0),
    ulp=(2.0, 2.0),
)

_asinh = make_unary(ASINH)


def asinh(x: TensorLike, /) -> Tensor:
    """The number whose hyperbolic sine is x, element by element.

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
    >>> tl.asinh([0.0, 1.0]).numpy()
    array([0.        , 0.88137359])
    """
    return _asinh(x)


register_ufunc(np.arcsinh, asinh)


def _acosh_vjp(ct: Any, attrs: Attrs, x: Any) -> Any:
    return over(ct, call(SQRT, x - 1) * call(SQRT, x + 1))


ACOSH = define_pointwise(
    "acosh",
    kernel=np.arccosh,
    kinds="fc",
    saves=(0,),
    vjps=(_acosh_vjp,),
    emit=emit_call("arccosh"),
    domain=(1.5, 4.0),
    ulp=(2.0, 2.0),
)

_acosh = make_unary(ACOSH)


def acosh(x: TensorLike, /) -> Tensor:
    """The number >= 0 whose hyperbolic cosine is x, element by element.

    Ints and bools are taken as floats: float64, or float32 if they have 8 or 16 bits. NaN for reals
    below 1.

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
    >>> tl.acosh([1.0, 2.0]).numpy()
    array([0.       , 1.3169579])
    """
    return _acosh(x)


register_ufunc(np.arccosh, acosh)


def _atanh_vjp(ct: Any, attrs: Attrs, x: Any) -> Any:
    return over(ct, (1 - x) * (1 + x))


ATANH = define_pointwise(
    "atanh",
    kernel=np.arctanh,
    kinds="fc",
    saves=(0,),
    vjps=(_atanh_vjp,),
    emit=emit_call("arctanh"),
    domain=(-0.9, 0.9),
    ulp=(2.0, 2.0),
)

_atanh = make_unary(ATANH)


def atanh(x: TensorLike, /) -> Tensor:
    """The number whose hyperbolic tangent is x, element by element.

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
    >>> tl.atanh([0.0, 0.5]).numpy()
    array([0.        , 0.54930614])
    """
    return _atanh(x)


register_ufunc(np.arctanh, atanh)
