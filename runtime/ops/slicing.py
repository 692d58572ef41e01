"""Basic indexing: ints, slices, new axes and the ellipsis, which give a view; and its transpose.

The attribute of an index is canonical: a tuple with one entry per place, an int (>= 0), None for a
new axis, or `("slice", start, stop, step)` resolved against the extent. A full slice has None in
its three places, full slices at the end are left out, and the ellipsis is resolved. Index arrays
stand in `indexing`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np

from tapeline.runtime.dims import Dim, is_open_shape
from tapeline.runtime.dims import extent as extent_of
from tapeline.runtime.errors import ArgumentError, ArgumentTypeError, IndexOutOfRangeError
from tapeline.runtime.op import (
    Attrs,
    Expansion,
    IndexMap,
    Sample,
    ShapeOf,
    Trait,
    define_op,
    get_op,
)
from tapeline.runtime.operators import attach_method
from tapeline.runtime.ops.axes import ANY_KIND, Array, as_index
from tapeline.runtime.ops.batch_rules import all_of_first, batch_changed, larger_shape, next_axis
from tapeline.runtime.ops.permuting import FLIP
from tapeline.runtime.ops.pointwise import apply, call, masked, shorten
from tapeline.runtime.ops.shaping import BROADCAST_TO, RESHAPE
from tapeline.runtime.spec import Shape, TensorSpec, normalize_axis, spec_of
from tapeline.runtime.tensor import Tensor, TensorLike, as_tensor, new_tensor
from tapeline.runtime.unwatched import plain_array, wrapped

SliceEntry: TypeAlias = tuple[str, int | None, int | None, int | None]
BasicIndex: TypeAlias = tuple[int | SliceEntry | None, ...]

FULL: SliceEntry = ("slice", None, None, None)
EMPTY: SliceEntry = ("slice", 0, 0, 1)


@lru_cache(maxsize=4096)
def numpy_index(index: BasicIndex) -> tuple[Any, ...]:
    """The canonical index as NumPy takes it. Its ellipsis makes NumPy return a view always."""
    places = (slice(*entry[1:]) if type(entry) is tuple else entry for entry in index)
    return (*places, ...)


def canonical_slice(given: slice, extent: int) -> SliceEntry:
    """The slice resolved against the extent."""
    if given.start is None and given.stop is None and given.step is None:
        return FULL
    for bound in (given.start, given.stop, given.step):
        if bound is not None and not hasattr(bound, "__index__"):
            raise ArgumentTypeError(f"index: slice bounds must be ints or None, got {given!r}")
    if given.step is not None and given.step.__index__() == 0:
        raise ArgumentError("index: the step of a slice must not be zero")
    start, stop, step = _bounds(given, extent)
    if _count(start, stop, step) == 0:
        return EMPTY if extent else FULL
    if (start, stop, step) == (0, extent, 1):
        return FULL
    return ("slice", start, None if stop < 0 else stop, step)


def _bounds(given: slice, extent: int) -> tuple[int, int, int]:
    """What `slice.indices` gives, also for sizes that are left open."""
    if not is_open_shape((given.start, given.stop, extent)):
        return given.indices(extent)
    step = 1 if given.step is None else given.step.__index__()
    low, high = (0, extent) if step > 0 else (-1, extent - 1)
    first, last = (low, high) if step > 0 else (high, low)

    def inside(given: Any) -> Any:
        bound: Any = extent_of(given)
        if bound < 0:
            bound += extent
        return low if bound < low else high if bound > high else bound

    start = first if given.start is None else inside(given.start)
    stop = last if given.stop is None else inside(given.stop)
    return start, stop, step


def _count(start: int, stop: int, step: int) -> int:
    """How many places a slice with these bounds has."""
    span = stop - start if step > 0 else start - stop
    return 0 if span <= 0 else (span - 1) // abs(step) + 1


def canonical_int(value: Any, extent: int, axis: int) -> int:
    """The int counted from the front; an `IndexOutOfRangeError` outside of the extent."""
    index: Any = value if type(value) is Dim else value.__index__()
    if not -extent <= index < extent:
        raise IndexOutOfRangeError(
            f"index {index} is out of range for axis {axis} with size {extent}"
        )
    found: int = index + extent if index < 0 else index
    return found


def strip_full(entries: Sequence[int | SliceEntry | None]) -> BasicIndex:
    """The entries without the full slices at the end."""
    count = len(entries)
    while count and entries[count - 1] == FULL:
        count -= 1
    return tuple(entries[:count])


def _slice_length(entry: SliceEntry, extent: int) -> int:
    return _count(*_bounds(slice(*entry[1:]), extent))


def indexed_shape(shape: Shape, index: BasicIndex) -> Shape:
    """The shape of what a canonical index takes from a tensor of `shape`."""
    result: list[int] = []
    axis = 0
    for entry in index:
        if entry is None:
            result.append(1)
            continue
        if type(entry) is tuple:
            result.append(_slice_length(entry, shape[axis]))
        axis += 1
    return (*result, *shape[axis:])


# --- getitem ---------------------------------------------------------------------------------


def _getitem_kernel(x: Array, index: BasicIndex) -> Array:
    return x[numpy_index(index)]  # type: ignore[no-any-return]  # NumPy gives Any for a tuple


def _getitem_infer(x: TensorSpec, index: BasicIndex) -> TensorSpec:
    return spec_of(indexed_shape(x.static_shape, index), x.dtype)


def _getitem_vjp(ct: Any, attrs: Attrs, shape: Shape) -> Any:
    return masked(call(GETITEM_GRAD, ct, attrs=(attrs[0], shape)))


GETITEM = define_op(
    "getitem",
    batch=batch_changed(all_of_first),
    kernel=_getitem_kernel,
    infer=_getitem_infer,
    attr_names=("index",),
    saves=(ShapeOf(0),),
    vjps=(_getitem_vjp,),
    emit=IndexMap(),
    traits=Trait.VIEW,
    kinds=ANY_KIND,
    samples=(
        Sample(((4, 5),), ((1,),)),
        Sample(((4, 5),), ((FULL, ("slice", 1, 5, 2)),)),
        Sample(((4, 5),), ((("slice", 3, None, -1), None, 2),)),
        Sample(((3,),), ((2,),)),
        Sample(((4, 5),), ((("slice", 2, 2, 1),),)),
    ),
)


# --- its transpose ---------------------------------------------------------------------------


def _getitem_grad_kernel(ct: Array, index: BasicIndex, shape: Shape) -> Array:
    out = np.zeros(shape, ct.dtype)
    out[numpy_index(index)] = ct
    return out


def _getitem_grad_infer(ct: TensorSpec, index: BasicIndex, shape: Shape) -> TensorSpec:
    return spec_of(shape, ct.dtype)


def _getitem_grad_vjp(ct: Any, attrs: Attrs) -> Any:
    return call(GETITEM, ct, attrs=attrs[:1])


def _range_of(entry: int | SliceEntry, extent: int) -> range:
    """The places along one axis that an entry takes."""
    if type(entry) is tuple:
        return range(*slice(*entry[1:]).indices(extent))
    assert isinstance(entry, int)
    return range(entry, entry + 1)


def _getitem_grad_expand(ct: Tensor, index: BasicIndex, shape: Shape) -> Tensor:
    """Put the elements of each axis in place: undo the direction, the step, then the bounds."""
    entries = [entry for entry in index if entry is not None]
    entries += [FULL] * (len(shape) - len(entries))
    ranges = [_range_of(entry, extent) for entry, extent in zip(entries, shape, strict=True)]
    if any(len(places) == 0 for places in ranges):
        zero = new_tensor(np.zeros((), ct.dtype))
        return apply(BROADCAST_TO, zero, attrs=(shape,))
    x = apply(RESHAPE, ct, attrs=(tuple(len(places) for places in ranges),))
    backward = tuple(axis for axis, places in enumerate(ranges) if places.step < 0)
    if backward:
        x = apply(FLIP, x, attrs=(backward,))
    ranges = [places[::-1] if places.step < 0 else places for places in ranges]
    for axis, places in enumerate(ranges):
        if places.step > 1 and len(places) > 1:
            x = _space_out(x, axis, places.step)
    pads = tuple(
        (places[0], extent - places[-1] - 1) for places, extent in zip(ranges, shape, strict=True)
    )
    return apply(get_op("pad"), x, attrs=(pads, 0)) if any(map(any, pads)) else x


def _space_out(x: Tensor, axis: int, step: int) -> Any:
    """The elements along the axis with `step - 1` zeros between one and the next."""
    before, extent, after = x.shape[:axis], x.shape[axis], x.shape[axis + 1 :]
    column = apply(RESHAPE, x, attrs=((*before, extent, 1, *after),))
    pads = [(0, 0)] * (len(x.shape) + 1)
    pads[axis + 1] = (0, step - 1)
    padded = apply(get_op("pad"), column, attrs=(tuple(pads), 0))
    joined = apply(RESHAPE, padded, attrs=((*before, extent * step, *after),))
    return slice_along(joined, axis, 0, (extent - 1) * step + 1)


GETITEM_GRAD = define_op(
    "getitem_grad",
    batch=batch_changed(all_of_first, larger_shape),
    kernel=_getitem_grad_kernel,
    infer=_getitem_grad_infer,
    attr_names=("index", "shape"),
    vjps=(_getitem_grad_vjp,),
    emit=Expansion(_getitem_grad_expand),
    kinds=ANY_KIND,
    samples=(
        Sample(((5,),), ((1,), (4, 5))),
        Sample(((4, 2),), ((FULL, ("slice", 1, 5, 2)), (4, 5))),
        Sample(((4, 1),), ((("slice", 3, None, -1), None, 2), (4, 5))),
        Sample(((2, 5),), ((("slice", 3, None, -2),), (4, 5))),
        Sample(((0, 5),), ((("slice", 2, 2, 1),), (4, 5))),
    ),
)
"""Zeros of `shape` with the input at the places of `index`."""


def slice_along(x: Any, axis: int, start: int, stop: int) -> Any:
    """Elements `start` to `stop` (both >= 0) along one axis of a tensor, or of an array in a
    gradient rule."""
    axis = axis % len(x.shape)
    entry = FULL if (start, stop) == (0, x.shape[axis]) else ("slice", start, stop, 1)
    return call(GETITEM, x, attrs=(strip_full((FULL,) * axis + (entry,)),))


# --- diagonal --------------------------------------------------------------------------------


def _diagonal_kernel(x: Array, offset: int, axis1: int, axis2: int) -> Array:
    return x.diagonal(offset, axis1, axis2)


def _diagonal_infer(x: TensorSpec, offset: int, axis1: int, axis2: int) -> TensorSpec:
    shape = x.static_shape
    rows, columns = shape[axis1], shape[axis2]
    extent = max(min(rows + min(offset, 0), columns - max(offset, 0)), 0)
    rest = tuple(extent for axis, extent in enumerate(shape) if axis not in (axis1, axis2))
    return spec_of((*rest, extent), x.dtype)


def _diagonal_vjp(ct: Any, attrs: Attrs, shape: Shape) -> Any:
    return masked(call(DIAGONAL_GRAD, ct, attrs=(*attrs, shape)))


def _diagonal_grad_kernel(ct: Array, offset: int, axis1: int, axis2: int, shape: Shape) -> Array:
    out = np.zeros(shape, ct.dtype)
    target = out.diagonal(offset, axis1, axis2)
    target.flags.writeable = True
    target[...] = ct
    return out


def _diagonal_grad_infer(
    ct: TensorSpec, offset: int, axis1: int, axis2: int, shape: Shape
) -> TensorSpec:
    return spec_of(shape, ct.dtype)


def _diagonal_grad_expand(ct: Tensor, offset: int, axis1: int, axis2: int, shape: Shape) -> Any:
    """The input as a column for each row, where row and column meet on the diagonal."""
    rows, columns = shape[axis1], shape[axis2]
    before = min(max(-offset, 0), rows)
    after = rows - before - ct.shape[-1]
    pads = (*[(0, 0)] * (ct.ndim - 1), (before, after))
    values = apply(get_op("pad"), ct, attrs=(pads, 0)) if before or after else ct
    values = apply(get_op("expand_dims"), values, attrs=((ct.ndim,),))
    places = np.arange(rows)[:, None] + offset == np.arange(columns)
    zero = new_tensor(np.zeros((), ct.dtype))
    matrices = apply(get_op("where"), new_tensor(places), values, zero)
    last = ct.ndim - 1
    order = [axis for axis in range(len(shape)) if axis not in (axis1, axis2)]
    sources = {axis: k for k, axis in enumerate(order)} | {axis1: last, axis2: last + 1}
    axes = tuple(sources[axis] for axis in range(len(shape)))
    return apply(get_op("permute_dims"), matrices, attrs=(axes,))


def _diagonal_grad_vjp(ct: Any, attrs: Attrs) -> Any:
    return call(DIAGONAL, ct, attrs=attrs[:3])


DIAGONAL = define_op(
    "diagonal",
    batch=batch_changed(None, next_axis, next_axis),
    kernel=_diagonal_kernel,
    infer=_diagonal_infer,
    attr_names=("offset", "axis1", "axis2"),
    saves=(ShapeOf(0),),
    vjps=(_diagonal_vjp,),
    emit=IndexMap(),
    traits=Trait.VIEW,
    kinds=ANY_KIND,
    samples=(
        Sample(((3, 3),), (0, 0, 1)),
        Sample(((3, 4),), (1, 0, 1)),
        Sample(((2, 4, 3),), (-1, 1, 2)),
        Sample(((2, 3),), (5, 0, 1)),
    ),
)

DIAGONAL_GRAD = define_op(
    "diagonal_grad",
    batch=batch_changed(None, next_axis, next_axis, larger_shape),
    kernel=_diagonal_grad_kernel,
    infer=_diagonal_grad_infer,
    attr_names=("offset", "axis1", "axis2", "shape"),
    vjps=(_diagonal_grad_vjp,),
    emit=Expansion(_diagonal_grad_expand),
    kinds=ANY_KIND,
    samples=(Sample(((3,),), (0, 0, 1, (3, 3))), Sample(((2, 2),), (-1, 1, 2, (2, 3, 2)))),
)
"""Zeros of `shape` with the input on the diagonal."""


def diagonal(x: TensorLike, /, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tensor:
    """The diagonal of the matrices that two dimensions span, as the last dimension of the result.

    Parameters
    ----------
    x : TensorLike
        A tensor of at least two dimensions.
    offset : int
        How far above the main diagonal (below, if negative).
    axis1, axis2 : int
        The dimensions of the rows and of the columns.

    Returns
    -------
    Tensor
        Without the two axes, and with the diagonal as the last one.

    Raises
    ------
    ArgumentError
        If both dimensions are the same.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.diagonal(tl.asarray([[1, 2], [3, 4]])).numpy()
    array([1, 4])
    """
    array = plain_array(x)
    if array is not None and type(offset) is type(axis1) is type(axis2) is int:
        try:
            return wrapped(array.diagonal(offset, axis1, axis2))
        except ValueError:
            pass  # what follows says what is wrong
    x = as_tensor(x, argument="diagonal")
    first = normalize_axis("diagonal", axis1, x.ndim)
    second = normalize_axis("diagonal", axis2, x.ndim)
    if first == second:
        raise ArgumentError(f"diagonal: axis1 and axis2 are both {axis1}; they must differ")
    return apply(DIAGONAL, x, attrs=(as_index("diagonal", offset), first, second))


attach_method("diagonal", diagonal)

shorten(GETITEM, DIAGONAL)
