"""The largest and the smallest element along axes, and where they are: max, min, argmax, argmin."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tapeline.runtime.errors import ArgumentTypeError, ShapeError
from tapeline.runtime.op import OUT, Attrs, Expansion, Op, Reduction, Sample, define_op
from tapeline.runtime.operators import attach_method
from tapeline.runtime.ops.axes import Array, Axis
from tapeline.runtime.ops.batch_rules import batch_changed, batch_position, next_axes
from tapeline.runtime.ops.pointwise import along, apply, call, check_dtype, masked
from tapeline.runtime.ops.reduction import (
    SAMPLES,
    SUM,
    add_reduce,
    keep,
    reduce_over,
    reduced_shape,
)
from tapeline.runtime.spec import Shape, TensorSpec, canonical_dtype, spec_of
from tapeline.runtime.tensor import Tensor, TensorLike, cast_tensor, register_ufunc

_INT = canonical_dtype(np.int64)

min_reduce: Callable[..., Any] = np.minimum.reduce
max_reduce: Callable[..., Any] = np.maximum.reduce


def _reject_empty(op_name: str, shape: Shape, axes: tuple[int, ...]) -> None:
    empty = [axis for axis in axes if shape[axis] == 0]
    if empty and 0 not in reduced_shape(shape, axes, False):
        raise ShapeError(
            f"{op_name}: no elements, no result: axis {empty[0]} of shape {shape} is empty"
        )


# --- max and min -----------------------------------------------------------------------------


def _tie_shares_kernel(x: Array, extremum: Array, axes: tuple[int, ...]) -> Any:
    chosen = (x == extremum) | (x != x)
    count = add_reduce(chosen, axes, x.dtype, None, True)
    return np.divide(chosen, count, dtype=x.dtype)


def _tie_shares_infer(x: TensorSpec, extremum: TensorSpec, axes: tuple[int, ...]) -> TensorSpec:
    return spec_of(x.static_shape, x.dtype)


def _tie_shares_expand(x: Tensor, extremum: Tensor, axes: tuple[int, ...]) -> Tensor:
    chosen = cast_tensor((x == extremum) | (x != x), x.dtype)
    count: Tensor = apply(SUM, chosen, attrs=(axes, True))
    return chosen / count


TIE_SHARES = define_op(
    "tie_shares",
    batch=batch_changed(next_axes),
    kernel=_tie_shares_kernel,
    infer=_tie_shares_infer,
    n_inputs=2,
    attr_names=("axes",),
    vjps=(None, None),
    emit=Expansion(_tie_shares_expand),
    kinds="f",
    samples=(
        Sample((lambda rng: np.array([[1.0, 3.0, 3.0]]), lambda rng: np.array([[3.0]])), ((1,),)),
    ),
)
"""How the cotangent of an extremum (its reduced axes kept) is shared out: equally among the
elements that attain it, NaNs among them; nothing for the others."""


def _extremum_vjp(ct: Any, attrs: Attrs, x: Any, out: Any) -> Any:
    shape = x.shape
    kept = keep(out, shape, *attrs)  # type: ignore[arg-type]  # attributes are typed loosely
    shares = call(TIE_SHARES, x, kept, attrs=attrs[:1])
    return masked(along(keep(ct, shape, *attrs), shares))  # type: ignore[arg-type]  # as above


def _define_extremum(
    name: str, reduce: Callable[..., Any], lowering: Reduction, identity: float
) -> Op:
    def kernel(x: Array, axes: tuple[int, ...], keepdims: bool) -> Any:
        return reduce(x, axes, None, None, keepdims)

    def infer(x: TensorSpec, axes: tuple[int, ...], keepdims: bool) -> TensorSpec:
        check_dtype(name, x.dtype, "biuf")
        shape = x.static_shape
        _reject_empty(name, shape, axes)
        return spec_of(reduced_shape(shape, axes, keepdims), x.dtype)

    return define_op(
        name,
        batch=batch_changed(next_axes, None),
        kernel=kernel,
        infer=infer,
        attr_names=("axes", "keepdims"),
        saves=(0, OUT),
        vjps=(_extremum_vjp,),
        emit=lowering,
        identity=identity,
        kinds="biuf",
        samples=(*SAMPLES, Sample(((0, 3),), ((1,), False))),
    )


MAX = _define_extremum("max", max_reduce, Reduction("max"), -np.inf)
MIN = _define_extremum("min", min_reduce, Reduction("min"), np.inf)


def max(x: TensorLike, /, axis: Axis = None, *, keepdims: bool = False) -> Tensor:
    """The largest element over the given axes; NaN where there is a NaN.

    The gradient goes to the elements that attain the maximum, in equal shares.

    Parameters
    ----------
    x : TensorLike of bool, int or float
        The tensor.
    axis : int, sequence of int or None
        Axes to reduce; all of them for None.
    keepdims : bool
        Whether the reduced axes stay with extent 1.

    Returns
    -------
    Tensor
        Of the dtype of `x`, without the reduced axes or with extent 1 there.

    Raises
    ------
    ShapeError
        If there is no element to choose from.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.max(tl.asarray([[1, 5], [3, 4]]), axis=1).numpy()
    array([5, 4])
    """
    return reduce_over(MAX, x, axis, keepdims)


def min(x: TensorLike, /, axis: Axis = None, *, keepdims: bool = False) -> Tensor:
    """The smallest element over the given axes; parameters and gradient as for `tl.max`.

    Parameters
    ----------
    x : TensorLike of int, uint or float
        Of any shape; the reduced axes must not be empty.
    axis : int, tuple of int or None
        The axes; None for all of them.
    keepdims : bool
        Whether reduced axes stay with extent 1.

    Returns
    -------
    Tensor
        Of the dtype of `x`, without the reduced axes or with extent 1 there.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.min(tl.asarray([[1, 5], [3, 4]]), axis=1).numpy()
    array([1, 3])
    """
    return reduce_over(MIN, x, axis, keepdims)


# --- argmax and argmin -----------------------------------------------------------------------


def _define_position(name: str, function: Callable[..., Any], lowering: Reduction) -> Op:
    def kernel(x: Array, axes: tuple[int, ...], keepdims: bool) -> Any:
        if len(axes) == 1:
            return function(x, axes[0], None, keepdims=keepdims)
        flat = function(x)
        return np.full((1,) * x.ndim, flat) if keepdims else flat

    def infer(x: TensorSpec, axes: tuple[int, ...], keepdims: bool) -> TensorSpec:
        check_dtype(name, x.dtype, "biuf")
        shape = x.static_shape
        if len(axes) not in (1, len(shape)):
            raise ArgumentTypeError(f"{name}: axis must be one int or None, got {axes}")
        _reject_empty(name, shape, axes)
        return spec_of(reduced_shape(shape, axes, keepdims), _INT)

    return define_op(
        name,
        batch=batch_position,
        kernel=kernel,
        infer=infer,
        attr_names=("axes", "keepdims"),
        vjps=(None,),
        emit=lowering,
        kinds="biuf",
        samples=(
            Sample(((3, 4),), ((1,), False)),
            Sample(((3, 4),), ((0,), True)),
            Sample(((3, 4),), ((0, 1), False)),
            Sample(((2, 3),), ((0, 1), True)),
            Sample(((),), ((), False)),
        ),
    )


ARGMAX = _define_position("argmax", np.ndarray.argmax, Reduction("argmax"))
ARGMIN = _define_position("argmin", np.ndarray.argmin, Reduction("argmin"))


def argmax(x: TensorLike, /, axis: int | None = None, *, keepdims: bool = False) -> Tensor:
    """The position of the first largest element along an axis; in row-major order for None.

    A NaN counts as largest. The positions have no gradient.

    Parameters
    ----------
    x : TensorLike of bool, int or float
        The tensor.
    axis : int or None
        Axis to search along; None searches all elements as one row.
    keepdims : bool
        Whether the searched axes stay with extent 1.

    Returns
    -------
    Tensor of int64

    Raises
    ------
    ShapeError
        If there is no element to choose from.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.argmax(tl.asarray([[1, 5], [7, 4]]), axis=1).numpy()
    array([1, 0])
    """
    return _position(ARGMAX, x, axis, keepdims)


def argmin(x: TensorLike, /, axis: int | None = None, *, keepdims: bool = False) -> Tensor:
    """The position of the first smallest element.

    Parameters
    ----------
    x : TensorLike of int, uint or float
        Of any shape.
    axis : int or None
        The axis; None for the position among all elements.
    keepdims : bool
        Whether reduced axes stay with extent 1.

    Returns
    -------
    Tensor of int64
        Without the axis, or with extent 1 there.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.argmin(tl.asarray([[1, 5], [7, 4]]), axis=1).numpy()
    array([0, 1])
    """
    return _position(ARGMIN, x, axis, keepdims)


def _position(op: Op, x: TensorLike, axis: int | None, keepdims: bool) -> Tensor:
    if axis is not None and not isinstance(axis, int | np.integer):
        raise ArgumentTypeError(f"{op.name}: axis must be one int or None, got {axis!r}")
    return reduce_over(op, x, axis, keepdims)


for _function, _numpy in ((max, np.max), (min, np.min), (argmax, np.argmax), (argmin, np.argmin)):
    attach_method(_function.__name__, _function)
    register_ufunc(_numpy, _function)
