"""Finding elements: places in sorted tensors, and elements that are not zero."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from tapeline.runtime.dispatch import bind
from tapeline.runtime.errors import ArgumentError, ArgumentTypeError, ShapeError
from tapeline.runtime.op import Attrs, LibraryCall, Op, Sample, Trait, define_op
from tapeline.runtime.operators import attach_method
from tapeline.runtime.ops.axes import ANY_KIND, Array
from tapeline.runtime.ops.each import batch_each
from tapeline.runtime.ops.gather import index_tensor, take
from tapeline.runtime.ops.pointwise import check_dtype, computable
from tapeline.runtime.promotion import promote
from tapeline.runtime.spec import DType, TensorSpec, spec_of
from tapeline.runtime.tensor import Tensor, TensorLike, as_tensor, register_ufunc
from tapeline.runtime.unwatched import like_array, plain_array, wrapped
from tapeline.runtime.value_sizes import bind_sized, known_size, refuse_batch

INT64: DType = np.dtype(np.int64)


# --- searchsorted ----------------------------------------------------------------------------


def _searchsorted_kernel(x1: Array, x2: Array, side: Literal["left", "right"]) -> Any:
    return np.searchsorted(x1, x2, side)


def _searchsorted_infer(x1: TensorSpec, x2: TensorSpec, side: str) -> TensorSpec:
    if x1.ndim != 1:
        raise ShapeError(f"searchsorted: x1 must be 1-d, got shape {x1.shape}")
    return spec_of(x2.static_shape, INT64)


def _batch_searchsorted(
    op: Op, size: int, inputs: Sequence[Tensor], mapped: Sequence[bool], attrs: Attrs
) -> Tensor:
    """Values of all examples in one list; where each has its own list, one after the other."""
    if mapped[0]:
        return batch_each(op, size, inputs, mapped, attrs)
    found: Tensor = bind(op, inputs, attrs)
    return found


SEARCHSORTED = define_op(
    "searchsorted",
    batch=_batch_searchsorted,
    kernel=_searchsorted_kernel,
    emit=LibraryCall("searchsorted"),
    infer=_searchsorted_infer,
    n_inputs=2,
    attr_names=("side",),
    vjps=(None, None),
    traits=Trait.NO_RECOMPUTE,
    kinds="biuf",
    samples=tuple(
        Sample((lambda rng: np.sort(rng.normal(size=7)), lambda rng: rng.normal(size=(2, 3))), (s,))
        for s in ("left", "right")
    ),
)


def searchsorted(
    x1: TensorLike,
    x2: TensorLike,
    /,
    *,
    side: Literal["left", "right"] = "left",
    sorter: TensorLike | None = None,
) -> Tensor:
    """Where each element of `x2` would go in `x1` to keep it sorted.

    Parameters
    ----------
    x1 : TensorLike of real dtype, shape (n,)
        In ascending order, or brought into it by `sorter`.
    x2 : TensorLike of real dtype
        The elements to find places for.
    side : "left" or "right"
        Whether to go before or after the elements that are equal.
    sorter : TensorLike of int, shape (n,), optional
        The indices that sort `x1`.

    Returns
    -------
    Tensor of int64
        Of the shape of `x2`; from 0 to n.

    Raises
    ------
    ShapeError
        If `x1` is not 1-d.
    ArgumentError
        If `side` is another word.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.searchsorted([1, 3, 5], [0, 3, 9]).numpy()
    array([0, 1, 3])
    """
    if side not in ("left", "right"):
        raise ArgumentError(f"searchsorted: side must be 'left' or 'right', got {side!r}")
    values = plain_array(x2)
    row = None if values is None or sorter is not None else like_array(values, x1)
    if row is not None and row.ndim == 1 and row.dtype.kind in SEARCHSORTED.kinds:
        return wrapped(row.searchsorted(values, side))
    x1, x2 = promote(SEARCHSORTED, x1, x2)
    if x1.ndim != 1:
        raise ShapeError(f"searchsorted: x1 must be 1-d, got shape {x1.shape}")
    if sorter is not None:
        x1 = take(x1, index_tensor("searchsorted", sorter), axis=0)
    places: Tensor = bind(SEARCHSORTED, (x1, x2), (side,))
    return places


# --- nonzero ---------------------------------------------------------------------------------


def _nonzero_kernel(x: Array, size: int | None) -> Array:
    if x.ndim == 1:
        return np.flatnonzero(x).reshape(1, -1)
    return np.stack(np.nonzero(x))


def _nonzero_infer(x: TensorSpec, size: int | None) -> TensorSpec:
    return spec_of((x.ndim, known_size("nonzero", size)), INT64)


NONZERO = define_op(
    "nonzero",
    kernel=_nonzero_kernel,
    infer=_nonzero_infer,
    attr_names=("size",),
    vjps=(None,),
    batch=refuse_batch,
    traits=Trait.SIZED | Trait.NO_RECOMPUTE,
    kinds=ANY_KIND,
)


def nonzero(x: TensorLike, /) -> tuple[Tensor, ...]:
    """The indices of the elements that are not zero, one tensor per dimension, in row-major order.

    Parameters
    ----------
    x : TensorLike
        Of at least one dimension.

    Returns
    -------
    tuple of Tensor of int64
        The indices along each axis of the elements that are not 0, in C order.

    Raises
    ------
    ShapeError
        If `x` is 0-d.
    SymbolicTensorError
        Under `vmap`, and in a trace in a branch, a loop or another function of one node: the number
        of elements is not known there.

    Examples
    --------
    >>> import tapeline as tl
    >>> rows, columns = tl.nonzero([[0, 5], [7, 0]])
    >>> rows.numpy(), columns.numpy()
    (array([0, 1]), array([1, 0]))
    """
    array = plain_array(x)
    if array is not None and array.ndim and array.dtype.kind in ANY_KIND:
        return tuple([wrapped(places) for places in array.nonzero()])
    x = computable(x, argument="nonzero")
    check_dtype("nonzero", x.dtype, ANY_KIND)
    if x.ndim == 0:
        raise ShapeError("nonzero: x is 0-d and has no indices; use x != 0")
    places: Tensor = bind_sized(NONZERO, (x,), x.size)
    return tuple([places[axis] for axis in range(x.ndim)])


# --- spans -----------------------------------------------------------------------------------


def _span_kernel(start: Array, stop: Array, size: int | None) -> Array:
    return np.arange(int(start), int(stop))


def _span_infer(start: TensorSpec, stop: TensorSpec, size: int | None) -> TensorSpec:
    return spec_of((known_size("span", size),), INT64)


SPAN = define_op(
    "span",
    kernel=_span_kernel,
    infer=_span_infer,
    n_inputs=2,
    attr_names=("size",),
    vjps=(None, None),
    batch=refuse_batch,
    traits=Trait.SIZED | Trait.NO_RECOMPUTE,
    kinds="iu",
)
"""The integers from the first number up to the second."""


def span(start: TensorLike, stop: TensorLike) -> Tensor:
    """The integers from `start` up to `stop`, which are 0-d tensors of int64; a trace need not know
    them."""
    bounds = [as_tensor(bound, INT64, "span") for bound in (start, stop)]
    found: Tensor = bind_sized(SPAN, bounds, None)
    return found


# --- numbers as sizes ------------------------------------------------------------------------


def _size_of_kernel(number: Array, size: int | None) -> Array:
    if number < 0:
        raise ArgumentError(f"a size must not be negative, got {int(number)}")
    return np.arange(int(number))


def _size_of_infer(number: TensorSpec, size: int | None) -> TensorSpec:
    return spec_of((known_size("size_of", size),), INT64)


SIZE_OF = define_op(
    "size_of",
    kernel=_size_of_kernel,
    infer=_size_of_infer,
    n_inputs=1,
    attr_names=("size",),
    vjps=(None,),
    batch=refuse_batch,
    traits=Trait.SIZED | Trait.NO_RECOMPUTE,
    kinds="iu",
)
"""The integers below a number, which is what their own number becomes in a trace."""


def size_of(op_name: str, number: Tensor) -> Any:
    """A tensor of one whole number that a trace does not know, as a size that it leaves open."""
    if number.dtype.kind not in "iu" or number.size != 1:
        raise ArgumentTypeError(
            f"{op_name}: expected an int, got a tensor of {number.dtype} and shape {number.shape}"
        )
    found: Tensor = bind_sized(SIZE_OF, (as_tensor(number.reshape(()), INT64),), None)
    return found.shape[0]


attach_method("nonzero", nonzero)
attach_method("searchsorted", searchsorted)
register_ufunc(np.searchsorted, searchsorted)
register_ufunc(np.nonzero, nonzero)
