"""`np.emath` of tensors: functions that go on to complex numbers where real ones end.

Whether a result is complex depends on values, so a trace takes complex arguments only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tapeline.runtime.ops.exponential import log, log2, log10
from tapeline.runtime.ops.hyperbolic import atanh
from tapeline.runtime.ops.powers import power, sqrt
from tapeline.runtime.ops.trigonometric import acos, asin
from tapeline.runtime.tensor import Tensor, as_tensor, cast_tensor


def _complex_where(is_outside: Callable[[Tensor], Any], x: Any) -> Tensor:
    """The tensor, as complex numbers if an element of it is outside of the real domain."""
    given = as_tensor(x)
    if given.dtype.kind == "c" or not bool(is_outside(given).any()):
        return given
    return cast_tensor(given, np.result_type(given.dtype, np.complex64))


def _is_negative(x: Tensor) -> Any:
    return x < 0


def _is_beyond_one(x: Tensor) -> Any:
    return abs(x) > 1


def _sqrt(x: Any) -> Tensor:
    return sqrt(_complex_where(_is_negative, x))


def _log(x: Any) -> Tensor:
    return log(_complex_where(_is_negative, x))


def _log2(x: Any) -> Tensor:
    return log2(_complex_where(_is_negative, x))


def _log10(x: Any) -> Tensor:
    return log10(_complex_where(_is_negative, x))


def _logn(n: Any, x: Any) -> Tensor:
    return _log(x) / _log(n)


def _power(x: Any, p: Any) -> Tensor:
    exponent = as_tensor(p)
    if exponent.dtype.kind in "iu" and bool((exponent < 0).any()):
        exponent = cast_tensor(exponent, np.dtype(np.float64))
    return power(_complex_where(_is_negative, x), exponent)


def _arccos(x: Any) -> Tensor:
    return acos(_complex_where(_is_beyond_one, x))


def _arcsin(x: Any) -> Tensor:
    return asin(_complex_where(_is_beyond_one, x))


def _arctanh(x: Any) -> Tensor:
    return atanh(_complex_where(_is_beyond_one, x))


ANSWERS: dict[Callable[..., Any], Callable[..., Any]] = {
    np.emath.sqrt: _sqrt, np.emath.log: _log, np.emath.log2: _log2, np.emath.log10: _log10,
    np.emath.logn: _logn, np.emath.power: _power, np.emath.arccos: _arccos,
    np.emath.arcsin: _arcsin, np.emath.arctanh: _arctanh,
}  # fmt: skip
