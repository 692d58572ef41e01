"""The sum, the largest, the smallest and the mean of the rows that have the same number."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tapeline.runtime.errors import ShapeError
from tapeline.runtime.op import OUT, Attrs, Expansion, Op, Sample, Trait, define_op
from tapeline.runtime.ops.axes import Array
from tapeline.runtime.ops.batch_rules import spread_all
from tapeline.runtime.ops.cast import CAST
from tapeline.runtime.ops.comparison import equal
from tapeline.runtime.ops.creation import ones
from tapeline.runtime.ops.evenly_spaced import arange
from tapeline.runtime.ops.gather import CHECK_INDEX, TAKE, TAKE_GRAD, index_tensor, take
from tapeline.runtime.ops.joining import concat
from tapeline.runtime.ops.pointwise import apply, call, masked
from tapeline.runtime.ops.searching import searchsorted
from tapeline.runtime.ops.selection import maximum, minimum, where
from tapeline.runtime.ops.shaping import broadcast_to, reshape
from tapeline.runtime.ops.sorting import argsort
from tapeline.runtime.spec import TensorSpec, spec_of
from tapeline.runtime.tensor import Tensor, TensorLike, as_tensor, cast_tensor

_INT64 = np.dtype(np.int64)


def require_segments(
    op_name: str, data: TensorLike, segment_ids: TensorLike
) -> tuple[Tensor, Tensor]:
    """Rows and, for each, the number of its segment."""
    source = as_tensor(data, argument=f"{op_name}: data")
    numbers = index_tensor(op_name, segment_ids, "segment_ids")
    if source.ndim == 0 or numbers.shape != source.shape[:1]:
        raise ShapeError(
            f"{op_name}: segment_ids has shape {numbers.shape}, data {source.shape}; there must "
            "be one number for each row of data"
        )
    return source, numbers


def segment_sum(data: TensorLike, segment_ids: TensorLike, /, num_segments: int) -> Tensor:
    """The sums of the rows that have the same number; the transpose of `take`.

    Parameters
    ----------
    data : TensorLike of numbers
        What to sum, along its first axis.
    segment_ids : TensorLike of int, shape (data.shape[0],)
        To which sum each row goes, in any order; negative ones count from the end.
    num_segments : int
        How many sums there are; those of no rows are 0.

    Returns
    -------
    Tensor
        Of shape (num_segments, *data.shape[1:]), in the dtype of `data`.

    Raises
    ------
    ShapeError
        If there is not one number for each row.
    DTypeError
        If the numbers of the segments are no ints.
    IndexOutOfRangeError
        If there is no such sum.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.segment_sum([1.0, 2.0, 4.0, 8.0], [0, 2, 0, 2], 3).numpy()
    array([ 5.,  0., 10.])
    """
    source, numbers = require_segments("segment_sum", data, segment_ids)
    if source.dtype.kind == "b":
        source = cast_tensor(source, _INT64)
    checked = apply(CHECK_INDEX, numbers, attrs=(num_segments, 0))
    return apply(TAKE_GRAD, source, checked, attrs=(0, num_segments))


def _neutral(dtype: np.dtype[Any], kind: str) -> Any:
    """What the extremum of no element is."""
    if dtype.kind == "f":
        return -np.inf if kind == "max" else np.inf
    if dtype.kind == "b":
        return kind == "min"
    limits = np.iinfo(dtype)
    return limits.min if kind == "max" else limits.max


def _kernel(data: Array, numbers: Array, kind: str, count: int) -> Array:
    out = np.full((count, *data.shape[1:]), _neutral(data.dtype, kind), data.dtype)
    (np.maximum if kind == "max" else np.minimum).at(out, numbers, data)
    return out


def _infer(data: TensorSpec, numbers: TensorSpec, kind: str, count: int) -> TensorSpec:
    return spec_of((count, *data.static_shape[1:]), data.dtype)


def _expand(data: Tensor, numbers: Tensor, kind: str, count: int) -> Tensor:
    """Rows in the order of their numbers, a running extremum that starts anew with each number, and
    of that the last row of each."""
    neutral = np.array(_neutral(data.dtype, kind), data.dtype)
    if not data.shape[0]:
        return broadcast_to(neutral, (count, *data.shape[1:]))
    function = maximum if kind == "max" else minimum
    order = argsort(numbers)
    numbers, rows = take(numbers, order, axis=0), take(data, order, axis=0)
    step = 1
    while step < data.shape[0]:
        is_same = equal(numbers[step:], numbers[:-step])
        is_same = reshape(is_same, (-1, *(1,) * (data.ndim - 1)))
        joined = where(is_same, function(rows[:-step], rows[step:]), rows[step:])
        rows = concat([rows[:step], joined])
        step *= 2
    segments = arange(count, dtype=numbers.dtype.name)
    after = searchsorted(numbers, segments, side="right")
    is_empty = equal(after, searchsorted(numbers, segments))
    found = take(rows, maximum(after - 1, 0), axis=0)
    return where(reshape(is_empty, (count, *(1,) * (data.ndim - 1))), neutral, found)


def _vjp(ct: Any, attrs: Attrs, data: Any, numbers: Any, out: Any) -> Any:
    """Rows that are equal to the extremum share its cotangent evenly."""
    count = attrs[1]
    is_extreme = call(CAST, data == call(TAKE, out, numbers, attrs=(0,)), attrs=(data.dtype,))
    how_many = call(TAKE_GRAD, is_extreme, numbers, attrs=(0, count))
    share = ct / (how_many + (how_many == 0))
    return masked(call(TAKE, share, numbers, attrs=(0,)) * is_extreme)


def _batch(
    op: Op, size: int, inputs: Sequence[Tensor], mapped: Sequence[bool], attrs: Attrs
) -> Tensor:
    """All examples as rows of one, each with segments of its own."""
    kind, count = attrs
    assert isinstance(count, int)
    data, numbers = spread_all(inputs, mapped, size)
    first = reshape(arange(size, dtype="int64") * count, (size, 1))
    rows = reshape(data, (size * data.shape[1], *data.shape[2:]))
    places = reshape(numbers + first, (size * data.shape[1],))
    found = apply(op, rows, places, attrs=(kind, size * count))
    return reshape(found, (size, count, *data.shape[2:]))


def _numbers(rng: np.random.Generator) -> Array:
    return rng.permutation(np.array([0, 0, 1, 1, 2, 2]))


SEGMENT_EXTREMUM = define_op(
    "segment_extremum",
    kernel=_kernel,
    infer=_infer,
    n_inputs=2,
    attr_names=("kind", "count"),
    saves=(0, 1, OUT),
    vjps=(_vjp, None),
    traits=Trait.NO_RECOMPUTE,
    kinds="biuf",
    emit=Expansion(_expand),
    batch=_batch,
    samples=(Sample(((6,), _numbers), ("max", 3)), Sample(((6, 2), _numbers), ("min", 3))),
)


def _extremum(name: str, kind: str, data: TensorLike, ids: TensorLike, count: int) -> Tensor:
    source, numbers = require_segments(name, data, ids)
    checked = apply(CHECK_INDEX, numbers, attrs=(count, 0))
    return apply(SEGMENT_EXTREMUM, source, checked, attrs=(kind, count))


def segment_max(data: TensorLike, segment_ids: TensorLike, /, num_segments: int) -> Tensor:
    """The largest of the rows that have the same number, element by element.

    Parameters
    ----------
    data : TensorLike of bool, int or float
        The rows, along the first axis.
    segment_ids : TensorLike of int, shape (data.shape[0],)
        To which segment each row belongs, in any order; negative ones count from the end.
    num_segments : int
        How many segments there are; those of no rows are the least of the dtype.

    Returns
    -------
    Tensor
        Of shape (num_segments, *data.shape[1:]), in the dtype of `data`.

    Raises
    ------
    ShapeError
        If there is not one number for each row.
    DTypeError
        If the numbers of the segments are no ints.
    IndexOutOfRangeError
        If there is no such segment.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.segment_max([1.0, 2.0, 4.0, 8.0], [0, 2, 0, 2], 3).numpy()
    array([  4., -inf,   8.])
    """
    return _extremum("segment_max", "max", data, segment_ids, num_segments)


def segment_min(data: TensorLike, segment_ids: TensorLike, /, num_segments: int) -> Tensor:
    """The smallest of the rows that have the same number, element by element.

    Parameters
    ----------
    data : TensorLike of bool, int or float
        The rows, along the first axis.
    segment_ids : TensorLike of int, shape (data.shape[0],)
        To which segment each row belongs, in any order; negative ones count from the end.
    num_segments : int
        How many segments there are; those of no rows are the greatest of the dtype.

    Returns
    -------
    Tensor
        Of shape (num_segments, *data.shape[1:]), in the dtype of `data`.

    Raises
    ------
    ShapeError
        If there is not one number for each row.
    DTypeError
        If the numbers of the segments are no ints.
    IndexOutOfRangeError
        If there is no such segment.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.segment_min([1.0, 2.0, 4.0, 8.0], [0, 2, 0, 2], 3).numpy()
    array([ 1., inf,  2.])
    """
    return _extremum("segment_min", "min", data, segment_ids, num_segments)


def segment_mean(data: TensorLike, segment_ids: TensorLike, /, num_segments: int) -> Tensor:
    """The mean of the rows that have the same number, element by element.

    Parameters
    ----------
    data : TensorLike of float
        The rows, along the first axis; ints are taken as float64.
    segment_ids : TensorLike of int, shape (data.shape[0],)
        To which segment each row belongs, in any order; negative ones count from the end.
    num_segments : int
        How many segments there are; those of no rows are 0.

    Returns
    -------
    Tensor
        Of shape (num_segments, *data.shape[1:]).

    Raises
    ------
    ShapeError
        If there is not one number for each row.
    DTypeError
        If the numbers of the segments are no ints.
    IndexOutOfRangeError
        If there is no such segment.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.segment_mean([1.0, 2.0, 4.0, 8.0], [0, 2, 0, 2], 3).numpy()
    array([2.5, 0. , 5. ])
    """
    source, numbers = require_segments("segment_mean", data, segment_ids)
    if source.dtype.kind in "biu":
        source = cast_tensor(source, np.dtype(np.float64))
    total = segment_sum(source, numbers, num_segments)
    count = segment_sum(ones(source.shape[:1], dtype=source.dtype.name), numbers, num_segments)
    return total / reshape(maximum(count, 1), (num_segments, *(1,) * (source.ndim - 1)))
