"""Signs and absolute values."""

from __future__ import annotations

from typing import Any

import numpy as np

from tapeline.runtime.op import Attrs, ScalarEmitter, Trait, V, get_op
from tapeline.runtime.operators import attach_method, make_unary
from tapeline.runtime.ops.cast import REAL
from tapeline.runtime.ops.pointwise import (
    along,
    call,
    define_pointwise,
    over,
    scaled,
    to_real,
    zeros_for,
)
from tapeline.runtime.tensor import Tensor, TensorLike, register_ufunc

# -- negative and positive -------------------------------------------------------------------------


def _negative_vjp(ct: Any, attrs: Attrs) -> Any:
    return -ct


def _negative_emit(b: ScalarEmitter[V], x: V) -> V:
    return b.neg(x)


NEGATIVE = define_pointwise(
    "negative",
    kernel=np.negative,
    kinds="iufc",
    vjps=(_negative_vjp,),
    emit=_negative_emit,
    traits=Trait.INVOLUTION | Trait.ROWS,
)

_negative = make_unary(NEGATIVE)


def negative(x: TensorLike, /) -> Tensor:
    """`-x`, element by element.

    Parameters
    ----------
    x : TensorLike of int, float or complex
        Of any shape.

    Returns
    -------
    Tensor
        Of the shape of `x`.

    Raises
    ------
    DTypeError
        If x is not of int, float or complex.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.negative([1.0, -2.0]).numpy()
    array([-1.,  2.])
    """
    return _negative(x)


register_ufunc(np.negative, negative)
attach_method("__neg__", _negative)


def _positive_vjp(ct: Any, attrs: Attrs) -> Any:
    return ct


def _positive_emit(b: ScalarEmitter[V], x: V) -> V:
    return x


POSITIVE = define_pointwise(
    "positive",
    kernel=np.positive,
    kinds="iufc",
    vjps=(_positive_vjp,),
    emit=_positive_emit,
    traits=Trait.IDEMPOTENT,
)

_positive = make_unary(POSITIVE)


def positive(x: TensorLike, /) -> Tensor:
    """`+x`: the same values.

    Parameters
    ----------
    x : TensorLike of int, float or complex
        Of any shape.

    Returns
    -------
    Tensor
        Of the shape of `x`.

    Raises
    ------
    DTypeError
        If x is not of int, float or complex.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.positive([1.0, -2.0]).numpy()
    array([ 1., -2.])
    """
    return _positive(x)


register_ufunc(np.positive, positive)
attach_method("__pos__", _positive)

# -- sign and abs ----------------------------------------------------------------------------------


def _sign_vjp(ct: Any, attrs: Attrs, x: Any) -> Any:
    if x.dtype.kind != "c":
        return zeros_for(ct)
    out = call(SIGN, x)
    radial = call(get_op("cast"), call(REAL, along(ct, out)), attrs=(x.dtype,))
    size = call(get_op("cast"), call(ABS, x), attrs=(x.dtype,))
    return over(ct - scaled(radial, out), size)


def _sign_emit(b: ScalarEmitter[V], x: V) -> V:
    if b.dtype_of(x).kind == "c":
        return b.sign(x)
    zero, one = b.const(0, x), b.const(1, x)
    if b.dtype_of(x).kind == "u":
        return b.select(b.compare("gt", x, zero), one, zero)
    below = b.select(b.compare("lt", x, zero), b.neg(one), x)
    signed = b.select(b.compare("gt", x, zero), one, below)
    return b.select(b.compare("eq", x, zero), zero, signed)


SIGN = define_pointwise(
    "sign",
    kernel=np.sign,
    kinds="iufc",
    saves=(0,),
    vjps=(_sign_vjp,),
    emit=_sign_emit,
    domain=(0.5, 3.0),
)

_sign = make_unary(SIGN)


def sign(x: TensorLike, /) -> Tensor:
    """-1, 0 or 1, the sign of each element; for complex ones x / abs(x).

    NaN stays NaN. The gradient is 0 where x is real.

    Parameters
    ----------
    x : TensorLike of int, float or complex
        Of any shape.

    Returns
    -------
    Tensor
        Of the shape of `x`.

    Raises
    ------
    DTypeError
        If x is not of int, float or complex.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.sign([3.0, 0.0, -2.0]).numpy()
    array([ 1.,  0., -1.])
    """
    return _sign(x)


register_ufunc(np.sign, sign)


def _abs_vjp(ct: Any, attrs: Attrs, x: Any) -> Any:
    if x.dtype.kind == "c":
        ct = call(get_op("cast"), ct, attrs=(x.dtype,))
    return scaled(ct, call(SIGN, x))


def _abs_emit(b: ScalarEmitter[V], x: V) -> V:
    return x if b.dtype_of(x).kind in "bu" else b.abs(x)


ABS = define_pointwise(
    "abs",
    kernel=np.absolute,
    kinds="biufc",
    result=to_real,
    saves=(0,),
    vjps=(_abs_vjp,),
    emit=_abs_emit,
    traits=Trait.IDEMPOTENT,
    domain=(0.5, 3.0),
)

_abs = make_unary(ABS)


def abs(x: TensorLike, /) -> Tensor:
    """The absolute value of each element; for complex ones a real number.

    The gradient at 0 is 0.

    Parameters
    ----------
    x : TensorLike
        Of any shape.

    Returns
    -------
    Tensor
        Of the shape of `x`.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.abs([1.0, -2.0]).numpy()
    array([1., 2.])
    """
    return _abs(x)


register_ufunc(np.absolute, abs)
attach_method("__abs__", _abs)
