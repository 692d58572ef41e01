"""Polynomials by their coefficients, spaced numbers, and writes into a tensor's cell."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tapeline.runtime.errors import ArgumentError
from tapeline.runtime.numpy_functions.selecting import places_within
from tapeline.runtime.ops.arithmetic import divide
from tapeline.runtime.ops.assignment import setitem
from tapeline.runtime.ops.exponential import log
from tapeline.runtime.ops.extrema import argmax
from tapeline.runtime.ops.gather import take
from tapeline.runtime.ops.joining import concat, pad, stack
from tapeline.runtime.ops.matmul import matmul
from tapeline.runtime.ops.permuting import flip, moveaxis
from tapeline.runtime.ops.powers import power, sqrt
from tapeline.runtime.ops.reduction import any as any_over
from tapeline.runtime.ops.rounding import floor
from tapeline.runtime.ops.scan import cumulative_sum
from tapeline.runtime.ops.searching import nonzero, span
from tapeline.runtime.ops.selection import where
from tapeline.runtime.ops.shaping import broadcast_to, ravel, reshape
from tapeline.runtime.ops.solving import inv, pinv, solve
from tapeline.runtime.ops.spectral import eigvals
from tapeline.runtime.spec import canonical_dtype
from tapeline.runtime.tensor import Tensor, as_tensor, cast_tensor

# --- polynomials -----------------------------------------------------------------------------


def _at_least_1d(x: Any) -> Tensor:
    x = as_tensor(x)
    return reshape(x, (1,)) if x.ndim == 0 else x


def _padded(a: Tensor, size: int) -> Tensor:
    return pad(a, (size - a.shape[0], 0)) if a.shape[0] < size else a


def _polyadd(a1: Any, a2: Any) -> Tensor:
    a, b = _at_least_1d(a1), _at_least_1d(a2)
    size = max(a.shape[0], b.shape[0])
    return _padded(a, size) + _padded(b, size)


def _polysub(a1: Any, a2: Any) -> Tensor:
    return _polyadd(a1, -_at_least_1d(a2))


def _polymul(a1: Any, a2: Any) -> Tensor:
    product: Tensor = np.convolve(_at_least_1d(a1), _at_least_1d(a2))  # type: ignore[assignment]  # tensors answer for themselves
    return product


def _polydiv(u: Any, v: Any) -> tuple[Tensor, Tensor]:
    """By long division; the remainder keeps its leading zeros out only where there are none."""
    u, v = _at_least_1d(u) + 0.0, _at_least_1d(v) + 0.0
    steps = u.shape[0] - v.shape[0] + 1
    if steps < 1:
        return as_tensor([0.0]), u
    rest, quotient = u, []
    for _ in range(steps):
        factor = rest[0] / v[0]
        quotient.append(factor)
        rest = concat([rest[1 : v.shape[0]] - factor * v[1:], rest[v.shape[0] :]])
    if rest.shape[0] == 0:
        rest = as_tensor([0.0])
    return stack(quotient), rest


def _polyder(p: Any, m: int = 1) -> Tensor:
    found = as_tensor(p)
    for _ in range(m):
        found = found[:-1] * np.arange(found.shape[0] - 1, 0, -1)
    return found


def _polyint(p: Any, m: int = 1, k: Any = None) -> Tensor:
    found = as_tensor(p)
    given = [0.0] * m if k is None else list(np.broadcast_to(k, m)) if np.ndim(k) else [k] * m
    for constant in given:
        rest = divide(found, np.arange(found.shape[0], 0, -1))
        found = concat([rest, as_tensor([constant], np.float64)])
    return found


def _poly(seq_of_zeros: Any) -> Tensor:
    zeros = as_tensor(seq_of_zeros)
    if zeros.ndim == 2:
        zeros = eigvals(zeros)
    found = as_tensor([1.0])
    for k in range(zeros.shape[0]):
        found = _polymul(found, stack([as_tensor(1.0, zeros.dtype), -zeros[k]]))
    return found


def _roots(p: Any) -> Tensor:
    """The eigenvalues of the companion matrix; the first coefficient is taken not to be 0."""
    p = as_tensor(p)
    degree = p.shape[0] - 1
    if degree < 1:
        return as_tensor(np.zeros(0))
    first = divide(-p[1:], p[0])
    below = as_tensor(np.eye(degree - 1, degree), first.dtype)
    return eigvals(concat([reshape(first, (1, degree)), below]))


def _polyfit(
    x: Any, y: Any, deg: int, rcond: float | None = None, full: bool = False, w: Any = None,
    cov: bool = False,
) -> Tensor:  # fmt: skip
    if full or cov:
        raise ArgumentError("np.polyfit: of tensors, only the coefficients are given")
    x, y = as_tensor(x) + 0.0, as_tensor(y) + 0.0
    columns = power(reshape(x, (x.shape[0], 1)), np.arange(deg, -1, -1.0))
    if w is not None:
        weights = as_tensor(w)
        columns = columns * reshape(weights, (-1, 1))
        y = y * (weights if y.ndim == 1 else reshape(weights, (-1, 1)))
    scale = sqrt((columns * columns).sum(axis=0))
    rtol = x.shape[0] * np.finfo(np.float64).eps if rcond is None else rcond
    found = matmul(pinv(columns / scale, rtol=rtol), y)
    return found / (scale if y.ndim == 1 else reshape(scale, (-1, 1)))


# --- spaced numbers --------------------------------------------------------------------------


def _spaced(
    start: Any, stop: Any, num: int, endpoint: bool, dtype: Any, base: Any, axis: int
) -> Tensor:
    if axis != 0:
        raise ArgumentError("np.logspace: of tensors, only axis=0 is known; move the axis after")
    steps = num - 1 if endpoint else num
    first, last = as_tensor(start) + 0.0, as_tensor(stop)
    places = as_tensor(np.arange(num) / max(steps, 1))
    shape = (-1, *[1] * max(first.ndim, last.ndim))
    values = power(as_tensor(base, np.float64), first + (last - first) * reshape(places, shape))
    return values if dtype is None else cast_tensor(values, canonical_dtype(dtype))


def _logspace(
    start: Any, stop: Any, num: int = 50, endpoint: bool = True, base: Any = 10.0,
    dtype: Any = None, axis: int = 0,
) -> Tensor:  # fmt: skip
    return _spaced(start, stop, num, endpoint, dtype, base, axis)


def _geomspace(
    start: Any, stop: Any, num: int = 50, endpoint: bool = True, dtype: Any = None, axis: int = 0
) -> Tensor:
    first, last = as_tensor(start) + 0.0, as_tensor(stop) + 0.0
    return first * _spaced(0.0, log(last / first), num, endpoint, dtype, math.e, axis)


def _unwrap(p: Any, discont: Any = None, axis: int = -1, *, period: float = 2 * math.pi) -> Tensor:
    x = moveaxis(as_tensor(p) + 0.0, axis, -1)
    steps = x[..., 1:] - x[..., :-1]
    half = period / 2
    moved = steps + half - floor((steps + half) / period) * period - half
    moved = where((moved == -half) & (steps > 0), half, moved)
    least = half if discont is None else max(discont, half)
    change = where(abs(steps) < least, 0.0, moved - steps)
    found = concat([x[..., :1], x[..., 1:] + cumulative_sum(change, axis=-1)], axis=-1)
    return moveaxis(found, -1, axis)


def _resize(a: Any, new_shape: Any) -> Tensor:
    x = ravel(as_tensor(a))
    shape = (new_shape,) if isinstance(new_shape, int) else tuple(new_shape)
    total = math.prod(shape)
    copies = -(-total // max(x.shape[0], 1))
    return reshape(concat([x] * max(copies, 1))[:total], shape)


def _block(arrays: Any) -> Tensor:
    """Nested lists joined from the inside: the innermost along the last axis."""

    def depth(x: Any) -> int:
        return 1 + depth(x[0]) if isinstance(x, list) else 0

    levels = depth(arrays)

    def ranks(x: Any) -> int:
        return max(map(ranks, x)) if isinstance(x, list) else as_tensor(x).ndim

    ndim = max(levels, ranks(arrays))

    def join(x: Any, level: int) -> Tensor:
        if not isinstance(x, list):
            one = as_tensor(x)
            return reshape(one, (1,) * (ndim - one.ndim) + one.shape)
        return concat([join(part, level - 1) for part in x], axis=-level)

    return join(arrays, levels)


def _ix(*args: Any) -> tuple[Any, ...]:
    found = []
    for position, given in enumerate(args):
        x = as_tensor(given)
        if x.dtype.kind == "b":
            (x,) = nonzero(x)
        shape = [-1 if k == position else 1 for k in range(len(args))]
        found.append(reshape(x, shape))
    return tuple(found)


# --- equations -------------------------------------------------------------------------------


def _tensorinv(a: Any, ind: int = 2) -> Tensor:
    x = as_tensor(a)
    rest = x.shape[:ind]
    size = math.prod(rest)
    return reshape(inv(reshape(x, (size, -1))), (*x.shape[ind:], *rest))


def _tensorsolve(a: Any, b: Any, axes: Any = None) -> Tensor:
    x, y = as_tensor(a), as_tensor(b)
    for axis in axes or ():
        x = moveaxis(x, axis, -1)
    shape = x.shape[-(x.ndim - y.ndim) :]
    return reshape(solve(reshape(x, (y.size, -1)), ravel(y)), shape)


# --- writes into a cell ----------------------------------------------------------------------


def _is_tensor(name: str, target: Any) -> Tensor:
    if not isinstance(target, Tensor):
        raise ArgumentError(f"np.{name}: an array cannot take values of a tensor; start from one")
    return target


def _put(a: Any, ind: Any, v: Any, mode: str = "raise") -> None:
    target = _is_tensor("put", a)
    places = places_within(ravel(as_tensor(ind)), target.size, mode, "np.put")
    values = _resize(v, places.shape)
    flat = setitem(reshape(target, (target.size,)), places, values)
    target[...] = reshape(flat, target.shape)


def _putmask(a: Any, mask: Any, values: Any) -> None:
    target = _is_tensor("putmask", a)
    target[...] = where(mask, cast_tensor(_resize(values, target.shape), target.dtype), target)


def _copyto(dst: Any, src: Any, casting: str = "same_kind", where: Any = True) -> None:
    target = _is_tensor("copyto", dst)
    if where is True:
        target[...] = src
    else:
        _putmask(target, broadcast_to(as_tensor(where), target.shape),
                 broadcast_to(as_tensor(src), target.shape))  # fmt: skip


def _place(arr: Any, mask: Any, vals: Any) -> None:
    target = _is_tensor("place", arr)
    values, is_chosen = ravel(as_tensor(vals)), reshape(as_tensor(mask), target.shape) != 0
    number = reshape(cumulative_sum(ravel(is_chosen)) - 1, target.shape) % values.shape[0]
    target[...] = where(is_chosen, cast_tensor(values, target.dtype)[number], target)


def _put_along_axis(arr: Any, indices: Any, values: Any, axis: int | None) -> None:
    target = _is_tensor("put_along_axis", arr)
    at = as_tensor(indices)
    if axis is None:
        flat = reshape(target, (target.size,))
        flat[at] = values
        target[...] = reshape(flat, target.shape)
        return
    grid = [
        reshape(as_tensor(np.arange(n)), [-1 if k == d else 1 for k in range(at.ndim)])
        for d, n in enumerate(at.shape)
    ]
    target[tuple(at if d == axis % at.ndim else grid[d] for d in range(at.ndim))] = values


def _fill_diagonal(a: Any, val: Any, wrap: bool = False) -> None:
    target = _is_tensor("fill_diagonal", a)
    if wrap and target.ndim == 2:
        raise ArgumentError("np.fill_diagonal: of tensors, wrap=True is not known")
    places = np.arange(min(target.shape))
    count = places.shape[0]
    target[(places,) * target.ndim] = _resize(val, (count,)) if np.ndim(val) else val


def _trim_zeros(filt: Any, trim: str = "fb", axis: Any = None) -> Tensor:
    x = as_tensor(filt)
    extent = x.shape[0]
    if not extent:
        return x
    found = x != 0
    any_found = any_over(found)
    first = where(any_found, argmax(cast_tensor(found, np.dtype(np.int64))), extent)
    last = extent - argmax(cast_tensor(flip(found), np.dtype(np.int64)))
    start = first if "f" in trim.lower() else where(any_found, 0, extent)
    return take(x, span(start, last if "b" in trim.lower() else extent), axis=0)


def _astype(x: Any, dtype: Any, /, *, copy: bool = True, device: Any = None) -> Tensor:
    return cast_tensor(as_tensor(x), canonical_dtype(dtype))


ANSWERS: dict[Callable[..., Any], Callable[..., Any]] = {
    np.polyadd: _polyadd, np.polysub: _polysub, np.polymul: _polymul, np.polydiv: _polydiv,
    np.polyder: _polyder, np.polyint: _polyint, np.poly: _poly, np.roots: _roots,
    np.polyfit: _polyfit, np.logspace: _logspace, np.geomspace: _geomspace, np.unwrap: _unwrap,
    np.resize: _resize, np.block: _block, np.ix_: _ix, np.put: _put, np.putmask: _putmask,
    np.place: _place,
    np.copyto: _copyto, np.put_along_axis: _put_along_axis, np.fill_diagonal: _fill_diagonal,
    np.trim_zeros: _trim_zeros, np.linalg.tensorinv: _tensorinv,
    np.linalg.tensorsolve: _tensorsolve,
}  # fmt: skip

if hasattr(np, "astype"):  # since NumPy 2.1
    ANSWERS[np.astype] = _astype
