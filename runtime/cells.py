"""Changing a cell: `x += y` and `x[i] = v`.

The cell gets a new value, and no other tensor sees that. Tapes hold values, so gradients stay
right. An array is written to in place only where nobody else can see it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from tapeline.runtime.dispatch import STATE
from tapeline.runtime.errors import ArgumentError, DTypeError
from tapeline.runtime.operators import attach_method
from tapeline.runtime.promotion import WEAK_TYPES, promoted_dtype
from tapeline.runtime.record import keep_watched
from tapeline.runtime.spec import DType
from tapeline.runtime.tensor import Tensor, cast_tensor, install_conversions, wrap
from tapeline.runtime.view_writes import warn_of_view_write

_WATCHERS: list[Callable[[Tensor], None]] = []


def on_change(watcher: Callable[[Tensor], None]) -> None:
    """Have a function called with each cell that gets another value in a trace or a `vmap`."""
    _WATCHERS.append(watcher)


def give_value(cell: Tensor, result: Tensor) -> None:
    """Give the cell the value and the history of `result`, of which nobody is told."""
    node = cell._node
    if node is not None and node.tapes is not node.rec:
        keep_watched(cell, node)
    cell._value = result._value
    cell._node = result._node


def replace_value(cell: Tensor, result: Tensor) -> None:
    """Give the cell the value and the history of `result`."""
    value = cell._value
    if type(value) is not np.ndarray or value.base is not None:
        warn_of_view_write(cell)
    give_value(cell, result)
    if STATE.handler is not None:
        for watcher in _WATCHERS:
            watcher(cell)


def make_inplace(sign: str, function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """The method for `x sign y` (`"+="`) that gives the cell of x the value of `function(x, y)`."""

    def method(a: Tensor, b: Any) -> Any:
        result = function(a, b)
        if result is NotImplemented:
            return result
        value = a._value
        if STATE.handler is not None and getattr(value, "weak", None) is not None:
            return result  # a Python number of a trace: numbers do not change
        if result.shape != value.shape:
            raise ArgumentError(
                f"x {sign} y: the result has shape {result.shape}, x has shape {value.shape}; "
                "write x = x + y (with your operator) to get the broadcast result"
            )
        if result.dtype is not value.dtype:
            if not np.can_cast(result.dtype, value.dtype, "same_kind"):
                raise DTypeError(
                    f"x {sign} y: the result has dtype {result.dtype}, which x of dtype "
                    f"{value.dtype} cannot hold; convert x with x.astype({result.dtype}) first"
                )
            result = cast_tensor(result, value.dtype)
        replace_value(a, result)
        return a

    method.__name__ = function.__name__
    return method


def write_result(cell: Tensor, result: Tensor, what: str) -> None:
    """Give the cell the value and the history of a result that fits it."""
    if result.shape != cell.shape:
        raise ArgumentError(
            f"{what}: the result has shape {result.shape}, the tensor to write to {cell.shape}"
        )
    if result.dtype is not cell.dtype:
        if not np.can_cast(result.dtype, cell.dtype, "same_kind"):
            raise DTypeError(
                f"{what}: the result has dtype {result.dtype}, which a tensor of dtype "
                f"{cell.dtype} cannot hold"
            )
        result = cast_tensor(result, cell.dtype)
    replace_value(cell, result)


install_conversions(write=write_result)


def install_indexing(
    getitem: Callable[[Tensor, Any], Tensor], setitem: Callable[[Tensor, Any, Any], Tensor]
) -> None:
    """Give tensors `x[key]` and `x[key] = value`.

    `setitem(x, key, value)` returns what `x` would be after the assignment, in the dtype of `x`.
    """

    def __setitem__(self: Tensor, key: Any, value: Any) -> None:
        if write_unshared(self, key, value):
            return
        replace_value(self, setitem(self, key, value))

    attach_method("__getitem__", getitem)
    attach_method("__setitem__", __setitem__)


_GIL = getattr(sys, "_is_gil_enabled", lambda: True)()


def _references(cell: Tensor) -> int:
    value = cell._value
    return sys.getrefcount(value)


def _unshared_references() -> int:
    """What `_references` counts for an array that only its cell holds."""
    return _references(wrap(np.zeros(1)))


_UNSHARED = _unshared_references()


def write_unshared(cell: Tensor, key: Any, value: Any) -> bool:
    """Assign in place if nobody but the cell can see its array; False if it was not done.

    Nobody else holds the array, it views no other memory, and the value has no history.
    """
    array = cell._value
    if type(value) is Tensor:
        if value._node is not None:
            return False
        value = value._value
        if type(value) is not np.ndarray or value.dtype is not array.dtype:
            return False
    elif type(value) not in WEAK_TYPES or not _fits(value, array.dtype):
        return False
    if not (_GIL and cell._node is None and type(array) is np.ndarray and STATE.handler is None):
        return False
    if not _is_plain_key(key) or array.base is not None or not array.flags.writeable:
        return False
    del array
    if _references(cell) != _UNSHARED:
        return False
    try:
        cell._value[key] = value
    except (IndexError, ValueError):  # the op says it better
        return False
    return True


def _fits(number: complex, dtype: DType) -> bool:
    return promoted_dtype(dtype, type(number)) is dtype


def _is_plain_key(key: Any) -> bool:
    if type(key) is tuple:
        return all(_is_plain_key(part) for part in key)
    if type(key) is slice:
        return all(type(part) in (int, type(None)) for part in (key.start, key.stop, key.step))
    return type(key) is int or key is Ellipsis
