"""The short way of functions that NumPy has too: NumPy's own, where nobody watches.

If no trace and no callback is under way and no tape knows a tensor, it makes no difference which
ops a result comes from. A function may then ask here for the arrays of its operands, call NumPy on
them, and wrap what comes back. Whatever is not plain, or fails in NumPy, goes the long way, which
alone says what the function means and what its errors are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tapeline.runtime.dispatch import BUSY, RECORDING
from tapeline.runtime.tensor import Tensor, wrap

_ndarray = np.ndarray
_FLOATS = "fdFD"
"""The characters of the dtypes that all of NumPy's functions compute in."""


def plain_array(x: Any) -> Any:
    """The array in a tensor that nobody watches; None for anything else."""
    if type(x) is not Tensor or BUSY[0] or (RECORDING and x._node is not None):
        return None
    value = x._value
    return value if type(value) is _ndarray else None


def plain_arrays(given: Any) -> list[Any] | None:
    """The arrays in a list or tuple of such tensors of one dtype; None for anything else."""
    if type(given) is not list and type(given) is not tuple:
        return None
    arrays = []
    dtype = None
    for x in given:
        if type(x) is not Tensor or (RECORDING and x._node is not None):
            return None
        value = x._value
        if type(value) is not _ndarray or (value.dtype is not dtype and dtype is not None):
            return None
        dtype = value.dtype
        arrays.append(value)
    return None if BUSY[0] else arrays


def numpys_own(function: Callable[..., Any], x: Any, *rest: Any) -> Tensor | None:
    """What a function of NumPy gives for a tensor of floats or complex numbers that nobody watches;
    None for anything else, and where NumPy fails."""
    array = plain_array(x)
    if array is None or array.dtype.char not in _FLOATS:
        return None
    try:
        result = function(array, *rest)
        return wrap(result if type(result) is _ndarray else np.asarray(result))
    except Exception:
        return None  # the long way says what is wrong


def is_int_or_ints(value: Any, least: int | None = None) -> bool:
    """Whether the value is a Python int, or a tuple of them, none of them below `least`."""
    if type(value) is tuple:
        for item in value:
            if type(item) is not int or (least is not None and item < least):
                return False
        return True
    return type(value) is int and (least is None or value >= least)


def like_array(array: Any, x: Any) -> Any:
    """The array in `x`, or made of a flat list of Python numbers, if it has the dtype of `array`;
    None for anything else."""
    other = np.array(x) if type(x) is list and _are_numbers(x) else plain_array(x)
    return other if other is not None and other.dtype is array.dtype else None


def _are_numbers(items: list[Any]) -> bool:
    return {float, int}.issuperset(map(type, items))


def wrapped(result: Any) -> Tensor:
    """What NumPy made, an array or one of its scalars, as a tensor."""
    return wrap(result if type(result) is _ndarray else np.asarray(result))
