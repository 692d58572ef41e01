"""NumPy's functions that sum up: spreads, moments without NaN, signals, counts, polynomials."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from tapeline.runtime.dims import is_open_shape
from tapeline.runtime.dispatch import bind
from tapeline.runtime.errors import ArgumentError
from tapeline.runtime.ops.arithmetic import divide, multiply
from tapeline.runtime.ops.cast import conj
from tapeline.runtime.ops.creation import ones
from tapeline.runtime.ops.evenly_spaced import arange
from tapeline.runtime.ops.extrema import argmax, argmin
from tapeline.runtime.ops.extrema import max as max_over
from tapeline.runtime.ops.extrema import min as min_over
from tapeline.runtime.ops.gather import TAKE_GRAD, take
from tapeline.runtime.ops.joining import concat, pad
from tapeline.runtime.ops.logic import isnan, logical_not
from tapeline.runtime.ops.matmul import matmul, tensordot
from tapeline.runtime.ops.permuting import flip, moveaxis
from tapeline.runtime.ops.powers import power, sqrt
from tapeline.runtime.ops.reduction import prod
from tapeline.runtime.ops.reduction import sum as sum_over
from tapeline.runtime.ops.searching import searchsorted, span
from tapeline.runtime.ops.selection import clip, where
from tapeline.runtime.ops.sets import unique_places
from tapeline.runtime.ops.shaping import broadcast_to, expand_dims, ravel
from tapeline.runtime.ops.sorting import argsort
from tapeline.runtime.spec import normalize_axis
from tapeline.runtime.tensor import Tensor, as_tensor, known_value

# --- order statistics ------------------------------------------------------------------------


def _ptp(a: Any, axis: Any = None, *, keepdims: bool = False) -> Tensor:
    return max_over(a, axis, keepdims=keepdims) - min_over(a, axis, keepdims=keepdims)


# --- without NaN -----------------------------------------------------------------------------


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
    count = arange if is_open_shape((n, m)) else np.arange
    windows = take(wide, count(n + m - 1)[:, None] + count(m), axis=0)
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


def _interp(
    x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None, period: Any = None
) -> Tensor:
    x, xp, fp = as_tensor(x), as_tensor(xp), as_tensor(fp)
    if period is not None:
        x, xp = x % abs(period), xp % abs(period)
        order = argsort(xp)
        xp, fp = take(xp, order, axis=0), take(fp, order, axis=0)
        xp = concat([xp[-1:] - period, xp, xp[:1] + period])
        fp = concat([fp[-1:], fp, fp[:1]])
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


def _gradient(f: Any, *varargs: Any, axis: Any = None, edge_order: int = 1) -> Any:
    f = as_tensor(f)
    axes = range(f.ndim) if axis is None else (axis,) if isinstance(axis, int) else axis
    steps = list(varargs) * len(axes) if len(varargs) == 1 else list(varargs) or [1.0] * len(axes)
    if edge_order not in (1, 2):
        raise ArgumentError(f"np.gradient: edge_order must be 1 or 2, got {edge_order!r}")
    found = []
    for place, step in zip(axes, steps, strict=True):
        x = moveaxis(f, place, -1)
        slopes = _slopes(x + 0.0, as_tensor(step), edge_order)
        found.append(moveaxis(slopes, -1, place))
    return found[0] if len(found) == 1 else tuple(found)


def _slopes(x: Tensor, step: Tensor, edge_order: int) -> Tensor:
    """Along the last axis, by the parabola through three neighbours; `step` is a distance or the
    places."""
    count = x.shape[-1]
    gaps = step[1:] - step[:-1] if step.ndim else broadcast_to(step, (count - 1,))
    before, after = gaps[:-1], gaps[1:]
    risen = x[..., 1:] - x[..., :-1]
    rise = divide(risen, gaps)
    inner = divide(after * rise[..., :-1] + before * rise[..., 1:], before + after)
    if not step.ndim:
        inner = divide(x[..., 2:] - x[..., :-2], 2.0 * step)
    first, last = rise[..., :1], rise[..., -1:]
    if edge_order == 2:
        first = first - (inner[..., :1] - first)
        last = last - (inner[..., -1:] - last)
        if step.ndim:
            first = _edge(x[..., :3], before[:1], after[:1])
            last = _edge(flip(x[..., -3:], axis=-1), -after[-1:], -before[-1:])
    return concat([first, inner, last], axis=-1)


def _edge(x: Tensor, near: Tensor, far: Tensor) -> Tensor:
    """The slope at the first of three elements."""
    whole = near + far
    return (
        divide(-(2.0 * near + far), near * whole) * x[..., :1]
        + divide(whole, near * far) * x[..., 1:2]
        - divide(near, far * whole) * x[..., 2:]
    )


# --- counts ----------------------------------------------------------------------------------


def _bincount(x: Any, weights: Any = None, minlength: int = 0) -> Tensor:
    x = as_tensor(x)
    last = concat([ravel(x), [minlength - 1]])
    size = span(0, max_over(last) + 1).shape[0]
    if weights is None:
        weights = ones(x.shape, np.int64)
    counts: Tensor = bind(TAKE_GRAD, (as_tensor(weights), x), (0, size))
    return counts


def _digitize(x: Any, bins: Any, right: bool = False) -> Tensor:
    """In bins that fall, counted from the other end."""
    edges = as_tensor(bins)
    side: Literal["left", "right"] = "left" if right else "right"
    count, known = edges.shape[0], known_value(edges)

    def rising() -> Tensor:
        return searchsorted(edges, x, side=side)

    def falling() -> Tensor:
        return count - searchsorted(flip(edges), x, side=side)

    if known is None:
        return where(edges[0] <= edges[-1], rising(), falling()) if count > 1 else rising()
    return falling() if count > 1 and known[0] > known[-1] else rising()


def _unique(
    ar: Any, return_index: bool = False, return_inverse: bool = False, return_counts: bool = False,
    axis: int | None = None, *, equal_nan: bool = True, sorted: bool = True,
) -> Any:  # fmt: skip
    x = as_tensor(ar)
    axis = None if axis is None else normalize_axis("np.unique", axis, x.ndim)
    indices, inverse, counts = unique_places(x, axis, equal_nan)
    found = [take(ravel(x) if axis is None else x, indices, axis=axis or 0)]
    for asked, part in (
        (return_index, indices), (return_inverse, inverse), (return_counts, counts)
    ):  # fmt: skip
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
    np.ptp: _ptp,
    np.nansum: _without_nan(sum_over, 0.0), np.nanprod: _without_nan(prod, 1.0),
    np.nanmax: _without_nan(max_over, -math.inf), np.nanmin: _without_nan(min_over, math.inf),
    np.nanargmax: _without_nan(argmax, -math.inf), np.nanargmin: _without_nan(argmin, math.inf),
    np.nanmean: _nanmean, np.nanvar: _nanvar, np.nanstd: _nanstd, np.inner: _inner,
    np.vdot: _vdot, np.convolve: _convolve, np.correlate: _correlate, np.interp: _interp,
    np.trapezoid: _trapezoid, np.gradient: _gradient, np.bincount: _bincount,
    np.digitize: _digitize, np.unique: _unique,
    np.polyval: _polyval, np.vander: _vander,
}  # fmt: skip
