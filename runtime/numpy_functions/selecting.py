"""NumPy's functions that select, order and count: partitions, sets, histograms, running sums."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tapeline.runtime.dispatch import bind
from tapeline.runtime.errors import ArgumentError, ShapeError
from tapeline.runtime.ops.along_axis import take_along_axis
from tapeline.runtime.ops.arithmetic import divide
from tapeline.runtime.ops.axes import normalize_axes
from tapeline.runtime.ops.cast import imag, real
from tapeline.runtime.ops.evenly_spaced import arange
from tapeline.runtime.ops.gather import TAKE_GRAD, take
from tapeline.runtime.ops.joining import concat, stack
from tapeline.runtime.ops.logic import isnan, logical_not
from tapeline.runtime.ops.permuting import moveaxis
from tapeline.runtime.ops.reduction import all as all_over
from tapeline.runtime.ops.reduction import sum as sum_over
from tapeline.runtime.ops.scan import cumulative_prod, cumulative_sum
from tapeline.runtime.ops.searching import nonzero, searchsorted
from tapeline.runtime.ops.selection import where
from tapeline.runtime.ops.sets import isin, unique_places
from tapeline.runtime.ops.shaping import broadcast_to, expand_dims, ravel, reshape
from tapeline.runtime.ops.sorting import argsort, sort
from tapeline.runtime.spec import broadcast_shapes
from tapeline.runtime.tensor import Tensor, as_tensor, cast_tensor

_INT64 = np.dtype(np.int64)

# --- order -----------------------------------------------------------------------------------


def _partition(a: Any, kth: Any, axis: int | None = -1, **_: Any) -> Tensor:
    return sort(ravel(a), -1) if axis is None else sort(a, axis)


def _argpartition(a: Any, kth: Any, axis: int | None = -1, **_: Any) -> Tensor:
    return argsort(ravel(a), -1) if axis is None else argsort(a, axis)


def _lexsort(keys: Sequence[Any], axis: int = -1) -> Tensor:
    """By the last key, then by those before it: stable sorts one after the other."""
    columns = [as_tensor(key) for key in keys]
    order = argsort(columns[0], axis)
    for key in columns[1:]:
        step = argsort(take_along_axis(key, order, axis=axis), axis)
        order = take_along_axis(order, step, axis=axis)
    return order


def _sort_complex(a: Any) -> Tensor:
    x = as_tensor(a)
    if x.dtype.kind != "c":
        wide = np.result_type(x.dtype, np.complex64)
        return cast_tensor(sort(x), np.dtype(wide))
    return take_along_axis(x, _lexsort([imag(x), real(x)]), axis=-1)


# --- selection -------------------------------------------------------------------------------


def _compress(condition: Any, a: Any, axis: int | None = None) -> Tensor:
    x = ravel(a) if axis is None else as_tensor(a)
    (places,) = nonzero(as_tensor(condition))
    return take(x, places, axis=0 if axis is None else axis)


def _choose(a: Any, choices: Sequence[Any], mode: str = "raise") -> Tensor:
    index, options = as_tensor(a), [as_tensor(one) for one in choices]
    shape = broadcast_shapes("np.choose", index.shape, *[one.shape for one in options])
    table = stack([broadcast_to(one, shape) for one in options])
    if mode != "raise":
        count = len(options)
        index = index % count if mode == "wrap" else _clipped(index, count)
    rows = reshape(broadcast_to(index, shape), (1, *shape))
    return reshape(take_along_axis(table, rows, axis=0), shape)


def _clipped(index: Tensor, count: int) -> Tensor:
    return where(index < 0, 0, where(index > count - 1, count - 1, index))


def _take(a: Any, indices: Any, axis: int | None = None, mode: str = "raise") -> Tensor:
    x = ravel(a) if axis is None else as_tensor(a)
    axis = 0 if axis is None else axis
    return take(x, places_within(as_tensor(indices), x.shape[axis], mode, "np.take"), axis=axis)


def places_within(places: Tensor, extent: Any, mode: str, name: str) -> Tensor:
    """The places as ones within the extent, if the mode says so."""
    if mode == "wrap":
        return as_tensor(places % extent)
    if mode == "clip":
        return _clipped(places, extent)
    if mode != "raise":
        raise ArgumentError(f"{name}: mode must be 'raise', 'wrap' or 'clip', got {mode!r}")
    return places


def _take_along_axis(arr: Any, indices: Any, axis: int | None = -1) -> Tensor:
    return take_along_axis(
        ravel(arr) if axis is None else arr, indices, axis=0 if axis is None else axis
    )


def _piecewise(x: Any, condlist: Any, funclist: Sequence[Any], *args: Any, **kw: Any) -> Tensor:
    """Each function of all elements, chosen where its condition holds."""
    x = as_tensor(x)
    found: Tensor = x * 0
    given = condlist if isinstance(condlist, list | tuple) else [condlist]
    if not isinstance(given[0], list | tuple | np.ndarray | Tensor):
        given = [given]
    conditions = [as_tensor(one) for one in given]
    functions = list(funclist)
    if len(functions) == len(conditions) + 1:
        functions = [functions[-1], *functions[:-1]]
    elif len(functions) == len(conditions):
        functions = [0, *functions]
    else:
        raise ArgumentError(
            f"np.piecewise: {len(conditions)} conditions need as many functions or one more, got "
            f"{len(functions)}"
        )
    for condition, function in zip([None, *conditions], functions, strict=True):
        result = function(x, *args, **kw) if callable(function) else function
        value = cast_tensor(broadcast_to(as_tensor(result), x.shape), x.dtype)
        found = value if condition is None else where(condition, value, found)
    return found


# --- sets ------------------------------------------------------------------------------------


def _distinct(x: Any) -> Tensor:
    """The distinct elements in ascending order; all NaN count as one, as in NumPy."""
    x = ravel(as_tensor(x))
    first, _, _ = unique_places(x, equal_nan=True)
    return take(x, first, axis=0)


def _union1d(ar1: Any, ar2: Any) -> Tensor:
    return _distinct(concat([ravel(as_tensor(ar1)), ravel(as_tensor(ar2))]))


def _setdiff1d(ar1: Any, ar2: Any, assume_unique: bool = False) -> Tensor:
    x = ravel(as_tensor(ar1)) if assume_unique else _distinct(ar1)
    return x[isin(x, as_tensor(ar2), invert=True)]


def _intersect1d(
    ar1: Any, ar2: Any, assume_unique: bool = False, return_indices: bool = False
) -> Any:
    x = _distinct(ar1)
    common = x[isin(x, as_tensor(ar2))]
    if not return_indices:
        return common
    return common, _first_places(ar1, common), _first_places(ar2, common)


def _first_places(a: Any, values: Tensor) -> Tensor:
    """Where each of the values stands first."""
    x = ravel(as_tensor(a))
    return searchsorted(x, values, sorter=argsort(x))


def _setxor1d(ar1: Any, ar2: Any, assume_unique: bool = False) -> Tensor:
    one, other = _distinct(ar1), _distinct(ar2)
    return sort(concat([_setdiff1d(one, other), _setdiff1d(other, one)]))


def _isin(
    element: Any, test_elements: Any, assume_unique: bool = False, invert: bool = False, *,
    kind: str | None = None,
) -> Tensor:  # fmt: skip
    return isin(element, test_elements, invert=invert)


# --- running sums ----------------------------------------------------------------------------


def _nancumsum(a: Any, axis: int | None = None, dtype: Any = None) -> Tensor:
    x = as_tensor(a)
    return cumulative_sum(where(isnan(x), 0.0, x), axis, dtype=dtype)


def _nancumprod(a: Any, axis: int | None = None, dtype: Any = None) -> Tensor:
    x = as_tensor(a)
    return cumulative_prod(where(isnan(x), 1.0, x), axis, dtype=dtype)


# --- histograms ------------------------------------------------------------------------------


def _edges(a: Any, bins: Any, limits: Any) -> Tensor:
    if isinstance(bins, int | np.integer):
        x = ravel(a)
        if limits is None and x.size:
            low, high = sort(x)[0], sort(x)[-1]
        else:
            low, high = map(as_tensor, (0.0, 1.0) if limits is None else limits)
        half = where(low == high, 0.5, 0.0)
        low, high = low - half, high + half
        steps = as_tensor(np.arange(bins), half.dtype) * ((high - low) / bins)
        return concat([low + steps, reshape(high, (1,))])
    if isinstance(bins, str):
        raise ArgumentError(f"np.histogram: of tensors, bins={bins!r} is not known; give a number")
    return as_tensor(bins)


def _places(x: Tensor, edges: Tensor) -> Tensor:
    """For each element the number of its bin, and the number of bins where it is in none."""
    count = edges.shape[0] - 1
    found = searchsorted(edges, x, side="right") - 1
    found = where(x == edges[-1], count - 1, found)
    outside = (found < 0) | (found >= count) | logical_not(x <= edges[-1])
    return where(outside, count, found)


def _histogram(
    a: Any, bins: Any = 10, range: Any = None, density: bool | None = None, weights: Any = None
) -> tuple[Tensor, Tensor]:
    x = ravel(as_tensor(a))
    edges = _edges(x, bins, range)
    if weights is None:
        ordered = sort(x)
        inner = searchsorted(ordered, edges[:-1], side="left")
        places = concat([inner, searchsorted(ordered, edges[-1:], side="right")])
        counts: Tensor = places[1:] - places[:-1]
    else:
        count = edges.shape[0] - 1
        shares = ravel(as_tensor(weights))
        counts = bind(TAKE_GRAD, (shares, _places(x, edges)), (0, count + 1))[:count]
    if density:
        counts = divide(counts, (edges[1:] - edges[:-1]) * sum_over(counts))
    return counts, edges


def _histogram_bin_edges(a: Any, bins: Any = 10, range: Any = None, weights: Any = None) -> Tensor:
    return _edges(as_tensor(a), bins, range)


def _histogramdd(
    sample: Any, bins: Any = 10, range: Any = None, density: bool | None = None,
    weights: Any = None,
) -> tuple[Tensor, list[Tensor]]:  # fmt: skip
    if isinstance(sample, list | tuple):
        sample = stack([as_tensor(one) for one in sample], axis=1)
    x = as_tensor(sample)
    columns = [x[:, k] for k in np.arange(x.shape[1])]
    each = bins if isinstance(bins, list | tuple) else [bins] * len(columns)
    limits = [None] * len(columns) if range is None else range
    edges = [_edges(c, b, r) for c, b, r in zip(columns, each, limits, strict=True)]
    counts = [one.shape[0] - 1 for one in edges]
    place: Any = as_tensor(0)
    inside: Any = as_tensor(True)
    for column, one, count in zip(columns, edges, counts, strict=True):
        found = _places(column, one)
        inside = inside & (found < count)
        place = place * count + found
    total = int(np.prod(counts))
    place = where(inside, place, total)
    shares = as_tensor(np.ones(x.shape[0])) if weights is None else as_tensor(weights)
    flat = bind(TAKE_GRAD, (cast_tensor(shares, np.dtype(np.float64)), place), (0, total + 1))
    result = reshape(flat[:total], tuple(counts))
    if density:
        result = divide(result, sum_over(result))
        for axis, one in enumerate(edges):
            shape = [-1 if k == axis else 1 for k in np.arange(len(edges))]
            result = divide(result, reshape(one[1:] - one[:-1], shape))
    return result, edges


def _histogram2d(
    x: Any, y: Any, bins: Any = 10, range: Any = None, density: bool | None = None,
    weights: Any = None,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    if isinstance(bins, list | tuple | np.ndarray) and len(bins) != 2:
        bins = [as_tensor(bins)] * 2
    counts, edges = _histogramdd([x, y], bins, range, density, weights)
    return counts, edges[0], edges[1]


# --- places of an array ----------------------------------------------------------------------


def _unravel_index(indices: Any, shape: Any, order: str = "C") -> tuple[Tensor, ...]:
    extents = [shape] if isinstance(shape, int) else list(shape)
    rest, found = as_tensor(indices), []
    for extent in extents[::-1] if order == "C" else extents:
        found.append(rest % extent)
        rest = rest // extent
    return tuple(found[::-1] if order == "C" else found)


def _ravel_multi_index(
    multi_index: Sequence[Any], dims: Sequence[int], mode: Any = "raise", order: str = "C"
) -> Tensor:
    if mode not in ("wrap", "clip", "raise"):
        raise ArgumentError("np.ravel_multi_index: of tensors, mode is one word for all axes")
    pairs = list(zip(multi_index, dims, strict=True))
    place: Any = as_tensor(0)
    for index, extent in pairs if order == "C" else pairs[::-1]:
        index = as_tensor(index)
        if mode != "raise":
            index = index % extent if mode == "wrap" else _clipped(index, extent)
        place = place * extent + index
    return cast_tensor(place, _INT64)


def _along(function: Any, axis: int, arr: Any, *args: Any, **kw: Any) -> Tensor:
    """The function of each row along an axis, all stacked."""
    x = moveaxis(as_tensor(arr), axis, -1)
    rows = [as_tensor(function(x[place], *args, **kw)) for place in np.ndindex(*x.shape[:-1])]
    found = reshape(stack(rows), (*x.shape[:-1], *rows[0].shape))
    at, count = axis % x.ndim, rows[0].ndim
    for k in np.arange(count):
        found = moveaxis(found, x.ndim - 1 + int(k), at + int(k))
    return found


def _over(func: Any, a: Any, axes: Any) -> Tensor:
    x = as_tensor(a)
    for axis in axes if isinstance(axes, list | tuple) else [axes]:
        found = as_tensor(func(x, axis))
        shape = tuple(1 if k == axis % x.ndim else n for k, n in enumerate(x.shape))
        x = found if found.ndim == x.ndim else reshape(found, shape)
    return x


def _array_equiv(a1: Any, a2: Any) -> Any:
    a, b = as_tensor(a1), as_tensor(a2)
    try:
        np.broadcast_shapes(a.shape, b.shape)
    except ValueError:
        return False
    return _told(all_over(a == b))


def _array_equal(a1: Any, a2: Any, equal_nan: bool = False) -> Any:
    a, b = as_tensor(a1), as_tensor(a2)
    if a.shape != b.shape:
        return False
    same = a == b
    if equal_nan and a.dtype.kind in "fc" and b.dtype.kind in "fc":
        same = same | (isnan(a) & isnan(b))
    return _told(all_over(same))


def _allclose(
    a: Any, b: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> Any:
    return _told(all_over(as_tensor(np.isclose(a, b, rtol, atol, equal_nan))))


def _told(truth: Tensor) -> Any:
    """Python's bool, but in a trace the tensor."""
    return bool(truth) if type(truth._value) is np.ndarray else truth


def _sliding_window_view(
    x: Any, window_shape: Any, axis: Any = None, *, subok: bool = False, writeable: bool = False
) -> Tensor:
    windows = (window_shape,) if isinstance(window_shape, int) else tuple(window_shape)
    x = as_tensor(x)
    if axis is None and len(windows) != x.ndim:
        raise ShapeError(
            f"np.sliding_window_view: {len(windows)} windows for {x.ndim} dimensions; say which "
            "with axis"
        )
    for window, place in zip(
        windows, normalize_axes("sliding_window_view", axis, x.ndim), strict=True
    ):
        count = x.shape[place] - window + 1
        if window < 0 or count < 1:
            raise ArgumentError(
                f"np.sliding_window_view: a window of {window} does not fit into {x.shape[place]}"
            )
        starts = expand_dims(arange(count), 1) + arange(window)
        x = moveaxis(take(x, starts, axis=place), place + 1, -1)
    result: Tensor = x
    return result


ANSWERS: dict[Callable[..., Any], Callable[..., Any]] = {
    np.partition: _partition, np.argpartition: _argpartition, np.lexsort: _lexsort,
    np.sort_complex: _sort_complex, np.compress: _compress, np.choose: _choose, np.take: _take,
    np.take_along_axis: _take_along_axis,
    np.piecewise: _piecewise, np.union1d: _union1d, np.setdiff1d: _setdiff1d,
    np.intersect1d: _intersect1d, np.setxor1d: _setxor1d, np.isin: _isin,
    np.nancumsum: _nancumsum, np.nancumprod: _nancumprod, np.histogram: _histogram,
    np.histogram_bin_edges: _histogram_bin_edges, np.histogramdd: _histogramdd,
    np.histogram2d: _histogram2d, np.unravel_index: _unravel_index,
    np.ravel_multi_index: _ravel_multi_index, np.apply_along_axis: _along,
    np.apply_over_axes: _over, np.array_equiv: _array_equiv,
    np.array_equal: _array_equal, np.allclose: _allclose,
    np.lib.stride_tricks.sliding_window_view: _sliding_window_view,
}  # fmt: skip

if hasattr(np, "cumulative_sum"):  # since NumPy 2.1
    ANSWERS |= {np.cumulative_sum: cumulative_sum, np.cumulative_prod: cumulative_prod}
