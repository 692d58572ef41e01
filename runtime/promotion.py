"""Promotion: in which dtype an op computes what it is given.

NumPy 2's rules, where a Python number takes the kind of its partner if it can; bfloat16, which
NumPy does not promote, has rules of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from tapeline.runtime.dispatch import BUSY
from tapeline.runtime.errors import ArgumentTypeError, DTypeError
from tapeline.runtime.op import Op
from tapeline.runtime.open_numbers import OpenNumber
from tapeline.runtime.spec import DType, canonical_dtype, is_bfloat16
from tapeline.runtime.tensor import Tensor, adopt, as_tensor, cast_tensor, wrap

Promote: TypeAlias = Callable[[Op, Any, Any], tuple[Tensor, Tensor]]

_FLOAT32 = np.dtype("float32")
_FLOAT64 = np.dtype("float64")
WEAK_TYPES: frozenset[type] = frozenset({bool, int, float, complex})

_CONSTANTS: dict[Any, Tensor] = {}
_CONSTANT_LIMIT = 4096
_PROMOTED: dict[Any, DType] = {}


def constant(number: Any, dtype: DType) -> Tensor:
    """The Python number as a 0-d tensor; the same object for the same ints and floats."""
    kind = type(number)
    if kind is OpenNumber:
        opened: Tensor = number.cast(dtype)
        return opened
    if number == 0 and kind is not int:
        key: Any = (kind, str(number), dtype)  # tells -0.0 from 0.0
    elif number != number:
        return adopt(wrap(np.array(number, dtype)), number)
    else:
        key = (kind, number, dtype)
    found = _CONSTANTS.get(key)
    if found is None:
        found = wrap(np.array(number, dtype))
        if len(_CONSTANTS) >= _CONSTANT_LIMIT:
            _CONSTANTS.clear()
        if kind is not complex:
            _CONSTANTS[key] = found
    return adopt(found, number) if BUSY[0] else found


def promoted_dtype(a: DType | type, b: DType | type) -> DType:
    """The dtype NumPy gives for the two; a Python type such as `float` is weak."""
    found = _PROMOTED.get((a, b))
    if found is None:
        found = _PROMOTED[(a, b)] = _promote_pair(a, b)
    return found


def _fits_bfloat16(dtype: DType | type) -> bool:
    """Whether bfloat16 stays what it is beside the dtype or Python type."""
    if isinstance(dtype, type):
        return dtype is not complex
    return dtype.kind in "bV" or (dtype.kind in "iu" and dtype.itemsize == 1)


def _promote_pair(a: DType | type, b: DType | type) -> DType:
    for half, other in ((a, b), (b, a)):
        if isinstance(half, np.dtype) and is_bfloat16(half) and _fits_bfloat16(other):
            return half
    first, second = (t(0) if isinstance(t, type) else _widened(t) for t in (a, b))
    return canonical_dtype(np.result_type(first, second))


def _widened(dtype: DType) -> DType:
    """float32 for bfloat16, which NumPy does not promote."""
    return _FLOAT32 if is_bfloat16(dtype) else dtype


def keeps_bfloat16(kinds: str) -> bool:
    """Whether an op computes in bfloat16 itself: those that take numbers of every kind do, as sums
    and products. Others compute in float32, and their results are rounded."""
    return {*"iufc"} <= {*kinds}


def narrowed(result: Tensor, *given: Any) -> Tensor:
    """What an op gave in float32, as bfloat16 where an operand was of that dtype and the others do
    not make it wider."""
    if result.dtype is not _FLOAT32:
        return result
    dtypes: list[Any] = [getattr(x, "dtype", type(x)) for x in given if x is not None]
    for dtype in dtypes:
        if type(dtype) is not type and is_bfloat16(dtype):
            fits = all(_fits_bfloat16(other) for other in dtypes)
            return cast_tensor(result, dtype) if fits else result
    return result


def accepted_dtype(op: Op, dtype: DType) -> DType:
    """The dtype itself if the op takes it; for ints and bools the float dtype that NumPy takes
    (float32 for its float16); else a `DTypeError`."""
    if is_bfloat16(dtype):
        if keeps_bfloat16(op.kinds) and (isinstance(op.kernel, np.ufunc) or op.kernel is np.where):
            return dtype
        dtype = _FLOAT32
    kind = dtype.kind
    if kind in op.kinds:
        return dtype
    if kind == "b" and "i" in op.kinds and "u" in op.kinds and "f" not in op.kinds:
        return dtype if "b" in op.kinds else _reject_dtype(op, dtype)
    if kind in "biu" and "f" in op.kinds and "i" not in op.kinds:
        return _FLOAT64 if dtype.itemsize > 2 else _FLOAT32
    return _reject_dtype(op, dtype)


def _reject_dtype(op: Op, dtype: DType) -> DType:
    names = {"b": "bool", "i": "signed int", "u": "unsigned int", "f": "float", "c": "complex"}
    taken = ", ".join(names[kind] for kind in op.kinds)
    raise DTypeError(
        f"{op.name}: dtype {dtype} is not supported; it takes {taken}; "
        "convert with x.astype(...) first"
    )


def weak_type(x: Any) -> type | None:
    """The type of a Python number, which promotes weakly; None for anything else."""
    kind = type(x)
    if kind in WEAK_TYPES:
        return kind
    return x.kind if kind is OpenNumber else None


def promote(op: Op, a: Any, b: Any) -> tuple[Tensor, Tensor]:
    """Both operands as tensors of the one dtype in which the op computes."""
    weak_a, weak_b = weak_type(a), weak_type(b)
    if weak_a is not None and weak_b is not None:
        weak_a = weak_b = None
    if weak_a is None:
        a = as_tensor(a, None, op.name)
    if weak_b is None:
        b = as_tensor(b, None, op.name)
    dtype = promoted_dtype(weak_a or dtype_or_weak(a), weak_b or dtype_or_weak(b))
    dtype = accepted_dtype(op, dtype)
    return (
        constant(a, dtype) if weak_a is not None else cast_tensor(a, dtype),
        constant(b, dtype) if weak_b is not None else cast_tensor(b, dtype),
    )


_PLACES = "first operand", "second operand"


def promote_named(
    op: Op, promote: Promote, a: Any, b: Any, names: tuple[str, str] = _PLACES
) -> tuple[Tensor, Tensor]:
    """What `promote` gives; where an operand is no tensor, an error that says which one."""
    try:
        return promote(op, a, b)
    except (ArgumentTypeError, DTypeError):
        for name, x in zip(names, (a, b), strict=True):
            as_tensor(x, None, f"{op.name}: {name}")
        raise


def dtype_or_weak(x: Tensor) -> Any:
    """The dtype of a tensor; the Python type where a trace holds a Python number in it."""
    value = x._value
    if BUSY[0]:
        weak = getattr(value, "weak", None)
        if weak is not None:
            return weak
    return value.dtype


def promote_one(op: Op, a: Any) -> Tensor:
    """The operand of a unary op as a tensor of a dtype that the op takes."""
    a = as_tensor(a, None, op.name)
    dtype: DType = a._value.dtype
    return a if dtype.kind in op.kinds else cast_tensor(a, accepted_dtype(op, dtype))


def is_operand(x: Any) -> bool:
    """Whether operators take `x` beside a tensor; otherwise they give NotImplemented."""
    return (
        type(x) in WEAK_TYPES
        or isinstance(x, np.ndarray | np.generic | list | tuple)
        or hasattr(type(x), "__tapeline_tensor__")
    )
