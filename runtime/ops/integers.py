"""What NumPy computes of ints alone: divisors, multiples and the number of set bits; and floats
taken apart into a fraction and a power of two.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tapeline.runtime.errors import DTypeError
from tapeline.runtime.op import Attrs, Sample, ScalarEmitter, Trait, V, define_op
from tapeline.runtime.ops.axes import Array
from tapeline.runtime.ops.batch_rules import batch_elementwise
from tapeline.runtime.ops.pointwise import call, define_pointwise, unbroadcast
from tapeline.runtime.spec import DType, TensorSpec, broadcast_shapes, spec_of

_UINT8, _INT32, _UINT64 = np.dtype(np.uint8), np.dtype(np.int32), np.dtype(np.uint64)

GCD = define_pointwise(
    "gcd",
    kernel=np.gcd,
    kinds="iu",
    n_inputs=2,
    vjps=(None, None),
    traits=Trait.COMMUTATIVE,
)
LCM = define_pointwise(
    "lcm",
    kernel=np.lcm,
    kinds="iu",
    n_inputs=2,
    vjps=(None, None),
    traits=Trait.COMMUTATIVE,
)

# -- bitwise_count ---------------------------------------------------------------------------------


def _count_emit(b: ScalarEmitter[V], x: V) -> V:
    """Sums of two, four and eight bits side by side, and the eight sums by one product."""

    def constant(value: int) -> V:
        return b.constant(value, _UINT64)

    dtype = b.dtype_of(x)
    if dtype.kind == "i":
        x = b.cast(b.abs(x), np.dtype(f"u{dtype.itemsize}"))
    bits = b.cast(x, _UINT64)
    odd = b.bit_and(b.shift_right(bits, constant(1)), constant(0x5555555555555555))
    bits = b.sub(bits, odd)
    mask = constant(0x3333333333333333)
    upper = b.bit_and(b.shift_right(bits, constant(2)), mask)
    bits = b.add(b.bit_and(bits, mask), upper)
    bits = b.add(bits, b.shift_right(bits, constant(4)))
    bits = b.bit_and(bits, constant(0x0F0F0F0F0F0F0F0F))
    total = b.mul(bits, constant(0x0101010101010101))
    return b.cast(b.shift_right(total, constant(56)), _UINT8)


def _to_uint8(dtype: DType) -> DType:
    return _UINT8


BITWISE_COUNT = define_pointwise(
    "bitwise_count",
    kernel=np.bitwise_count,
    kinds="iu",
    result=_to_uint8,
    vjps=(None,),
    emit=_count_emit,
)

# -- exponents -------------------------------------------------------------------------------------


def _exponent_kernel(x: Array) -> Any:
    return np.frexp(x)[1]


def _to_int32(dtype: DType) -> DType:
    return _INT32


EXPONENT = define_pointwise(
    "exponent", kernel=_exponent_kernel, kinds="f", result=_to_int32, vjps=(None,)
)
"""The power of two of which the element is a fraction from 1/2 up to 1; 0 of zeros and infinities,
as NumPy's `frexp`."""


def _ldexp_infer(x: TensorSpec, exponent: TensorSpec) -> TensorSpec:
    if x.dtype.kind != "f" or exponent.dtype.kind not in "iu":
        raise DTypeError(
            f"ldexp: operands have dtypes {x.dtype} and {exponent.dtype}; expected floats and ints"
        )
    shape = broadcast_shapes("ldexp", x.static_shape, exponent.static_shape)
    return spec_of(shape, x.dtype)


def _ldexp_kernel(x: Array, exponent: Array) -> Any:
    return np.ldexp(x, np.clip(exponent, -5000, 5000).astype(np.int32))


def _ldexp_vjp(ct: Any, attrs: Attrs, x: Any, exponent: Any) -> Any:
    return unbroadcast(call(LDEXP, ct, exponent), x.shape)


def _powers(*shape: int) -> Any:
    return lambda rng: rng.integers(-4, 5, shape)


LDEXP = define_op(
    "ldexp",
    kernel=_ldexp_kernel,
    infer=_ldexp_infer,
    n_inputs=2,
    saves=(0, 1),
    vjps=(_ldexp_vjp, None),
    batch=batch_elementwise,
    samples=(Sample(((3, 4), _powers(4))), Sample(((), _powers(2))), Sample(((0,), _powers(0)))),
)
"""x times two to an int."""
