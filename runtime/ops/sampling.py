"""Random choices from a key: integers, bernoulli, categorical, permutations; and dropout."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tapeline.runtime.errors import ArgumentError, DTypeError
from tapeline.runtime.ops.axes import as_index
from tapeline.runtime.ops.creation import chosen_dtype, shape_argument
from tapeline.runtime.ops.distributions import ShapeLike, exponential, gumbel, uniform
from tapeline.runtime.ops.exponential import EXP
from tapeline.runtime.ops.extrema import argmax
from tapeline.runtime.ops.gather import take
from tapeline.runtime.ops.permuting import moveaxis
from tapeline.runtime.ops.random_bits import bits_of, count_of
from tapeline.runtime.ops.scan import cumulative_sum
from tapeline.runtime.ops.searching import searchsorted
from tapeline.runtime.ops.selection import minimum, where
from tapeline.runtime.ops.shaping import reshape
from tapeline.runtime.ops.slicing import slice_along
from tapeline.runtime.ops.sorting import argsort
from tapeline.runtime.promotion import narrowed, promote_one
from tapeline.runtime.spec import broadcast_shapes, normalize_axis
from tapeline.runtime.tensor import Tensor, TensorLike, as_tensor, cast_tensor

_INT64 = np.dtype(np.int64)


def integers(
    key: TensorLike,
    shape: ShapeLike = (),
    low: int = 0,
    high: int | None = None,
    *,
    dtype: npt.DTypeLike | None = None,
) -> Tensor:
    """Ints from `low` up to `high`, that left out; with `high` left out from 0 up to `low`.

    Parameters
    ----------
    key : TensorLike of uint64, shape (2,)
        The same key gives the same numbers.
    shape : int or sequence of int
        Shape of the result.
    low, high : int
        The ends. No int is likelier than another by more than their distance over 2**64.
    dtype : dtype-like, optional
        Element type, by default int64.

    Returns
    -------
    Tensor of int
        Of the given shape.

    Raises
    ------
    ArgumentError
        If there is no such int, or one that the dtype does not have.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.random.integers(tl.random.key(7), 5, 0, 10).numpy()
    array([0, 7, 3, 2, 7])
    """
    first, last = as_index("integers", low), high
    first, last = (0, first) if last is None else (first, as_index("integers", last))
    wanted = chosen_dtype("integers", dtype, _INT64)
    if wanted.kind not in "iu":
        raise DTypeError(f"integers: dtype {wanted} is not supported; expected an int")
    limits = np.iinfo(wanted)
    if not limits.min <= first < last <= int(limits.max) + 1:
        raise ArgumentError(
            f"integers: low must be below high and both within {wanted}, got {first} and {last}"
        )
    words = bits_of("integers", key, shape_argument("integers", shape))
    count = last - first
    offsets = words % count if count < 2**64 else words
    return cast_tensor(offsets, wanted) + first if first else cast_tensor(offsets, wanted)


def bernoulli(
    key: TensorLike, probability: TensorLike = 0.5, shape: ShapeLike | None = None
) -> Tensor:
    """True with a probability, else false.

    Parameters
    ----------
    key : TensorLike of uint64, shape (2,)
        The same key gives the same results.
    probability : TensorLike of float
        From 0 to 1.
    shape : int or sequence of int, optional
        Shape of the result, by default that of `probability`, which broadcasts against it.

    Returns
    -------
    Tensor of bool

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.random.bernoulli(tl.random.key(7), [0.0, 1.0]).numpy()
    array([False,  True])
    """
    chance = promote_one(EXP, as_tensor(probability, argument="bernoulli: probability"))
    wanted = chance.shape if shape is None else shape_argument("bernoulli", shape)
    common = broadcast_shapes("bernoulli", chance.shape, wanted)
    return uniform(key, common, dtype=chance.dtype) < chance


def categorical(
    key: TensorLike, logits: TensorLike, /, axis: int = -1, *, shape: ShapeLike = ()
) -> Tensor:
    """Classes, each as likely as the softmax of its logit says.

    Parameters
    ----------
    key : TensorLike of uint64, shape (2,)
        The same key gives the same classes.
    logits : TensorLike of float
        Log probabilities, scaled or not.
    axis : int
        Axis of the classes.
    shape : int or sequence of int
        What is put in front of the shape of the logits without the axis: so many draws of each.

    Returns
    -------
    Tensor of int64

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.random.categorical(tl.random.key(7), [[0.0, -1e9], [-1e9, 0.0]]).numpy()
    array([0, 1])
    """
    scores = promote_one(EXP, as_tensor(logits, argument="categorical: logits"))
    axis = normalize_axis("categorical", axis, scores.ndim)
    scores = moveaxis(scores, axis, -1) if axis != scores.ndim - 1 else scores
    draws = shape_argument("categorical", shape)
    noise = gumbel(key, (*draws, *scores.shape), dtype=scores.dtype)
    return argmax(scores + noise, axis=-1)


def permutation(key: TensorLike, x: TensorLike, /, axis: int = 0) -> Tensor:
    """The parts of a tensor along an axis in random order; for an int the ints below it.

    Parameters
    ----------
    key : TensorLike of uint64, shape (2,)
        The same key gives the same order.
    x : int or TensorLike
        How many ints, or the tensor.
    axis : int
        The axis to reorder.

    Returns
    -------
    Tensor
        The entries in another order, or the ints below a count.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.sort(tl.random.permutation(tl.random.key(7), 5)).numpy()
    array([0, 1, 2, 3, 4])
    """
    if isinstance(x, int | np.integer):
        return _order(key, as_index("permutation", x))
    tensor = as_tensor(x, argument="permutation: x")
    axis = normalize_axis("permutation", axis, tensor.ndim)
    return take(tensor, _order(key, tensor.shape[axis]), axis=axis)


def _order(key: TensorLike, count: int) -> Tensor:
    """The places of `count` random words in their order."""
    return argsort(bits_of("permutation", key, (count,)))


def choice(
    key: TensorLike,
    x: TensorLike,
    /,
    shape: ShapeLike = (),
    *,
    replace: bool = True,
    p: TensorLike | None = None,
    axis: int = 0,
) -> Tensor:
    """Parts of a tensor along an axis, chosen at random; of an int one of the ints below it.

    Parameters
    ----------
    key : TensorLike of uint64, shape (2,)
        The same key gives the same choice.
    x : int or TensorLike
        What to choose from.
    shape : int or sequence of int
        How many; the shape stands in the result in place of the axis.
    replace : bool
        Whether a part may be chosen more than once.
    p : TensorLike of float, optional
        How likely each part is; all are equally likely if left out.
    axis : int
        The axis along which the parts lie.

    Returns
    -------
    Tensor
        Of the given shape, and the dtype of what is chosen from.

    Raises
    ------
    ArgumentError
        If more parts are asked for than there are, without `replace`.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.random.choice(tl.random.key(7), [10, 20, 30], 4, p=[0.0, 1.0, 0.0]).numpy()
    array([20, 20, 20, 20])
    """
    source: Tensor | None = None
    if isinstance(x, int | np.integer):
        total = as_index("choice", x)
    else:
        source = as_tensor(x, argument="choice: x")
        axis = normalize_axis("choice", axis, source.ndim)
        total = source.shape[axis]
    wanted = shape_argument("choice", shape)
    places = _with_replacement(key, total, wanted, p) if replace else None
    if places is None:
        places = reshape(_without_replacement(key, total, count_of(wanted), p), wanted)
    return places if source is None else take(source, places, axis=axis)


def _with_replacement(
    key: TensorLike, total: int, shape: Sequence[int], p: TensorLike | None
) -> Tensor:
    if p is None:
        return integers(key, shape, 0, total)
    sums = cumulative_sum(_chances(p, total))
    place = uniform(key, shape, dtype=sums.dtype) * sums[-1]
    return minimum(searchsorted(sums, place, side="right"), total - 1)


def _without_replacement(key: TensorLike, total: int, count: int, p: TensorLike | None) -> Tensor:
    """The first to arrive, where the waiting times have the chances as rates."""
    if count > total:
        raise ArgumentError(f"choice: {count} parts of {total} need replace=True")
    if p is None:
        order = _order(key, total)
    else:
        chances = _chances(p, total)
        times = exponential(key, total, dtype=chances.dtype) / where(chances > 0, chances, 1.0)
        order = argsort(where(chances > 0, times, math.inf))
    first: Tensor = slice_along(order, 0, 0, count)
    return first


def _chances(p: TensorLike, total: int) -> Tensor:
    chances = promote_one(EXP, as_tensor(p, argument="choice: p"))
    if chances.shape != (total,):
        raise ArgumentError(f"choice: p has shape {chances.shape}; expected ({total},)")
    return chances


def dropout(
    x: TensorLike, rate: float, key: TensorLike, /, *, training: bool = True, shape: Any = None
) -> Tensor:
    """Elements are set to 0 at random and the others scaled up, so that the mean stays.

    Parameters
    ----------
    x : TensorLike of float
        The tensor.
    rate : float
        How likely an element is to be dropped, from 0 up to 1.
    key : TensorLike of uint64, shape (2,)
        Of `tl.random`; the same key drops the same elements.
    training : bool
        Without it the elements stay as they are.
    shape : sequence of int, optional
        Shape of the mask, if it is to be broadcast: axes of extent 1 are dropped as a whole.

    Returns
    -------
    Tensor of float
        Of the shape of `x`.

    Raises
    ------
    ArgumentError
        If the rate is out of range.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.nn.dropout(tl.ones(6), 0.5, tl.random.key(7)).numpy()
    array([0., 0., 0., 0., 0., 2.])
    """
    if not 0.0 <= rate < 1.0:
        raise ArgumentError(f"dropout: the rate must be from 0 up to 1, got {rate}")
    tensor = promote_one(EXP, as_tensor(x, argument="dropout: x"))
    if not training or rate == 0:
        return narrowed(tensor, x)
    keep = uniform(key, tensor.shape if shape is None else shape, dtype=tensor.dtype) >= rate
    return narrowed(where(keep, tensor * (1.0 / (1.0 - rate)), 0.0), x)
