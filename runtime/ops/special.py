"""Functions that NumPy does not have: the logistic sigmoid and the error function."""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from tapeline.runtime.op import OUT, Attrs, get_op
from tapeline.runtime.operators import make_unary
from tapeline.runtime.ops.pointwise import along, call, define_pointwise, emit_call, one_minus
from tapeline.runtime.tensor import Tensor, TensorLike

if TYPE_CHECKING:
    import numpy.typing as npt

TWO_OVER_SQRT_PI = 2.0 / math.sqrt(math.pi)

# -- sigmoid ---------------------------------------------------------------------------------------


def sigmoid_kernel(x: Any) -> Any:
    """1 / (1 + exp(-x)) without overflow: only the exponential of -|x| is taken."""
    decayed = np.exp(-np.abs(x))
    return np.where(x >= 0, np.ones_like(decayed), decayed) / (1 + decayed)


def _sigmoid_vjp(ct: Any, attrs: Attrs, out: Any) -> Any:
    return along(ct, out * one_minus(out))


SIGMOID = define_pointwise(
    "sigmoid",
    kernel=sigmoid_kernel,
    kinds="f",
    saves=(OUT,),
    vjps=(_sigmoid_vjp,),
    emit=emit_call("sigmoid"),
    domain=(-4.0, 4.0),
    ulp=(3.0, 3.0),
)

_sigmoid = make_unary(SIGMOID)


def sigmoid(x: TensorLike, /) -> Tensor:
    """The logistic function `1 / (1 + exp(-x))` of each element.

    Ints and bools are taken as floats: float64, or float32 if they have 8 or 16 bits.

    Parameters
    ----------
    x : TensorLike of float
        Of any shape.

    Returns
    -------
    Tensor
        Of the shape of `x`.

    Raises
    ------
    DTypeError
        If an operand is not of float, nor of a dtype taken as such.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.sigmoid([0.0, 1.0]).numpy()
    array([0.5       , 0.73105858])
    """
    return _sigmoid(x)


# -- erf -------------------------------------------------------------------------------------------

_ERF_STEPS = 512
"""Table points in a unit interval."""
_ERF_LIMIT = 6.0
"""From here on erf rounds to 1."""


@cache
def _erf_table() -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """erf and its slope at the multiples of 1 / _ERF_STEPS up to the limit."""
    points = np.arange(int(_ERF_LIMIT * _ERF_STEPS) + 1) / _ERF_STEPS
    values = np.array([math.erf(point) for point in points])
    return values, TWO_OVER_SQRT_PI * np.exp(-points * points)


_ERF_BLOCK = 8192
"""Elements taken at a time, so that what lies between the steps stays in the cache."""


def erf_kernel(x: Any) -> Any:
    """The error function; float32 is computed in double precision."""
    if x.size <= _ERF_BLOCK:
        return _erf_block(x)
    flat = x.reshape(-1)
    result = np.empty_like(flat)
    for start in range(0, flat.size, _ERF_BLOCK):
        block = slice(start, start + _ERF_BLOCK)
        result[block] = _erf_block(flat[block])
    return result.reshape(x.shape)


def _erf_block(x: Any) -> Any:
    """erf from its value at the nearest table point c and its Taylor series in d = |x| - c.

    The series is slope * d * (1 - c d + (2cc - 1) dd/3 - ...), with Hermite polynomials of c as
    coefficients; d is at most 1/1024, so five terms reach double precision.
    """
    values, slopes = _erf_table()
    size = np.fmin(np.abs(x, dtype=np.float64), _ERF_LIMIT)
    index = np.rint(size * _ERF_STEPS).astype(np.intp)
    c = index / _ERF_STEPS
    d = size - c
    cc = c * c
    series = (2 * cc - 3) * c / 6 - d * ((4 * cc - 12) * cc + 3) / 30
    series = (2 * cc - 1) / 3 - d * series
    series = 1 - d * (c - d * series)
    result = values[index] + slopes[index] * d * series
    return np.where(np.isnan(x), x, np.copysign(result, x).astype(x.dtype))


def _erf_vjp(ct: Any, attrs: Attrs, x: Any) -> Any:
    return along(ct, TWO_OVER_SQRT_PI * call(get_op("exp"), -(x * x)))


ERF = define_pointwise(
    "erf",
    kernel=erf_kernel,
    kinds="f",
    saves=(0,),
    vjps=(_erf_vjp,),
    emit=emit_call("erf"),
    domain=(-3.0, 3.0),
    ulp=(2.0, 2.0),
)

_erf = make_unary(ERF)


def erf(x: TensorLike, /) -> Tensor:
    """The error function of each element.

    Ints and bools are taken as floats: float64, or float32 if they have 8 or 16 bits.

    Parameters
    ----------
    x : TensorLike of float
        Of any shape.

    Returns
    -------
    Tensor
        Of the shape of `x`.

    Raises
    ------
    DTypeError
        If an operand is not of float, nor of a dtype taken as such.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.erf([0.0, 0.5]).numpy()
    array([0.        , 0.52049988])
    """
    return _erf(x)
