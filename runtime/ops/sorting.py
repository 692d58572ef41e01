"""Sorting along an axis."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np

from tapeline.runtime.errors import ArgumentError
from tapeline.runtime.op import Attrs, LibraryCall, Sample, Trait, define_op
from tapeline.runtime.operators import attach_method
from tapeline.runtime.ops.along_axis import TAKE_ALONG_AXIS_GRAD, take_along_axis
from tapeline.runtime.ops.axes import Array
from tapeline.runtime.ops.batch_rules import batch_changed, next_axis
from tapeline.runtime.ops.pointwise import apply, call, check_dtype, computable
from tapeline.runtime.promotion import narrowed
from tapeline.runtime.spec import TensorSpec, normalize_axis, spec_of
from tapeline.runtime.tensor import Tensor, TensorLike
from tapeline.runtime.unwatched import plain_array, wrapped

_SAMPLES = tuple(
    Sample(inputs, (axis, descending))
    for inputs, axis in ((((5,),), 0), (((3, 4),), 0), (((3, 4),), 1))
    for descending in (False, True)
)


def _argsort_kernel(x: Array, axis: int, descending: bool) -> Array:
    if not descending:
        return np.argsort(x, axis, kind="stable")
    backward = np.argsort(np.flip(x, axis), axis, kind="stable")
    return np.flip(x.shape[axis] - 1 - backward, axis)


def _argsort_infer(x: TensorSpec, axis: int, descending: bool) -> TensorSpec:
    check_dtype("argsort", x.dtype, "biuf")
    return spec_of(x.static_shape, np.dtype(np.int64))


ARGSORT = define_op(
    "argsort",
    batch=batch_changed(next_axis, None),
    kernel=_argsort_kernel,
    emit=LibraryCall("argsort"),
    infer=_argsort_infer,
    attr_names=("axis", "descending"),
    vjps=(None,),
    traits=Trait.NO_RECOMPUTE,
    kinds="biuf",
    samples=_SAMPLES,
)


def _kind_for(x: Array) -> Literal["stable"] | None:
    """How NumPy is to sort: equal ints cannot be told apart, so any of its ways will do."""
    return None if x.dtype.kind in "iu" else "stable"


def _sort_kernel(x: Array, axis: int, descending: bool) -> Array:
    ordered = np.sort(x, axis, kind=_kind_for(x))
    return np.flip(ordered, axis) if descending else ordered


def _sort_infer(x: TensorSpec, axis: int, descending: bool) -> TensorSpec:
    check_dtype("sort", x.dtype, "biuf")
    return spec_of(x.static_shape, x.dtype)


def _sort_vjp(ct: Any, attrs: Attrs, x: Any) -> Any:
    axis: int = attrs[0]  # type: ignore[assignment]  # attributes are typed loosely
    order = call(ARGSORT, x, attrs=attrs)
    return call(TAKE_ALONG_AXIS_GRAD, ct, order, attrs=(axis, x.shape[axis]))


SORT = define_op(
    "sort",
    batch=batch_changed(next_axis, None),
    kernel=_sort_kernel,
    emit=LibraryCall("sort"),
    infer=_sort_infer,
    attr_names=("axis", "descending"),
    saves=(0,),
    vjps=(_sort_vjp,),
    traits=Trait.NO_RECOMPUTE,
    kinds="biuf",
    samples=_SAMPLES,
)


def _is_sortable(array: Array) -> bool:
    """Whether NumPy orders the array along an axis as our ops do."""
    return array.ndim > 0 and array.dtype.kind in SORT.kinds


def sort(
    x: TensorLike, /, axis: int = -1, *, descending: bool = False, stable: bool = True
) -> Tensor:
    """A tensor with its elements in order along an axis; NaN counts as largest.

    Parameters
    ----------
    x : TensorLike of bool, int or float
        The tensor.
    axis : int
        Axis to sort along.
    descending : bool
        Whether the largest comes first.
    stable : bool
        Sorting is stable always.

    Returns
    -------
    Tensor
        Of the shape of `x`.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.sort(tl.asarray([3, 1, 2]), descending=True).numpy()
    array([3, 2, 1])
    """
    array = plain_array(x)
    if array is not None and not descending and _is_sortable(array):
        try:
            return wrapped(np.sort(array, axis, kind=_kind_for(array)))
        except (TypeError, ValueError):
            pass  # what follows says what is wrong
    tensor = computable(x, argument="sort")
    check_dtype("sort", tensor.dtype, SORT.kinds)
    attrs = (normalize_axis("sort", axis, tensor.ndim), bool(descending))
    return narrowed(apply(SORT, tensor, attrs=attrs), x)


def argsort(
    x: TensorLike, /, axis: int = -1, *, descending: bool = False, stable: bool = True
) -> Tensor:
    """The indices that put the elements in order along an axis.

    Equal elements keep their order. The indices have no gradient.

    Parameters
    ----------
    x : TensorLike of int, uint, float or bool
        With one dimension or more.
    axis : int
        The axis to sort along.
    descending : bool
        Whether the largest element comes first.
    stable : bool
        Equal elements keep their order in any case.

    Returns
    -------
    Tensor of int64
        Of the shape of `x`.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.argsort(tl.asarray([3, 1, 2])).numpy()
    array([1, 2, 0])
    """
    array = plain_array(x)
    if array is not None and not descending and _is_sortable(array):
        try:
            return wrapped(np.argsort(array, axis, kind="stable"))
        except (TypeError, ValueError):
            pass  # what follows says what is wrong
    x = computable(x, argument="argsort")
    check_dtype("argsort", x.dtype, ARGSORT.kinds)
    return apply(ARGSORT, x, attrs=(normalize_axis("argsort", axis, x.ndim), bool(descending)))


attach_method("argsort", argsort)


class TopK(NamedTuple):
    """What `tl.top_k` gives."""

    values: Tensor
    indices: Tensor


def top_k(x: TensorLike, k: int, /, *, axis: int = -1) -> TopK:
    """The `k` largest elements along an axis, the largest first, and where they stand.

    Parameters
    ----------
    x : TensorLike of bool, int or float
        The tensor, with one axis or more.
    k : int
        How many, at least 0 and at most the extent of the axis.
    axis : int
        The axis.

    Returns
    -------
    TopK
        `values` and, of int64, `indices`, of the shape of `x` with `k` elements along the axis; of
        equal ones the first come first.

    Raises
    ------
    ArgumentError
        If there are no `k` elements.
    AxisError
        If there is no such axis.

    Examples
    --------
    >>> import tapeline as tl
    >>> values, indices = tl.top_k([3.0, 9.0, 1.0, 5.0], 2)
    >>> values.numpy(), indices.numpy()
    (array([9., 5.]), array([1, 3]))
    """
    source = computable(x, "top_k")
    place = normalize_axis("top_k", axis, source.ndim)
    if isinstance(k, bool) or not isinstance(k, int) or not 0 <= k <= source.shape[place]:
        raise ArgumentError(
            f"top_k: k must be an int from 0 to {source.shape[place]}, the extent of axis {axis} "
            f"of shape {source.shape}; got {k!r}"
        )
    order = argsort(source, place, descending=True)[(slice(None),) * place + (slice(k),)]
    return TopK(narrowed(take_along_axis(source, order, axis=place), x), order)
