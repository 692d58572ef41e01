"""NumPy's functions that sum up: order statistics, moments, signals, counts, polynomials."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tapeline.runtime.dispatch import bind
from tapeline.runtime.errors import ArgumentError
from tapeline.runtime.ops.arithmetic import divide, multiply
from tapeline.runtime.ops.cast import conj
from tapeline.runtime.ops.creation import arange
from tapeline.runtime.ops.extrema import argmax, argmin
from tapeline.runtime.ops.extrema import max as max_over
from tapeline.runtime.ops.extrema import min as min_over
from tapeline.runtime.ops.gather import TAKE_GRAD, take
from tapeline.runtime.ops.joining import concat, pad
from tapeline.runtime.ops.logic import isnan, logical_not
from tapeline.runtime.ops.matmul import matmul, tensordot
from tapeline.runtime.ops.permuting import flip, moveaxis, swapaxes
from tapeline.runtime.ops.powers import power, sqrt
from tapeline.runtime.ops.reduction import any as any_of
from tapeline.runtime.ops.reduction import prod
from tapeline.runtime.ops.reduction import sum as sum_over
from tapeline.runtime.ops.searching import searchsorted
from tapeline.runtime.ops.selection import clip, where
from tapeline.runtime.ops.sets import UNIQUE
from tapeline.runtime.ops.shaping import expand_dims, ravel, reshape
from tapeline.runtime.ops.sorting import sort
from tapeline.runtime.ops.statistics import mean
from tapeline.runtime.tensor import Tensor, as_tensor, cast_tensor

_FLOAT64 = np.dtype(np.float64)

# --- order statistics ------------------------------------------------------------------------


def _quantile(
    a: Any, q: Any, axis: int | None = None, *, method: str = "linear", keepdims: bool = False
) -> Tensor:
    if method != "linear":
        raise ArgumentError(f"np.quantile: of tensors, only method='linear' is known, not {method}")
    fractions = np.asarray(q, np.float64)
    x = as_tensor(a)
    x = cast_tensor(x, _FLOAT64) if x.dtype.kind in "biu" else x
    flat = ravel(x) if axis is None else moveaxis(x, axis, -1)
    ordered = sort(flat)
    places = fractions * (ordered.shape[-1] - 1)
    low = np.floor(places).astype(np.int64)
    share = as_tensor((places - low).astype(x.dtype))
    below = take(ordered, low, axis=-1)
    above = take(ordered, np.minimum(low + 1, ordered.shape[-1] - 1), axis=-1)
    found = below + (above - below) * share
    broken = any_of(isnan(ordered), axis=-1)
    for _ in range(fractions.ndim):
        broken = expand_dims(broken, -1)
    found = where(broken, math.nan, found)
    for k in range(fractions.ndim):
        found = moveaxis(found, found.ndim - fractions.ndim + k, k)
    if keepdims:
        kept = range(x.ndim) if axis is None else (axis % x.ndim,)
        found = expand_dims(found, [fractions.ndim + k for k in kept])
    return found


def _percentile(a: Any, q: Any, axis: int | None = None, **options: Any) -> Tensor:
    return _quantile(a, np.asarray(q, np.float64) / 100.0, axis, **options)


def _median(a: Any, axis: int | None = None, *, keepdims: bool = False) -> Tensor:
    return _quantile(a, 0.5, axis, keepdims=keepdims)


def _ptp(a: Any, axis: Any = None, *, keepdims: bool = False) -> Tensor:
    return max_over(a, axis, keepdims=keepdims) - min_over(a, axis, keepdims=keepdims)


# --- moments ---------------------------------------------------------------------------------


def _average(
    a: Any, axis: Any = None, weights: Any = None, returned: bool = False, *, keepdims: bool = False
) -> Any:
    if weights is None:
        found = mean(a, axis, keepdims=keepdims)
        total = as_tensor(as_tensor(a).size / max(found.size, 1))
    else:
        weights = as_tensor(weights)
        if weights.ndim == 1 and as_tensor(a).ndim > 1:
            ndim = as_tensor(a).ndim
            weights = reshape(weights, [-1 if k == axis % ndim else 1 for k in range(ndim)])
        whole = weights * (as_tensor(a) * 0 + 1)
        total = sum_over(whole, axis, keepdims=keepdims)
        found = sum_over(whole * a, axis, keepdims=keepdims) / total
    return (found, total) if returned else found


def _cov(
    m: Any, y: Any = None, rowvar: bool = True, bias: bool = False, ddof: int | None = None,
    fweights: Any = None, aweights: Any = None, *, dtype: Any = None,
) -> Tensor:  # fmt: skip
    if fweights is not None or aweights is not None:
        raise ArgumentError("np.cov: of tensors, weights are not known; weigh the rows before")
    x = _rows(m, rowvar, dtype)
    if y is not None:
        x = concat([x, _rows(y, rowvar, dtype)], axis=0)
    x = x - mean(x, 1, keepdims=True)
    freedom = x.shape[1] - ((0 if bias else 1) if ddof is None else ddof)
    found = matmul(x, conj(swapaxes(x, 0, 1))) / float(freedom)
    return reshape(found, ()) if found.shape == (1, 1) else found


def _rows(m: Any, rowvar: bool, dtype: Any = None) -> Tensor:
    m = as_tensor(m, dtype)
    m = cast_tensor(m, _FLOAT64) if m.dtype.kind in "biu" else m
    if m.ndim < 2:
        return reshape(m, (1, m.size))
    return m if rowvar else swapaxes(m, 0, 1)


def _corrcoef(x: Any, y: Any = None, rowvar: bool = True) -> Tensor:
    covariance = _cov(x, y, rowvar)
    if covariance.ndim == 0:
        return covariance / covariance
    scale = sqrt(covariance[np.arange(covariance.shape[0]), np.arange(covariance.shape[0])])
    return clip(covariance / scale / expand_dims(scale, 1), -1.0, 1.0)


def _without_nan(function: Callable[..., Tensor], fill: float) -> Callable[..., Tensor]:
    def reduce(a: Any, axis: Any = None, **options: Any) -> Tensor:
        a = as_tensor(a)
        return function(where(isnan(a), fill, a) if a.dtype.kind == "f" else a, axis, **options)

    return reduce


def _nanmean(a: Any, axis: Any = None, *, keepdims: bool = False) -> Tensor:
    a = as_tensor(a)
    total = _without_nan(sum_over, 0.0)(a, axis, keepdims=keepdims)
    return divide(total, sum_over(logical_not(isnan(a)), axis, keepdims=keepdims))


def _nanvar(a: Any, axis: Any = None, *, ddof: float = 0, keepdims: bool = False) -> Tensor:
    a = as_tensor(a)
    known = logical_not(isnan(a))
    deviation = where(known, a - _nanmean(a, axis, keepdims=True), 0.0)
    freedom = sum_over(known, axis, keepdims=keepdims) - ddof
    return divide(sum_over(deviation * deviation, axis, keepdims=keepdims), freedom)


def _nanstd(a: Any, axis: Any = None, *, ddof: float = 0, keepdims: bool = False) -> Tensor:
    return sqrt(_nanvar(a, axis, ddof=ddof, keepdims=keepdims))


# --- products --------------------------------------------------------------------------------


def _inner(a: Any, b: Any) -> Tensor:
    a, b = as_tensor(a), as_tensor(b)
    return tensordot(a, b, axes=([-1], [-1])) if a.ndim and b.ndim else multiply(a, b)


def _vdot(a: Any, b: Any) -> Tensor:
    return matmul(conj(ravel(a)), ravel(b))


# --- signals ---------------------------------------------------------------------------------


def _convolve(a: Any, v: Any, mode: str = "full") -> Tensor:
    a, v = as_tensor(a), as_tensor(v)
    if a.ndim != 1 or v.ndim != 1:
        raise ArgumentError(f"np.convolve: operands must be 1-d, got {a.shape} and {v.shape}")
    if v.shape[0] > a.shape[0]:
        a, v = v, a
    n, m = a.shape[0], v.shape[0]
    wide = pad(a, (m - 1, m - 1))
    windows = take(wide, np.arange(n + m - 1)[:, None] + np.arange(m), axis=0)
    full = matmul(windows, flip(v))
    if mode == "full":
        return full
    start, size = {"same": ((m - 1) // 2, n), "valid": (m - 1, n - m + 1)}[mode]
    return full[start : start + size]


def _correlate(a: Any, v: Any, mode: str = "valid") -> Tensor:
    a, v = as_tensor(a), as_tensor(v)
    if v.shape[0] > a.shape[0]:
        return flip(conj(_correlate(v, a, mode)))
    found = _convolve(a, flip(conj(v)), "full")
    n, m = a.shape[0], v.shape[0]
    start, size = {"full": (0, n + m - 1), "same": (m // 2, n), "valid": (m - 1, n - m + 1)}[mode]
    if mode == "same":
        start = (m - 1) // 2
    return found[start : start + size]


def _interp(x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None) -> Tensor:
    x, xp, fp = as_tensor(x), as_tensor(xp), as_tensor(fp)
    last = xp.shape[0] - 1
    place = clip(searchsorted(xp, x, side="right") - 1, 0, max(last - 1, 0))
    x0, x1 = take(xp, place, axis=0), take(xp, clip(place + 1, 0, last), axis=0)
    y0, y1 = take(fp, place, axis=0), take(fp, clip(place + 1, 0, last), axis=0)
    inside = y0 + (y1 - y0) * divide(x - x0, where(x1 == x0, 1, x1 - x0))
    inside = where(x < xp[0], fp[0] if left is None else left, inside)
    return where(x > xp[last], fp[last] if right is None else right, inside)


def _trapezoid(y: Any, x: Any = None, dx: float = 1.0, axis: int = -1) -> Tensor:
    y = moveaxis(as_tensor(y), axis, -1)
    steps: Any = dx
    if x is not None:
        x = as_tensor(x)
        x = x if x.ndim == 1 else moveaxis(x, axis, -1)
        steps = x[..., 1:] - x[..., :-1]
    return sum_over(steps * (y[..., 1:] + y[..., :-1]) / 2.0, -1)


def _gradient(f: Any, *spacing: float, axis: Any = None) -> Any:
    f = as_tensor(f)
    axes = range(f.ndim) if axis is None else (axis,) if isinstance(axis, int) else axis
    steps = list(spacing) * len(axes) if len(spacing) == 1 else list(spacing) or [1.0] * len(axes)
    found = []
    for place, step in zip(axes, steps, strict=True):
        x = moveaxis(f, place, -1)
        inner = (x[..., 2:] - x[..., :-2]) / (2.0 * step)
        ends = (x[..., 1:2] - x[..., :1]) / step, (x[..., -1:] - x[..., -2:-1]) / step
        found.append(moveaxis(concat([ends[0], inner, ends[1]], axis=-1), -1, place))
    return found[0] if len(found) == 1 else tuple(found)


# --- counts ----------------------------------------------------------------------------------


def _bincount(x: Any, weights: Any = None, minlength: int = 0) -> Tensor:
    x = as_tensor(x)
    size = max(int(max_over(x)) + 1 if x.size else 0, minlength)
    if weights is None:
        weights = np.ones(x.shape, np.int64)
    counts: Tensor = bind(TAKE_GRAD, (as_tensor(weights), x), (0, size))
    return counts


def _histogram(a: Any, bins: Any = 10, range: Any = None) -> tuple[Tensor, Tensor]:
    x = ravel(a)
    if isinstance(bins, int):
        low, high = (min_over(x), max_over(x)) if range is None else map(as_tensor, range)
        half = where(low == high, 0.5, 0.0)
        low, high = low - half, high + half
        steps = arange(bins, dtype=half.dtype) * ((high - low) / bins)
        edges = concat([low + steps, reshape(high, (1,))])
    else:
        edges = as_tensor(bins)
    ordered = sort(x)
    inner = searchsorted(ordered, edges[:-1], side="left")
    last = searchsorted(ordered, edges[-1:], side="right")
    places = concat([inner, last])
    return places[1:] - places[:-1], edges


def _digitize(x: Any, bins: Any, right: bool = False) -> Tensor:
    return searchsorted(bins, x, side="left" if right else "right")


def _unique(
    ar: Any, return_index: bool = False, return_inverse: bool = False, return_counts: bool = False
) -> Any:
    x = as_tensor(ar)
    indices, inverse, counts = bind(UNIQUE, (x,))
    found = [take(ravel(x), indices, axis=0)]
    for asked, part in (
        (return_index, indices),
        (return_inverse, reshape(inverse, x.shape)),
        (return_counts, counts),
    ):
        if asked:
            found.append(part)
    return found[0] if len(found) == 1 else tuple(found)


# --- polynomials -----------------------------------------------------------------------------


def _polyval(p: Any, x: Any) -> Tensor:
    p, x = as_tensor(p), as_tensor(x)
    result: Tensor = x * 0
    for k in range(p.shape[0]):
        result = result * x + p[k]
    return result


def _vander(x: Any, N: int | None = None, increasing: bool = False) -> Tensor:
    x = as_tensor(x)
    powers = np.arange(x.shape[0] if N is None else N)
    return power(expand_dims(x, 1), powers if increasing else powers[::-1])


ANSWERS: dict[Callable[..., Any], Callable[..., Any]] = {
    np.quantile: _quantile, np.percentile: _percentile, np.median: _median, np.ptp: _ptp,
    np.average: _average, np.cov: _cov, np.corrcoef: _corrcoef,
    np.nansum: _without_nan(sum_over, 0.0), np.nanprod: _without_nan(prod, 1.0),
    np.nanmax: _without_nan(max_over, -math.inf), np.nanmin: _without_nan(min_over, math.inf),
    np.nanargmax: _without_nan(argmax, -math.inf), np.nanargmin: _without_nan(argmin, math.inf),
    np.nanmean: _nanmean, np.nanvar: _nanvar, np.nanstd: _nanstd, np.inner: _inner,
    np.vdot: _vdot, np.convolve: _convolve, np.correlate: _correlate, np.interp: _interp,
    np.trapezoid: _trapezoid, np.gradient: _gradient, np.bincount: _bincount,
    np.histogram: _histogram, np.digitize: _digitize, np.unique: _unique,
    np.polyval: _polyval, np.vander: _vander,
}  # fmt: skip
