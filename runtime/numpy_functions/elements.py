"""NumPy's elementwise functions that the library has no op of its own for."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tapeline.runtime.cells import write_result
from tapeline.runtime.ops.arithmetic import floor_divide, multiply, remainder
from tapeline.runtime.ops.bessel import i0
from tapeline.runtime.ops.cast import imag, real
from tapeline.runtime.ops.comparison import equal, greater, less, less_equal
from tapeline.runtime.ops.exponential import logaddexp
from tapeline.runtime.ops.logic import isfinite, isinf, isnan, logical_and, logical_or
from tapeline.runtime.ops.powers import power
from tapeline.runtime.ops.rounding import trunc
from tapeline.runtime.ops.selection import maximum, minimum, where
from tapeline.runtime.ops.signs import abs as magnitude
from tapeline.runtime.ops.signs import sign
from tapeline.runtime.ops.sinc import sinc
from tapeline.runtime.ops.trigonometric import atan2
from tapeline.runtime.tensor import Tensor, as_tensor, cast_tensor

_FLOAT64 = np.dtype(np.float64)


def _as_float(x: Any) -> Tensor:
    x = as_tensor(x)
    return cast_tensor(x, _FLOAT64) if x.dtype.kind in "biu" else x


def _divmod(x1: Any, x2: Any) -> tuple[Tensor, Tensor]:
    return floor_divide(x1, x2), remainder(x1, x2)


def _fmod(x1: Any, x2: Any) -> Tensor:
    """The remainder with the sign of x1: that of the magnitudes."""
    size = remainder(magnitude(x1), magnitude(x2))
    return where(less(x1, 0), -size, size)


def _modf(x: Any) -> tuple[Tensor, Tensor]:
    x = _as_float(x)
    whole = trunc(x)
    return where(isinf(x), 0.0, x - whole), whole


def _cbrt(x: Any) -> Tensor:
    x = _as_float(x)
    return multiply(sign(x), magnitude(x) ** (1.0 / 3.0))


def _fabs(x: Any) -> Tensor:
    return magnitude(_as_float(x))


def _fmax(x1: Any, x2: Any) -> Tensor:
    x1, x2 = as_tensor(x1), as_tensor(x2)
    return where(isnan(x1), x2, where(isnan(x2), x1, maximum(x1, x2)))


def _fmin(x1: Any, x2: Any) -> Tensor:
    x1, x2 = as_tensor(x1), as_tensor(x2)
    return where(isnan(x1), x2, where(isnan(x2), x1, minimum(x1, x2)))


def _radians(x: Any) -> Tensor:
    return multiply(_as_float(x), math.pi / 180.0)


def _degrees(x: Any) -> Tensor:
    return multiply(_as_float(x), 180.0 / math.pi)


def _angle(z: Any, deg: bool = False) -> Tensor:
    z = as_tensor(z)
    found = atan2(imag(z), real(z))
    return _degrees(found) if deg else found


def _nan_to_num(
    x: Any, copy: bool = True, nan: float = 0.0, posinf: Any = None, neginf: Any = None
) -> Tensor:
    given: Tensor = as_tensor(x)
    if given.dtype.kind == "c":
        found = _finite(real(given), nan, posinf, neginf)
        found = found + 1j * _finite(imag(given), nan, posinf, neginf)
    else:
        found = _finite(given, nan, posinf, neginf)
    if copy or type(x) is not Tensor:
        return found
    write_result(x, found, "np.nan_to_num")
    return x


def _finite(x: Tensor, nan: float, posinf: Any, neginf: Any) -> Tensor:
    if x.dtype.kind != "f":
        return x
    limits = np.finfo(x.dtype)
    high = float(limits.max) if posinf is None else posinf
    low = float(limits.min) if neginf is None else neginf
    found = where(isnan(x), nan, x)
    found = where(equal(found, math.inf), high, found)
    return where(equal(found, -math.inf), low, found)


def _isclose(
    a: Any, b: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> Tensor:
    a, b = as_tensor(a), as_tensor(b)
    finite = logical_and(isfinite(a), isfinite(b))
    gap = magnitude(where(finite, a, 0) - where(finite, b, 0))
    near = logical_and(finite, less_equal(gap, atol + rtol * magnitude(where(finite, b, 0))))
    close = logical_or(near, equal(a, b))
    return logical_or(close, logical_and(isnan(a), isnan(b))) if equal_nan else close


def _heaviside(x1: Any, x2: Any) -> Tensor:
    x1 = _as_float(x1)
    return where(equal(x1, 0), x2, where(isnan(x1), math.nan, where(greater(x1, 0), 1.0, 0.0)))


def _float_power(x1: Any, x2: Any) -> Tensor:
    return power(cast_tensor(as_tensor(x1), _FLOAT64), x2)


def _logaddexp2(x1: Any, x2: Any) -> Tensor:
    x1, x2 = _as_float(x1), _as_float(x2)
    unit = math.log(2.0)
    return logaddexp(x1 * unit, x2 * unit) / unit


def _isposinf(x: Any) -> Tensor:
    return equal(x, math.inf)


def _isneginf(x: Any) -> Tensor:
    return equal(x, -math.inf)


def _isreal(x: Any) -> Tensor:
    return equal(imag(x), 0)


def _iscomplex(x: Any) -> Tensor:
    return ~_isreal(x)


def _real_if_close(a: Any, tol: float = 100) -> Tensor:
    """Eagerly only, for the dtype of the result depends on values."""
    x = as_tensor(a)
    if x.dtype.kind != "c":
        return x
    limit = tol * np.finfo(x.dtype).eps if tol > 1 else tol
    return real(x) if bool((magnitude(imag(x)) < limit).all()) else x


def _fix(x: Any) -> Tensor:
    return trunc(x)


ANSWERS: dict[Callable[..., Any], Callable[..., Any]] = {
    np.divmod: _divmod, np.fmod: _fmod, np.modf: _modf, np.cbrt: _cbrt, np.fabs: _fabs,
    np.fmax: _fmax, np.fmin: _fmin, np.radians: _radians, np.deg2rad: _radians,
    np.degrees: _degrees, np.rad2deg: _degrees, np.angle: _angle, np.nan_to_num: _nan_to_num,
    np.i0: i0, np.isclose: _isclose, np.heaviside: _heaviside, np.sinc: sinc,
    np.float_power: _float_power, np.logaddexp2: _logaddexp2, np.isposinf: _isposinf,
    np.isneginf: _isneginf, np.isreal: _isreal, np.iscomplex: _iscomplex, np.fix: _fix,
    np.real_if_close: _real_if_close,
}  # fmt: skip
