"""`np.insert` and `np.delete`: elements that come in or go at places along an axis.

Where the extent is open, the parts between the places are joined, as many whatever the extent; else
one gather does it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from tapeline.runtime.dims import is_open_shape
from tapeline.runtime.errors import IndexOutOfRangeError
from tapeline.runtime.ops.gather import take
from tapeline.runtime.ops.joining import concat
from tapeline.runtime.ops.shaping import broadcast_to, expand_dims, ravel
from tapeline.runtime.ops.slicing import slice_along
from tapeline.runtime.tensor import Tensor, as_tensor

_MOST_PARTS = 16


def _delete(arr: Any, obj: Any, axis: int | None = None) -> Tensor:
    x, axis = (ravel(arr), 0) if axis is None else (as_tensor(arr), axis % arr.ndim)
    extent = x.shape[axis]
    if is_open_shape((extent,)):
        ends = _ends_of_slice(obj, extent) if type(obj) is slice else None
        if ends is not None:
            first, last = ends
            return x if last <= first else _joined(x, axis, [(0, first), (last, extent)])
        listed = _listed(obj)
        if listed is not None:
            places = sorted(_inside("np.delete", place, extent, axis, extent) for place in listed)
            return _joined(x, axis, _between(places, extent))
    kept = np.delete(np.arange(extent), obj)
    return x.take(kept, axis=axis)


def _ends_of_slice(key: slice, extent: Any) -> tuple[Any, Any] | None:
    """Where a slice begins and ends in an axis; None where it takes steps."""
    if key.step not in (None, 1):
        return None
    start, stop = 0 if key.start is None else key.start, extent if key.stop is None else key.stop
    return _clipped(start, extent), _clipped(stop, extent)


def _clipped(place: Any, extent: Any) -> Any:
    return max(place + extent, 0) if place < 0 else min(place, extent)


def _listed(obj: Any) -> list[int] | None:
    """A few places as a list; None where they are given otherwise."""
    places = np.asarray(obj) if isinstance(obj, int | np.integer | list | np.ndarray) else None
    if places is None or places.dtype.kind not in "iu" or places.ndim > 1:
        return None
    return places.reshape(-1).tolist() if places.size < _MOST_PARTS else None


def _inside(name: str, place: Any, extent: Any, axis: int, end: Any) -> Any:
    """A place counted from the front."""
    if not -extent <= place < end:
        raise IndexOutOfRangeError(
            f"{name}: index {place} is out of range for axis {axis} with size {extent}"
        )
    return place + extent if place < 0 else place


def _between(places: Sequence[Any], extent: Any) -> Iterator[tuple[Any, Any]]:
    """The ranges between places in ascending order, where one may be named twice."""
    start = 0
    for place in places:
        if start <= place:
            yield start, place
            start = place + 1
    yield start, extent


def _joined(x: Tensor, axis: int, ranges: Iterable[tuple[Any, Any]]) -> Tensor:
    return concat([slice_along(x, axis, start, stop) for start, stop in ranges], axis=axis)


def _insert(arr: Any, obj: Any, values: Any, axis: int | None = None) -> Tensor:
    """Values before places, which are counted in the tensor as it is."""
    x, axis = (ravel(arr), 0) if axis is None else (as_tensor(arr), axis % arr.ndim)
    extent = x.shape[axis]
    listed = _listed(obj) if is_open_shape((extent,)) else None
    given = _places_in(obj, extent) if listed is None else listed
    places = [_inside("np.insert", place, extent, axis, extent + 1) for place in given]
    rows = as_tensor(values, x.dtype)
    n_rest = x.ndim - 1
    count: Any = max(len(places), 1)
    is_block = len(places) == 1 and rows.ndim > n_rest
    if is_block:
        count = rows.shape[axis]
    elif len(places) == 1 and np.ndim(obj) == 0 and rows.ndim == n_rest and n_rest:
        rows = expand_dims(rows, axis)
    rows = broadcast_to(rows, (*x.shape[:axis], count, *x.shape[axis + 1 :]))
    if len(places) == 1:
        parts = (slice_along(x, axis, 0, places[0]), rows, slice_along(x, axis, places[0], extent))
        return concat(parts, axis=axis)
    if listed is not None:
        return concat(list(_woven(x, axis, places, rows)), axis=axis)
    keys = np.concatenate([np.arange(extent) + 0.5, places])
    return take(concat([x, rows], axis=axis), np.argsort(keys, kind="stable"), axis=axis)


def _places_in(obj: Any, extent: Any) -> list[int]:
    if type(obj) is slice:
        return list(range(*obj.indices(extent)))
    places = np.asarray(obj)
    return (np.flatnonzero(places) if places.dtype.kind == "b" else places.reshape(-1)).tolist()


def _woven(x: Tensor, axis: int, places: Sequence[Any], rows: Tensor) -> Iterator[Tensor]:
    """The parts of a tensor with one row before each place."""
    start: Any = 0
    for number in sorted(range(len(places)), key=places.__getitem__):
        yield slice_along(x, axis, start, places[number])
        yield slice_along(rows, axis, number, number + 1)
        start = places[number]
    yield slice_along(x, axis, start, x.shape[axis])


ANSWERS: dict[Callable[..., Any], Callable[..., Any]] = {np.delete: _delete, np.insert: _insert}
