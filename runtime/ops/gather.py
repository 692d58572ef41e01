"""Taking elements by integer tensors, and the transposes of that, which add elements up.

`take` picks along one axis; `along_axis` has what picks row by row. Every index is checked: one
outside of its axis is an error that names index, size and axis; a negative one counts from the
end.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tapeline.runtime.dispatch import STATE
from tapeline.runtime.errors import DTypeError, IndexOutOfRangeError
from tapeline.runtime.indexed_slices import IndexedSlices
from tapeline.runtime.op import (
    Attrs,
    Expansion,
    LibraryCall,
    Sample,
    ShapeOf,
    Trait,
    define_op,
    get_op,
)
from tapeline.runtime.operators import attach_method
from tapeline.runtime.ops.axes import ANY_KIND, Array
from tapeline.runtime.ops.batch_rules import (
    batch_elementwise,
    batch_leading,
    batch_take,
    batch_take_grad,
)
from tapeline.runtime.ops.extrema import max_reduce, min_reduce
from tapeline.runtime.ops.pointwise import apply, call, masked
from tapeline.runtime.ops.shaping import ravel
from tapeline.runtime.spec import (
    DType,
    Shape,
    TensorSpec,
    broadcast_shapes,
    normalize_axis,
    spec_of,
)
from tapeline.runtime.tensor import Tensor, TensorLike, as_tensor, register_ufunc
from tapeline.runtime.unwatched import plain_array, wrapped

_INT64 = np.dtype(np.int64)


def require_int_dtype(op_name: str, dtype: DType, argument: str = "indices") -> None:
    """A `DTypeError` for indices that are no ints."""
    if dtype.kind not in "iu":
        raise DTypeError(
            f"{op_name}: {argument} must be of an int dtype, got {dtype}; convert with "
            f"{argument}.astype(tl.int64)"
        )


def reject_outside(indices: Array, size: int, axis: int) -> None:
    """An `IndexOutOfRangeError` that names the first index outside of an axis, if there is one."""
    if not indices.size:
        return
    if min_reduce(indices, None) < -size or max_reduce(indices, None) >= size:
        index = indices[(indices < -size) | (indices >= size)].flat[0]
        raise IndexOutOfRangeError(
            f"index {index} is out of range for axis {axis} with size {size}"
        )


def from_front(indices: Array, size: int) -> Array:
    """Checked indices as int64, all counted from the front."""
    indices = indices.astype(_INT64, copy=False)
    return np.where(indices < 0, indices + size, indices)


def drawn_ints(*shape: int, size: int, low: int | None = None) -> Any:
    """For samples: random indices into an axis of `size`, negative ones among them."""

    def draw(rng: np.random.Generator) -> Array:
        return rng.integers(-size if low is None else low, size, shape)

    return draw


# --- take ------------------------------------------------------------------------------------


def _take_kernel(x: Array, indices: Array, axis: int) -> Any:
    try:
        return x.take(indices, axis)
    except IndexError as error:
        problem = error
    reject_outside(indices, x.shape[axis], axis)
    raise problem


def _take_infer(x: TensorSpec, indices: TensorSpec, axis: int) -> TensorSpec:
    require_int_dtype("take", indices.dtype)
    shape = x.static_shape
    return spec_of((*shape[:axis], *indices.static_shape, *shape[axis + 1 :]), x.dtype)


def _take_vjp(ct: Any, attrs: Attrs, indices: Any, shape: Shape) -> Any:
    axis: int = attrs[0]  # type: ignore[assignment]  # attributes are typed loosely
    if STATE.sparse and axis == 0:
        rows = call(get_op("reshape"), ct, attrs=((indices.size, *shape[1:]),))
        return IndexedSlices(
            rows, call(get_op("reshape"), indices, attrs=((indices.size,),)), shape
        )
    return masked(call(TAKE_GRAD, ct, indices, attrs=(axis, shape[axis])))


TAKE = define_op(
    "take",
    batch=batch_take,
    kernel=_take_kernel,
    infer=_take_infer,
    n_inputs=2,
    attr_names=("axis",),
    saves=(1, ShapeOf(0)),
    vjps=(_take_vjp, None),
    emit=LibraryCall("take"),
    kinds=ANY_KIND,
    samples=(
        Sample(((5,), drawn_ints(3, size=5)), (0,)),
        Sample(((4, 3), drawn_ints(2, 2, size=4)), (0,)),
        Sample(((2, 4, 3), drawn_ints(6, size=4)), (1,)),
        Sample(((2, 3), drawn_ints(size=3)), (1,)),
        Sample(((2, 3), drawn_ints(0, size=3)), (1,)),
    ),
)


def _take_grad_kernel(ct: Array, indices: Array, axis: int, size: int) -> Array:
    """The rows of `ct` added up by index: sorted by index first, so that each sum is one
    segment."""
    before = ct.shape[:axis]
    after = ct.shape[axis + indices.ndim :]
    places = from_front(indices.reshape(-1), size)
    if not before and not after and ct.dtype.kind == "f":
        sums = np.bincount(places, ct.reshape(-1), size)
        return sums.astype(ct.dtype, copy=False)
    out = np.zeros((*before, size, *after), ct.dtype)
    if ct.size == 0:
        return out
    rows = np.moveaxis(ct.reshape((*before, places.size, *after)), axis, 0)
    order = np.argsort(places, kind="stable")
    ordered = places[order]
    starts = np.flatnonzero(np.diff(ordered, prepend=-1))
    sums = np.add.reduceat(rows[order], starts, axis=0)
    np.moveaxis(out, axis, 0)[ordered[starts]] = sums
    return out


def _take_grad_infer(ct: TensorSpec, indices: TensorSpec, axis: int, size: int) -> TensorSpec:
    shape = ct.static_shape
    return spec_of((*shape[:axis], size, *shape[axis + indices.ndim :]), ct.dtype)


def _take_grad_vjp(ct: Any, attrs: Attrs, indices: Any) -> Any:
    return call(TAKE, ct, indices, attrs=attrs[:1])


TAKE_GRAD = define_op(
    "take_grad",
    batch=batch_take_grad,
    kernel=_take_grad_kernel,
    infer=_take_grad_infer,
    n_inputs=2,
    attr_names=("axis", "size"),
    saves=(1,),
    vjps=(_take_grad_vjp, None),
    emit=LibraryCall("take_grad"),
    traits=Trait.NO_RECOMPUTE,
    kinds="iufc",
    samples=(
        Sample(((6,), drawn_ints(6, size=4)), (0, 4)),
        Sample(((2, 3, 2), drawn_ints(2, 3, size=4)), (0, 4)),
        Sample(((2, 5, 3), drawn_ints(5, size=3)), (1, 3)),
        Sample(((2,), drawn_ints(size=3)), (1, 3)),
    ),
    ulp=(4.0, 4.0),
)
"""Elements added up by index along an axis of `size`: the transpose of `take`."""


def take(x: TensorLike, indices: TensorLike, /, axis: int | None = None) -> Tensor:
    """The elements at `indices` along an axis.

    Parameters
    ----------
    x : TensorLike
        Where to take from.
    indices : TensorLike of int
        Positions; negative ones count from the end. Their shape replaces the axis.
    axis : int or None
        Axis to index; None takes from the elements in row-major order.

    Returns
    -------
    Tensor of the dtype of `x`

    Raises
    ------
    IndexOutOfRangeError
        If an index lies outside of the axis.
    DTypeError
        If the indices are no ints.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.take(tl.asarray([10, 20, 30]), [2, 0, -1]).numpy()
    array([30, 10, 30])
    """
    array = plain_array(x)
    if array is not None and array.ndim and (axis is None or type(axis) is int):
        places = np.array(indices) if type(indices) in (int, list) else plain_array(indices)
        if places is not None and places.dtype.kind == "i":
            try:
                return wrapped(array.take(places, axis))
            except (IndexError, ValueError):
                pass  # what follows says what is wrong
    x = as_tensor(x, argument="take")
    indices = index_tensor("take", indices)
    if axis is None:
        x, axis = ravel(x), 0
    return apply(TAKE, x, indices, attrs=(normalize_axis("take", axis, x.ndim),))


def index_tensor(op_name: str, indices: TensorLike, argument: str = "indices") -> Tensor:
    """Indices as a tensor of ints; an empty list counts as one."""
    tensor = as_tensor(indices, argument=f"{op_name}: {argument}")
    if tensor.size == 0 and not isinstance(indices, Tensor | np.ndarray):
        return as_tensor(np.zeros(tensor.shape, _INT64))
    require_int_dtype(op_name, tensor.dtype, argument)
    return tensor


# --- checked indices -------------------------------------------------------------------------


def _check_index_kernel(indices: Array, size: int, axis: int) -> Array:
    reject_outside(indices, size, axis)
    return from_front(indices, size)


def _check_index_infer(indices: TensorSpec, size: int, axis: int) -> TensorSpec:
    require_int_dtype("index", indices.dtype)
    return spec_of(indices.static_shape, _INT64)


CHECK_INDEX = define_op(
    "check_index",
    batch=batch_leading,
    kernel=_check_index_kernel,
    infer=_check_index_infer,
    attr_names=("size", "axis"),
    vjps=(None,),
    emit=LibraryCall("wrap_indices"),
    kinds="iu",
    samples=(Sample((drawn_ints(4, size=3),), (3, 0)),),
)
"""Indices into an axis of `size`, checked, counted from the front."""


def _ravel_index_kernel(*args: Any) -> Any:
    arrays, sizes, axes = args[:-2], args[-2], args[-1]
    places: Any = 0
    for indices, size, axis in zip(arrays, sizes, axes, strict=True):
        reject_outside(indices, size, axis)
        places = places * size + from_front(indices, size)
    return places


def _ravel_index_infer(*args: Any) -> TensorSpec:
    specs = args[:-2]
    for spec in specs:
        require_int_dtype("index", spec.dtype)
    return spec_of(broadcast_shapes("index", *(spec.static_shape for spec in specs)), _INT64)


def _ravel_index_expand(*args: Any) -> Tensor:
    tensors, sizes, axes = args[:-2], args[-2], args[-1]
    places: Tensor | None = None
    for indices, size, axis in zip(tensors, sizes, axes, strict=True):
        checked: Tensor = apply(CHECK_INDEX, indices, attrs=(size, axis))
        places = checked if places is None else places * size + checked
    assert places is not None
    return places


RAVEL_INDEX = define_op(
    "ravel_index",
    batch=batch_elementwise,
    kernel=_ravel_index_kernel,
    infer=_ravel_index_infer,
    n_inputs=None,
    attr_names=("sizes", "axes"),
    vjps=(None,),
    emit=Expansion(_ravel_index_expand),
    kinds="iu",
    samples=(Sample((drawn_ints(4, size=3), drawn_ints(2, 1, size=5)), ((3, 5), (0, 1))),),
)
"""Index tensors for several axes as one for these axes joined, checked; `axes` name them in
errors."""


attach_method("take", take)
register_ufunc(np.take, take)
