"""The regularized incomplete gamma functions, and what that of beta shares with them.

Each is a factor, with a derivative that is known, times a power series or a continued fraction
(NIST Digital Library of Mathematical Functions, 8.7, 8.9 and 8.17). Those are rational in the
parameters, so their derivatives by these come from a step in the imaginary direction. They take as
many terms as the arguments ask for, which is why compiled functions call the NumPy kernels.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tapeline.runtime.op import Attrs, get_op
from tapeline.runtime.operators import make_binary
from tapeline.runtime.ops.entropies import XLOGY
from tapeline.runtime.ops.gamma_functions import DIGAMMA, GAMMALN
from tapeline.runtime.ops.pointwise import along, call, define_pointwise, unbroadcast
from tapeline.runtime.ops.promotion import promote_to_float
from tapeline.runtime.series import POLYNOMIALS
from tapeline.runtime.tensor import Tensor, TensorLike

Array = Any
"""A NumPy array of floats, or of complex numbers where a derivative comes along."""

STEP = 1e-150
"""How far into the imaginary direction derivatives are taken."""
_TINY = 1e-300
FAR = 8.0
"""From here on Stirling's series gives the logarithm of the gamma function."""
_MOST_TERMS = 10_000
"""Results that would take more are NaN."""
LARGEST = 1e9
"""The largest parameter that is tried."""

# -- words -----------------------------------------------------------------------------------------


def stirling(x: Array) -> Array:
    """log(gamma(x)) less the leading terms of Stirling's series, for x >= 8."""
    inverse = 1.0 / x
    squared, total = inverse * inverse, np.zeros_like(x)
    for coefficient in reversed(POLYNOMIALS["log_gamma_tail"]):
        total = total * squared + coefficient
    return inverse * total


def log1p_rest(x: Array) -> Array:
    """log1p(x) - x, to the last digits also near 0."""
    near = np.abs(x) < 0.5
    s = np.where(near, x, 0.0) / (2.0 + np.where(near, x, 0.0))
    squared, total = s * s, np.zeros_like(x)
    for n in range(41, 1, -2):
        total = (total + 1.0 / n) * squared
    return np.where(near, 2.0 * s * total - np.where(near, x, 0.0) * s, np.log1p(x) - x)


def _log_gamma_1p(a: Array) -> Array:
    """log(gamma(1 + a)) for 0 <= a < 1, to the last digits also near 0."""
    total = np.zeros_like(a)
    for coefficient in reversed(POLYNOMIALS["log_gamma"]):
        total = total * a + coefficient
    return a * (a + 1.0) * total - np.log1p(a)


def _summed(step: Callable[[int, Array], Array], first: Array) -> Array:
    """A series whose next term is `step(n, term)`."""
    total, term = first.copy(), first
    for n in range(1, _MOST_TERMS):
        term = step(n, term)
        total = total + term
        is_open = np.abs(term) > 1e-18 * np.abs(total)
        if not is_open.any():
            return total
    return np.where(is_open, math.nan, total)


def fraction(pair: Callable[[int], tuple[Array, Array]], first: Array) -> Array:
    """The continued fraction b0 + a1/(b1 + a2/(b2 + ...)) by Lentz's method.

    An element stays as it is once it no longer changes, or some turns later where a derivative
    comes along, so that the others' turns add nothing to its rounding.
    """
    total = np.where(first == 0.0, _TINY, first)
    c, d = total, np.zeros_like(total)
    turns_left = np.full(total.shape, 20 if total.dtype.kind == "c" else 1)
    for n in range(1, _MOST_TERMS):
        a, b = pair(n)
        d = b + a * d
        d = 1.0 / np.where(d == 0.0, _TINY, d)
        c = b + a / c
        c = np.where(c == 0.0, _TINY, c)
        change = c * d
        total = np.where(turns_left > 0, total * change, total)
        turns_left -= ~(np.abs(change - 1.0) >= 4e-16)  # NaN is done too
        if not (turns_left > 0).any():
            return total
    return np.where(turns_left > 0, math.nan, total)


def widened(kernel: Callable[..., Array]) -> Callable[..., Any]:
    """The kernel, which computes in float64 on rows of equal length."""

    def compute(*inputs: Any) -> Any:
        arrays = np.broadcast_arrays(*inputs)
        wide = [np.asarray(x, np.float64).reshape(-1) for x in arrays]
        with np.errstate(all="ignore"):
            found = kernel(*wide)
        return found.reshape(arrays[0].shape).astype(arrays[0].dtype)

    return compute


def by_region(
    region: Array, first: Callable[..., Array], second: Callable[..., Array], *inputs: Array
) -> Array:
    """What `first` gives where the region is, and what `second` gives elsewhere."""
    out = np.full(inputs[0].shape, math.nan)
    valid = ~np.isnan(sum(inputs))
    for mask, function in ((region & valid, first), (~region & valid, second)):
        if mask.any():
            out[mask] = function(*[x[mask] for x in inputs])
    return out


# -- incomplete gamma ------------------------------------------------------------------------------


def _gamma_factor(a: Array, x: Array) -> Array:
    """x**a * exp(-x) / gamma(a + 1)."""
    far = a >= FAR
    big = np.where(far, a, FAR)
    exponent = big * log1p_rest((x - big) / big) - stirling(big)
    close = np.exp(exponent) / np.sqrt(2.0 * math.pi * big)
    log_gamma = GAMMALN.kernel(np.where(far, 1.0, a) + 1.0)
    return np.where(far, close, np.exp(np.where(far, 0.0, a) * np.log(x) - x - log_gamma))


def _gamma_series(a: Any, x: Array) -> Any:
    return _summed(lambda n, term: term * x / (a + n), np.ones_like(a))


def _gamma_fraction(a: Any, x: Array) -> Any:
    """gamma(a) * Q(a, x) / (x**a * exp(-x))."""
    return 1.0 / fraction(lambda n: (n * (a - n), x + 2 * n + 1 - a), x + 1.0 - a)


def _is_low(a: Array, x: Array) -> Any:
    return (x < a + 1.0) | (x < 1.1)


def _low_gamma(a: Array, x: Array) -> Array:
    return _gamma_factor(a, x) * _gamma_series(a, x)


def _high_gamma(a: Array, x: Array) -> Array:
    return _gamma_factor(a, x) * a * _gamma_fraction(a, x)


def _small_high_gamma(a: Array, x: Array) -> Array:
    """Q(a, x) for x < 1.1 and a < 1, where P(a, x) may be close to 1."""
    log = a * np.log(x) - _log_gamma_1p(a)
    powers, total = np.ones_like(x), np.zeros_like(x)
    for n in range(1, 30):
        powers = powers * -x / n
        total = total + a * powers / (a + n)
    return -np.expm1(log) - np.exp(log) * total


def _at_ends(a: Array, x: Array, found: Array, at_0: float, at_infinity: float) -> Array:
    found = np.where(x == 0.0, at_0, found)
    found = np.where(np.isinf(x), at_infinity, found)
    found = np.where(np.isinf(a), np.where(np.isinf(x), math.nan, at_0), found)
    return np.where((a > 0.0) & (x >= 0.0) & ((a < LARGEST) | np.isinf(a)), found, math.nan)


def _gammainc_kernel(a: Array, x: Array) -> Array:
    inside = (a > 0.0) & (x > 0.0) & np.isfinite(x) & (a < LARGEST)
    safe_a, safe_x = np.where(inside, a, 1.0), np.where(inside, x, 1.0)
    found = by_region(
        _is_low(safe_a, safe_x),
        _low_gamma,
        lambda a, x: 1.0 - _high_gamma(a, x),
        safe_a,
        safe_x,
    )
    return _at_ends(a, x, found, 0.0, 1.0)


def _complement(a: Array, x: Array) -> Array:
    return by_region(
        (x < 1.1) & (a < 1.0), _small_high_gamma, lambda a, x: 1.0 - _low_gamma(a, x), a, x
    )


def _gammaincc_kernel(a: Array, x: Array) -> Array:
    inside = (a > 0.0) & (x > 0.0) & np.isfinite(x) & (a < LARGEST)
    safe_a, safe_x = np.where(inside, a, 1.0), np.where(inside, x, 1.0)
    found = by_region(_is_low(safe_a, safe_x), _complement, _high_gamma, safe_a, safe_x)
    return _at_ends(a, x, found, 1.0, 0.0)


def _low_slope(a: Array, x: Array) -> Array:
    series = _gamma_series(a + 1j * STEP, x)
    log = np.log(x) - DIGAMMA.kernel(a + 1.0)
    return _gamma_factor(a, x) * (log * series.real + series.imag / STEP)


def _high_slope(a: Array, x: Array) -> Array:
    fraction = _gamma_fraction(a + 1j * STEP, x)
    log = np.log(x) - DIGAMMA.kernel(a)
    return -_gamma_factor(a, x) * a * (log * fraction.real + fraction.imag / STEP)


def _slope_kernel(a: Array, x: Array) -> Array:
    inside = (a > 0.0) & (x > 0.0) & np.isfinite(x) & (a < LARGEST)
    safe_a, safe_x = np.where(inside, a, 1.0), np.where(inside, x, 1.0)
    found = by_region(_is_low(safe_a, safe_x), _low_slope, _high_slope, safe_a, safe_x)
    return _at_ends(a, x, found, 0.0, 0.0)


def _gamma_density(a: Any, x: Any) -> Any:
    """The derivative of gammainc by x."""
    return call(get_op("exp"), call(XLOGY, a - 1.0, x) - x - call(GAMMALN, a))


def _slope_vjp_x(ct: Any, attrs: Attrs, a: Any, x: Any) -> Any:
    log = call(get_op("log"), x) - call(DIGAMMA, a)
    return unbroadcast(along(ct, _gamma_density(a, x) * log), x.shape)


def differences(function: Callable[[Array], Array], at: Array) -> Array:
    """The derivative of a smooth function of a positive parameter, by differences of order six."""
    step = 0.02 * np.minimum(at, np.sqrt(at))
    near, far, farther = (
        function(at + k * step) - function(at - k * step) for k in (1.0, 2.0, 3.0)
    )
    return (45.0 * near - 9.0 * far + farther) / (60.0 * step)


def _curve_kernel(a: Array, x: Array) -> Array:
    return differences(lambda a: _slope_kernel(a, x), a)


GAMMAINC_CURVE = define_pointwise(
    "gammainc_curve",
    kernel=widened(_curve_kernel),
    kinds="f",
    n_inputs=2,
    vjps=(None, None),
    domain=(0.5, 6.0),
)


def _slope_vjp_a(ct: Any, attrs: Attrs, a: Any, x: Any) -> Any:
    return unbroadcast(along(ct, call(GAMMAINC_CURVE, a, x)), a.shape)


GAMMAINC_SLOPE = define_pointwise(
    "gammainc_slope",
    kernel=widened(_slope_kernel),
    kinds="f",
    n_inputs=2,
    saves=(0, 1),
    vjps=(_slope_vjp_a, _slope_vjp_x),
    domain=(0.5, 6.0),
)


def _gamma_vjps(sign: float) -> tuple[Callable[..., Any], Callable[..., Any]]:
    def by_a(ct: Any, attrs: Attrs, a: Any, x: Any) -> Any:
        return unbroadcast(along(ct, call(GAMMAINC_SLOPE, a, x) * sign), a.shape)

    def by_x(ct: Any, attrs: Attrs, a: Any, x: Any) -> Any:
        return unbroadcast(along(ct, _gamma_density(a, x) * sign), x.shape)

    return by_a, by_x


GAMMAINC = define_pointwise(
    "gammainc", kernel=widened(_gammainc_kernel), kinds="f", n_inputs=2, saves=(0, 1),
    vjps=_gamma_vjps(1.0), domain=(0.5, 6.0),
)  # fmt: skip
GAMMAINCC = define_pointwise(
    "gammaincc", kernel=widened(_gammaincc_kernel), kinds="f", n_inputs=2, saves=(0, 1),
    vjps=_gamma_vjps(-1.0), domain=(0.5, 6.0),
)  # fmt: skip
_gammainc_of = make_binary(GAMMAINC, promote=promote_to_float)
_gammaincc_of = make_binary(GAMMAINCC, promote=promote_to_float)


def gammainc(a: TensorLike, x: TensorLike, /) -> Tensor:
    """The regularized lower incomplete gamma function: how much of a gamma distribution of shape a
    lies below x.

    Ints and bools are taken as floats: float64, or float32 if they have 8 or 16 bits. Where a is
    beyond a million and x close to it, the result is NaN. Gradients are there
    for both arguments, second ones too, third ones by a are not.

    Parameters
    ----------
    a, x : TensorLike of float
        Positive, x also 0, with shapes that broadcast; NaN for others.

    Returns
    -------
    Tensor
        Of the broadcast shape.

    Raises
    ------
    DTypeError
        If an operand is not of float, nor of a dtype taken as such.
    ShapeError
        If the shapes do not broadcast.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.special.gammainc(2.0, [1.0, 3.0]).numpy()
    array([0.26424112, 0.80085173])
    """
    return _gammainc_of(a, x)


def gammaincc(a: TensorLike, x: TensorLike, /) -> Tensor:
    """The regularized upper incomplete gamma function, `1 - gammainc(a, x)` to the last digits.

    Ints and bools are taken as floats: float64, or float32 if they have 8 or 16 bits. Where a is
    beyond a million and x close to it, the result is NaN. Gradients are there
    for both arguments, second ones too, third ones by a are not.

    Parameters
    ----------
    a, x : TensorLike of float
        Positive, x also 0, with shapes that broadcast; NaN for others.

    Returns
    -------
    Tensor
        Of the broadcast shape.

    Raises
    ------
    DTypeError
        If an operand is not of float, nor of a dtype taken as such.
    ShapeError
        If the shapes do not broadcast.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.special.gammaincc(0.5, [1.0, 100.0]).numpy()
    array([1.57299207e-01, 2.08848758e-45])
    """
    return _gammaincc_of(a, x)
