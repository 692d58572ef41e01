"""What is known of a tensor without its values: shape and dtype; and the rules that combine them.

Imports nothing of the library but errors and sizes. Specs are interned, so equal specs are usually
identical.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from tapeline.runtime.dims import extent as as_extent
from tapeline.runtime.errors import ArgumentTypeError, AxisError, DTypeError, ShapeError

if TYPE_CHECKING:
    import numpy.typing as npt

Shape: TypeAlias = tuple[int, ...]
DType: TypeAlias = np.dtype[Any]

SUPPORTED_DTYPES: tuple[DType, ...] = tuple(
    np.dtype(name)
    for name in (
        "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
        "float32", "float64", "complex64", "complex128",
    )
)  # fmt: skip
FLOAT16: DType = np.dtype("float16")
"""A dtype to compute in where NumPy does; compiled functions call its kernels."""

_CANONICAL: dict[DType, DType] = {dtype: dtype for dtype in (*SUPPORTED_DTYPES, FLOAT16)}
_NAMED = {dtype.name: dtype for dtype in _CANONICAL}
_BY_NAME: dict[str, DType] = {}
"""What dtypes were called so far."""


def is_bfloat16(dtype: DType) -> bool:
    """Whether the dtype is bfloat16, in which most ops do not compute but to which they round. Its
    kind is V, which no other dtype of tensors has."""
    return dtype.kind == "V"


def is_canonical(dtype: DType) -> bool:
    """Whether the very object stands for a dtype that Tapeline has."""
    return _CANONICAL.get(dtype) is dtype


def bfloat16_dtype(argument: str = "dtype") -> DType:
    """The dtype of the package ml_dtypes; a `DTypeError` without it."""
    try:
        from ml_dtypes import bfloat16  # an extra
    except ImportError:
        raise DTypeError(
            f"{argument}: bfloat16 needs the package ml_dtypes: pip install 'tapeline[half]'"
        ) from None
    dtype = np.dtype(bfloat16)
    return _CANONICAL.setdefault(dtype, dtype)


def dtype_named(name: str) -> DType | None:
    """The dtype of that very name, as files and printed graphs give it, or None; a `DTypeError` for
    bfloat16 without its package."""
    if name == "bfloat16":
        return bfloat16_dtype()
    return _NAMED.get(name)


def canonical_dtype(dtype: npt.DTypeLike, argument: str = "dtype") -> DType:
    """The one dtype object, in the machine's byte order, that stands for `dtype`; a `DTypeError`
    where Tapeline has no such dtype."""
    if type(dtype) is not str:
        if isinstance(dtype, np.dtype) and _CANONICAL.get(dtype) is dtype:
            return dtype
        return _canonical(dtype, argument)
    known = _BY_NAME.get(dtype)
    if known is None:
        known = _canonical(dtype, argument)
        if not is_bfloat16(known):  # its package may come and go
            _BY_NAME[dtype] = known
    return known


def _canonical(dtype: npt.DTypeLike, argument: str) -> DType:
    if isinstance(dtype, str) and dtype == "bfloat16":
        return bfloat16_dtype(argument)
    try:
        found = np.dtype(dtype)
    except TypeError:
        raise DTypeError(f"{argument}: {dtype!r} is no dtype; use one such as tl.float32") from None
    if found.kind == "V" and found.name == "bfloat16":
        return bfloat16_dtype(argument)
    canonical = _CANONICAL.get(found) or _CANONICAL.get(found.newbyteorder("="))
    if canonical is not None:
        return canonical
    names = ", ".join(d.name for d in SUPPORTED_DTYPES)
    raise DTypeError(f"{argument}: dtype {found} is not supported; Tapeline has {names}")


class TensorSpec:
    """Shape and dtype of a tensor, with an optional name.

    Parameters
    ----------
    shape : sequence of int or None, or None
        One extent per dimension; None stands for an extent that is not fixed, and None in the place
        of the shape for any shape at all.
    dtype : dtype-like
        Element type, default float64.
    name : str, optional
        A name that error messages and graphs show.

    Examples
    --------
    >>> TensorSpec([2, 3], "float32")
    TensorSpec((2, 3), float32)
    """

    __slots__ = ("_hash", "dtype", "name", "shape")

    shape: tuple[int | None, ...]
    dtype: DType
    name: str | None

    def __init__(
        self,
        shape: Sequence[int | None] | None,
        dtype: npt.DTypeLike = np.float64,
        name: str | None = None,
    ) -> None:
        self.dtype = canonical_dtype(dtype)
        self.name = name
        if shape is None:
            self.shape = None  # type: ignore[assignment]  # only where a spec is no value's
            self._hash = hash((None, self.dtype))
            return
        if isinstance(shape, str | bytes) or not isinstance(shape, Sequence):
            raise ArgumentTypeError(
                f"TensorSpec: shape must be a sequence of int or None, got {shape!r}"
            )
        for extent in shape:
            if extent is not None and (not isinstance(extent, int | np.integer) or extent < 0):
                raise ShapeError(
                    f"TensorSpec: shape must hold ints >= 0 or None, got {tuple(shape)!r}"
                )
        self.shape = tuple(None if extent is None else as_extent(extent) for extent in shape)
        self._hash = hash((self.shape, self.dtype))

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, TensorSpec):
            return NotImplemented
        return self.shape == other.shape and self.dtype == other.dtype

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[Any, ...]:
        return TensorSpec, (self.shape, self.dtype, self.name)  # hashes differ between processes

    def __repr__(self) -> str:
        name = "" if self.name is None else f", name={self.name!r}"
        return f"TensorSpec({self.shape}, {self.dtype.name}{name})"

    def admits(self, shape: Shape) -> bool:
        """Whether a tensor of this shape fits: each extent that is fixed is the same."""
        if self.shape is None:
            return True
        return len(shape) == len(self.shape) and all(
            wanted is None or wanted == given
            for wanted, given in zip(self.shape, shape, strict=True)
        )

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def static_shape(self) -> Shape:
        """The shape as ints; a `ShapeError` where an extent is not fixed."""
        if self.shape is None or None in self.shape:
            raise ShapeError(f"{self} has an extent that is not fixed")
        return self.shape  # type: ignore[return-value]  # checked on the line above

    @property
    def size(self) -> int:
        """Number of elements."""
        total = 1
        for extent in self.static_shape:
            total *= extent
        return total

    @property
    def nbytes(self) -> int:
        """Bytes of the values when stored densely."""
        return self.size * self.dtype.itemsize


_INTERNED: dict[tuple[tuple[int | None, ...], DType], TensorSpec] = {}
_INTERNED_LIMIT = 65536


def spec_of(shape: Shape, dtype: DType) -> TensorSpec:
    """The interned spec for a shape and a dtype; the same object for the same pair."""
    key = (shape, dtype)
    found = _INTERNED.get(key)
    if found is None:
        if len(_INTERNED) >= _INTERNED_LIMIT:
            _INTERNED.clear()
        found = _INTERNED[key] = TensorSpec(shape, dtype)
    return found


def broadcast_shapes(op_name: str, *shapes: Shape) -> Shape:
    """The shape that all `shapes` broadcast to by NumPy's rules; a `ShapeError` that names the
    op."""
    first = shapes[0]
    if all(len(shape) == len(first) and shape == first for shape in shapes):
        return first
    ndim = max(len(shape) for shape in shapes)
    result: list[Any] = [None] * ndim
    for shape in shapes:
        offset = ndim - len(shape)
        for axis, extent in enumerate(shape):
            known = result[offset + axis]
            if known is None or _is_one(known):
                result[offset + axis] = extent
            elif _is_one(extent) or known == extent:
                continue
            elif known == 1:
                result[offset + axis] = extent
            elif extent != 1:
                listed = " and ".join(str(s) for s in shapes)
                raise ShapeError(
                    f"{op_name}: shapes {listed} do not broadcast: axis {offset + axis - ndim} has "
                    f"extents {known} and {extent}; each must be equal or 1"
                )
    return tuple(result)


def _is_one(extent: Any) -> bool:
    """Whether the extent is 1 for certain; does not ask that of one that is left open."""
    return type(extent) is int and extent == 1


def normalize_axis(op_name: str, axis: int, ndim: int) -> int:
    """`axis` counted from the front; an `AxisError` that names the op where there is none."""
    if not -ndim <= axis < ndim:
        raise AxisError(f"{op_name}: axis {axis} is out of range for a tensor of {ndim} dimensions")
    return axis + ndim if axis < 0 else axis


_INT64 = np.dtype(np.int64)
_UINT64 = np.dtype(np.uint64)


def accumulator_dtype(dtype: DType) -> DType:
    """The dtype in which NumPy adds up or multiplies elements of `dtype`."""
    if dtype.kind in "bi":
        return _INT64
    return _UINT64 if dtype.kind == "u" else dtype
