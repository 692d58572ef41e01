"""Averages, covariances and correlations, with weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tapeline.runtime.errors import ShapeError
from tapeline.runtime.ops.arithmetic import divide
from tapeline.runtime.ops.cast import conj, real
from tapeline.runtime.ops.joining import concat
from tapeline.runtime.ops.matmul import matmul
from tapeline.runtime.ops.permuting import swapaxes
from tapeline.runtime.ops.powers import sqrt
from tapeline.runtime.ops.reduction import sum as sum_over
from tapeline.runtime.ops.selection import clip
from tapeline.runtime.ops.shaping import broadcast_to, expand_dims, reshape
from tapeline.runtime.ops.slicing import diagonal
from tapeline.runtime.ops.statistics import mean
from tapeline.runtime.tensor import Tensor, as_tensor, cast_tensor

_FLOAT64 = np.dtype(np.float64)


def _average(
    a: Any, axis: Any = None, weights: Any = None, returned: bool = False, *, keepdims: bool = False
) -> Any:
    x = as_tensor(a)
    if weights is None:
        found = mean(x, axis, keepdims=keepdims)
        total = broadcast_to(as_tensor(x.size / max(found.size, 1), found.dtype), found.shape)
        return (found, total) if returned else found
    shares = as_tensor(weights)
    if shares.ndim == 1 and x.ndim > 1:
        if axis is None or shares.shape[0] != x.shape[axis]:
            raise ShapeError(
                f"np.average: weights of shape {shares.shape} do not fit axis={axis} of {x.shape}"
            )
        shares = reshape(shares, [-1 if k == axis % x.ndim else 1 for k in range(x.ndim)])
    whole = broadcast_to(shares, x.shape)
    total = sum_over(whole, axis, keepdims=keepdims)
    found = divide(sum_over(whole * x, axis, keepdims=keepdims), total)
    return (found, cast_tensor(total, found.dtype)) if returned else found


def _rows(m: Any, rowvar: bool, dtype: Any = None) -> Tensor:
    m = as_tensor(m, dtype)
    m = cast_tensor(m, _FLOAT64) if m.dtype.kind in "biu" else m
    if m.ndim < 2:
        return reshape(m, (1, m.size))
    return m if rowvar else swapaxes(m, 0, 1)


def _cov(
    m: Any, y: Any = None, rowvar: bool = True, bias: bool = False, ddof: int | None = None,
    fweights: Any = None, aweights: Any = None, *, dtype: Any = None,
) -> Tensor:  # fmt: skip
    x = _rows(m, rowvar, dtype)
    if y is not None:
        x = concat([x, _rows(y, rowvar, dtype)], axis=0)
    lost = (0 if bias else 1) if ddof is None else ddof
    if fweights is None and aweights is None:
        x = x - mean(x, 1, keepdims=True)
        found = divide(matmul(x, conj(swapaxes(x, 0, 1))), x.shape[1] - lost)
        return reshape(found, ()) if found.shape == (1, 1) else found
    weights = as_tensor(1.0)
    for given in (fweights, aweights):
        weights = weights if given is None else weights * as_tensor(given)
    total = sum_over(weights)
    center = divide(sum_over(x * weights, 1, keepdims=True), total)
    freedom = total - lost
    if aweights is not None and lost:
        freedom = total - lost * sum_over(weights * as_tensor(aweights)) / total
    away = x - center
    found = divide(matmul(away, conj(swapaxes(away * weights, 0, 1))), freedom)
    return reshape(found, ()) if found.shape == (1, 1) else found


def _corrcoef(x: Any, y: Any = None, rowvar: bool = True, *, dtype: Any = None) -> Tensor:
    covariance = _cov(x, y, rowvar, dtype=dtype)
    if covariance.ndim == 0:
        return covariance / covariance
    scale = sqrt(real(diagonal(covariance)))
    found = covariance / scale / expand_dims(scale, 1)
    return found if found.dtype.kind == "c" else clip(found, -1.0, 1.0)


ANSWERS: dict[Callable[..., Any], Callable[..., Any]] = {
    np.average: _average, np.cov: _cov, np.corrcoef: _corrcoef,
}  # fmt: skip
