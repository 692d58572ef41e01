"""The methods of NumPy's ufuncs on tensors: `np.add.reduce`, `accumulate`, `outer`, `reduceat` and
`at`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from tapeline.runtime.cells import write_result
from tapeline.runtime.errors import ArgumentTypeError
from tapeline.runtime.ops.assignment import added_at, setitem
from tapeline.runtime.ops.axes import normalize_axes
from tapeline.runtime.ops.creation import full
from tapeline.runtime.ops.evenly_spaced import arange
from tapeline.runtime.ops.gather import take
from tapeline.runtime.ops.joining import concat
from tapeline.runtime.ops.permuting import moveaxis
from tapeline.runtime.ops.running import accumulated
from tapeline.runtime.ops.selection import maximum, where
from tapeline.runtime.ops.shaping import broadcast_to, expand_dims, reshape
from tapeline.runtime.spec import canonical_dtype
from tapeline.runtime.tensor import Tensor, as_tensor, cast_tensor

Answer = Callable[..., Any]

_REDUCTIONS: dict[np.ufunc, Answer] = {
    np.add: np.sum,
    np.multiply: np.prod,
    np.maximum: np.max,
    np.minimum: np.min,
    np.logical_and: np.all,
    np.logical_or: np.any,
}
_SCANS: dict[np.ufunc, Answer] = {np.add: np.cumsum, np.multiply: np.cumprod}
_BY_DOUBLING = (np.maximum, np.minimum, np.logical_and, np.logical_or)
_BY_HALVES = frozenset(
    {
        np.bitwise_and, np.bitwise_or, np.bitwise_xor, np.fmax, np.fmin, np.hypot, np.logaddexp,
        np.logaddexp2, np.logical_xor,
    }
)  # fmt: skip
"""Ufuncs for which it makes no difference how their operands are grouped."""


def method_answer(ufunc: np.ufunc, method: str) -> Answer | None:
    """What answers for a method of a ufunc given tensors; None if nothing does."""
    if method == "outer" and ufunc.nin == 2:
        return partial(_outer, ufunc)
    if method == "reduce":
        if ufunc in _BY_HALVES:
            return partial(_reduce_by_halves, ufunc)
        return partial(_reduce, _REDUCTIONS[ufunc]) if ufunc in _REDUCTIONS else None
    if method == "accumulate" and ufunc in _SCANS:
        return partial(_accumulate, _SCANS[ufunc])
    if method == "accumulate" and (ufunc in _BY_DOUBLING or ufunc in _BY_HALVES):
        return partial(_accumulate_by_doubling, ufunc)
    if method == "reduceat" and ufunc in _REDUCTIONS:
        return partial(_reduce_at, ufunc)
    if method == "at" and ufunc.nout == 1:
        return partial(_at, ufunc)
    return None


def _outer(ufunc: np.ufunc, a: Any, b: Any, **kwargs: Any) -> Any:
    a, b = as_tensor(a), as_tensor(b)
    return ufunc(reshape(a, (*a.shape, *(1,) * b.ndim)), b, **kwargs)


# --- reduce ----------------------------------------------------------------------------------


def _reduce(function: Answer, array: Any, axis: Any = 0, dtype: Any = None, **kwargs: Any) -> Any:
    if dtype is not None:
        kwargs["dtype"] = dtype
    return function(as_tensor(array), axis=axis, **kwargs)


def _reduce_by_halves(
    ufunc: np.ufunc, array: Any, axis: Any = 0, dtype: Any = None, keepdims: bool = False
) -> Tensor:
    """One half of the elements with the other half, until there is one."""
    x = as_tensor(array, None if dtype is None else canonical_dtype(dtype))
    axes = normalize_axes(ufunc.__name__, axis, x.ndim)
    shape = tuple(1 if k in axes else n for k, n in enumerate(x.shape))
    for k in sorted(axes, reverse=True):
        x = _folded(ufunc, moveaxis(x, k, 0))
    return reshape(x, shape) if keepdims else x


def _folded(ufunc: np.ufunc, rows: Tensor) -> Tensor:
    while rows.shape[0] > 1:
        half = rows.shape[0] // 2
        rest = rows[2 * half :]
        rows = ufunc(rows[:half], rows[half : 2 * half])
        rows = concat([rows, rest]) if rest.shape[0] else rows
    if not rows.shape[0]:
        return as_tensor(ufunc.reduce(np.zeros(rows.shape, rows.dtype)))
    return rows[0]


# --- accumulate ------------------------------------------------------------------------------


def _accumulate(function: Answer, array: Any, axis: int = 0, dtype: Any = None) -> Any:
    return function(as_tensor(array), axis=axis, dtype=dtype)


def _accumulate_by_doubling(ufunc: np.ufunc, array: Any, axis: int = 0, dtype: Any = None) -> Any:
    x = as_tensor(array, None if dtype is None else canonical_dtype(dtype))
    return accumulated(ufunc, x, normalize_axes(ufunc.__name__, axis, x.ndim)[0])


# --- reduceat --------------------------------------------------------------------------------


def _reduce_at(
    ufunc: np.ufunc, array: Any, indices: Any, axis: int = 0, dtype: Any = None
) -> Tensor:
    """The runs as rows of one table, filled up with what changes nothing."""
    x = as_tensor(array, None if dtype is None else canonical_dtype(dtype))
    axis = normalize_axes(ufunc.__name__, axis, x.ndim)[0]
    x = moveaxis(x, axis, -1)
    starts = as_tensor(indices, np.dtype(np.int64), f"np.{ufunc.__name__}.reduceat: indices")
    count = x.shape[-1]
    stops = maximum(concat([starts[1:], as_tensor([count])]), starts + 1)
    lengths = (stops - starts)._value
    longest = int(lengths.max(initial=1)) if type(lengths) is np.ndarray else count
    places = expand_dims(starts, 1) + arange(longest)
    is_in_run = places < expand_dims(stops, 1)
    # the first of each run is checked, the others are in range where they count
    places = where(is_in_run, places, expand_dims(starts, 1))
    rows = where(is_in_run, take(x, places, axis=-1), full((), _neutral(ufunc, x), dtype=x.dtype))
    return moveaxis(_REDUCTIONS[ufunc](rows, axis=-1), -1, axis)


def _neutral(ufunc: np.ufunc, x: Tensor) -> Any:
    """The element that changes no result."""
    if ufunc not in (np.maximum, np.minimum):
        return x.dtype.type(ufunc.identity)
    is_largest = ufunc is np.minimum
    if x.dtype.kind == "b":
        return is_largest
    if x.dtype.kind in "iu":
        limits = np.iinfo(x.dtype)
        return limits.max if is_largest else limits.min
    return np.inf if is_largest else -np.inf


# --- at --------------------------------------------------------------------------------------


def _at(ufunc: np.ufunc, array: Any, indices: Any, *values: Any) -> None:
    name = f"np.{ufunc.__name__}.at"
    if not isinstance(array, Tensor):
        _write_array(ufunc, name, array, indices, values)
    elif ufunc is np.add or ufunc is np.subtract:
        change = cast_tensor(as_tensor(values[0], argument=name), array.dtype)
        change = -change if ufunc is np.subtract else change
        write_result(array, added_at(array, indices, change), name)
    else:
        write_result(array, _changed_in_turn(ufunc, array, indices, values), name)


def _write_array(ufunc: np.ufunc, name: str, array: Any, indices: Any, values: Any) -> None:
    """Into an array of NumPy, where all values are known."""
    plain = [_known(part, name) for part in (indices, *values)]
    ufunc.at(array, *plain)


def _known(part: Any, name: str) -> Any:
    if isinstance(part, tuple):
        return tuple(_known(one, name) for one in part)
    if not isinstance(part, Tensor):
        return part
    if type(part._value) is not np.ndarray:
        raise ArgumentTypeError(
            f"{name}: an array of NumPy cannot take values of a trace; convert it with tl.asarray "
            "first"
        )
    return part.numpy()


def _changed_in_turn(ufunc: np.ufunc, x: Tensor, key: Any, values: tuple[Any, ...]) -> Tensor:
    """The places one after the other, since one that comes twice is changed twice."""
    from tapeline.runtime.loops import scan  # a loop, asked for by few programs

    places = reshape(arange(x.size), x.shape)[key]
    if not places.size:
        return x
    operands = [as_tensor(value) for value in values]
    rows = [reshape(broadcast_to(part, places.shape), (-1,)) for part in (places, *operands)]

    def turn(flat: Tensor, row: Any) -> Any:
        place, *others = row
        return setitem(flat, place, cast_tensor(ufunc(flat[place], *others), x.dtype)), None

    flat, _ = scan(turn, reshape(x, (-1,)), tuple(rows))
    return reshape(flat, x.shape)
