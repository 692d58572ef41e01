"""The four operations, and division with remainder."""

from __future__ import annotations

from typing import Any

import numpy as np

from tapeline.runtime.op import OUT, Attrs, ScalarEmitter, ShapeOf, Trait, V
from tapeline.runtime.operators import attach_method, make_binary
from tapeline.runtime.ops import guarded as _guarded  # noqa: F401  # for gradient rules
from tapeline.runtime.ops.pointwise import (
    along,
    attach_operators,
    call,
    define_pointwise,
    over,
    unbroadcast,
)
from tapeline.runtime.ops.promotion import bool_as_int8, promote_to_divide
from tapeline.runtime.promotion import is_operand
from tapeline.runtime.spec import Shape
from tapeline.runtime.tensor import Tensor, TensorLike, register_ufunc

# -- add -------------------------------------------------------------------------------------------


def _add_vjp_x(ct: Any, attrs: Attrs, x_shape: Shape, y_shape: Shape) -> Any:
    return unbroadcast(ct, x_shape)


def _add_vjp_y(ct: Any, attrs: Attrs, x_shape: Shape, y_shape: Shape) -> Any:
    return unbroadcast(ct, y_shape)


def _add_emit(b: ScalarEmitter[V], x: V, y: V) -> V:
    return b.bit_or(x, y) if b.dtype_of(x).kind == "b" else b.add(x, y)


ADD = define_pointwise(
    "add",
    kernel=np.add,
    kinds="biufc",
    n_inputs=2,
    saves=(ShapeOf(0), ShapeOf(1)),
    vjps=(_add_vjp_x, _add_vjp_y),
    emit=_add_emit,
    traits=Trait.COMMUTATIVE,
    identity=-0.0,
)
"""x + -0.0 is x to the bit; x + 0.0 is not, where x is -0.0."""

_add = make_binary(ADD)


def add(x1: TensorLike, x2: TensorLike, /) -> Tensor:
    """The sum of `x1` and `x2`, element by element; `x1 + x2`.

    For bools it is their `or`.

    Parameters
    ----------
    x1, x2 : TensorLike
        With shapes that broadcast.

    Returns
    -------
    Tensor
        Of the broadcast shape.

    Raises
    ------
    ShapeError
        If the shapes do not broadcast.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.add([1.0, 2.0], 0.5).numpy()
    array([1.5, 2.5])
    """
    return _add(x1, x2)


register_ufunc(np.add, add)
attach_operators("add", "+", ADD)

# -- subtract --------------------------------------------------------------------------------------


def _subtract_vjp_y(ct: Any, attrs: Attrs, x_shape: Shape, y_shape: Shape) -> Any:
    return unbroadcast(-ct, y_shape)


def _subtract_emit(b: ScalarEmitter[V], x: V, y: V) -> V:
    return b.sub(x, y)


SUBTRACT = define_pointwise(
    "subtract",
    kernel=np.subtract,
    kinds="iufc",
    n_inputs=2,
    saves=(ShapeOf(0), ShapeOf(1)),
    vjps=(_add_vjp_x, _subtract_vjp_y),
    emit=_subtract_emit,
)

_subtract = make_binary(SUBTRACT)


def subtract(x1: TensorLike, x2: TensorLike, /) -> Tensor:
    """The difference of `x1` and `x2`, element by element; `x1 - x2`.

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
    DTypeError
        For two bools; use `logical_xor`.
    ShapeError
        If the shapes do not broadcast.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.subtract([1.0, 2.0], 0.5).numpy()
    array([0.5, 1.5])
    """
    return _subtract(x1, x2)


register_ufunc(np.subtract, subtract)
attach_operators("sub", "-", SUBTRACT)

# -- multiply --------------------------------------------------------------------------------------


def _multiply_vjp_x(ct: Any, attrs: Attrs, x: Any, y: Any) -> Any:
    part = along(ct, y)
    return part if part.shape == x.shape else unbroadcast(part, x.shape)


def _multiply_vjp_y(ct: Any, attrs: Attrs, x: Any, y: Any) -> Any:
    part = along(ct, x)
    return part if part.shape == y.shape else unbroadcast(part, y.shape)


def _multiply_emit(b: ScalarEmitter[V], x: V, y: V) -> V:
    return b.bit_and(x, y) if b.dtype_of(x).kind == "b" else b.mul(x, y)


MULTIPLY = define_pointwise(
    "multiply",
    kernel=np.multiply,
    kinds="biufc",
    n_inputs=2,
    saves=(0, 1),
    vjps=(_multiply_vjp_x, _multiply_vjp_y),
    emit=_multiply_emit,
    traits=Trait.COMMUTATIVE | Trait.ROWS,
    identity=1.0,
)

_multiply = make_binary(MULTIPLY)


def multiply(x1: TensorLike, x2: TensorLike, /) -> Tensor:
    """The product of `x1` and `x2`, element by element; `x1 * x2`.

    For bools it is their `and`.

    Parameters
    ----------
    x1, x2 : TensorLike
        With shapes that broadcast.

    Returns
    -------
    Tensor
        Of the broadcast shape.

    Raises
    ------
    ShapeError
        If the shapes do not broadcast.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.multiply([1.0, 2.0], 0.5).numpy()
    array([0.5, 1. ])
    """
    return _multiply(x1, x2)


register_ufunc(np.multiply, multiply)
attach_operators("mul", "*", MULTIPLY)

# -- divide ----------------------------------------------------------------------------------------


def _divide_vjp_x(ct: Any, attrs: Attrs, x_shape: Shape, y: Any, out: Any) -> Any:
    part = over(ct, y)
    return part if part.shape == x_shape else unbroadcast(part, x_shape)


def _divide_vjp_y(ct: Any, attrs: Attrs, x_shape: Shape, y: Any, out: Any) -> Any:
    return unbroadcast(-along(over(ct, y), out), y.shape)


def _divide_emit(b: ScalarEmitter[V], x: V, y: V) -> V:
    return b.div(x, y)


DIVIDE = define_pointwise(
    "divide",
    kernel=np.true_divide,
    kinds="fc",
    n_inputs=2,
    saves=(ShapeOf(0), 1, OUT),
    vjps=(_divide_vjp_x, _divide_vjp_y),
    emit=_divide_emit,
    domain=(0.5, 3.0),
    traits=Trait.ROWS,
)

_divide = make_binary(DIVIDE, promote=promote_to_divide)


def divide(x1: TensorLike, x2: TensorLike, /) -> Tensor:
    """The true quotient of `x1` and `x2`, element by element; `x1 / x2`.

    Ints and bools give float64.

    Parameters
    ----------
    x1, x2 : TensorLike of float or complex
        With shapes that broadcast.

    Returns
    -------
    Tensor
        Of the broadcast shape.

    Raises
    ------
    ShapeError
        If the shapes do not broadcast.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.divide([1.0, 2.0], 0.5).numpy()
    array([2., 4.])
    """
    return _divide(x1, x2)


register_ufunc(np.true_divide, divide)
attach_operators("truediv", "/", DIVIDE, promote=promote_to_divide)

# -- floor_divide and remainder --------------------------------------------------------------------


def _floor_divide_kernel(x: Any, y: Any) -> Any:
    quotient = np.floor_divide(x, y)
    if quotient.dtype.kind == "f":
        of_x, of_y = np.isinf(x), np.isinf(y)
        if b"\1" in of_x.tobytes() or b"\1" in of_y.tobytes():  # sooner than any, for few elements
            with np.errstate(all="ignore"):
                return np.where(of_x | of_y, np.floor(np.divide(x, y)), quotient)
    return quotient


def _floor_divide_emit(b: ScalarEmitter[V], x: V, y: V) -> V:
    return b.floor_divide(x, y)


FLOOR_DIVIDE = define_pointwise(
    "floor_divide",
    kernel=_floor_divide_kernel,
    kinds="iuf",
    n_inputs=2,
    vjps=(None, None),
    emit=_floor_divide_emit,
    domain=(0.5, 3.0),
)

_floor_divide = make_binary(FLOOR_DIVIDE, promote=bool_as_int8)


def floor_divide(x1: TensorLike, x2: TensorLike, /) -> Tensor:
    """The quotient of `x1` and `x2` rounded down, element by element; `x1 // x2`.

    An int divided by 0 gives 0. With an infinity the quotient is that of `floor(x1 / x2)`, where
    Python and NumPy give NaN or -1. There is no gradient.

    Parameters
    ----------
    x1, x2 : TensorLike of int or float
        With shapes that broadcast.

    Returns
    -------
    Tensor
        Of the broadcast shape.

    Raises
    ------
    DTypeError
        If an operand is not of int or float.
    ShapeError
        If the shapes do not broadcast.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.floor_divide([7, -7], 2).numpy()
    array([ 3, -4])
    """
    return _floor_divide(x1, x2)


register_ufunc(np.floor_divide, floor_divide)
attach_operators("floordiv", "//", FLOOR_DIVIDE, promote=bool_as_int8)


def _remainder_vjp_x(ct: Any, attrs: Attrs, x: Any, y: Any) -> Any:
    return unbroadcast(ct, x.shape)


def _remainder_vjp_y(ct: Any, attrs: Attrs, x: Any, y: Any) -> Any:
    return unbroadcast(along(-ct, call(FLOOR_DIVIDE, x, y)), y.shape)


def _remainder_emit(b: ScalarEmitter[V], x: V, y: V) -> V:
    return b.remainder(x, y)


REMAINDER = define_pointwise(
    "remainder",
    kernel=np.remainder,
    kinds="iuf",
    n_inputs=2,
    saves=(0, 1),
    vjps=(_remainder_vjp_x, _remainder_vjp_y),
    emit=_remainder_emit,
    domain=(0.5, 3.0),
)

_remainder = make_binary(REMAINDER, promote=bool_as_int8)


def remainder(x1: TensorLike, x2: TensorLike, /) -> Tensor:
    """What `floor_divide` leaves, element by element; `x1 % x2`. It has the sign of `x2`.

    An int by 0 gives 0.

    Parameters
    ----------
    x1, x2 : TensorLike of int or float
        With shapes that broadcast.

    Returns
    -------
    Tensor
        Of the broadcast shape.

    Raises
    ------
    DTypeError
        If an operand is not of int or float.
    ShapeError
        If the shapes do not broadcast.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.remainder([7, -7], 3).numpy()
    array([1, 2])
    """
    return _remainder(x1, x2)


register_ufunc(np.remainder, remainder)
attach_operators("mod", "%", REMAINDER, promote=bool_as_int8)


def _divmod(x: Tensor, y: Any) -> Any:
    return (x // y, x % y) if is_operand(y) else NotImplemented


def _reflected_divmod(x: Tensor, y: Any) -> Any:
    return (y // x, y % x) if is_operand(y) else NotImplemented


attach_method("__divmod__", _divmod)
attach_method("__rdivmod__", _reflected_divmod)
