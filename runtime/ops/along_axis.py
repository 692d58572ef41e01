"""Taking elements along an axis with indices of each row, and its transpose, which adds them up."""

from __future__ import annotations

from typing import Any

import numpy as np

from tapeline.runtime.errors import ShapeError
from tapeline.runtime.op import (
    Attrs,
    LibraryCall,
    Sample,
    ShapeOf,
    Trait,
    define_op,
)
from tapeline.runtime.ops.axes import ANY_KIND, Array
from tapeline.runtime.ops.batch_rules import (
    batch_changed,
    next_axis,
)
from tapeline.runtime.ops.gather import (
    TAKE_GRAD,
    drawn_ints,
    from_front,
    index_tensor,
    reject_outside,
    require_int_dtype,
)
from tapeline.runtime.ops.pointwise import apply, call, masked
from tapeline.runtime.ops.shaping import broadcast_to
from tapeline.runtime.spec import Shape, TensorSpec, broadcast_shapes, normalize_axis, spec_of
from tapeline.runtime.tensor import Tensor, TensorLike, as_tensor, register_ufunc
from tapeline.runtime.unwatched import plain_array, wrapped


def _flat_places(indices: Array, size: int) -> Array:
    """Indices into the last axis of `size` as places in the row-major order of all elements."""
    rows = from_front(indices, size).reshape(-1, indices.shape[-1])
    return rows + np.arange(len(rows))[:, None] * size


def _take_along_axis_kernel(x: Array, indices: Array, axis: int) -> Array:
    reject_outside(indices, x.shape[axis], axis)
    return np.take_along_axis(x, indices, axis)


def _take_along_axis_infer(x: TensorSpec, indices: TensorSpec, axis: int) -> TensorSpec:
    require_int_dtype("take_along_axis", indices.dtype)
    own, wanted = x.static_shape, indices.static_shape
    if (*own[:axis], *own[axis + 1 :]) != (*wanted[:axis], *wanted[axis + 1 :]):
        raise ShapeError(
            f"take_along_axis: x has shape {own}, indices have shape {wanted}; they must be equal "
            f"but for axis {axis}"
        )
    return spec_of(wanted, x.dtype)


def _take_along_axis_vjp(ct: Any, attrs: Attrs, indices: Any, shape: Shape) -> Any:
    axis: int = attrs[0]  # type: ignore[assignment]  # attributes are typed loosely
    return masked(call(TAKE_ALONG_AXIS_GRAD, ct, indices, attrs=(axis, shape[axis])))


TAKE_ALONG_AXIS = define_op(
    "take_along_axis",
    batch=batch_changed(next_axis),
    kernel=_take_along_axis_kernel,
    infer=_take_along_axis_infer,
    n_inputs=2,
    attr_names=("axis",),
    saves=(1, ShapeOf(0)),
    vjps=(_take_along_axis_vjp, None),
    emit=LibraryCall("take_along_axis"),
    kinds=ANY_KIND,
    samples=(
        Sample(((5,), drawn_ints(3, size=5)), (0,)),
        Sample(((3, 4), drawn_ints(3, 6, size=4)), (1,)),
        Sample(((4, 2, 3), drawn_ints(1, 2, 3, size=4)), (0,)),
    ),
)


def _take_along_axis_grad_kernel(ct: Array, indices: Array, axis: int, size: int) -> Array:
    moved = np.moveaxis(ct, axis, -1)
    if moved.size == 0:
        return np.zeros((*ct.shape[:axis], size, *ct.shape[axis + 1 :]), ct.dtype)
    places = _flat_places(np.moveaxis(indices, axis, -1), size).reshape(-1)
    total = moved.size // moved.shape[-1] * size
    sums = TAKE_GRAD.kernel(moved.reshape(-1), places, 0, total)
    return np.moveaxis(sums.reshape(*moved.shape[:-1], size), -1, axis)


def _take_along_axis_grad_infer(
    ct: TensorSpec, indices: TensorSpec, axis: int, size: int
) -> TensorSpec:
    shape = ct.static_shape
    return spec_of((*shape[:axis], size, *shape[axis + 1 :]), ct.dtype)


def _take_along_axis_grad_vjp(ct: Any, attrs: Attrs, indices: Any) -> Any:
    return call(TAKE_ALONG_AXIS, ct, indices, attrs=attrs[:1])


TAKE_ALONG_AXIS_GRAD = define_op(
    "take_along_axis_grad",
    batch=batch_changed(next_axis, None),
    kernel=_take_along_axis_grad_kernel,
    infer=_take_along_axis_grad_infer,
    n_inputs=2,
    attr_names=("axis", "size"),
    saves=(1,),
    vjps=(_take_along_axis_grad_vjp, None),
    emit=LibraryCall("take_along_axis_grad"),
    ulp=(4.0, 4.0),
    traits=Trait.NO_RECOMPUTE,
    kinds="iufc",
    samples=(
        Sample(((3, 6), drawn_ints(3, 6, size=4)), (1, 4)),
        Sample(((1, 2, 3), drawn_ints(1, 2, 3, size=4)), (0, 4)),
    ),
)
"""Elements added up row by row at their indices: the transpose of `take_along_axis`."""


def take_along_axis(x: TensorLike, indices: TensorLike, /, axis: int = -1) -> Tensor:
    """The elements at `indices` along an axis, where each row has indices of its own.

    Parameters
    ----------
    x : TensorLike
        Where to take from.
    indices : TensorLike of int
        Positions, in as many dimensions as `x`; the other axes broadcast against those of `x`.
    axis : int
        Axis to index.

    Returns
    -------
    Tensor of the dtype of `x`

    Raises
    ------
    IndexOutOfRangeError
        If an index lies outside of the axis.
    ShapeError
        If the numbers of dimensions differ, or the other axes do not broadcast.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.take_along_axis([[10, 20], [30, 40]], [[1], [0]], axis=1).numpy()
    array([[20],
           [30]])
    """
    array, places = plain_array(x), plain_array(indices)
    if array is not None and places is not None and type(axis) is int:
        is_plain = places.dtype.kind == "i" and array.ndim == places.ndim and places.size
        if is_plain and array.ndim:
            try:
                return wrapped(np.take_along_axis(array, places, axis))
            except (IndexError, ValueError):
                pass  # what follows says what is wrong
    x = as_tensor(x, argument="take_along_axis")
    indices = index_tensor("take_along_axis", indices)
    if x.ndim != indices.ndim:
        raise ShapeError(
            f"take_along_axis: x has {x.ndim} dimensions and indices have {indices.ndim}; they "
            f"must be equal"
        )
    axis = normalize_axis("take_along_axis", axis, x.ndim)
    own, wanted = list(x.shape), list(indices.shape)
    own[axis] = wanted[axis] = 1
    common = broadcast_shapes("take_along_axis", tuple(own), tuple(wanted))
    x = _widen(x, common, axis)
    return apply(TAKE_ALONG_AXIS, x, _widen(indices, common, axis), attrs=(axis,))


def _widen(x: Tensor, common: Shape, axis: int) -> Tensor:
    shape = (*common[:axis], x.shape[axis], *common[axis + 1 :])
    return x if x.shape == shape else broadcast_to(x, shape)


register_ufunc(np.take_along_axis, take_along_axis)
