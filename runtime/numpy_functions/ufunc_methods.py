"""The methods of NumPy's ufuncs on tensors: `np.add.reduce`, `accumulate`, `outer` and `at`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from tapeline.runtime.cells import write_result
from tapeline.runtime.errors import ArgumentTypeError
from tapeline.runtime.ops.assignment import added_at
from tapeline.runtime.ops.axes import normalize_axes
from tapeline.runtime.ops.joining import concat
from tapeline.runtime.ops.shaping import reshape
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


def method_answer(ufunc: np.ufunc, method: str) -> Answer | None:
    """What answers for a method of a ufunc given tensors; None if nothing does."""
    if method == "outer" and ufunc.nin == 2:
        return partial(_outer, ufunc)
    if method == "reduce" and ufunc in _REDUCTIONS:
        return partial(_reduce, _REDUCTIONS[ufunc])
    if method == "accumulate" and ufunc in _SCANS:
        return partial(_accumulate, _SCANS[ufunc])
    if method == "accumulate" and ufunc in _BY_DOUBLING:
        return partial(_accumulate_by_doubling, ufunc)
    if method == "at" and ufunc in (np.add, np.subtract):
        return partial(_add_at, ufunc)
    return None


def _outer(ufunc: np.ufunc, a: Any, b: Any, **kwargs: Any) -> Any:
    a, b = as_tensor(a), as_tensor(b)
    return ufunc(reshape(a, (*a.shape, *(1,) * b.ndim)), b, **kwargs)


def _reduce(function: Answer, array: Any, axis: Any = 0, dtype: Any = None, **kwargs: Any) -> Any:
    if dtype is not None:
        kwargs["dtype"] = dtype
    return function(as_tensor(array), axis=axis, **kwargs)


def _accumulate(function: Answer, array: Any, axis: int = 0, dtype: Any = None) -> Any:
    return function(as_tensor(array), axis=axis, dtype=dtype)


def _accumulate_by_doubling(ufunc: np.ufunc, array: Any, axis: int = 0, dtype: Any = None) -> Any:
    """In log2(n) steps: after each, an element stands for twice as many before it. Right for ufuncs
    that may see an element more than once, such as the maximum."""
    x = as_tensor(array, None if dtype is None else canonical_dtype(dtype))
    axis = normalize_axes(ufunc.__name__, axis, x.ndim)[0]
    before = (slice(None),) * axis
    step = 1
    while step < x.shape[axis]:
        first, rest = x[(*before, slice(step))], x[(*before, slice(step, None))]
        x = concat([first, ufunc(x[(*before, slice(-step))], rest)], axis=axis)
        step *= 2
    return x


def _add_at(ufunc: np.ufunc, array: Any, indices: Any, values: Any) -> None:
    name = f"np.{ufunc.__name__}.at"
    if not isinstance(array, Tensor):
        raise ArgumentTypeError(
            f"{name}: tensors are added to a tensor; got {type(array).__name__}: convert it with "
            "tl.asarray first"
        )
    change = cast_tensor(as_tensor(values, argument=name), array.dtype)
    change = -change if ufunc is np.subtract else change
    write_result(array, added_at(array, indices, change), name)
