"""Floats of 16 bits, IEEE's and bfloat16: read and written as ints, computed in as float32.

The conversions are arithmetic on bits, so no processor needs to know these dtypes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tapeline.runtime.spec import FLOAT16, DType, is_bfloat16

_UINT16, _UINT32 = np.dtype(np.uint16), np.dtype(np.uint32)
_FLOAT32, _FLOAT64 = np.dtype(np.float32), np.dtype(np.float64)


def is_half(dtype: DType) -> bool:
    """Whether a dtype is a float of 16 bits."""
    return dtype == FLOAT16 or is_bfloat16(dtype)


def _word(b: Any, value: int) -> Any:
    return b.constant(value, _UINT32)


def decoded(b: Any, bits: Any, dtype: DType) -> Any:
    """The float32 that 16 bits stand for."""
    wide = b.cast(bits, _UINT32)
    if is_bfloat16(dtype):
        return b.bitcast(b.shift_left(wide, _word(b, 16)), _FLOAT32)
    size = b.shift_left(b.bit_and(wide, _word(b, 0x7FFF)), _word(b, 13))
    scaled = b.mul(b.bitcast(size, _FLOAT32), b.constant(2.0**112, _FLOAT32))
    special = b.compare("ge", size, _word(b, 0x7C00 << 13))
    full = b.bit_or(size, _word(b, 0x7F800000))
    number = b.select(special, full, b.bitcast(scaled, _UINT32))
    sign = b.shift_left(b.bit_and(wide, _word(b, 0x8000)), _word(b, 16))
    return b.bitcast(b.bit_or(number, sign), _FLOAT32)


def encoded(b: Any, x: Any, dtype: DType) -> Any:
    """The 16 bits of the number nearest to a float32, the even one of two."""
    bits = b.bitcast(x, _UINT32)
    word = _bfloat16_bits(b, x, bits) if is_bfloat16(dtype) else _float16_bits(b, bits)
    return b.cast(word, _UINT16)


def _odd(b: Any, bits: Any, place: int) -> Any:
    """The bit at a place, as 0 or 1."""
    return b.bit_and(b.shift_right(bits, _word(b, place)), _word(b, 1))


def _bfloat16_bits(b: Any, x: Any, bits: Any) -> Any:
    even = b.add(b.add(bits, _word(b, 0x7FFF)), _odd(b, bits, 16))
    sign = b.shift_right(b.bit_and(bits, _word(b, 0x80000000)), _word(b, 16))
    nan = b.bit_or(sign, _word(b, 0x7FC0))
    return b.select(b.compare("ne", x, x), nan, b.shift_right(even, _word(b, 16)))


def _float16_bits(b: Any, bits: Any) -> Any:
    sign = b.shift_right(b.bit_and(bits, _word(b, 0x80000000)), _word(b, 16))
    size = b.bit_and(bits, _word(b, 0x7FFFFFFF))
    rebased = b.sub(size, _word(b, (127 - 15) << 23))
    even = b.add(b.add(rebased, _word(b, 0xFFF)), _odd(b, size, 13))
    normal = b.shift_right(even, _word(b, 13))
    halves = b.add(b.bitcast(size, _FLOAT32), b.constant(0.5, _FLOAT32))
    small = b.sub(b.bitcast(halves, _UINT32), _word(b, 126 << 23))
    nan_or_infinity = b.select(
        b.compare("gt", size, _word(b, 0x7F800000)), _word(b, 0x7E00), _word(b, 0x7C00)
    )
    result = b.select(b.compare("lt", size, _word(b, 113 << 23)), small, normal)
    result = b.select(b.compare("ge", size, _word(b, 143 << 23)), nan_or_infinity, result)
    return b.bit_or(result, sign)


def rounded(b: Any, x: Any, dtype: DType) -> Any:
    """A number as the float32 that stands for the nearest float of 16 bits."""
    given = b.dtype_of(x)
    exact = given == _FLOAT64 and dtype == FLOAT16  # bfloat16 is rounded from float32 in any case
    single = _to_odd(b, x) if exact else b.cast(x, _FLOAT32)
    return decoded(b, encoded(b, single, dtype), dtype)


def _to_odd(b: Any, x: Any) -> Any:
    """A float64 as a float32 that rounds on as the float64 itself would: one that is not exact is
    the neighbour whose last bit is set."""
    nearest = b.cast(x, _FLOAT32)
    back = b.cast(nearest, _FLOAT64)
    bits = b.bitcast(nearest, _UINT32)
    beyond = b.compare("gt", b.abs(back), b.abs(x))
    toward_zero = b.select(beyond, b.sub(bits, _word(b, 1)), bits)
    inexact = b.bit_and(b.compare("ne", back, x), b.compare("eq", x, x))
    return b.bitcast(b.select(inexact, b.bit_or(toward_zero, _word(b, 1)), bits), _FLOAT32)
