"""`np.pad` by all of NumPy's modes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tapeline.runtime.errors import ArgumentError
from tapeline.runtime.ops.extrema import max as max_over
from tapeline.runtime.ops.extrema import min as min_over
from tapeline.runtime.ops.gather import take
from tapeline.runtime.ops.joining import concat, pad
from tapeline.runtime.ops.rounding import floor, round
from tapeline.runtime.ops.shaping import broadcast_to, reshape
from tapeline.runtime.ops.statistics import mean as mean_over
from tapeline.runtime.spec import normalize_axis
from tapeline.runtime.tensor import Tensor, as_tensor, cast_tensor

_OPTIONS = {
    "constant": ("constant_values",), "empty": (), "edge": (), "wrap": (),
    "linear_ramp": ("end_values",), "maximum": ("stat_length",), "mean": ("stat_length",),
    "median": ("stat_length",), "minimum": ("stat_length",), "reflect": ("reflect_type",),
    "symmetric": ("reflect_type",),
}  # fmt: skip
"""The modes, and what each takes besides the widths."""


def _median_over(x: Tensor, axis: int, keepdims: bool) -> Tensor:
    found: Any = np.median
    return as_tensor(found(x, axis=axis, keepdims=keepdims))


_STATISTICS: dict[str, Callable[..., Tensor]] = {
    "maximum": max_over, "minimum": min_over, "mean": mean_over, "median": _median_over,
}  # fmt: skip


def _pad(array: Any, pad_width: Any, mode: Any = "constant", **options: Any) -> Tensor:
    x = as_tensor(array)
    widths = _widths(pad_width, x.ndim)
    if callable(mode) or mode not in _OPTIONS:
        raise ArgumentError(
            f"np.pad: of tensors, mode must be one of {', '.join(map(repr, _OPTIONS))}, got "
            f"{mode!r}"
        )
    unknown = set(options) - set(_OPTIONS[mode])
    if unknown:
        raise ArgumentError(f"np.pad: mode {mode!r} takes no {', '.join(sorted(unknown))}")
    if mode in ("constant", "empty"):
        return _with_constants(x, widths, options.get("constant_values", 0))
    if mode == "linear_ramp":
        ends = np.broadcast_to(options.get("end_values", 0), (x.ndim, 2))
    for axis, (before, after) in enumerate(widths.tolist()):
        if not before and not after:
            continue
        if mode == "linear_ramp":
            x = _with_ramps(x, axis, (before, after), ends[axis])
        elif mode in _STATISTICS:
            given: Any = options.get("stat_length")
            lengths = np.broadcast_to(given, (x.ndim, 2))[axis]
            x = _with_statistics(x, axis, (before, after), _STATISTICS[mode], lengths)
        elif options.get("reflect_type", "even") == "odd":
            x = _turned(x, axis, (before, after), mode)
        else:
            x = take(x, np.pad(np.arange(x.shape[axis]), (before, after), mode), axis=axis)
    return x


def _widths(pad_width: Any, ndim: int) -> Any:
    """How many elements to put before and after, per axis."""
    if not isinstance(pad_width, dict):
        return np.broadcast_to(np.asarray(pad_width), (ndim, 2))
    given = {normalize_axis("np.pad", axis, ndim): width for axis, width in pad_width.items()}
    return np.array([np.broadcast_to(given.get(axis, 0), 2) for axis in range(ndim)])


def _with_constants(x: Tensor, widths: Any, constants: Any) -> Tensor:
    if np.ndim(constants) == 0:
        return pad(x, widths.tolist(), constant_values=constants)
    fills = np.broadcast_to(constants, (x.ndim, 2))
    for axis, (before, after) in enumerate(widths.tolist()):
        for sides, fill in zip(((before, 0), (0, after)), fills[axis], strict=True):
            all_sides = [sides if k == axis else (0, 0) for k in range(x.ndim)]
            x = pad(x, all_sides, constant_values=fill.item())
    return x


def _edge(x: Tensor, axis: int, place: int) -> Tensor:
    """The elements at one place of an axis, which stays."""
    return take(x, np.array([place]), axis=axis)


def _with_ramps(x: Tensor, axis: int, sides: tuple[int, int], ends: Any) -> Tensor:
    """Ramps from the end values to the edges; of ints each step is rounded down."""
    parts = [x]
    for is_after, (count, end) in enumerate(zip(sides, ends.tolist(), strict=True)):
        if not count:
            continue
        edge = _edge(x, axis, -1 if is_after else 0)
        shape = [-1 if k == axis else 1 for k in range(x.ndim)]
        steps = reshape(as_tensor(np.arange(count) / count), shape)
        if x.dtype.kind in "fc":
            steps = cast_tensor(steps, np.zeros(0, x.dtype).real.dtype)
        ramp = end + (edge - end) * steps
        ramp = cast_tensor(floor(ramp) if x.dtype.kind in "iu" else ramp, x.dtype)
        if is_after:
            parts.append(take(ramp, np.arange(count)[::-1], axis=axis))
        else:
            parts.insert(0, ramp)
    return concat(parts, axis=axis)


def _with_statistics(
    x: Tensor, axis: int, sides: tuple[int, int], statistic: Callable[..., Tensor], lengths: Any
) -> Tensor:
    """A statistic of the elements near each edge, or of all."""
    extent, parts = x.shape[axis], [x]
    for is_after, (count, length) in enumerate(zip(sides, lengths.tolist(), strict=True)):
        if not count:
            continue
        near = extent if length is None else min(length, extent)
        if near < 1:
            raise ArgumentError(f"np.pad: stat_length must be positive, got {length}")
        places = np.arange(extent - near, extent) if is_after else np.arange(near)
        found = statistic(take(x, places, axis=axis), axis=axis, keepdims=True)
        if x.dtype.kind in "iu" and found.dtype.kind == "f":
            found = round(found)
        shape = [count if k == axis else n for k, n in enumerate(x.shape)]
        filled = broadcast_to(cast_tensor(found, x.dtype), shape)
        parts.insert(len(parts) if is_after else 0, filled)
    return concat(parts, axis=axis)


def _turned(x: Tensor, axis: int, sides: tuple[int, int], mode: str) -> Tensor:
    """Mirrored at the edges and turned around: twice the edge less what is mirrored. What is wider
    than the array is done in several turns, as NumPy does."""
    before, after = sides
    while before or after:
        extent = x.shape[axis]
        reach = extent - 1 if mode == "reflect" else extent
        if reach < 1:
            return take(x, np.zeros(extent + before + after, np.int64), axis=axis)
        first = 1 if mode == "reflect" else 0
        left, right = min(before, reach), min(after, reach)
        parts = [x]
        if left:
            mirrored = take(x, np.arange(first, first + left)[::-1], axis=axis)
            parts.insert(0, 2 * _edge(x, axis, 0) - mirrored)
        if right:
            last = extent - 1 - first
            mirrored = take(x, np.arange(last - right + 1, last + 1)[::-1], axis=axis)
            parts.append(2 * _edge(x, axis, -1) - mirrored)
        x = concat(parts, axis=axis)
        before, after = before - left, after - right
    return x


ANSWERS: dict[Callable[..., Any], Callable[..., Any]] = {np.pad: _pad}
