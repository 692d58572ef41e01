"""How operands come to one dtype in the ops whose rule is not the common one of `promote`.

Where results differ from NumPy's is listed in `docs/decisions/numpy_results.md`. Each function is a
`Promote`: it takes the op and two operands and gives two tensors of one dtype.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tapeline.runtime.dispatch import bind
from tapeline.runtime.op import Op, get_op
from tapeline.runtime.promotion import constant, promote, promote_one, promoted_dtype, weak_type
from tapeline.runtime.spec import DType
from tapeline.runtime.tensor import Tensor, as_tensor, cast_tensor

_BOOL = np.dtype(np.bool_)
_INT8 = np.dtype(np.int8)
_INT64 = np.dtype(np.int64)
_UINT64 = np.dtype(np.uint64)
_FLOAT64 = np.dtype(np.float64)


def weak_or_tensor(op: Op, x: Any) -> Any:
    """A Python number as it is, anything else as a tensor."""
    return as_tensor(x, None, op.name) if weak_type(x) is None else x


def dtype_or_type(x: Any) -> Any:
    """What `promoted_dtype` asks for."""
    return x._value.dtype if type(x) is Tensor else weak_type(x)


def promote_to_divide(op: Op, a: Any, b: Any) -> tuple[Tensor, Tensor]:
    """True division: ints and bools of any width become float64."""
    a, b = weak_or_tensor(op, a), weak_or_tensor(op, b)
    if promoted_dtype(dtype_or_type(a), dtype_or_type(b)).kind in "biu":
        return as_tensor(a, _FLOAT64), as_tensor(b, _FLOAT64)
    return promote(op, a, b)


def promote_to_float(op: Op, a: Any, b: Any) -> tuple[Tensor, Tensor]:
    """Functions of floats: each int becomes a float by itself, so int8 and uint16 make float32."""
    a, b = weak_or_tensor(op, a), weak_or_tensor(op, b)
    return promote(op, _as_float(op, a), _as_float(op, b))


def _as_float(op: Op, x: Any) -> Any:
    return promote_one(op, x) if type(x) is Tensor else x


def bool_as_int8(op: Op, a: Any, b: Any) -> tuple[Tensor, Tensor]:
    """Ops that need numbers: two bools count as int8."""
    a, b = weak_or_tensor(op, a), weak_or_tensor(op, b)
    if promoted_dtype(dtype_or_type(a), dtype_or_type(b)).kind == "b":
        return as_tensor(a, _INT8), as_tensor(b, _INT8)
    return promote(op, a, b)


bool_as_int8.keeps_ints = True  # type: ignore[attr-defined]  # two ints of one dtype stay


def promote_to_bool(op: Op, a: Any, b: Any) -> tuple[Tensor, Tensor]:
    """Logical ops: each operand by itself becomes bool, true where it is not 0."""
    return as_tensor(a, _BOOL, op.name), as_tensor(b, _BOOL, op.name)


promote_to_bool.is_numpys = True  # type: ignore[attr-defined]  # NumPy's loops do the same


def promote_to_compare(op: Op, a: Any, b: Any) -> tuple[Tensor, Tensor]:
    """As `promote`, but ints keep their exact values where no dtype holds those of both."""
    if type(a) is int and type(b) is not int:
        b = as_tensor(b, None, op.name)
        return _with_int(op, b, a)[::-1]
    if type(b) is int and type(a) is not int:
        return _with_int(op, as_tensor(a, None, op.name), b)
    if type(a) is Tensor and type(b) is Tensor:
        if a.dtype is _UINT64 and b.dtype.kind == "i":
            return _order_unsigned(a), _order_signed(b)
        if b.dtype is _UINT64 and a.dtype.kind == "i":
            return _order_signed(a), _order_unsigned(b)
    return promote(op, a, b)


def _with_int(op: Op, x: Tensor, number: int) -> tuple[Tensor, Tensor]:
    """A tensor and a Python int; an int beyond the dtype acts as an infinity of its sign."""
    dtype: DType = promoted_dtype(x.dtype, int)
    if dtype.kind in "iu" and not np.iinfo(dtype).min <= number <= np.iinfo(dtype).max:
        beyond = float("inf") if number > 0 else float("-inf")
        return cast_tensor(x, _FLOAT64), constant(beyond, _FLOAT64)
    return promote(op, x, number)


def _order_signed(x: Tensor) -> Tensor:
    """Signed ints as uint64 in the order of `_order_unsigned`: negative ones are 0, others x + 1.

    x + 1 wraps around for the largest int64, and the cast reads it as the right uint64 again.
    """
    x = cast_tensor(x, _INT64)
    kept = bind(get_op("maximum"), (x, constant(-1, x.dtype)))
    return cast_tensor(kept + 1, _UINT64)


def _order_unsigned(x: Tensor) -> Tensor:
    """uint64 as x + 1. The largest two become one: no signed int reaches either."""
    kept: Tensor = bind(get_op("minimum"), (x, constant(2**64 - 2, x.dtype)))
    return kept + 1
