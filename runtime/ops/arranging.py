"""Functions that cut tensors apart, repeat or shift them, in terms of the ops of other files."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from tapeline.runtime.dispatch import STATE
from tapeline.runtime.errors import ArgumentError, ArgumentTypeError
from tapeline.runtime.op import Trait, define_op
from tapeline.runtime.operators import attach_method
from tapeline.runtime.ops.axes import Array, Axis, as_index, as_indices
from tapeline.runtime.ops.gather import take
from tapeline.runtime.ops.joining import concat
from tapeline.runtime.ops.pointwise import apply
from tapeline.runtime.ops.shaping import BROADCAST_TO, RESHAPE, ravel
from tapeline.runtime.ops.slicing import FULL, GETITEM, slice_along
from tapeline.runtime.spec import TensorSpec, normalize_axis, spec_of
from tapeline.runtime.tensor import Tensor, TensorLike, as_tensor
from tapeline.runtime.unwatched import is_int_or_ints, plain_array, wrapped
from tapeline.runtime.value_sizes import bind_sized, known_size, refuse_batch


def split(
    x: TensorLike, /, indices_or_sections: int | Sequence[int], axis: int = 0
) -> list[Tensor]:
    """A tensor cut along an axis into a list of tensors.

    Parameters
    ----------
    x : TensorLike
        The tensor.
    indices_or_sections : int or sequence of int
        The number of equal parts, or the places to cut at.
    axis : int
        Axis to cut along.

    Returns
    -------
    list of Tensor
        The parts, in order.

    Raises
    ------
    ArgumentError
        If the extent does not divide into that many equal parts.

    Examples
    --------
    >>> import tapeline as tl
    >>> [part.numpy() for part in tl.split(tl.asarray([1, 2, 3, 4]), 2)]
    [array([1, 2]), array([3, 4])]
    """
    x = as_tensor(x, argument="split")
    axis = normalize_axis("split", axis, x.ndim)
    extent = x.shape[axis]
    if isinstance(indices_or_sections, int | np.integer):
        count = int(indices_or_sections)
        if count < 1 or extent % count:
            raise ArgumentError(
                f"split: axis {axis} of extent {extent} does not divide into {count} equal parts"
            )
        cuts = [extent // count * place for place in range(1, count)]
    else:
        cuts = [_clamp(as_index("split", cut), extent) for cut in indices_or_sections]
    bounds = pairwise([0, *cuts, extent])
    return [slice_along(x, axis, start, max(start, stop)) for start, stop in bounds]


def _clamp(place: int, extent: int) -> int:
    return max(place + extent, 0) if place < 0 else min(place, extent)


def unstack(x: TensorLike, /, axis: int = 0) -> tuple[Tensor, ...]:
    """The tensors that `tl.stack` along `axis` would join to `x`.

    Parameters
    ----------
    x : TensorLike
        With one dimension or more.
    axis : int
        The axis along which it falls into pieces.

    Returns
    -------
    tuple of Tensor
        One for each index, without the axis.

    Examples
    --------
    >>> import tapeline as tl
    >>> [row.numpy() for row in tl.unstack(tl.asarray([[1, 2], [3, 4]]))]
    [array([1, 2]), array([3, 4])]
    """
    x = as_tensor(x, argument="unstack")
    axis = normalize_axis("unstack", axis, x.ndim)
    before = (FULL,) * axis
    places = range(x.shape[axis])
    return tuple([apply(GETITEM, x, attrs=((*before, place),)) for place in places])


def tile(x: TensorLike, repetitions: int | Sequence[int], /) -> Tensor:
    """A tensor laid out several times along each axis.

    Parameters
    ----------
    x : TensorLike
        The tensor.
    repetitions : int or sequence of int
        How often, for the last axes or for more axes than `x` has.

    Returns
    -------
    Tensor
        Of the dtype of `x`.

    Raises
    ------
    ArgumentError
        If a number is negative.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.tile(tl.asarray([1, 2]), (2, 2)).numpy()
    array([[1, 2, 1, 2],
           [1, 2, 1, 2]])
    """
    array = plain_array(x)
    if array is not None and is_int_or_ints(repetitions, 0):
        try:
            return wrapped(np.tile(array, repetitions))
        except ValueError:
            pass  # what follows says what is wrong
    x = as_tensor(x, argument="tile")
    counts = list(as_indices("tile", repetitions))
    if any(count < 0 for count in counts):
        raise ArgumentError(f"tile: repetitions must not be negative, got {tuple(counts)}")
    ndim = max(x.ndim, len(counts))
    counts = [1] * (ndim - len(counts)) + counts
    shape = (1,) * (ndim - x.ndim) + x.shape
    apart = tuple(n for extent in shape for n in (1, extent))
    repeated = tuple(n for pair in zip(counts, shape, strict=True) for n in pair)
    result = tuple(count * extent for count, extent in zip(counts, shape, strict=True))
    return _repeat_blocks(x, apart, repeated, result)


def _repeat_blocks(
    x: Tensor, apart: tuple[int, ...], repeated: tuple[int, ...], result: tuple[int, ...]
) -> Tensor:
    """`x` in shape `apart`, broadcast to `repeated`, in shape `result`."""
    blocks = apply(BROADCAST_TO, apply(RESHAPE, x, attrs=(apart,)), attrs=(repeated,))
    return apply(RESHAPE, blocks, attrs=(result,))


def _repeat_places_kernel(counts: Array, size: int | None) -> Array:
    if (counts < 0).any():
        raise ArgumentError(f"repeat: repeats must be ints >= 0, got {counts.min()}")
    return np.repeat(np.arange(counts.size), counts)


def _repeat_places_infer(counts: TensorSpec, size: int | None) -> TensorSpec:
    return spec_of((known_size("repeat", size),), np.dtype(np.int64))


REPEAT_PLACES = define_op(
    "repeat_places",
    kernel=_repeat_places_kernel,
    infer=_repeat_places_infer,
    attr_names=("size",),
    vjps=(None,),
    batch=refuse_batch,
    traits=Trait.SIZED | Trait.NO_RECOMPUTE,
    kinds="iu",
)
"""Each index as often as `counts` says."""


def _repeat_traced(x: Tensor, counts: Tensor, axis: int) -> Tensor:
    """Repeats elements as often as a tensor says that has no value yet."""
    extent = x.shape[axis]
    if counts.dtype.kind not in "iu":
        raise ArgumentTypeError(f"repeat: repeats must be ints, got {counts!r}")
    if counts.size != 1 and counts.shape != (extent,):
        raise ArgumentError(
            f"repeat: repeats must be one int for all or one for each of the {extent} elements of "
            f"axis {axis}, got shape {counts.shape}"
        )
    each = apply(BROADCAST_TO, apply(RESHAPE, counts, attrs=((counts.size,),)), attrs=((extent,),))
    return take(x, bind_sized(REPEAT_PLACES, (each,), None), axis=axis)


def repeat(
    x: TensorLike, repeats: int | Sequence[int] | TensorLike, /, axis: int | None = None
) -> Tensor:
    """A tensor with each element repeated along an axis.

    Parameters
    ----------
    x : TensorLike
        The tensor.
    repeats : int or sequence of int
        How often each element is repeated; one number for all, or one per element of the axis.
    axis : int or None
        Axis to repeat along; None works on the elements in row-major order.

    Returns
    -------
    Tensor
        Of the dtype of `x`, longer along the axis.

    Raises
    ------
    ArgumentError
        If `repeats` is negative or does not fit the axis.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.repeat(tl.asarray([1, 2]), 2).numpy()
    array([1, 1, 2, 2])
    """
    array = plain_array(x)
    if (
        array is not None
        and array.ndim
        and is_int_or_ints(repeats, 0)
        and (axis is None or type(axis) is int)
    ):
        try:
            return wrapped(array.repeat(repeats, axis))
        except ValueError:
            pass  # what follows says what is wrong
    x = as_tensor(x, argument="repeat")
    if axis is None:
        x, axis = ravel(x), 0
    axis = normalize_axis("repeat", axis, x.ndim)
    before, extent, after = x.shape[:axis], x.shape[axis], x.shape[axis + 1 :]
    if isinstance(repeats, Tensor | np.ndarray) and STATE.handler is not None:
        return _repeat_traced(x, as_tensor(repeats, argument="repeat"), axis)
    counts = np.asarray(repeats)
    if isinstance(repeats, list | tuple) and not repeats:
        counts = counts.astype(np.int64)
    if counts.dtype.kind not in "iu":
        raise ArgumentTypeError(f"repeat: repeats must be ints, got {repeats!r}")
    if (counts < 0).any() or (counts.size != 1 and counts.shape != (extent,)):
        raise ArgumentError(
            f"repeat: repeats must be ints >= 0, one for all or one for each of the {extent} "
            f"elements of axis {axis}, got {repeats!r}"
        )
    if counts.size != 1:
        return take(x, np.repeat(np.arange(extent), counts), axis=axis)
    count = counts.item()
    return _repeat_blocks(
        x,
        (*before, extent, 1, *after),
        (*before, extent, count, *after),
        (*before, extent * count, *after),
    )


def roll(x: TensorLike, /, shift: int | Sequence[int], axis: Axis = None) -> Tensor:
    """A tensor with its elements moved along an axis; those pushed out come back at the start.

    Parameters
    ----------
    x : TensorLike
        The tensor.
    shift : int or sequence of int
        How many places, one number per axis or one for all.
    axis : int, sequence of int or None
        Axes to move along; None moves the elements in row-major order.

    Returns
    -------
    Tensor
        Of the shape of `x`.

    Raises
    ------
    ArgumentError
        If there are more shifts than axes, or fewer, and not just one.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.roll(tl.asarray([1, 2, 3, 4]), 1).numpy()
    array([4, 1, 2, 3])
    """
    array = plain_array(x)
    if array is not None and type(shift) is int and (axis is None or type(axis) is int):
        try:
            return wrapped(np.roll(array, shift, axis))
        except ValueError:
            pass  # what follows says what is wrong
    x = as_tensor(x, argument="roll")
    if axis is None:
        shifts = tuple([as_index("roll: shift", s) for s in _listed(shift)])
        return apply(RESHAPE, _roll_axis(ravel(x), sum(shifts), 0), attrs=(x.shape,))
    axes = _listed(axis)
    shifts = _listed(shift)
    if len(shifts) == 1:
        shifts *= len(axes)
    elif len(axes) == 1:
        axes *= len(shifts)
    if len(shifts) != len(axes):
        raise ArgumentError(f"roll: {len(shifts)} shifts do not fit {len(axes)} axes")
    for count, place in zip(shifts, axes, strict=True):
        x = _roll_axis(
            x,
            as_index("roll: shift", count),
            normalize_axis("roll", as_index("roll: axis", place), x.ndim),
        )
    return x


def _listed(value: int | Sequence[int]) -> tuple[int, ...]:
    return tuple(value) if isinstance(value, list | tuple | np.ndarray) else (value,)  # type: ignore[return-value]  # checked where it is used


def _roll_axis(x: Tensor, shift: int, axis: int) -> Tensor:
    extent = x.shape[axis]
    shift = shift % extent if extent else 0
    if shift == 0:
        return x
    tail: Any = slice_along(x, axis, extent - shift, extent)
    return concat([tail, slice_along(x, axis, 0, extent - shift)], axis=axis)


attach_method("repeat", repeat)
