"""Powers and roots."""

from __future__ import annotations

from typing import Any

import numpy as np

from tapeline.runtime.cells import make_inplace
from tapeline.runtime.errors import ArgumentError
from tapeline.runtime.op import OUT, Attrs, LibraryCall, ScalarEmitter, Trait, V, get_op
from tapeline.runtime.operators import attach_method, make_binary, make_unary
from tapeline.runtime.ops.pointwise import (
    BOOL,
    along,
    apply,
    call,
    define_pointwise,
    emit_call,
    masked,
    over,
    unbroadcast,
)
from tapeline.runtime.ops.promotion import (
    bool_as_int8,
    dtype_or_type,
    promote_to_float,
    weak_or_tensor,
)
from tapeline.runtime.ops.signs import positive
from tapeline.runtime.promotion import is_operand, narrowed, promote, promoted_dtype
from tapeline.runtime.spec import broadcast_shapes
from tapeline.runtime.tensor import (
    Tensor,
    TensorLike,
    as_tensor,
    cast_tensor,
    register_ufunc,
)

_INT8 = np.dtype(np.int8)

# -- square and reciprocal -------------------------------------------------------------------------


def _square_vjp(ct: Any, attrs: Attrs, x: Any) -> Any:
    return along(ct, x + x)


def _square_emit(b: ScalarEmitter[V], x: V) -> V:
    return b.mul(x, x)


SQUARE = define_pointwise(
    "square", kernel=np.square, kinds="iufc", saves=(0,), vjps=(_square_vjp,), emit=_square_emit
)

_square = make_unary(SQUARE)


def square(x: TensorLike, /) -> Tensor:
    """`x * x`, element by element.

    Bools give int8.

    Parameters
    ----------
    x : TensorLike of int, float or complex
        Of any shape.

    Returns
    -------
    Tensor
        Of the shape of `x`.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.square([1.0, -3.0]).numpy()
    array([1., 9.])
    """
    x = as_tensor(x, None, "square")
    return _square(cast_tensor(x, _INT8) if x.dtype is BOOL else x)


register_ufunc(np.square, square)


def _reciprocal_vjp(ct: Any, attrs: Attrs, out: Any) -> Any:
    return masked(-along(ct, out * out))


def _reciprocal_emit(b: ScalarEmitter[V], x: V) -> V:
    return b.reciprocal(x) if b.dtype_of(x).kind == "c" else b.div(b.const(1, x), x)


RECIPROCAL = define_pointwise(
    "reciprocal",
    kernel=np.reciprocal,
    kinds="fc",
    saves=(OUT,),
    vjps=(_reciprocal_vjp,),
    emit=_reciprocal_emit,
    domain=(0.5, 3.0),
)

_reciprocal = make_unary(RECIPROCAL)


def reciprocal(x: TensorLike, /) -> Tensor:
    """`1 / x`, element by element.

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
    >>> tl.reciprocal([2.0, -4.0]).numpy()
    array([ 0.5 , -0.25])
    """
    return _reciprocal(x)


register_ufunc(np.reciprocal, reciprocal)

# -- roots -----------------------------------------------------------------------------------------


def _sqrt_vjp(ct: Any, attrs: Attrs, out: Any) -> Any:
    return over(ct * 0.5, out)


def _sqrt_emit(b: ScalarEmitter[V], x: V) -> V:
    return b.sqrt(x)


SQRT = define_pointwise(
    "sqrt",
    kernel=np.sqrt,
    kinds="fc",
    saves=(OUT,),
    vjps=(_sqrt_vjp,),
    emit=_sqrt_emit,
    domain=(0.5, 4.0),
)

_sqrt = make_unary(SQRT)


def sqrt(x: TensorLike, /) -> Tensor:
    """The square root of each element, NaN for negative reals.

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
    >>> tl.sqrt([4.0, 2.25]).numpy()
    array([2. , 1.5])
    """
    return _sqrt(x)


register_ufunc(np.sqrt, sqrt)


def _rsqrt_kernel(x: Any) -> Any:
    return np.reciprocal(np.sqrt(x))


def _rsqrt_vjp(ct: Any, attrs: Attrs, out: Any) -> Any:
    return masked(along(ct * -0.5, out * out * out))


def _rsqrt_emit(b: ScalarEmitter[V], x: V) -> V:
    return _reciprocal_emit(b, b.sqrt(x))


RSQRT = define_pointwise(
    "rsqrt",
    kernel=_rsqrt_kernel,
    kinds="fc",
    saves=(OUT,),
    vjps=(_rsqrt_vjp,),
    emit=_rsqrt_emit,
    domain=(0.5, 4.0),
    ulp=(1.5, 1.5),
)

_rsqrt = make_unary(RSQRT)


def rsqrt(x: TensorLike, /) -> Tensor:
    """`1 / sqrt(x)`, element by element.

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
    >>> tl.rsqrt([4.0, 0.25]).numpy()
    array([0.5, 2. ])
    """
    return _rsqrt(x)


# -- power -----------------------------------------------------------------------------------------


def _power_vjp_x(ct: Any, attrs: Attrs, x: Any, y: Any, out: Any) -> Any:
    lowered = call(POWER, x, (y - 1) + (y == 0))  # where y is 0 the slope is 0, at x = 0 too
    return masked(unbroadcast(along(ct, y * lowered), x.shape))


def _power_vjp_y(ct: Any, attrs: Attrs, x: Any, y: Any, out: Any) -> Any:
    grown = out * call(get_op("log"), x + (x == 0))  # 0, not 0 * log(0), where x is 0
    return masked(unbroadcast(along(ct, grown), y.shape))


POWER = define_pointwise(
    "power",
    kernel=np.power,
    kinds="fc",
    n_inputs=2,
    saves=(0, 1, OUT),
    vjps=(_power_vjp_x, _power_vjp_y),
    emit=emit_call("power"),
    domain=(0.5, 2.5),
    ulp=(2.0, 2.0),
)

INTEGER_POWER = define_pointwise(
    "integer_power",
    kernel=np.power,
    kinds="iu",
    n_inputs=2,
    vjps=(None, None),
    emit=LibraryCall("integer_power"),
    domain=(0.0, 5.0),
)
"""Apart from `power`: a negative exponent is an error, which only the NumPy kernel can raise."""


def power(x1: TensorLike, x2: TensorLike, /) -> Tensor:
    """`x1` to the power of `x2`, element by element; `x1 ** x2`.

    Bools are taken as int8.

    Parameters
    ----------
    x1, x2 : TensorLike of int, float or complex
        With shapes that broadcast.

    Returns
    -------
    Tensor
        Of the broadcast shape.

    Raises
    ------
    ArgumentError
        If both are ints and an exponent is negative.
    ShapeError
        If the shapes do not broadcast.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.power([1.0, 2.0, 3.0], 2).numpy()
    array([1., 4., 9.])
    """
    if type(x1) is Tensor and type(x2) in (int, float) and x1.dtype.kind == "f":
        return _power_of_float(x1, x2)  # type: ignore[arg-type]
    if type(x1) is Tensor and type(x2) is Tensor and x1.dtype is x2.dtype and x1.dtype.kind == "f":
        return _power(x1, x2)
    base, exponent = weak_or_tensor(POWER, x1), weak_or_tensor(POWER, x2)
    dtype = promoted_dtype(dtype_or_type(base), dtype_or_type(exponent))
    if dtype.kind in "fcV":
        operands = promote(POWER, base, exponent)
        simple = _SIMPLE_POWERS.get(exponent) if type(exponent) in (int, float) else None
        result = apply(POWER, *operands) if simple is None else simple(operands[0])
        return narrowed(result, base, exponent)
    if type(exponent) is int and exponent < 0 and dtype.kind != "u":
        raise ArgumentError(
            f"power: ints cannot be raised to the negative int {exponent}; use a float exponent, "
            f"or convert the base with tl.astype"
        )
    if type(exponent) is int and exponent == 2:
        return square(base)
    return _integer_power(*bool_as_int8(INTEGER_POWER, base, exponent))


def _integer_power(x: Tensor, y: Tensor) -> Tensor:
    """With operands spread to one shape, as the compiled form takes them."""
    shape = broadcast_shapes("power", x.shape, y.shape)
    spread = get_op("broadcast_to")
    x, y = (z if z.shape == shape else apply(spread, z, attrs=(shape,)) for z in (x, y))
    return apply(INTEGER_POWER, x, y)


_SIMPLE_POWERS = {-1.0: _reciprocal, 0.5: _sqrt, 1.0: positive, 2.0: _square}
"""What NumPy computes for these Python exponents; at -0.0 and -inf `sqrt` is not `power`."""

_power = make_binary(POWER, method=True)


def _power_of_float(x: Tensor, exponent: float) -> Tensor:
    simple = _SIMPLE_POWERS.get(exponent)
    return _power(x, exponent) if simple is None else simple(x)


pow = power
"""The array API standard's name."""

register_ufunc(np.power, power)


def _power_method(x: Tensor, exponent: Any) -> Any:
    return power(x, exponent) if is_operand(exponent) else NotImplemented


def _reflected_power(x: Tensor, base: Any) -> Any:
    return power(base, x) if is_operand(base) else NotImplemented


attach_method("__pow__", _power_method)
attach_method("__rpow__", _reflected_power)
attach_method("__ipow__", make_inplace("**=", _power_method))

# -- hypot -----------------------------------------------------------------------------------------


def _share_of(x: Any, out: Any) -> Any:
    """x / out, and 0 where both are 0."""
    return x / (out + (out == 0))


def _hypot_vjp_x(ct: Any, attrs: Attrs, x: Any, y: Any, out: Any) -> Any:
    return unbroadcast(along(ct, _share_of(x, out)), x.shape)


def _hypot_vjp_y(ct: Any, attrs: Attrs, x: Any, y: Any, out: Any) -> Any:
    return unbroadcast(along(ct, _share_of(y, out)), y.shape)


def _hypot_emit(b: ScalarEmitter[V], x: V, y: V) -> V:
    """sqrt(x*x + y*y), scaled by a power of two where the squares would leave the range."""
    x, y = b.abs(x), b.abs(y)
    larger, smaller = b.maximum(x, y), b.minimum(x, y)
    up, down, big, small = _HYPOT_SCALES[b.dtype_of(x).itemsize]
    one = b.const(1, x)
    is_big = b.compare("gt", larger, b.const(big, x))
    is_small = b.compare("lt", larger, b.const(small, x))
    scale = b.select(is_big, b.const(down, x), b.select(is_small, b.const(up, x), one))
    back = b.select(is_big, b.const(up, x), b.select(is_small, b.const(down, x), one))
    larger, smaller = b.mul(larger, scale), b.mul(smaller, scale)
    root = b.mul(b.sqrt(b.fma(larger, larger, b.mul(smaller, smaller))), back)
    infinity = b.const(float("inf"), x)
    is_infinite = b.bit_or(b.compare("eq", x, infinity), b.compare("eq", y, infinity))
    return b.select(is_infinite, infinity, root)


_HYPOT_SCALES = {
    4: (2.0**70, 2.0**-70, 2.0**60, 2.0**-50),
    8: (2.0**600, 2.0**-600, 2.0**500, 2.0**-450),
}
"""By item size: the scale up, the scale down, and the sizes above and below which they serve."""

HYPOT = define_pointwise(
    "hypot",
    kernel=np.hypot,
    kinds="f",
    n_inputs=2,
    saves=(0, 1, OUT),
    vjps=(_hypot_vjp_x, _hypot_vjp_y),
    emit=_hypot_emit,
    traits=Trait.COMMUTATIVE,
    domain=(0.5, 3.0),
    ulp=(1.5, 1.5),
)

_hypot = make_binary(HYPOT, promote=promote_to_float)


def hypot(x1: TensorLike, x2: TensorLike, /) -> Tensor:
    """`sqrt(x1*x1 + x2*x2)` without overflow on the way, element by element.

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
    >>> tl.hypot([3.0, 6.0], [4.0, 8.0]).numpy()
    array([ 5., 10.])
    """
    return _hypot(x1, x2)


register_ufunc(np.hypot, hypot)
