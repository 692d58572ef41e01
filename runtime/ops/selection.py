"""Choosing between values: maximum, minimum, clip, where, copysign."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tapeline.runtime.errors import DTypeError
from tapeline.runtime.op import Attrs, Sample, ScalarEmitter, ShapeOf, V
from tapeline.runtime.operators import attach_method, make_binary
from tapeline.runtime.ops.logic import SIGNBIT
from tapeline.runtime.ops.pointwise import (
    BOOL,
    apply,
    call,
    check_dtype,
    define_pointwise,
    unbroadcast,
    zero_like,
)
from tapeline.runtime.ops.promotion import promote_to_float
from tapeline.runtime.promotion import constant, narrowed, promote, promote_named
from tapeline.runtime.spec import (
    DType,
    Shape,
    TensorSpec,
    broadcast_shapes,
    is_bfloat16,
    spec_of,
)
from tapeline.runtime.tensor import Tensor, TensorLike, as_tensor, cast_tensor, register_ufunc
from tapeline.runtime.unwatched import plain_array, wrapped

_NUMBERS = (int, float)

# -- where -----------------------------------------------------------------------------------------


def _where_infer(condition: TensorSpec, x: TensorSpec, y: TensorSpec) -> TensorSpec:
    if condition.dtype != BOOL:
        raise DTypeError(f"where: condition has dtype {condition.dtype}; expected bool")
    if x.dtype != y.dtype:
        raise DTypeError(
            f"where: x has dtype {x.dtype}, y has dtype {y.dtype}; the op takes one dtype, convert "
            f"with tl.astype"
        )
    shapes = (condition.static_shape, x.static_shape, y.static_shape)
    return spec_of(broadcast_shapes("where", *shapes), x.dtype)


def _where_vjp_x(ct: Any, attrs: Attrs, condition: Any, x_shape: Shape, y_shape: Shape) -> Any:
    return unbroadcast(_else_zero(condition, ct), x_shape)


def _where_vjp_y(ct: Any, attrs: Attrs, condition: Any, x_shape: Shape, y_shape: Shape) -> Any:
    return unbroadcast(call(WHERE, condition, zero_like(ct), ct), y_shape)


def _mask(*shape: int) -> Callable[[np.random.Generator], Any]:
    return lambda rng: rng.integers(0, 2, shape).astype(np.bool_)


def _where_emit(b: ScalarEmitter[V], condition: V, x: V, y: V) -> V:
    return b.select(condition, x, y)


WHERE = define_pointwise(
    "where",
    kernel=np.where,
    infer=_where_infer,
    kinds="biufc",
    n_inputs=3,
    saves=(0, ShapeOf(1), ShapeOf(2)),
    vjps=(None, _where_vjp_x, _where_vjp_y),
    emit=_where_emit,
    samples=(
        Sample((_mask(), (), ())),
        Sample((_mask(5), (5,), (5,))),
        Sample((_mask(3, 1), (4,), ())),
        Sample((_mask(2, 0), (1,), (2, 1))),
    ),
)


def where(condition: TensorLike, x1: TensorLike, x2: TensorLike, /) -> Tensor:
    """`x1` where the condition holds and `x2` elsewhere.

    Parameters
    ----------
    condition : TensorLike
        True where it is not 0. The three shapes broadcast.
    x1, x2 : TensorLike
        What to choose from.

    Returns
    -------
    Tensor
        Of the broadcast shape and the promoted dtype of `x1` and `x2`.

    Raises
    ------
    ShapeError
        If the shapes do not broadcast.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.where([True, False], [1.0, 2.0], 0.0).numpy()
    array([1., 0.])
    """
    chosen = plain_array(condition)
    first = plain_array(x1)
    if chosen is not None and chosen.dtype is BOOL and first is not None:
        dtype = first.dtype
        is_number = type(x2) in _NUMBERS and dtype.kind == "f"
        other = constant(x2, dtype)._value if is_number else plain_array(x2)
        if other is not None and other.dtype is dtype:
            try:
                return wrapped(np.where(chosen, first, other))
            except ValueError:
                pass  # what follows says what is wrong
    if type(condition) is not Tensor or condition.dtype is not BOOL:
        condition = as_tensor(condition, BOOL, "where: condition")
    if not (type(x1) is type(x2) is Tensor and x1.dtype is x2.dtype):
        x1, x2 = promote_named(WHERE, promote, x1, x2, ("x1", "x2"))
    return apply(WHERE, condition, x1, x2)


register_ufunc(np.where, where)


def _else_zero(condition: Any, ct: Any) -> Any:
    return call(WHERE, condition, ct, zero_like(ct))


# -- maximum and minimum ---------------------------------------------------------------------------


def _share(ct: Any, wins: Any, ties: Any) -> Any:
    """The part of the cotangent for one of two rivals: all, half at a tie, or nothing."""
    return call(WHERE, wins, ct, _else_zero(ties, ct * 0.5))


def _maximum_vjp_x(ct: Any, attrs: Attrs, x: Any, y: Any) -> Any:
    return unbroadcast(_share(ct, x > y, x == y), x.shape)


def _maximum_vjp_y(ct: Any, attrs: Attrs, x: Any, y: Any) -> Any:
    return unbroadcast(_share(ct, y > x, x == y), y.shape)


def _maximum_emit(b: ScalarEmitter[V], x: V, y: V) -> V:
    return b.maximum(x, y)


MAXIMUM = define_pointwise(
    "maximum",
    kernel=np.maximum,
    kinds="biuf",
    n_inputs=2,
    saves=(0, 1),
    vjps=(_maximum_vjp_x, _maximum_vjp_y),
    emit=_maximum_emit,
    identity=float("-inf"),
)

_maximum = make_binary(MAXIMUM)


def maximum(x1: TensorLike, x2: TensorLike, /) -> Tensor:
    """The larger of `x1` and `x2`, element by element.

    NaN where one is NaN. Where both are equal each takes half of the gradient.

    Parameters
    ----------
    x1, x2 : TensorLike of real dtype
        With shapes that broadcast.

    Returns
    -------
    Tensor
        Of the broadcast shape.

    Raises
    ------
    DTypeError
        If an operand is not of real dtype.
    ShapeError
        If the shapes do not broadcast.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.maximum([1.0, 4.0], 2.0).numpy()
    array([2., 4.])
    """
    return _maximum(x1, x2)


register_ufunc(np.maximum, maximum)


def _minimum_vjp_x(ct: Any, attrs: Attrs, x: Any, y: Any) -> Any:
    return unbroadcast(_share(ct, x < y, x == y), x.shape)


def _minimum_vjp_y(ct: Any, attrs: Attrs, x: Any, y: Any) -> Any:
    return unbroadcast(_share(ct, y < x, x == y), y.shape)


def _minimum_emit(b: ScalarEmitter[V], x: V, y: V) -> V:
    return b.minimum(x, y)


MINIMUM = define_pointwise(
    "minimum",
    kernel=np.minimum,
    kinds="biuf",
    n_inputs=2,
    saves=(0, 1),
    vjps=(_minimum_vjp_x, _minimum_vjp_y),
    emit=_minimum_emit,
    identity=float("inf"),
)

_minimum = make_binary(MINIMUM)


def minimum(x1: TensorLike, x2: TensorLike, /) -> Tensor:
    """The smaller of `x1` and `x2`, element by element.

    NaN where one is NaN. Where both are equal each takes half of the gradient.

    Parameters
    ----------
    x1, x2 : TensorLike of real dtype
        With shapes that broadcast.

    Returns
    -------
    Tensor
        Of the broadcast shape.

    Raises
    ------
    DTypeError
        If an operand is not of real dtype.
    ShapeError
        If the shapes do not broadcast.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.minimum([1.0, 4.0], 2.0).numpy()
    array([1., 2.])
    """
    return _minimum(x1, x2)


register_ufunc(np.minimum, minimum)

# -- clip ------------------------------------------------------------------------------------------


_clip_ufunc = getattr(np._core.umath, "clip", None)  # type: ignore[attr-defined]
"""What `np.clip` runs, in one pass; NumPy has it since 1.17, but under no public name."""


def _clip_kernel(x: Any, low: Any, high: Any) -> Any:
    if _clip_ufunc is not None and x.dtype.kind != "b":
        return _clip_ufunc(x, low, high)
    return np.minimum(np.maximum(x, low), high)


def _clip_vjp_x(ct: Any, attrs: Attrs, x: Any, low: Any, high: Any) -> Any:
    return unbroadcast(_else_zero((x >= low) & (x <= high), ct), x.shape)


def _clip_vjp_low(ct: Any, attrs: Attrs, x: Any, low: Any, high: Any) -> Any:
    return unbroadcast(_else_zero((x < low) & (low <= high), ct), low.shape)


def _clip_vjp_high(ct: Any, attrs: Attrs, x: Any, low: Any, high: Any) -> Any:
    return unbroadcast(_else_zero((x > high) | (low > high), ct), high.shape)


def _clip_emit(b: ScalarEmitter[V], x: V, low: V, high: V) -> V:
    return b.minimum(b.maximum(x, low), high)


CLIP = define_pointwise(
    "clip",
    kernel=_clip_kernel,
    kinds="biuf",
    n_inputs=3,
    saves=(0, 1, 2),
    vjps=(_clip_vjp_x, _clip_vjp_low, _clip_vjp_high),
    emit=_clip_emit,
)


def clip(x: TensorLike, /, min: TensorLike | None = None, max: TensorLike | None = None) -> Tensor:
    """Each element, but no less than `min` and no more than `max`.

    Elements at a bound take the whole gradient; a bound takes that of the elements it replaces.
    Where `min` is above `max` the result is `max`.

    Parameters
    ----------
    x : TensorLike of real dtype
        Of any shape.
    min, max : TensorLike, optional
        Bounds, of shapes that broadcast with that of `x`; None is no bound.

    Returns
    -------
    Tensor
        Of the broadcast shape and the promoted dtype.

    Raises
    ------
    DTypeError
        If an operand is complex.
    ShapeError
        If the shapes do not broadcast.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.clip([-2.0, 0.5, 3.0], 0.0, 1.0).numpy()
    array([0. , 0.5, 1. ])
    """
    if type(x) is Tensor and type(min) in _NUMBERS and type(max) in _NUMBERS:
        dtype = x._value.dtype
        if dtype.kind == "f":
            return apply(CLIP, x, constant(min, dtype), constant(max, dtype))
    x = as_tensor(x, None, "clip")
    if is_bfloat16(x.dtype):
        result = clip(cast_tensor(x, np.dtype(np.float32)), min, max)
        return narrowed(result, x, min, max)
    low, high = _inner_bound(x.dtype, min), _inner_bound(x.dtype, max)
    for bound in (low, high):
        if bound is not None:
            x = promote(CLIP, x, bound)[0]
    least, greatest = _extremes(x.dtype)
    low = promote(CLIP, x, least if low is None else low)[1]
    high = promote(CLIP, x, greatest if high is None else high)[1]
    return apply(CLIP, x, low, high)


def _inner_bound(dtype: DType, bound: Any) -> Any:
    """The bound, or None where it is an int beyond the dtype that no element can reach."""
    if type(bound) is int and dtype.kind in "iu":
        least, greatest = _extremes(dtype)
        return bound if least <= bound <= greatest else None
    return bound


def _extremes(dtype: DType) -> tuple[Any, Any]:
    if dtype.kind == "f":
        return float("-inf"), float("inf")
    if dtype.kind == "b":
        return False, True
    check_dtype("clip", dtype, "biuf")
    return int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)


register_ufunc(np.clip, clip)
attach_method("clip", clip)

# -- copysign --------------------------------------------------------------------------------------


def _copysign_vjp_x(ct: Any, attrs: Attrs, x: Any, sign: Any) -> Any:
    kept = call(SIGNBIT, x) == call(SIGNBIT, sign)
    return unbroadcast(call(WHERE, kept, ct, -ct), x.shape)


def _copysign_emit(b: ScalarEmitter[V], x: V, sign: V) -> V:
    return b.copysign(x, sign)


COPYSIGN = define_pointwise(
    "copysign",
    kernel=np.copysign,
    kinds="f",
    n_inputs=2,
    saves=(0, 1),
    vjps=(_copysign_vjp_x, None),
    emit=_copysign_emit,
    domain=(0.5, 3.0),
)

_copysign = make_binary(COPYSIGN, promote=promote_to_float)


def copysign(x1: TensorLike, x2: TensorLike, /) -> Tensor:
    """The size of `x1` with the sign of `x2`, element by element.

    Ints and bools are taken as floats: float64, or float32 if they have 8 or 16 bits. `x2` has no
    gradient.

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
    >>> tl.copysign([1.0, 2.0], [-0.0, 3.0]).numpy()
    array([-1.,  2.])
    """
    return _copysign(x1, x2)


register_ufunc(np.copysign, copysign)
