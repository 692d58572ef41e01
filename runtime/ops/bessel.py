"""Modified Bessel functions of the first kind, of order 0 and 1.

Up to 8 by their power series in x**2 / 4, from there on by polynomials in 1 / x times
exp(x) / sqrt(x): NIST Digital Library of Mathematical Functions, 10.25.2 and 10.40.1.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tapeline.runtime.op import OUT, Attrs, get_op
from tapeline.runtime.operators import make_unary
from tapeline.runtime.ops.pointwise import along, call
from tapeline.runtime.ops.steps import Real, define_special
from tapeline.runtime.tensor import Tensor, TensorLike

_NEAR = 8.0


def _near(x: Real, order: int) -> Real:
    """The function where |x| <= 8."""
    found = (x * x * 0.25).polynomial(f"i{order}")
    return found * (x * 0.5) if order else found


def _far(x: Real, order: int) -> Real:
    """The function times exp(-|x|) elsewhere."""
    a = abs(x)
    found = (16.0 / a - 1.0).polynomial(f"i{order}_tail") / a.sqrt()
    return found.copysign(x) if order else found


def _grown(x: Real, order: int) -> Real:
    """The function where |x| > 8."""
    a = abs(x)
    half = (a * 0.5).call("exp")
    found = _far(x, order) * half * half
    return a.equals(math.inf).where(x if order else a, found)


def _plain(x: Real, order: int) -> Real:
    is_near = abs(x) <= _NEAR
    return is_near.choose(lambda x: _near(x, order), lambda x: _grown(x, order), x)


def _scaled(x: Real, order: int) -> Real:
    is_near = abs(x) <= _NEAR
    return is_near.choose(
        lambda x: _near(x, order) * (-abs(x)).call("exp"), lambda x: _far(x, order), x
    )


def _i0_vjp(ct: Any, attrs: Attrs, x: Any) -> Any:
    return along(ct, call(I1, x))


def _i0e_vjp(ct: Any, attrs: Attrs, x: Any, out: Any) -> Any:
    return along(ct, call(I1E, x) - call(get_op("sign"), x) * out)


def _quotient(value: Any, x: Any) -> Any:
    """value / x of a function of order 1, whose limit at 0 is 1/2."""
    is_zero = x == 0
    one = np.asarray(1.0, x.dtype)
    half = np.asarray(0.5, x.dtype)
    return call(get_op("where"), is_zero, half, value / call(get_op("where"), is_zero, one, x))


def _i1_vjp(ct: Any, attrs: Attrs, x: Any, out: Any) -> Any:
    return along(ct, call(I0, x) - _quotient(out, x))


def _i1e_vjp(ct: Any, attrs: Attrs, x: Any, out: Any) -> Any:
    return along(ct, call(I0E, x) - _quotient(out, x) - call(get_op("sign"), x) * out)


I0 = define_special("i0", lambda x: _plain(x, 0), saves=(0,), vjps=(_i0_vjp,), domain=(-10.0, 10.0))
I0E = define_special(
    "i0e", lambda x: _scaled(x, 0), saves=(0, OUT), vjps=(_i0e_vjp,), domain=(0.1, 10.0)
)
I1 = define_special(
    "i1", lambda x: _plain(x, 1), saves=(0, OUT), vjps=(_i1_vjp,), domain=(-10.0, 10.0)
)
I1E = define_special(
    "i1e", lambda x: _scaled(x, 1), saves=(0, OUT), vjps=(_i1e_vjp,), domain=(0.1, 10.0)
)


_i0_of = make_unary(I0)


def i0(x: TensorLike, /) -> Tensor:
    """The modified Bessel function of the first kind of order 0.

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
    >>> tl.special.i0([0.0, 1.0, 10.0]).numpy()
    array([1.00000000e+00, 1.26606588e+00, 2.81571663e+03])
    """
    return _i0_of(x)


_i0e_of = make_unary(I0E)


def i0e(x: TensorLike, /) -> Tensor:
    """`exp(-abs(x)) * i0(x)` of each element, which does not overflow.

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
    >>> tl.special.i0e([0.0, 1.0, 1000.0]).numpy()
    array([1.        , 0.46575961, 0.01261724])
    """
    return _i0e_of(x)


_i1_of = make_unary(I1)


def i1(x: TensorLike, /) -> Tensor:
    """The modified Bessel function of the first kind of order 1.

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
    >>> tl.special.i1([0.0, 1.0, 10.0]).numpy()
    array([0.00000000e+00, 5.65159104e-01, 2.67098830e+03])
    """
    return _i1_of(x)


_i1e_of = make_unary(I1E)


def i1e(x: TensorLike, /) -> Tensor:
    """`exp(-abs(x)) * i1(x)` of each element, which does not overflow.

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
    >>> tl.special.i1e([0.0, 1.0, 1000.0]).numpy()
    array([0.        , 0.20791042, 0.01261093])
    """
    return _i1e_of(x)
