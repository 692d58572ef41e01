"""Tensors as sets: their distinct elements, and whether elements belong to another tensor.

Each NaN counts as an element of its own.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tapeline.runtime.dispatch import bind
from tapeline.runtime.op import Expansion, Sample, Trait, define_op, get_op
from tapeline.runtime.ops.axes import ANY_KIND, Array
from tapeline.runtime.ops.gather import take
from tapeline.runtime.ops.pointwise import BOOL, apply
from tapeline.runtime.ops.searching import INT64
from tapeline.runtime.ops.shaping import ravel
from tapeline.runtime.promotion import promote
from tapeline.runtime.spec import TensorSpec, spec_of
from tapeline.runtime.tensor import Tensor, TensorLike, as_tensor, new_tensor, register_ufunc
from tapeline.runtime.unwatched import like_array, plain_array, wrapped
from tapeline.runtime.value_sizes import bind_sized, known_size, refuse_batch

# --- distinct elements -----------------------------------------------------------------------


class UniqueAll(NamedTuple):
    """What `tl.unique_all` gives."""

    values: Tensor
    indices: Tensor
    inverse_indices: Tensor
    counts: Tensor


class UniqueCounts(NamedTuple):
    """What `tl.unique_counts` gives."""

    values: Tensor
    counts: Tensor


class UniqueInverse(NamedTuple):
    """What `tl.unique_inverse` gives."""

    values: Tensor
    inverse_indices: Tensor


def _unique_kernel(
    x: Array, axis: int | None, equal_nan: bool, size: int | None
) -> tuple[Array, ...]:
    found = np.unique(
        x,
        return_index=True,
        return_inverse=True,
        return_counts=True,
        axis=axis,
        equal_nan=equal_nan,
    )
    first, inverse, counts = (part.astype(np.int64, copy=False) for part in found[1:])
    return first, inverse.reshape(x.shape if axis is None else -1), counts


def _unique_infer(
    x: TensorSpec, axis: int | None, equal_nan: bool, size: int | None
) -> tuple[TensorSpec, ...]:
    found = spec_of((known_size("unique", size),), INT64)
    shape = x.static_shape
    return found, spec_of(shape if axis is None else (shape[axis],), INT64), found


UNIQUE = define_op(
    "unique",
    kernel=_unique_kernel,
    infer=_unique_infer,
    n_outputs=3,
    attr_names=("axis", "equal_nan", "size"),
    vjps=(None,),
    batch=refuse_batch,
    traits=Trait.SIZED | Trait.NO_RECOMPUTE,
    kinds=ANY_KIND,
)
"""For the distinct elements in ascending order: the index of the first, the place of each element
of x among them, how often each occurs. With an axis, of parts along it."""


def unique_places(
    x: Tensor, axis: int | None = None, equal_nan: bool = False
) -> tuple[Tensor, ...]:
    """What `UNIQUE` gives for a tensor."""
    most = x.size if axis is None else x.shape[axis]
    found: tuple[Tensor, ...] = bind_sized(UNIQUE, (x,), most, (axis, equal_nan))
    return found


def unique_all(x: TensorLike, /) -> UniqueAll:
    """The distinct elements in ascending order, where they are, and how often each occurs.

    Parameters
    ----------
    x : TensorLike
        Of any shape; its elements are taken in row-major order.

    Returns
    -------
    UniqueAll
        `values`, a 1-d tensor of the dtype of `x`, to which gradients flow; `indices`, where each
        occurs first; `inverse_indices`, of the shape of `x`, the place of each element among the
        values; and `counts`.

    Raises
    ------
    SymbolicTensorError
        Under `vmap`, and in a trace in a branch, a loop or another function of one node: the number
        of distinct elements is not known there.

    Examples
    --------
    >>> import tapeline as tl
    >>> found = tl.unique_all([7, 5, 7])
    >>> found.values.numpy(), found.counts.numpy(), found.inverse_indices.numpy()
    (array([5, 7]), array([1, 2]), array([1, 0, 1]))
    """
    x = as_tensor(x, argument="unique_all")
    indices, inverse, counts = unique_places(x)
    values = take(ravel(x), indices, axis=0)
    return UniqueAll(values, indices, inverse, counts)


def unique_counts(x: TensorLike, /) -> UniqueCounts:
    """The distinct elements in ascending order and how often each occurs; see `tl.unique_all`.

    Parameters
    ----------
    x : TensorLike
        Of any shape; taken as one row in C order.

    Returns
    -------
    namedtuple of values and counts
        Sorted values, Tensor of the dtype of `x`, and Tensor of int64.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.unique_counts([7, 5, 7]).counts.numpy()
    array([1, 2])
    """
    values, _, _, counts = unique_all(x)
    return UniqueCounts(values, counts)


def unique_inverse(x: TensorLike, /) -> UniqueInverse:
    """The distinct elements in ascending order, and the place of each element of `x` among them;
    see `tl.unique_all`.

    Parameters
    ----------
    x : TensorLike
        Of any shape; taken as one row in C order.

    Returns
    -------
    namedtuple of values and inverse_indices
        Sorted values, and for each element of `x` which of them it is.

    Examples
    --------
    >>> import tapeline as tl
    >>> values, places = tl.unique_inverse([7, 5, 7])
    >>> tl.take(values, places).numpy()
    array([7, 5, 7])
    """
    values, _, inverse, _ = unique_all(x)
    return UniqueInverse(values, inverse)


def unique_values(x: TensorLike, /) -> Tensor:
    """The distinct elements in ascending order; see `tl.unique_all`.

    Parameters
    ----------
    x : TensorLike
        Of any shape; taken as one row in C order.

    Returns
    -------
    Tensor, 1-d
        The sorted values, of the dtype of `x`.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.unique_values([7, 5, 7]).numpy()
    array([5, 7])
    """
    array = plain_array(x)
    if array is not None and array.dtype.kind in ANY_KIND:
        return wrapped(np.unique(array, equal_nan=False))
    return unique_all(x).values


# --- membership ------------------------------------------------------------------------------


def _isin_kernel(x1: Array, x2: Array, invert: bool) -> Any:
    return np.isin(x1, x2, invert=invert)


def _isin_infer(x1: TensorSpec, x2: TensorSpec, invert: bool) -> TensorSpec:
    return spec_of(x1.static_shape, BOOL)


_FEW = 16
"""So many elements to look for are compared with each element; more are sorted first."""


def _isin_expand(x1: Tensor, x2: Tensor, invert: bool) -> Any:
    wanted = apply(get_op("reshape"), x2, attrs=((x2.size,),))
    if x2.size <= _FEW or x2.dtype.kind == "c":
        each = apply(get_op("expand_dims"), x1, attrs=((x1.ndim,),))
        equal = apply(get_op("equal"), each, wanted)
        found = apply(get_op("any"), equal, attrs=((x1.ndim,), False))
    else:
        ordered = apply(get_op("sort"), wanted, attrs=(0, False))
        places = apply(get_op("searchsorted"), ordered, x1, attrs=("left",))
        last = new_tensor(np.array(x2.size - 1))
        inside = apply(get_op("minimum"), places, last)
        found = apply(get_op("equal"), apply(get_op("take"), ordered, inside, attrs=(0,)), x1)
    return apply(get_op("logical_not"), found) if invert else found


ISIN = define_op(
    "isin",
    kernel=_isin_kernel,
    infer=_isin_infer,
    emit=Expansion(_isin_expand),
    n_inputs=2,
    attr_names=("invert",),
    vjps=(None, None),
    traits=Trait.NO_RECOMPUTE,
    kinds=ANY_KIND,
    samples=(
        Sample(((2, 3), (4,)), (False,)),
        Sample(((2, 3), (4,)), (True,)),
        Sample(((), (0,)), (False,)),
    ),
)


def isin(x1: TensorLike, x2: TensorLike, /, *, invert: bool = False) -> Tensor:
    """Whether each element of `x1` equals some element of `x2`.

    Parameters
    ----------
    x1, x2 : TensorLike
        Of any shapes.
    invert : bool
        Whether to tell instead that it equals none.

    Returns
    -------
    Tensor of bool
        Of the shape of `x1`.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.isin([1, 2, 3], [3, 1]).numpy()
    array([ True, False,  True])
    """
    first = plain_array(x1)
    second = None if first is None else like_array(first, x2)
    if second is not None:
        return wrapped(np.isin(first, second, invert=bool(invert)))
    found: Tensor = bind(ISIN, promote(ISIN, x1, x2), (bool(invert),))
    return found


register_ufunc(np.isin, isin)
register_ufunc(np.unique_all, unique_all)
register_ufunc(np.unique_counts, unique_counts)
register_ufunc(np.unique_inverse, unique_inverse)
register_ufunc(np.unique_values, unique_values)
