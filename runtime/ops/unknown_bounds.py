"""`x[start:stop]` where a trace does not know the bounds: tensors that it computes.

How many elements that takes depends on values, as with a mask (`runtime/value_sizes`). Such a slice
becomes the tensor of its places, and the rest of the key stays what it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from tapeline.runtime.dims import Dim
from tapeline.runtime.errors import ArgumentTypeError
from tapeline.runtime.open_numbers import OpenNumber
from tapeline.runtime.ops.arithmetic import floor_divide
from tapeline.runtime.ops.gather import take
from tapeline.runtime.ops.searching import span
from tapeline.runtime.ops.selection import maximum, minimum, where
from tapeline.runtime.tensor import Tensor, as_tensor, known_value


class UnknownSlice(NamedTuple):
    """A slice of a key with bounds that nobody knows: where it stands, and its axis of x."""

    position: int
    axis: int
    given: slice


def _is_unknown_bound(value: Any) -> bool:
    kind = type(value)
    if kind is Dim or kind is OpenNumber or not hasattr(kind, "__tapeline_tensor__"):
        return False  # open sizes have bounds of their own; an open number is a constant then
    return known_value(as_tensor(value)) is None


def unknown_slices(key: Any, ndim: int) -> list[UnknownSlice]:
    """The slices of the key that have a bound of that kind."""
    parts = key if isinstance(key, tuple) else (key,)
    if not any(isinstance(part, slice) and _is_unknown_slice(part) for part in parts):
        return []
    return list(_with_axes(parts, ndim))


def _with_axes(parts: tuple[Any, ...], ndim: int) -> Iterator[UnknownSlice]:
    used = sum(_width(part) for part in parts)
    axis = 0
    for position, part in enumerate(parts):
        if isinstance(part, slice) and _is_unknown_slice(part):
            yield UnknownSlice(position, axis, part)
        axis += ndim - used if part is Ellipsis else _width(part)


def _width(part: Any) -> int:
    """How many axes a part of a key stands for."""
    if part is None or part is Ellipsis or isinstance(part, bool):
        return 0
    dtype = getattr(part, "dtype", None)
    return int(part.ndim) if dtype is not None and dtype.kind == "b" else 1


def _is_unknown_slice(given: slice) -> bool:
    return any(map(_is_unknown_bound, (given.start, given.stop, given.step)))


def read_slices(x: Tensor, key: Any, slices: list[UnknownSlice]) -> Tensor:
    """The elements that the key takes."""
    for found in slices:
        x = take(x, _places(found.given, x.shape[found.axis]), axis=found.axis)
    return x[without(key, slices)]


def regions_of(x: Tensor, slices: list[UnknownSlice]) -> list[tuple[Tensor, tuple[Any, ...]]]:
    """For an assignment: x, then what each slice takes of the one before; each with the key of the
    next one in it, the last one with none."""
    found: list[tuple[Tensor, tuple[Any, ...]]] = []
    for one in slices:
        places = _places(one.given, x.shape[one.axis])
        found.append((x, (*(slice(None),) * one.axis, places)))
        x = take(x, places, axis=one.axis)
    return [*found, (x, ())]


def without(key: Any, slices: list[UnknownSlice]) -> tuple[Any, ...]:
    """The key with full slices for those."""
    parts = list(key) if isinstance(key, tuple) else [key]
    for found in slices:
        parts[found.position] = slice(None)
    return tuple(parts)


def _places(given: slice, extent: Any) -> Tensor:
    """The places of a slice along an axis of this extent, in order."""
    step = 1 if given.step is None else given.step
    if _is_unknown_bound(step):
        raise ArgumentTypeError(
            "index: the step of a slice must be known while a function is traced; got a tensor"
        )
    low, high = (0, extent) if step > 0 else (-1, extent - 1)
    first, last = (low, high) if step > 0 else (high, low)
    start = _inside(given.start, first, low, high, extent)
    stop = _inside(given.stop, last, low, high, extent)
    if step == 1:
        return span(start, maximum(start, stop))
    gap = stop - start if step > 0 else start - stop
    count = maximum(floor_divide(gap + (abs(step) - 1), abs(step)), 0)
    return span(0, count) * step + start


def _inside(bound: Any, missing: Any, low: Any, high: Any, extent: Any) -> Tensor:
    """A bound counted from the front, within what the axis has."""
    if bound is None:
        return as_tensor(missing, np.int64)
    if not hasattr(bound, "__index__"):
        raise ArgumentTypeError(f"index: slice bounds must be ints or None, got {bound!r}")
    tensor = as_tensor(bound)
    if tensor.dtype.kind not in "iu" or tensor.size != 1:
        raise ArgumentTypeError(
            "index: slice bounds must be ints or None, got a tensor of "
            f"{tensor.dtype} and shape {tensor.shape}"
        )
    number = as_tensor(tensor.reshape(()), np.int64)
    return minimum(maximum(where(number < 0, number + extent, number), low), high)
