"""Questions about dtypes: their kind, their limits, and what they promote to.

Dtypes are asked for by the dtype itself, by anything NumPy knows as one, or by a tensor that has
it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from tapeline.runtime.errors import ArgumentError, DTypeError
from tapeline.runtime.promotion import WEAK_TYPES
from tapeline.runtime.spec import DType, canonical_dtype
from tapeline.runtime.tensor import TensorLike

if TYPE_CHECKING:
    import numpy.typing as npt

DTypeOrTensor: TypeAlias = "npt.DTypeLike | TensorLike"

KIND_CODES: dict[str, str] = {
    "bool": "b",
    "signed integer": "i",
    "unsigned integer": "u",
    "integral": "iu",
    "real floating": "f",
    "complex floating": "c",
    "numeric": "iufc",
}
"""The kinds of dtypes by the standard's names, as NumPy's codes."""


def dtype_of(x: Any, argument: str) -> DType:
    """The dtype of a tensor or an array, or the dtype that `x` stands for."""
    if hasattr(type(x), "__tapeline_tensor__"):
        return x.__tapeline_tensor__().dtype  # type: ignore[no-any-return]
    return canonical_dtype(x.dtype if isinstance(x, np.ndarray | np.generic) else x, argument)


class FloatLimits(NamedTuple):
    """Limits of a float dtype; for a complex dtype those of its parts."""

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: DType


class IntLimits(NamedTuple):
    """Limits of an int dtype."""

    bits: int
    max: int
    min: int
    dtype: DType


def finfo(type: DTypeOrTensor, /) -> FloatLimits:
    """The limits of a float or complex dtype.

    Parameters
    ----------
    type : dtype-like or Tensor
        The dtype, or a tensor of it.

    Returns
    -------
    FloatLimits
        With `bits`, `eps`, `max`, `min`, `smallest_normal` and `dtype`.

    Raises
    ------
    DTypeError
        If the dtype is neither float nor complex.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.finfo(tl.float32).bits
    32
    """
    dtype = dtype_of(type, "finfo")
    if dtype.kind not in "fc":
        raise DTypeError(f"finfo: {dtype} is no float or complex dtype; use tl.iinfo for ints")
    found = np.finfo(dtype)
    return FloatLimits(
        bits=int(found.bits),
        eps=float(found.eps),
        max=float(found.max),
        min=float(found.min),
        smallest_normal=float(found.smallest_normal),
        dtype=canonical_dtype(found.dtype),
    )


def iinfo(type: DTypeOrTensor, /) -> IntLimits:
    """The limits of an int dtype.

    Parameters
    ----------
    type : dtype-like or Tensor
        The dtype, or a tensor of it.

    Returns
    -------
    IntLimits
        With `bits`, `max`, `min` and `dtype`.

    Raises
    ------
    DTypeError
        If the dtype is no int.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.iinfo("int8").max
    127
    """
    dtype = dtype_of(type, "iinfo")
    if dtype.kind not in "iu":
        raise DTypeError(f"iinfo: {dtype} is no int dtype; use tl.finfo for floats")
    found = np.iinfo(dtype)
    return IntLimits(bits=int(found.bits), max=int(found.max), min=int(found.min), dtype=dtype)


def isdtype(
    dtype: npt.DTypeLike, kind: npt.DTypeLike | str | tuple[npt.DTypeLike | str, ...]
) -> bool:
    """Whether a dtype is of a kind, or is another dtype.

    Parameters
    ----------
    dtype : dtype-like
        The dtype in question.
    kind : dtype-like, str or tuple of them
        A dtype, or one of "bool", "signed integer", "unsigned integer", "integral",
        "real floating", "complex floating" and "numeric"; of a tuple, one must hold.

    Returns
    -------
    bool

    Raises
    ------
    DTypeError
        If `kind` is neither a kind nor a dtype.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.isdtype(tl.int8, "integral"), tl.isdtype(tl.int8, (tl.int16, "real floating"))
    (True, False)
    """
    found = canonical_dtype(dtype, "isdtype: dtype")
    if isinstance(kind, tuple):
        return any(isdtype(found, one) for one in kind)
    if isinstance(kind, str) and kind in KIND_CODES:
        return found.kind in KIND_CODES[kind]
    return found == canonical_dtype(kind, "isdtype: kind")


def can_cast(from_: DTypeOrTensor, to: npt.DTypeLike, /) -> bool:
    """Whether every value of a dtype can be held by another.

    Parameters
    ----------
    from_ : dtype-like or Tensor
        The dtype, or a tensor of it.
    to : dtype-like
        The dtype that is to hold the values.

    Returns
    -------
    bool

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.can_cast(tl.int8, tl.int16), tl.can_cast(tl.int16, tl.uint8)
    (True, False)
    """
    return bool(np.can_cast(dtype_of(from_, "can_cast"), canonical_dtype(to, "can_cast: to")))


def result_type(*arrays_and_dtypes: DTypeOrTensor) -> DType:
    """The dtype that an op on operands of these dtypes computes in.

    Parameters
    ----------
    *arrays_and_dtypes : dtype-like, Tensor or Python number
        At least one. A Python number is weak: it takes the dtype of the others if that can be.

    Returns
    -------
    dtype

    Raises
    ------
    ArgumentError
        If there is no argument.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.result_type(tl.int32, tl.asarray([1.5], dtype="float32"), 2)
    dtype('float64')
    >>> tl.result_type(tl.float32, 2.5)
    dtype('float32')
    """
    if not arrays_and_dtypes:
        raise ArgumentError("result_type: give at least one tensor, dtype or number")
    operands: list[Any] = [
        x if type(x) in WEAK_TYPES else dtype_of(x, "result_type") for x in arrays_and_dtypes
    ]
    return canonical_dtype(np.result_type(*operands), "result_type")
