"""NumPy's functions that join, cut and arrange."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from tapeline.runtime.ops.arranging import split
from tapeline.runtime.ops.grids import meshgrid
from tapeline.runtime.ops.joining import concat, stack
from tapeline.runtime.ops.permuting import flip, moveaxis, swapaxes
from tapeline.runtime.ops.pointwise import apply
from tapeline.runtime.ops.searching import nonzero
from tapeline.runtime.ops.selection import clip, where
from tapeline.runtime.ops.shaping import expand_dims, ravel, reshape
from tapeline.runtime.ops.slicing import DIAGONAL_GRAD, diagonal
from tapeline.runtime.spec import canonical_dtype
from tapeline.runtime.tensor import Tensor, as_tensor, cast_tensor


def _at_least(x: Any, ndim: int) -> Tensor:
    """With dimensions put where NumPy puts them: before, and for three also after."""
    x = as_tensor(x)
    if x.ndim == 0:
        return reshape(x, (1,) * ndim)
    if ndim == 2 and x.ndim == 1:
        return expand_dims(x, 0)
    if ndim == 3 and x.ndim == 1:
        return expand_dims(x, (0, 2))
    return expand_dims(x, 2) if ndim == 3 and x.ndim == 2 else x


def _several(ndim: int) -> Any:
    def at_least(*arrays: Any) -> Any:
        made = tuple([_at_least(x, ndim) for x in arrays])
        return made[0] if len(made) == 1 else made

    return at_least


def _joined(
    arrays: Sequence[Any], /, axis: int | None = 0, *, dtype: Any = None, casting: str = "same_kind"
) -> Tensor:
    return _in_dtype(concat(arrays, axis=axis), dtype)


def _stacked(
    arrays: Sequence[Any], axis: int = 0, *, dtype: Any = None, casting: str = "same_kind"
) -> Tensor:
    return _in_dtype(stack([as_tensor(x) for x in arrays], axis=axis), dtype)


def _in_dtype(x: Tensor, dtype: Any) -> Tensor:
    return x if dtype is None else cast_tensor(x, canonical_dtype(dtype))


def _vstack(tup: Sequence[Any], *, dtype: Any = None, casting: str = "same_kind") -> Tensor:
    return _joined([_at_least(x, 2) for x in tup], dtype=dtype)


def _hstack(tup: Sequence[Any], *, dtype: Any = None, casting: str = "same_kind") -> Tensor:
    parts = [_in_dtype(_at_least(x, 1), dtype) for x in tup]
    return concat(parts, axis=0 if parts[0].ndim == 1 else 1)


def _dstack(tup: Sequence[Any]) -> Tensor:
    return concat([_at_least(x, 3) for x in tup], axis=2)


def _column_stack(tup: Sequence[Any]) -> Tensor:
    columns = [as_tensor(x) for x in tup]
    return concat([x if x.ndim > 1 else reshape(x, (x.size, 1)) for x in columns], axis=1)


def _append(arr: Any, values: Any, axis: int | None = None) -> Tensor:
    if axis is None:
        return concat([ravel(arr), ravel(values)])
    return concat([arr, values], axis=axis)


def _array_split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Tensor]:
    if not isinstance(indices_or_sections, int):
        return split(ary, indices_or_sections, axis)
    n, extent = indices_or_sections, ary.shape[axis]
    sizes = [(extent + n - 1 - k) // n for k in range(n)]
    return split(ary, list(accumulate(sizes[:-1])), axis)


def _hsplit(ary: Any, indices_or_sections: Any) -> list[Tensor]:
    return split(ary, indices_or_sections, 0 if ary.ndim == 1 else 1)


def _vsplit(ary: Any, indices_or_sections: Any) -> list[Tensor]:
    return split(ary, indices_or_sections, 0)


def _dsplit(ary: Any, indices_or_sections: Any) -> list[Tensor]:
    return split(ary, indices_or_sections, 2)


def _flipud(m: Any) -> Tensor:
    return flip(m, axis=0)


def _fliplr(m: Any) -> Tensor:
    return flip(m, axis=1)


def _rot90(m: Any, k: int = 1, axes: tuple[int, int] = (0, 1)) -> Tensor:
    turns = k % 4
    if turns == 0:
        return as_tensor(m)
    if turns == 2:
        return flip(m, axis=axes)
    if turns == 1:
        return swapaxes(flip(m, axis=axes[1]), *axes)
    return flip(swapaxes(m, *axes), axis=axes[1])


def _rollaxis(a: Any, axis: int, start: int = 0) -> Tensor:
    axis, start = axis % a.ndim, start + a.ndim if start < 0 else start
    return moveaxis(a, axis, start - 1 if axis < start else start)


def _diag(v: Any, k: int = 0) -> Tensor:
    v = as_tensor(v)
    if v.ndim == 2:
        return diagonal(v, k)
    size = v.shape[0] + abs(k)
    return apply(DIAGONAL_GRAD, v, attrs=(k, 0, 1, (size, size)))


def _diagflat(v: Any, k: int = 0) -> Tensor:
    return _diag(ravel(v), k)


def _kron(a: Any, b: Any) -> Tensor:
    a, b = as_tensor(a), as_tensor(b)
    ndim = max(a.ndim, b.ndim)
    a = reshape(a, (1,) * (ndim - a.ndim) + a.shape)
    b = reshape(b, (1,) * (ndim - b.ndim) + b.shape)
    shape = tuple([m * n for m, n in zip(a.shape, b.shape, strict=True)])
    wide = expand_dims(a, [2 * k + 1 for k in range(ndim)])
    tall = expand_dims(b, [2 * k for k in range(ndim)])
    return reshape(wide * tall, shape)


def _select(condlist: Sequence[Any], choicelist: Sequence[Any], default: Any = 0) -> Tensor:
    result = default
    for condition, choice in zip(reversed(condlist), reversed(choicelist), strict=True):
        result = where(condition, choice, result)
    return as_tensor(result)


def _where(condition: Any, /, *choices: Any) -> Any:
    return where(condition, *choices) if choices else nonzero(_at_least(condition, 1))


def _argwhere(a: Any) -> Tensor:
    return stack(nonzero(_at_least(a, 1)), axis=1)


def _flatnonzero(a: Any) -> Tensor:
    return nonzero(ravel(a))[0]


def _extract(condition: Any, arr: Any) -> Tensor:
    return ravel(arr)[ravel(condition)]


def _ediff1d(ary: Any, to_end: Any = None, to_begin: Any = None) -> Tensor:
    flat = ravel(ary)
    found = flat[1:] - flat[:-1]
    before, after = (
        [] if given is None else [cast_tensor(ravel(as_tensor(given)), found.dtype)]
        for given in (to_begin, to_end)
    )
    return concat([*before, found, *after])


def _clip(
    a: Any, a_min: Any = None, a_max: Any = None, *, min: Any = None, max: Any = None
) -> Tensor:
    return clip(a, a_min if min is None else min, a_max if max is None else max)


def _meshgrid(*xi: Any, copy: bool = True, sparse: bool = False, indexing: str = "xy") -> Any:
    if not sparse:
        return meshgrid(*xi, indexing=indexing)
    arrays = [ravel(as_tensor(x)) for x in xi]
    found = []
    for position, x in enumerate(arrays):
        axis = 1 - position if indexing == "xy" and position < 2 and len(arrays) > 1 else position
        found.append(reshape(x, [-1 if k == axis else 1 for k in range(len(arrays))]))
    return found


ANSWERS: dict[Callable[..., Any], Callable[..., Any]] = {
    np.concatenate: _joined, np.stack: _stacked, np.clip: _clip,
    np.meshgrid: _meshgrid,
    np.atleast_1d: _several(1), np.atleast_2d: _several(2), np.atleast_3d: _several(3),
    np.vstack: _vstack, np.hstack: _hstack, np.dstack: _dstack,
    np.column_stack: _column_stack, np.append: _append, np.array_split: _array_split,
    np.hsplit: _hsplit, np.vsplit: _vsplit, np.dsplit: _dsplit, np.flipud: _flipud,
    np.fliplr: _fliplr, np.rot90: _rot90, np.rollaxis: _rollaxis, np.diag: _diag,
    np.diagflat: _diagflat, np.kron: _kron, np.select: _select, np.argwhere: _argwhere,
    np.flatnonzero: _flatnonzero, np.where: _where, np.extract: _extract, np.ediff1d: _ediff1d,
}  # fmt: skip
