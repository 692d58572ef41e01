"""Functions of NumPy over tensors of a trace where NumPy's own protocols do not lead to them: those
that make arrays of what they are given, and any function given a list with tensors in it.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterable
from types import BuiltinMethodType
from typing import Any, Final

import numpy as np

from tapeline.compiler.frontend.convert.new_arrays import array_of
from tapeline.compiler.frontend.convert.state import is_staging, is_symbolic
from tapeline.compiler.frontend.convert.tables import enumerated
from tapeline.runtime.tensor import as_tensor

_DISPATCHER: Final = type(np.sum)
_OF_SEQUENCES: Final = frozenset(
    {
        np.broadcast_arrays, np.choose, np.column_stack, np.concatenate, np.dstack,
        np.histogram2d, np.histogramdd, np.hstack, np.linalg.multi_dot, np.lexsort, np.piecewise,
        np.select, np.stack, np.vstack,
    }
)  # fmt: skip
"""Functions whose lists are of arrays: each item may be a list of tensors."""


def numpy_callee(function: Any) -> Any:
    """The function as one that takes lists of tensors as arrays; None if it is none of NumPy's."""
    kind = type(function)
    if kind is BuiltinMethodType:
        if type(function.__self__) is not np.ufunc:
            return None
    elif kind is not _DISPATCHER and kind is not np.ufunc:
        return None
    if function is np.block or not is_staging():
        return function
    as_array = _as_arrays if function in _OF_SEQUENCES else _as_array
    if kind is BuiltinMethodType and function.__name__ == "at":
        as_array = _as_places

    def call(*args: Any, **options: Any) -> Any:
        given = {k: v if k == "out" else as_array(v) for k, v in options.items()}
        return function(*map(as_array, args), **given)

    return call


def _as_array(value: Any) -> Any:
    """A list or tuple that holds tensors of the trace as one tensor; anything else as it is."""
    return array_of(value) if _holds_tensors(value) else value


def _as_arrays(value: Any) -> Any:
    if type(value) is list or type(value) is tuple:
        return tuple(map(_as_array, value))  # np.lexsort looks into tuples only
    return value


def _as_places(value: Any) -> Any:
    """A list as an array; a tuple has an index for each axis."""
    return tuple(map(_as_array, value)) if type(value) is tuple else _as_array(value)


def _holds_tensors(value: Any) -> bool:
    if type(value) is not list and type(value) is not tuple:
        return False
    return any(is_symbolic(item) or _holds_tensors(item) for item in value)


def _converted(function: Callable[..., Any]) -> Callable[..., Any]:
    """`np.asarray` and its like; a tensor of the trace stays a tensor."""

    def convert(a: Any, dtype: Any = None, *args: Any, **options: Any) -> Any:
        if is_symbolic(a):
            return as_tensor(a, None if dtype is None else np.dtype(dtype), "np.asarray")
        if _holds_tensors(a):
            return array_of(a, dtype)
        return function(a, dtype, *args, **options)

    return convert


def _at_least_1d(function: Callable[..., Any]) -> Callable[..., Any]:
    """`np.ascontiguousarray` and its like, which make a vector of a number."""
    convert = _converted(function)

    def convert_1d(a: Any, dtype: Any = None, *args: Any, **options: Any) -> Any:
        made = convert(a, dtype, *args, **options)
        return np.atleast_1d(made)

    return convert_1d


def _scalar(kind: Any) -> Callable[..., Any]:
    """`np.float64` and its like as a conversion."""

    def convert(*args: Any, **options: Any) -> Any:
        if len(args) == 1 and (is_symbolic(args[0]) or _holds_tensors(args[0])):
            return as_tensor(_as_array(args[0]), np.dtype(kind))
        return kind(*args, **options)

    return convert


def _from_items(items: Iterable[Any], dtype: Any, count: int = -1, **options: Any) -> Any:
    found = builtins.list(items)
    if not _holds_tensors(found):
        return np.fromiter(found, dtype, count, **options)
    return array_of(found if count < 0 else found[:count], dtype)


class Joined:
    """`np.r_` and `np.c_`, also of tensors of the trace: `Joined(np.r_)[x, 0.0, y]`."""

    def __init__(self, plain: Any, in_columns: bool) -> None:
        self._plain = plain
        self._in_columns = in_columns

    def __getitem__(self, key: Any) -> Any:
        items = key if type(key) is tuple else (key,)
        if not any(is_symbolic(item) or _holds_tensors(item) for item in items):
            return self._plain[key]
        arrays = [
            as_tensor(self._plain[item] if type(item) is slice else _as_array(item), None, "np.r_")
            for item in items
        ]
        if not self._in_columns:
            return np.concatenate([np.atleast_1d(x) for x in arrays])
        columns = [x.reshape(-1, 1) if x.ndim < 2 else x for x in arrays]
        return np.concatenate(columns, axis=-1)


JOINED: Final[dict[int, Joined]] = {
    id(np.r_): Joined(np.r_, in_columns=False),
    id(np.c_): Joined(np.c_, in_columns=True),
}
"""What stands for NumPy's objects to index while a trace is under way, by their ids."""

NUMPY: Final[dict[Any, Callable[..., Any]]] = {
    np.array: array_of,
    np.asarray: _converted(np.asarray),
    np.asanyarray: _converted(np.asanyarray),
    np.asarray_chkfinite: _converted(np.asarray_chkfinite),
    np.require: _converted(np.require),
    np.ascontiguousarray: _at_least_1d(np.ascontiguousarray),
    np.asfortranarray: _at_least_1d(np.asfortranarray),
    np.ndenumerate: enumerated,
    np.fromiter: _from_items,
    **{
        kind: _scalar(kind)
        for kind in (
            np.bool_, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32,
            np.uint64, np.float16, np.float32, np.float64, np.complex64, np.complex128,
        )
    },
}  # fmt: skip
"""What is called in the place of a function of NumPy while a trace is under way."""
