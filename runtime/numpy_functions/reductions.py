"""NumPy's reductions with the arguments that the library's own do not have: `where`, `initial`,
`mean`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tapeline.runtime.errors import ArgumentError
from tapeline.runtime.ops.arithmetic import add, divide, multiply
from tapeline.runtime.ops.cast import conj, real
from tapeline.runtime.ops.extrema import max as max_over
from tapeline.runtime.ops.extrema import min as min_over
from tapeline.runtime.ops.powers import sqrt
from tapeline.runtime.ops.reduction import all as all_of
from tapeline.runtime.ops.reduction import any as any_of
from tapeline.runtime.ops.reduction import prod
from tapeline.runtime.ops.reduction import sum as sum_over
from tapeline.runtime.ops.selection import maximum, minimum
from tapeline.runtime.ops.selection import where as choose
from tapeline.runtime.ops.shaping import broadcast_to
from tapeline.runtime.ops.statistics import mean as mean_over
from tapeline.runtime.ops.statistics import var as var_over
from tapeline.runtime.spec import canonical_dtype
from tapeline.runtime.tensor import Tensor, as_tensor, cast_tensor


def converted(a: Any, dtype: Any) -> Any:
    """The tensor in the dtype that was asked for, if any."""
    if dtype is None or not isinstance(a, Tensor):
        return a
    return cast_tensor(a, canonical_dtype(dtype))


def _kept(a: Any, where: Any, neutral: Any) -> Any:
    """The tensor with what `where` leaves out replaced by a neutral element."""
    return a if where is True else choose(where, a, as_tensor(neutral, as_tensor(a).dtype))


def _sum(
    a: Any, axis: Any = None, dtype: Any = None, keepdims: bool = False, initial: Any = None,
    where: Any = True,
) -> Tensor:  # fmt: skip
    total = sum_over(_kept(a, where, 0), axis, dtype=dtype, keepdims=bool(keepdims))
    return total if initial is None else add(total, as_tensor(initial, total.dtype))


def _prod(
    a: Any, axis: Any = None, dtype: Any = None, keepdims: bool = False, initial: Any = None,
    where: Any = True,
) -> Tensor:  # fmt: skip
    total = prod(_kept(a, where, 1), axis, dtype=dtype, keepdims=bool(keepdims))
    return total if initial is None else multiply(total, as_tensor(initial, total.dtype))


def _extremum(name: str, reduce: Any, combine: Any) -> Callable[..., Tensor]:
    def extremum(
        a: Any, axis: Any = None, keepdims: bool = False, initial: Any = None, where: Any = True
    ) -> Tensor:
        if where is not True and initial is None:
            raise ArgumentError(
                f"np.{name}: with where=, give initial= too, the result where nothing is chosen"
            )
        if initial is None:
            found: Tensor = reduce(a, axis, keepdims=bool(keepdims))
            return found
        first = as_tensor(initial, as_tensor(a).dtype)
        a = _kept(a, where, initial)
        if as_tensor(a).size == 0:
            return add(_sum(a, axis, keepdims=keepdims), first)
        result: Tensor = combine(reduce(a, axis, keepdims=bool(keepdims)), first)
        return result

    return extremum


def _any(a: Any, axis: Any = None, keepdims: bool = False, *, where: Any = True) -> Tensor:
    return any_of(_kept(a, where, 0), axis, keepdims=bool(keepdims))


def _all(a: Any, axis: Any = None, keepdims: bool = False, *, where: Any = True) -> Tensor:
    return all_of(_kept(a, where, 1), axis, keepdims=bool(keepdims))


def _mean(
    a: Any, axis: Any = None, dtype: Any = None, keepdims: bool = False, *, where: Any = True
) -> Tensor:
    a = converted(a, dtype)
    if where is True:
        return mean_over(a, axis, keepdims=bool(keepdims))
    return divide(_sum(a, axis, keepdims=keepdims, where=where), _count(a, where, axis, keepdims))


def _count(a: Any, where: Any, axis: Any, keepdims: bool) -> Tensor:
    """How many elements `where` chooses."""
    chosen = broadcast_to(as_tensor(where), as_tensor(a).shape)
    return sum_over(chosen, axis, keepdims=bool(keepdims))


def _var(
    a: Any, axis: Any = None, dtype: Any = None, ddof: float = 0, keepdims: bool = False, *,
    where: Any = True, mean: Any = None, correction: float | None = None,
) -> Tensor:  # fmt: skip
    if correction is not None:
        if ddof != 0:
            raise ValueError("ddof and correction can't be provided simultaneously.")
        ddof = correction
    a = converted(a, dtype)
    if where is True and mean is None:
        return var_over(a, axis, ddof=ddof, keepdims=bool(keepdims))
    center = _mean(a, axis, keepdims=True, where=where) if mean is None else mean
    away = as_tensor(a) - center
    squares = real(away * conj(away)) if away.dtype.kind == "c" else away * away
    total = _sum(squares, axis, keepdims=keepdims, where=where)
    count = _count(a, where, axis, keepdims)
    return divide(total, maximum(count - as_tensor(ddof, np.dtype(np.float64)), 0.0))


def _std(
    a: Any, axis: Any = None, dtype: Any = None, ddof: float = 0, keepdims: bool = False,
    **options: Any,
) -> Tensor:  # fmt: skip
    return sqrt(_var(a, axis, dtype, ddof, keepdims, **options))


_max = _extremum("max", max_over, maximum)
_min = _extremum("min", min_over, minimum)

ANSWERS: dict[Callable[..., Any], Callable[..., Any]] = {
    np.sum: _sum, np.prod: _prod, np.mean: _mean, np.var: _var, np.std: _std,
    np.max: _max, np.amax: _max, np.min: _min, np.amin: _min, np.any: _any, np.all: _all,
}  # fmt: skip
