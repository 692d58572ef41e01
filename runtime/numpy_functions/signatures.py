"""Ops of the library under NumPy's signatures, where those differ."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tapeline.runtime.errors import ArgumentError
from tapeline.runtime.ops import (
    arranging,
    creation,
    evenly_spaced,
    grids,
    matmul,
    norms,
    scan,
    solving,
)
from tapeline.runtime.ops.cast import copied
from tapeline.runtime.ops.permuting import matrix_transpose, moveaxis, swapaxes
from tapeline.runtime.ops.reduction import count_nonzero
from tapeline.runtime.ops.reduction import sum as sum_over
from tapeline.runtime.ops.rounding import round as rounded
from tapeline.runtime.ops.shaping import expand_dims, ravel
from tapeline.runtime.ops.singular import svdvals
from tapeline.runtime.ops.slicing import diagonal
from tapeline.runtime.ops.sorting import argsort as order_of
from tapeline.runtime.ops.sorting import sort as sorted_along
from tapeline.runtime.spec import canonical_dtype, normalize_axis
from tapeline.runtime.tensor import Tensor, as_tensor, cast_tensor


def _sort(a: Any, axis: int | None = -1, kind: Any = None, *, stable: Any = None) -> Tensor:
    return sorted_along(a.reshape(-1), -1) if axis is None else sorted_along(a, axis)


def _argsort(a: Any, axis: int | None = -1, kind: Any = None, *, stable: Any = None) -> Tensor:
    return order_of(a.reshape(-1), -1) if axis is None else order_of(a, axis)


def _cumsum(a: Any, axis: int | None = None, dtype: Any = None) -> Tensor:
    return scan.cumsum(a, axis, dtype=dtype)


def _cumprod(a: Any, axis: int | None = None, dtype: Any = None) -> Tensor:
    return scan.cumulative_prod(a, axis, dtype=dtype)


def _tril(m: Any, k: int = 0) -> Tensor:
    return grids.tril(m, k=k)


def _triu(m: Any, k: int = 0) -> Tensor:
    return grids.triu(m, k=k)


def _trace(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None) -> Tensor:
    return sum_over(diagonal(a, offset, axis1, axis2), -1, dtype=dtype)


def _outer(a: Any, b: Any, out: None = None) -> Tensor:
    return matmul.outer(ravel(as_tensor(a)), ravel(as_tensor(b)))


def _copy(a: Any, order: str = "K", subok: bool = False) -> Tensor:
    return copied(a)


def _like(filled: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """NumPy's form of a function that fills the shape of an array, or another shape."""

    def like(
        a: Any, dtype: Any = None, order: str = "K", subok: bool = True, shape: Any = None
    ) -> Tensor:
        return filled(
            a.shape if shape is None else shape, dtype=a.dtype if dtype is None else dtype
        )

    return like


def _full_like(
    a: Any, fill_value: Any, dtype: Any = None, order: str = "K", subok: bool = True,
    shape: Any = None,
) -> Tensor:  # fmt: skip
    if shape is not None:
        return creation.full(shape, fill_value, dtype=a.dtype if dtype is None else dtype)
    return creation.full_like(a, fill_value, dtype)


def _linspace(
    start: Any, stop: Any, num: int = 50, endpoint: bool = True, retstep: bool = False,
    dtype: Any = None, axis: int = 0,
) -> Any:  # fmt: skip
    steps = num - 1 if endpoint else num
    step = (stop - start) / max(steps, 1)  # a single number is the start
    places = evenly_spaced.arange(num, dtype=np.float64)
    for _ in range(max(getattr(start, "ndim", 0), getattr(stop, "ndim", 0))):
        places = places[..., None]
    values = start + step * places
    values = values if axis == 0 else moveaxis(values, 0, axis)
    values = values if dtype is None else cast_tensor(values, canonical_dtype(dtype))
    return (values, step) if retstep else values


def _norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Tensor:
    if axis is None and (ord is None or x.ndim == 1):
        return norms.vector_norm(x, ord=2 if ord is None else ord, keepdims=keepdims)
    pair = tuple(range(x.ndim)) if axis is None else axis
    if isinstance(pair, int) or len(pair) == 1:
        return norms.vector_norm(x, axis=pair, ord=2 if ord is None else ord, keepdims=keepdims)
    if len(pair) != 2:
        raise ArgumentError(
            f"np.linalg.norm: a matrix norm takes two axes, got axis={axis!r} for {x.ndim} "
            f"dimensions"
        )
    places = tuple([normalize_axis("np.linalg.norm", each, x.ndim) for each in pair])
    result = norms.matrix_norm(moveaxis(x, places, (-2, -1)), ord=ord)
    return expand_dims(result, axis=places) if keepdims else result


def _lstsq(a: Any, b: Any, rcond: float | None = None) -> tuple[Any, ...]:
    """By the pseudo-inverse, so with gradients; residuals where NumPy gives them, and in a trace
    wherever the rank may be full."""
    rows, columns = a.shape
    rtol = np.finfo(np.float64).eps * max(rows, columns) if rcond is None else rcond
    solution = matmul.matmul(solving.pinv(a, rtol=rtol), b)
    values = svdvals(a)
    rank = cast_tensor(count_nonzero(values > values[0] * rtol), np.dtype(np.int32))
    rest = b - matmul.matmul(a, solution)
    residuals = sum_over(rest * rest, 0)
    is_known = type(rank._value) is np.ndarray  # a trace takes the rank to be full
    if rows <= columns or (is_known and int(rank) < columns):
        residuals = creation.empty((0,), dtype=residuals.dtype)
    return solution, residuals.reshape(-1), rank, values


def _cond(x: Any, p: Any = None) -> Tensor:
    if p in (None, 2):
        values = svdvals(x)
        return values[..., 0] / values[..., -1]
    return norms.matrix_norm(x, ord=p) * norms.matrix_norm(solving.inv(x), ord=p)


def _moveaxis(a: Any, source: Any, destination: Any) -> Tensor:
    return moveaxis(a, source, destination)


def _swapaxes(a: Any, axis1: int, axis2: int) -> Tensor:
    return swapaxes(a, axis1, axis2)


def _repeat(a: Any, repeats: Any, axis: Any = None) -> Tensor:
    return arranging.repeat(a, repeats, axis=axis)


def _tile(A: Any, reps: Any) -> Tensor:  # NumPy's name
    return arranging.tile(A, reps)


def _tensordot(a: Any, b: Any, axes: Any = 2) -> Tensor:
    return matmul.tensordot(a, b, axes=axes)


ANSWERS: dict[Callable[..., Any], Callable[..., Any]] = {
    np.moveaxis: _moveaxis, np.swapaxes: _swapaxes, np.tensordot: _tensordot,
    np.sort: _sort, np.argsort: _argsort, np.count_nonzero: count_nonzero,
    np.tril: _tril, np.triu: _triu, np.trace: _trace, np.outer: _outer,
    np.diagonal: diagonal, np.copy: _copy, np.cumsum: _cumsum, np.cumprod: _cumprod,
    np.zeros_like: _like(creation.zeros), np.ones_like: _like(creation.ones),
    np.empty_like: _like(creation.empty),
    np.full_like: _full_like, np.linspace: _linspace,
    np.roll: arranging.roll, np.repeat: _repeat, np.tile: _tile,
    np.split: arranging.split, np.around: rounded,
    np.vecdot: matmul.vecdot, np.matrix_transpose: matrix_transpose,
    np.linalg.matmul: matmul.matmul, np.linalg.outer: matmul.outer,
    np.linalg.tensordot: matmul.tensordot, np.linalg.vecdot: matmul.vecdot,
    np.linalg.matrix_transpose: matrix_transpose, np.linalg.norm: _norm,
    np.linalg.lstsq: _lstsq, np.linalg.cond: _cond,
}  # fmt: skip

if hasattr(np, "unstack"):  # since NumPy 2.1
    ANSWERS[np.unstack] = arranging.unstack
