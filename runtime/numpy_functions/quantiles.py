"""Quantiles by all of NumPy's methods.

A quantile is a mean of two neighbours among the sorted elements, and their places depend on the
method, the fraction and the number of elements only: NumPy itself is asked for them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tapeline.runtime.dims import is_open_shape
from tapeline.runtime.errors import ArgumentError
from tapeline.runtime.ops.along_axis import take_along_axis
from tapeline.runtime.ops.arithmetic import divide
from tapeline.runtime.ops.gather import take
from tapeline.runtime.ops.logic import isnan, logical_not
from tapeline.runtime.ops.permuting import moveaxis
from tapeline.runtime.ops.reduction import any as any_of
from tapeline.runtime.ops.reduction import sum as sum_over
from tapeline.runtime.ops.rounding import floor
from tapeline.runtime.ops.scan import cumulative_sum
from tapeline.runtime.ops.selection import minimum, where
from tapeline.runtime.ops.shaping import broadcast_to, expand_dims, reshape
from tapeline.runtime.ops.sorting import argsort, sort
from tapeline.runtime.spec import normalize_axis
from tapeline.runtime.tensor import Tensor, as_tensor, cast_tensor

_FLOAT64, _INT64 = np.dtype(np.float64), np.dtype(np.int64)


def _axes_of(axis: Any, ndim: int) -> tuple[int, ...]:
    if axis is None:
        return tuple(range(ndim))
    given = axis if isinstance(axis, tuple | list) else (axis,)
    return tuple(normalize_axis("np.quantile", one, ndim) for one in given)


def _joined(x: Tensor, axes: tuple[int, ...]) -> Tensor:
    """The axes as one, at the end."""
    rest = [k for k in range(x.ndim) if k not in axes]
    moved = moveaxis(x, axes, tuple(range(-len(axes), 0))) if axes else x
    return reshape(moved, (*[x.shape[k] for k in rest], -1))


def _in_front(found: Tensor, fractions: Any, axes: tuple[int, ...], keepdims: bool) -> Tensor:
    """The axes of the fractions, which are the last, moved to the front."""
    count = fractions.ndim
    for k in range(count):
        found = moveaxis(found, found.ndim - count + k, k)
    if keepdims:
        found = expand_dims(found, [count + k for k in axes])
    return found


def _quantile(
    a: Any, q: Any, axis: Any = None, overwrite_input: bool = False, method: str = "linear",
    keepdims: bool = False, *, weights: Any = None,
) -> Tensor:  # fmt: skip
    fractions = np.asarray(q, np.float64)
    x = as_tensor(a)
    x = cast_tensor(x, _FLOAT64) if x.dtype.kind in "biu" else x
    axes = _axes_of(axis, x.ndim)
    if weights is not None:
        if method != "inverted_cdf":
            raise ArgumentError("np.quantile: weights need method='inverted_cdf'")
        found = _weighted(x, as_tensor(weights), axes, fractions)
        return _in_front(found, fractions, axes, keepdims)
    ordered = sort(_joined(x, axes))
    low, following, share = _places(ordered.shape[-1], fractions, method)
    share = cast_tensor(share, x.dtype)
    below = take(ordered, low, axis=-1)
    above = take(ordered, following, axis=-1)
    found = below + (above - below) * share
    broken = any_of(isnan(ordered), axis=-1)
    for _ in range(fractions.ndim):
        broken = expand_dims(broken, -1)
    found = where(broken, math.nan, found)
    return _in_front(found, fractions, axes, keepdims)


def _places(count: int, fractions: Any, method: str) -> tuple[Any, Any, Tensor]:
    """Where quantiles lie among so many sorted elements: before and after, and the share of the
    latter."""
    if is_open_shape((count,)) and method == "linear":
        last = as_tensor(count) - 1
        places = as_tensor(fractions) * last
        low = cast_tensor(floor(places), _INT64)
        return low, minimum(low + 1, last), places - low
    found: Any = np.quantile(np.arange(float(count)), fractions, method=method)  # type: ignore[call-overload]  # any of its methods
    lower = np.clip(np.floor(found), 0, count - 1).astype(np.int64)
    return lower, np.minimum(lower + 1, count - 1), as_tensor(np.asarray(found - lower))


def _weighted(x: Tensor, weights: Tensor, axes: tuple[int, ...], fractions: Any) -> Tensor:
    """The first elements in order at which the share of the weights reaches the fractions."""
    if weights.ndim == 1 and x.ndim > 1 and len(axes) == 1:
        column = [-1 if k == axes[0] else 1 for k in range(x.ndim)]
        weights = reshape(weights, column)
    rows = _joined(x, axes)
    shares = _joined(broadcast_to(weights, x.shape), axes)
    order = argsort(rows)
    totals = cumulative_sum(take_along_axis(shares, order, axis=-1), axis=-1)
    totals = divide(totals, totals[..., -1:])
    totals = where(totals == 0, -1.0, totals)
    flat = as_tensor(fractions.reshape(-1))
    before = sum_over(expand_dims(totals, -1) < flat, axis=-2)
    place = minimum(before, rows.shape[-1] - 1)
    found = take_along_axis(take_along_axis(rows, order, axis=-1), place, axis=-1)
    return reshape(found, (*found.shape[:-1], *fractions.shape))


def _nanquantile(
    a: Any, q: Any, axis: Any = None, overwrite_input: bool = False, method: str = "linear",
    keepdims: bool = False, *, weights: Any = None,
) -> Tensor:  # fmt: skip
    if method != "linear" or weights is not None:
        raise ArgumentError(
            "np.nanquantile: of tensors, only method='linear' without weights is known; use "
            "np.quantile of the elements that are numbers"
        )
    fractions = np.asarray(q, np.float64)
    x = as_tensor(a)
    x = cast_tensor(x, _FLOAT64) if x.dtype.kind in "biu" else x
    axes = _axes_of(axis, x.ndim)
    ordered = sort(_joined(x, axes))
    known = sum_over(logical_not(isnan(ordered)), axis=-1, keepdims=True)
    last = where(known > 0, known - 1, 0)
    places = cast_tensor(last, _FLOAT64) * as_tensor(fractions.reshape(-1))
    low = cast_tensor(floor(places), _INT64)
    share = cast_tensor(places - floor(places), x.dtype)
    below = take_along_axis(ordered, low, axis=-1)
    above = take_along_axis(ordered, minimum(low + 1, last), axis=-1)
    found = where(known > 0, below + (above - below) * share, math.nan)
    found = reshape(found, (*found.shape[:-1], *fractions.shape))
    return _in_front(found, fractions, axes, keepdims)


def _percentile(a: Any, q: Any, *args: Any, **options: Any) -> Tensor:
    return _quantile(a, np.asarray(q, np.float64) / 100.0, *args, **options)


def _nanpercentile(a: Any, q: Any, *args: Any, **options: Any) -> Tensor:
    return _nanquantile(a, np.asarray(q, np.float64) / 100.0, *args, **options)


def _median(
    a: Any, axis: Any = None, overwrite_input: bool = False, keepdims: bool = False
) -> Tensor:
    return _quantile(a, 0.5, axis, keepdims=keepdims)


def _nanmedian(
    a: Any, axis: Any = None, overwrite_input: bool = False, keepdims: bool = False
) -> Tensor:
    return _nanquantile(a, 0.5, axis, keepdims=bool(keepdims))


ANSWERS: dict[Callable[..., Any], Callable[..., Any]] = {
    np.quantile: _quantile, np.percentile: _percentile, np.median: _median,
    np.nanquantile: _nanquantile, np.nanpercentile: _nanpercentile, np.nanmedian: _nanmedian,
}  # fmt: skip
