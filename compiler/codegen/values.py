"""Typed SSA values as text: dtype codes, LLVM type names and literals. Nothing here emits."""

from __future__ import annotations

import math
import struct
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from tapeline.runtime.spec import DType


class Value(NamedTuple):
    """An SSA value or constant: its LLVM text, the code of its dtype, and its lanes (1: a scalar).

    A code is a kind and a size in bytes, as in "f4", "i8", "u2"; "b1" is bool, an i1 in registers
    and a byte in memory.
    """

    name: str
    code: str
    lanes: int

    @property
    def is_constant(self) -> bool:
        """Whether the text is a literal and not a register."""
        return not self.name.startswith("%")

    @property
    def type(self) -> str:
        """The LLVM type, as in `<16 x float>`."""
        return type_of(self.code, self.lanes)

    @property
    def operand(self) -> str:
        """Type and name, as instructions take their first operand."""
        return f"{self.type} {self.name}"


_SCALAR_TYPES = {"b1": "i1", "f4": "float", "f8": "double"} | {
    f"{kind}{size}": f"i{8 * size}" for kind in "iu" for size in (1, 2, 4, 8)
}
_DTYPES = {code: np.dtype(bool if code == "b1" else code) for code in _SCALAR_TYPES}
_CODES = {dtype: code for code, dtype in _DTYPES.items()}


def is_supported(dtype: DType) -> bool:
    """Whether values of this dtype can be emitted."""
    return dtype in _CODES


def code_of(dtype: DType) -> str:
    """The code of a dtype; a `KeyError` for dtypes that code cannot be emitted for."""
    return _CODES[dtype]


def dtype_of(code: str) -> DType:
    """The dtype of a code."""
    return _DTYPES[code]


def is_float(code: str) -> bool:
    """Whether the code is of a floating-point dtype."""
    return code[0] == "f"


def is_signed(code: str) -> bool:
    """Whether the code is of a signed integer dtype."""
    return code[0] == "i"


def size_of(code: str) -> int:
    """Bytes of one element in memory."""
    return int(code[1:])


def bits_of(code: str) -> int:
    """Bits of one element in memory."""
    return 8 * size_of(code)


def integer_like(code: str) -> str:
    """The signed integer code of the same size."""
    return "i" + code[1:]


@cache
def type_of(code: str, lanes: int = 1) -> str:
    """The LLVM type of a value."""
    scalar = _SCALAR_TYPES[code]
    return scalar if lanes == 1 else f"<{lanes} x {scalar}>"


@cache
def suffix_of(code: str, lanes: int = 1) -> str:
    """How intrinsic names spell the type, as in `v16f32`."""
    letter = "f" if is_float(code) else "i"
    width = 1 if code == "b1" else bits_of(code)
    return f"{letter}{width}" if lanes == 1 else f"v{lanes}{letter}{width}"


def _single(number: float) -> float:
    """The nearest float32."""
    try:
        return float(struct.unpack("f", struct.pack("f", number))[0])
    except OverflowError:
        return math.copysign(math.inf, number)


def literal(value: Any, code: str) -> str:
    """The scalar literal nearest to `value`; ints wrap into range."""
    if code == "b1":
        return "true" if value else "false"
    if is_float(code):
        number = float(value)
        if code == "f4":
            number = _single(number)
        return f"0x{struct.unpack('<Q', struct.pack('<d', number))[0]:016X}"
    half = 1 << (bits_of(code) - 1)
    return str((int(value) + half) % (2 * half) - half)


def constant_of(value: Any, code: str, lanes: int = 1) -> Value:
    """A constant, the same in every lane."""
    return splat_constant(Value(literal(value, code), code, 1), lanes)


def splat_constant(x: Value, lanes: int) -> Value:
    """A scalar constant in every lane."""
    if lanes == 1 or x.name in ("poison", "undef"):
        return x._replace(lanes=lanes)
    return Value(f"splat ({type_of(x.code)} {x.name})", x.code, lanes)
