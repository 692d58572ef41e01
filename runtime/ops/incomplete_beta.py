"""The regularized incomplete beta function; see `incomplete_gamma` for how it is computed."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tapeline.runtime.op import Attrs, Op, Sample, get_op
from tapeline.runtime.ops.beta_functions import BETALN
from tapeline.runtime.ops.entropies import XLOG1PY, XLOGY
from tapeline.runtime.ops.gamma_functions import DIGAMMA
from tapeline.runtime.ops.incomplete_gamma import (
    FAR,
    LARGEST,
    STEP,
    Array,
    by_region,
    differences,
    fraction,
    log1p_rest,
    stirling,
    widened,
)
from tapeline.runtime.ops.pointwise import along, apply, call, define_pointwise, unbroadcast
from tapeline.runtime.ops.promotion import promote_to_float
from tapeline.runtime.spec import broadcast_shapes
from tapeline.runtime.tensor import Tensor, TensorLike, cast_tensor


def _beta_factor(a: Array, b: Array, x: Array) -> Array:
    """x**a * (1 - x)**b / B(a, b)."""
    far = (a >= FAR) & (b >= FAR)
    p, q = np.where(far, a, FAR), np.where(far, b, FAR)
    total = p + q
    away = x * q - (1.0 - x) * p  # (x - mean) * total
    exponent = p * log1p_rest(away / p) + q * log1p_rest(-away / q)
    exponent = exponent + stirling(total) - stirling(p) - stirling(q)
    close = np.exp(exponent) * np.sqrt(p * q / (2.0 * math.pi * total))
    a, b = np.where(far, 1.0, a), np.where(far, 1.0, b)
    rest = a * np.log(x) + b * np.log1p(-x) - BETALN.kernel(a, b)
    return np.where(far, close, np.exp(rest))


def _beta_fraction(a: Any, b: Any, x: Array) -> Any:
    """a * I_x(a, b) / factor."""

    def pair(n: int) -> tuple[Any, Any]:
        m = n // 2
        if n % 2:
            term = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        else:
            term = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        return term, np.ones_like(term)

    return 1.0 / fraction(pair, np.ones_like(a + b + x))


def _is_left(a: Array, b: Array, x: Array) -> Any:
    return x <= (a + 1.0) / (a + b + 2.0)


def _left_beta(a: Array, b: Array, x: Array) -> Array:
    return _beta_factor(a, b, x) * _beta_fraction(a, b, x) / a


def _left_slopes(a: Array, b: Array, x: Array) -> tuple[Array, Array]:
    """Derivatives by a and b."""
    scale = _beta_factor(a, b, x) / a
    plain = _beta_fraction(a, b, x)
    both = DIGAMMA.kernel(a + b)
    by_a = np.log(x) - DIGAMMA.kernel(a) + both - 1.0 / a
    by_b = np.log1p(-x) - DIGAMMA.kernel(b) + both
    from_a = _beta_fraction(a + 1j * STEP, b, x).imag / STEP
    from_b = _beta_fraction(a, b + 1j * STEP, x).imag / STEP
    return scale * (by_a * plain + from_a), scale * (by_b * plain + from_b)


def _beta_inside(a: Array, b: Array, x: Array) -> tuple[Any, list[Array]]:
    inside = (a > 0.0) & (b > 0.0) & (x > 0.0) & (x < 1.0) & (a + b < LARGEST)
    safe = [np.where(inside, a, 1.0), np.where(inside, b, 1.0), np.where(inside, x, 0.5)]
    return inside, safe


def _beta_ends(a: Array, b: Array, x: Array, inside: Any, found: Array, at_1: float) -> Array:
    ends = np.where(x == 0.0, 0.0, np.where(x == 1.0, at_1, math.nan))
    return np.where(inside, found, np.where((a > 0.0) & (b > 0.0), ends, math.nan))


def _betainc_kernel(a: Array, b: Array, x: Array) -> Array:
    inside, safe = _beta_inside(a, b, x)
    found = by_region(
        _is_left(*safe), _left_beta, lambda a, b, x: 1.0 - _left_beta(b, a, 1.0 - x), *safe
    )
    return _beta_ends(a, b, x, inside, found, 1.0)


def _beta_slope_kernel(which: int) -> Callable[..., Array]:
    """The derivative by a (0) or by b (1)."""

    def kernel(a: Array, b: Array, x: Array) -> Array:
        inside, safe = _beta_inside(a, b, x)
        found = by_region(
            _is_left(*safe),
            lambda a, b, x: _left_slopes(a, b, x)[which],
            lambda a, b, x: -_left_slopes(b, a, 1.0 - x)[1 - which],
            *safe,
        )
        return _beta_ends(a, b, x, inside, found, 0.0)

    return kernel


def _beta_density(a: Any, b: Any, x: Any) -> Any:
    """The derivative of betainc by x."""
    logs = call(XLOGY, a - 1.0, x) + call(XLOG1PY, b - 1.0, -x)
    return call(get_op("exp"), logs - call(BETALN, a, b))


def _beta_slope_vjp_x(which: int) -> Callable[..., Any]:
    def by_x(ct: Any, attrs: Attrs, a: Any, b: Any, x: Any) -> Any:
        own = b if which else a
        log = call(get_op("log1p"), -x) if which else call(get_op("log"), x)
        log = log - call(DIGAMMA, own) + call(DIGAMMA, a + b)
        return unbroadcast(along(ct, _beta_density(a, b, x) * log), x.shape)

    return by_x


def _curve_kernel(a: Array, b: Array, x: Array, which: str) -> Array:
    slope = _beta_slope_kernel("ab".index(which[0]))
    if which[1] == "a":
        return differences(lambda a: slope(a, b, x), a)
    return differences(lambda b: slope(a, b, x), b)


def _curves(a: Any, b: Any, x: Any, which: str) -> Any:
    return widened(lambda a, b, x: _curve_kernel(a, b, x, which))(a, b, x)


BETAINC_CURVE = define_pointwise(
    "betainc_curve",
    kernel=_curves,
    kinds="f",
    n_inputs=3,
    attr_names=("which",),
    vjps=(None, None, None),
    domain=(0.1, 0.9),
    samples=(Sample(((3,), (3,), (3,)), ("ab",)), Sample(((3,), (3,), (3,)), ("aa",))),
)


def _slope_vjp(which: str) -> Callable[..., Any]:
    def by_parameter(ct: Any, attrs: Attrs, a: Any, b: Any, x: Any) -> Any:
        shape = a.shape if which[1] == "a" else b.shape
        return unbroadcast(along(ct, call(BETAINC_CURVE, a, b, x, attrs=(which,))), shape)

    return by_parameter


def _define_slope(op_name: str, which: int) -> Op:
    name = "ab"[which]
    return define_pointwise(
        op_name,
        kernel=widened(_beta_slope_kernel(which)),
        kinds="f",
        n_inputs=3,
        saves=(0, 1, 2),
        vjps=(_slope_vjp(name + "a"), _slope_vjp(name + "b"), _beta_slope_vjp_x(which)),
        domain=(0.1, 0.9),
    )


BETAINC_SLOPE_A = _define_slope("betainc_slope_a", 0)
BETAINC_SLOPE_B = _define_slope("betainc_slope_b", 1)


def _betainc_vjp_a(ct: Any, attrs: Attrs, a: Any, b: Any, x: Any) -> Any:
    return unbroadcast(along(ct, call(BETAINC_SLOPE_A, a, b, x)), a.shape)


def _betainc_vjp_b(ct: Any, attrs: Attrs, a: Any, b: Any, x: Any) -> Any:
    return unbroadcast(along(ct, call(BETAINC_SLOPE_B, a, b, x)), b.shape)


def _betainc_vjp_x(ct: Any, attrs: Attrs, a: Any, b: Any, x: Any) -> Any:
    return unbroadcast(along(ct, _beta_density(a, b, x)), x.shape)


BETAINC = define_pointwise(
    "betainc", kernel=widened(_betainc_kernel), kinds="f", n_inputs=3, saves=(0, 1, 2),
    vjps=(_betainc_vjp_a, _betainc_vjp_b, _betainc_vjp_x), domain=(0.1, 0.9),
)  # fmt: skip


def betainc(a: TensorLike, b: TensorLike, x: TensorLike, /) -> Tensor:
    """The regularized incomplete beta function: how much of a beta distribution lies below x.

    Ints and bools are taken as floats: float64, or float32 if they have 8 or 16 bits. Where a and b
    are beyond a million, the result may be NaN. Gradients are there
    for all arguments, second ones too, third ones by a and b are not.

    Parameters
    ----------
    a, b : TensorLike of float
        The parameters, positive.
    x : TensorLike of float
        From 0 to 1; NaN for others. The shapes broadcast.

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
    >>> tl.special.betainc(2.0, 3.0, [0.25, 0.5]).numpy()
    array([0.26171875, 0.6875    ])
    """
    first, second = promote_to_float(BETAINC, a, b)
    first, third = promote_to_float(BETAINC, first, x)
    broadcast_shapes("betainc", first.shape, second.shape, third.shape)
    second = cast_tensor(second, first.dtype)
    return apply(BETAINC, first, second, third)
