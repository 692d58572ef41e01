"""Keys by which elements are put in order: NaN is largest, and zeros of both signs are equal."""

from __future__ import annotations

from tapeline.compiler.codegen.loops import FunctionBuilder
from tapeline.compiler.codegen.values import Value, code_of, integer_like, is_float, size_of
from tapeline.runtime.spec import DType


def stored_code(dtype: DType) -> str:
    """The code that elements are read as: bools as bytes."""
    code = code_of(dtype)
    return "u1" if code == "b1" else code


def order_key(f: FunctionBuilder, x: Value) -> Value:
    """An integer that compares as x does, with NaN above all."""
    if not is_float(x.code):
        return x
    code = integer_like(x.code)
    bits = 8 * size_of(code)
    zero = f.fixed(0, x.code, x.lanes)
    raw = f.bits(f.select(f.compare("eq", x, zero), zero, x), code)
    largest = f.fixed((1 << (bits - 1)) - 1, code, x.lanes)
    negative = f.compare("lt", raw, f.fixed(0, code, x.lanes))
    ordered = f.select(negative, f.bit_xor(raw, largest), raw)
    return f.select(f.is_nan(x), largest, ordered)
