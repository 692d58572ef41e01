"""The beta function and its logarithm."""

from __future__ import annotations

import math
from typing import Any

from tapeline.runtime.op import OUT, Attrs
from tapeline.runtime.operators import make_binary
from tapeline.runtime.ops.gamma_functions import (
    DIGAMMA,
    FAR,
    HALF_LOG_TWO_PI,
    gamma_of,
    log_gamma,
    stirling,
)
from tapeline.runtime.ops.pointwise import along, call, unbroadcast
from tapeline.runtime.ops.promotion import promote_to_float
from tapeline.runtime.ops.steps import Real, define_special
from tapeline.runtime.tensor import Tensor, TensorLike


def _betaln(a: Real, b: Real) -> Real:
    """What of Stirling's series cancels is left out where the larger argument, or both, are far
    from 0, as in A. R. Didonato and A. H. Morris, "Algorithm 708", ACM Transactions on Mathematical
    Software 18 (1992)."""
    total = a + b
    low, high = (a < b).where(a, b), (a < b).where(b, a)
    log_low, log_high = log_gamma(low), log_gamma(high)
    near = log_low + log_high - log_gamma(total)
    ratio = low / high
    excess = ratio.call("log1p")
    rest = stirling(high) - stirling(total)
    mixed = log_low + (rest - (high - 0.5) * excess - low * (total.call("log") - 1.0))
    share = ratio / (ratio + 1.0)
    far = (low - 0.5) * share.call("log") - high * excess
    far = far + (rest + stirling(low) + (HALF_LOG_TWO_PI - 0.5 * high.call("log")))
    return (low >= FAR).where(far, ((high >= FAR) & (low > 0.0)).where(mixed, near))


def _beta(a: Real, b: Real) -> Real:
    """What the sum loses to rounding goes in by the derivative of log(gamma), which is close to the
    logarithm where that counts."""
    total = a + b
    share = total - a
    lost = (a - (total - share)) + (b - share)
    near = gamma_of(a) * (gamma_of(b) / gamma_of(total))
    correction = near * lost * (total > 1.0).where(total, 1.0).call("log")
    near = (abs(correction) < math.inf).where(near - correction, near)
    is_near = (abs(a) < 80.0) & (abs(b) < 80.0)
    return is_near.where(near, _betaln(a, b).call("exp"))


def _excess(x: Any, other: Any) -> Any:
    """The derivative of betaln by x."""
    return call(DIGAMMA, x) - call(DIGAMMA, x + other)


def _betaln_vjp_a(ct: Any, attrs: Attrs, a: Any, b: Any) -> Any:
    return unbroadcast(along(ct, _excess(a, b)), a.shape)


def _betaln_vjp_b(ct: Any, attrs: Attrs, a: Any, b: Any) -> Any:
    return unbroadcast(along(ct, _excess(b, a)), b.shape)


def _beta_vjp_a(ct: Any, attrs: Attrs, a: Any, b: Any, out: Any) -> Any:
    return unbroadcast(along(ct, out * _excess(a, b)), a.shape)


def _beta_vjp_b(ct: Any, attrs: Attrs, a: Any, b: Any, out: Any) -> Any:
    return unbroadcast(along(ct, out * _excess(b, a)), b.shape)


BETALN = define_special(
    "betaln",
    _betaln,
    n_inputs=2,
    saves=(0, 1),
    vjps=(_betaln_vjp_a, _betaln_vjp_b),
    domain=(0.5, 6.0),
)
BETA = define_special(
    "beta_function",
    _beta,
    n_inputs=2,
    saves=(0, 1, OUT),
    vjps=(_beta_vjp_a, _beta_vjp_b),
    domain=(0.5, 6.0),
    ulp=(1.0, 256.0),
)


_betaln_of = make_binary(BETALN, promote=promote_to_float)


def betaln(a: TensorLike, b: TensorLike, /) -> Tensor:
    """The logarithm of the magnitude of the beta function.

    Ints and bools are taken as floats: float64, or float32 if they have 8 or 16 bits.

    Parameters
    ----------
    a, b : TensorLike of float
        With shapes that broadcast.

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
    >>> tl.special.betaln([0.5, 1e9], [2.0, 0.5]).numpy()
    array([ 0.28768207, -9.78926798])
    """
    return _betaln_of(a, b)


_beta_of = make_binary(BETA, promote=promote_to_float)


def beta(a: TensorLike, b: TensorLike, /) -> Tensor:
    """The beta function, `gamma(a) * gamma(b) / gamma(a + b)`.

    Ints and bools are taken as floats: float64, or float32 if they have 8 or 16 bits.

    Parameters
    ----------
    a, b : TensorLike of float
        With shapes that broadcast.

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
    >>> tl.special.beta([0.5, 3.0], [2.0, 4.0]).numpy()
    array([1.33333333, 0.01666667])
    """
    return _beta_of(a, b)
