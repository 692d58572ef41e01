"""Methods that tensors have because NumPy's arrays have them, made of functions of the library."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tapeline.runtime.cells import replace_value
from tapeline.runtime.errors import ArgumentError
from tapeline.runtime.operators import attach_method
from tapeline.runtime.ops.assignment import setitem
from tapeline.runtime.ops.cast import BITCAST, conj, identity
from tapeline.runtime.ops.joining import stack
from tapeline.runtime.ops.permuting import transpose
from tapeline.runtime.ops.pointwise import apply
from tapeline.runtime.ops.shaping import ravel, reshape
from tapeline.runtime.ops.sorting import sort
from tapeline.runtime.spec import canonical_dtype
from tapeline.runtime.tensor import Tensor, as_tensor, cast_tensor, register_ufunc


class Flat:
    """`x.flat`: the elements of a tensor in row-major order, to read and to write."""

    __slots__ = ("_cell",)

    def __init__(self, cell: Tensor) -> None:
        self._cell = cell

    def __len__(self) -> int:
        return self._cell.size

    def __iter__(self) -> Iterator[Tensor]:
        return iter(ravel(self._cell))

    def __getitem__(self, key: Any) -> Tensor:
        return ravel(self._cell)[key]

    def __setitem__(self, key: Any, value: Any) -> None:
        row = setitem(ravel(self._cell), key, value)
        self._cell[...] = reshape(row, self._cell.shape)


def _set_flat(x: Tensor, values: Any) -> None:
    """`x.flat = values`: over and over where they are fewer."""
    resized: Any = np.resize
    x[...] = resized(as_tensor(values), x.shape)


def _by_columns(name: str, order: str) -> bool:
    """Whether elements are to be read in Fortran's order."""
    if order not in ("C", "F", "A", "K"):
        raise ArgumentError(f"{name}: order must be 'C', 'F', 'A' or 'K', got {order!r}")
    return order == "F"


def _reshape(x: Tensor, *shape: Any, order: str = "C", copy: bool | None = None) -> Tensor:
    """`x.reshape(2, 3)` or `x.reshape((2, 3))`."""
    extents = shape[0] if len(shape) == 1 else shape
    if order == "C" or not _by_columns("reshape", order):
        return reshape(x, extents, copy=copy)
    extents = (extents,) if np.ndim(extents) == 0 else tuple(extents)
    return transpose(reshape(transpose(x), extents[::-1], copy=copy))


def _ravel(x: Tensor, order: str = "C") -> Tensor:
    """The elements in one dimension."""
    return ravel(transpose(x) if _by_columns("ravel", order) else x)


def _trace(
    x: Tensor, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None, out: Any = None
) -> Any:
    """As `np.trace`."""
    return np.trace(x, offset, axis1, axis2, dtype, out)


def _compress(x: Tensor, condition: Any, axis: int | None = None, out: Any = None) -> Any:
    """As `np.compress`."""
    return np.compress(condition, x, axis, out)


def _sort(
    x: Tensor, axis: int = -1, kind: Any = None, order: None = None, *, stable: bool | None = None
) -> None:
    """Sorts the cell in place, as arrays are sorted."""
    replace_value(x, sort(x, axis=axis))


def _partition(x: Tensor, kth: Any, axis: int = -1, kind: Any = None, order: None = None) -> None:
    """Partitions the cell in place, as arrays are partitioned."""
    found: Any = np.partition(x, kth, axis)
    replace_value(x, as_tensor(found))


def _argpartition(
    x: Tensor, kth: Any, axis: int | None = -1, kind: Any = None, order: None = None
) -> Tensor:
    """As `np.argpartition`."""
    found: Any = np.argpartition(x, kth, axis)
    return as_tensor(found)


def _put(x: Tensor, indices: Any, values: Any, mode: Any = "raise") -> None:
    """Writes to elements of the cell, counted in row-major order."""
    write: Any = np.put
    write(x, indices, values, mode)


def _choose(x: Tensor, choices: Any, out: Any = None, mode: Any = "raise") -> Any:
    """As `np.choose`."""
    choose: Any = np.choose
    return choose(x, choices, out=out, mode=mode)


_KINDS_OF_BITS = frozenset(one + other for one in "iuf" for other in "iuf")


def _view(x: Tensor, dtype: Any = None) -> Tensor:
    """The same bits as elements of another dtype. Between complex numbers and pairs of floats
    gradients flow."""
    wanted = x.dtype if dtype is None else canonical_dtype(dtype, "x.view: dtype")
    if wanted is x.dtype:
        return identity(x)
    if wanted.itemsize == x.itemsize and wanted.kind + x.dtype.kind in _KINDS_OF_BITS:
        return apply(BITCAST, x, attrs=(wanted.kind,))
    if x.dtype.kind == "c" and wanted is x.real.dtype and x.ndim:
        return reshape(stack([x.real, x.imag], axis=-1), (*x.shape[:-1], 2 * x.shape[-1]))
    is_half = x.dtype.kind == "f" and 2 * x.itemsize == wanted.itemsize
    if is_half and wanted.kind == "c" and x.ndim and x.shape[-1] % 2 == 0:
        return cast_tensor(x[..., 0::2] + 1j * x[..., 1::2], wanted)
    raise ArgumentError(
        f"x.view: elements of {wanted} cannot be seen in x of dtype {x.dtype} and shape {x.shape}; "
        "the dtypes must have one size, or be complex numbers and pairs of their floats"
    )


def _to_bytes(x: Tensor, order: Any = "C") -> bytes:
    """The bytes of the elements, in row-major order."""
    return x.numpy().tobytes(order)


def _fill(x: Tensor, value: Any) -> None:
    """Gives every element of the cell one value."""
    x[...] = value


def _numpy_reshape(
    a: Any, /, shape: Any = None, order: str = "C", *, newshape: Any = None, copy: Any = None
) -> Tensor:
    return _reshape(as_tensor(a), newshape if shape is None else shape, order=order, copy=copy)


def _numpy_ravel(a: Any, order: str = "C") -> Tensor:
    return _ravel(as_tensor(a), order)


register_ufunc(np.reshape, _numpy_reshape)
register_ufunc(np.ravel, _numpy_ravel)
attach_method("flat", property(Flat, _set_flat))
attach_method("reshape", _reshape)
attach_method("ravel", _ravel)
attach_method("flatten", _ravel)
attach_method("trace", _trace)
attach_method("compress", _compress)
attach_method("sort", _sort)
attach_method("partition", _partition)
attach_method("argpartition", _argpartition)
attach_method("put", _put)
attach_method("choose", _choose)
attach_method("conjugate", conj)
attach_method("tobytes", _to_bytes)
attach_method("fill", _fill)
attach_method("view", _view)
