"""NumPy's functions of ints, of their bits and of the parts of floats."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tapeline.runtime.dispatch import bind
from tapeline.runtime.errors import ArgumentError, DTypeError
from tapeline.runtime.operators import make_binary, make_unary
from tapeline.runtime.ops.axes import normalize_axes
from tapeline.runtime.ops.cast import conj
from tapeline.runtime.ops.creation import zeros
from tapeline.runtime.ops.exponential import EXP
from tapeline.runtime.ops.integers import BITWISE_COUNT, EXPONENT, GCD, LCM, LDEXP
from tapeline.runtime.ops.joining import concat
from tapeline.runtime.ops.logic import isinf
from tapeline.runtime.ops.matmul import matmul
from tapeline.runtime.ops.permuting import moveaxis
from tapeline.runtime.ops.reduction import sum as sum_over
from tapeline.runtime.ops.rounding import nextafter
from tapeline.runtime.ops.selection import copysign, where
from tapeline.runtime.ops.shaping import expand_dims, ravel, reshape, squeeze
from tapeline.runtime.ops.signs import abs as magnitude
from tapeline.runtime.promotion import promote_one
from tapeline.runtime.tensor import Tensor, as_tensor, cast_tensor

_UINT8 = np.dtype(np.uint8)

# --- floats ----------------------------------------------------------------------------------


def _ldexp(x1: Any, x2: Any) -> Tensor:
    result: Tensor = bind(LDEXP, (promote_one(EXP, x1), as_tensor(x2)))
    return result


def _frexp(x: Any) -> tuple[Tensor, Tensor]:
    x = promote_one(EXP, x)
    exponent: Tensor = bind(EXPONENT, (x,))
    return _ldexp(x, -exponent), exponent


def _spacing(x: Any) -> Tensor:
    """The way to the next number away from 0, and to the one before from the largest."""
    x = promote_one(EXP, x)
    size = where(isinf(x), math.nan, magnitude(x))
    gap = nextafter(size, math.inf) - size
    return copysign(where(isinf(gap), size - nextafter(size, 0.0), gap), x)


# --- vectors and matrices --------------------------------------------------------------------


def _matvec(x1: Any, x2: Any) -> Tensor:
    return squeeze(matmul(x1, expand_dims(x2, axis=-1)), axis=-1)


def _vecmat(x1: Any, x2: Any) -> Tensor:
    return squeeze(matmul(expand_dims(conj(as_tensor(x1)), axis=-2), x2), axis=-2)


# --- bits ------------------------------------------------------------------------------------


def _places(bitorder: str) -> Tensor:
    """How far each bit of a byte is shifted."""
    if bitorder not in ("big", "little"):
        raise ArgumentError(f"bitorder must be 'big' or 'little', got {bitorder!r}")
    order = range(7, -1, -1) if bitorder == "big" else range(8)
    return as_tensor(np.array(order, np.uint8))


def _along_last(name: str, a: Any, axis: int | None) -> tuple[Tensor, int]:
    x = as_tensor(a)
    if axis is None:
        return ravel(x), 0
    place = normalize_axes(name, axis, x.ndim)[0]
    return moveaxis(x, place, -1), place


def _packbits(a: Any, axis: int | None = None, bitorder: str = "big") -> Tensor:
    x, place = _along_last("np.packbits", a, axis)
    if x.dtype.kind not in "biu":
        raise DTypeError(f"np.packbits: expected bools or ints, got dtype {x.dtype}")
    missing = -x.shape[-1] % 8
    x = concat([x != 0, zeros((*x.shape[:-1], missing), dtype=bool)], axis=-1)
    groups = reshape(x, (*x.shape[:-1], -1, 8)) if x.size else reshape(x, (*x.shape[:-1], 0, 8))
    bits = cast_tensor(groups, _UINT8) << _places(bitorder)
    return moveaxis(sum_over(bits, axis=-1, dtype=_UINT8), -1, place)


def _unpackbits(
    a: Any, axis: int | None = None, count: int | None = None, bitorder: str = "big"
) -> Tensor:
    x, place = _along_last("np.unpackbits", a, axis)
    if x.dtype != _UINT8:
        raise DTypeError(f"np.unpackbits: expected dtype uint8, got {x.dtype}")
    bits = (expand_dims(x, axis=-1) >> _places(bitorder)) & np.uint8(1)
    bits = reshape(bits, (*x.shape[:-1], 8 * x.shape[-1]))
    if count is not None:
        short = max(count - bits.shape[-1], 0)
        bits = concat([bits, zeros((*bits.shape[:-1], short), dtype=_UINT8)], axis=-1)
        bits = bits[..., :count]
    return moveaxis(bits, -1, place)


ANSWERS: dict[Callable[..., Any], Callable[..., Any]] = {
    np.gcd: make_binary(GCD), np.lcm: make_binary(LCM), np.bitwise_count: make_unary(BITWISE_COUNT),
    np.frexp: _frexp, np.ldexp: _ldexp, np.spacing: _spacing, np.packbits: _packbits,
    np.unpackbits: _unpackbits,
    **{
        getattr(np, name): answer  # NumPy has them since 2.2
        for name, answer in (("matvec", _matvec), ("vecmat", _vecmat))
        if hasattr(np, name)
    },
}  # fmt: skip
