"""Smooth activations: gelu, silu, mish, softplus and their kin.

Each formula is written once, with ops: on arrays it is the kernel, on tensors the expansion.
"""

from __future__ import annotations

import math
from typing import Any

from tapeline.runtime.errors import ArgumentError, ShapeError
from tapeline.runtime.op import Attrs
from tapeline.runtime.operators import make_unary
from tapeline.runtime.ops.exponential import EXP, LOG1P
from tapeline.runtime.ops.hyperbolic import TANH
from tapeline.runtime.ops.pointwise import along, call
from tapeline.runtime.ops.rectifiers import (
    define_activation,
    negative_part,
    number_like,
    positive_part,
)
from tapeline.runtime.ops.selection import WHERE
from tapeline.runtime.ops.signs import ABS
from tapeline.runtime.ops.slicing import slice_along
from tapeline.runtime.ops.special import ERF, SIGMOID, sigmoid
from tapeline.runtime.spec import normalize_axis
from tapeline.runtime.tensor import Tensor, TensorLike, as_tensor

_SQRT_HALF = math.sqrt(0.5)
_DENSITY_AT_0 = 1.0 / math.sqrt(2.0 * math.pi)
_GELU_END = -9.0
"""Below it gelu is less than 1e-17."""
_GELU_SCALE = math.sqrt(2.0 / math.pi)
_GELU_CUBIC = 0.044715


# --- softplus and log_sigmoid ----------------------------------------------------------------


def _log1p_of_decay(x: Any) -> Any:
    """log(1 + exp(-|x|)), which neither overflows nor loses the small term."""
    return call(LOG1P, call(EXP, -call(ABS, x)))


def _softplus_formula(x: Any) -> Any:
    return positive_part(x) + _log1p_of_decay(x)


def _softplus_vjp(ct: Any, attrs: Attrs, x: Any) -> Any:
    return along(ct, call(SIGMOID, x))


SOFTPLUS = define_activation("softplus", _softplus_formula, _softplus_vjp)

_softplus = make_unary(SOFTPLUS)


def softplus(x: TensorLike, /) -> Tensor:
    """`log(1 + exp(x))`, element by element, without overflow.

    Parameters
    ----------
    x : TensorLike of float
        Of any shape; ints are taken as floats.

    Returns
    -------
    Tensor of float, shape of `x`

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.nn.softplus([-1000.0, 0.0, 1000.0]).numpy()
    array([0.00000000e+00, 6.93147181e-01, 1.00000000e+03])
    """
    return _softplus(x)


def _log_sigmoid_formula(x: Any) -> Any:
    return negative_part(x) - _log1p_of_decay(x)


def _log_sigmoid_vjp(ct: Any, attrs: Attrs, x: Any) -> Any:
    return along(ct, call(SIGMOID, -x))


LOG_SIGMOID = define_activation("log_sigmoid", _log_sigmoid_formula, _log_sigmoid_vjp)

_log_sigmoid = make_unary(LOG_SIGMOID)


def log_sigmoid(x: TensorLike, /) -> Tensor:
    """The logarithm of the logistic function, exact where that itself would be 0.

    Parameters
    ----------
    x : TensorLike of float
        Of any shape; ints are taken as floats.

    Returns
    -------
    Tensor of float
        Of the shape of `x`.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.nn.log_sigmoid([-1000.0, 0.0]).numpy()
    array([-1.00000000e+03, -6.93147181e-01])
    """
    return _log_sigmoid(x)


# --- softsign --------------------------------------------------------------------------------


def _softsign_formula(x: Any) -> Any:
    return x / (1.0 + call(ABS, x))


def _softsign_vjp(ct: Any, attrs: Attrs, x: Any) -> Any:
    size = 1.0 + call(ABS, x)
    return along(ct, 1.0 / (size * size))


SOFTSIGN = define_activation("softsign", _softsign_formula, _softsign_vjp)

_softsign = make_unary(SOFTSIGN)


def softsign(x: TensorLike, /) -> Tensor:
    """`x / (1 + abs(x))`, element by element.

    Parameters
    ----------
    x : TensorLike of float
        Of any shape; ints are taken as floats.

    Returns
    -------
    Tensor of float
        Of the shape of `x`.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.nn.softsign([-1.0, 3.0]).numpy()
    array([-0.5 ,  0.75])
    """
    return _softsign(x)


# --- silu and mish ---------------------------------------------------------------------------


def _silu_formula(x: Any) -> Any:
    return x * call(SIGMOID, x)


def _silu_vjp(ct: Any, attrs: Attrs, x: Any) -> Any:
    gate = call(SIGMOID, x)
    return along(ct, gate * (1.0 + x * (1.0 - gate)))


SILU = define_activation("silu", _silu_formula, _silu_vjp)

_silu = make_unary(SILU)


def silu(x: TensorLike, /) -> Tensor:
    """`x * sigmoid(x)`, element by element; also known as swish.

    Parameters
    ----------
    x : TensorLike of float
        Of any shape; ints are taken as floats.

    Returns
    -------
    Tensor of float
        Of the shape of `x`.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.nn.silu([0.0, 1.0]).numpy()
    array([0.        , 0.73105858])
    """
    return _silu(x)


def _mish_formula(x: Any) -> Any:
    return x * call(TANH, _softplus_formula(x))


def _mish_vjp(ct: Any, attrs: Attrs, x: Any) -> Any:
    gate = call(TANH, _softplus_formula(x))
    return along(ct, gate + x * call(SIGMOID, x) * (1.0 - gate * gate))


MISH = define_activation("mish", _mish_formula, _mish_vjp)

_mish = make_unary(MISH)


def mish(x: TensorLike, /) -> Tensor:
    """`x * tanh(softplus(x))`, element by element.

    Parameters
    ----------
    x : TensorLike of float
        Of any shape; ints are taken as floats.

    Returns
    -------
    Tensor of float
        Of the shape of `x`.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.nn.mish([0.0, 1.0]).numpy()
    array([0.        , 0.86509839])
    """
    return _mish(x)


# --- gelu ------------------------------------------------------------------------------------


def _normal_cdf(x: Any) -> Any:
    return (call(ERF, x * _SQRT_HALF) + 1.0) * 0.5


def _gelu_formula(x: Any) -> Any:
    """Far below 0 the share is 0 and not a rounding error of erf, which a large x would magnify."""
    return call(WHERE, x < _GELU_END, number_like(x, 0.0), x * _normal_cdf(x))


def _gelu_vjp(ct: Any, attrs: Attrs, x: Any) -> Any:
    density = call(EXP, x * x * -0.5) * _DENSITY_AT_0
    return along(ct, _normal_cdf(x) + x * density)


GELU = define_activation("gelu", _gelu_formula, _gelu_vjp)


def _gelu_tanh_gate(x: Any) -> Any:
    return call(TANH, (x + x * x * x * _GELU_CUBIC) * _GELU_SCALE)


def _gelu_tanh_formula(x: Any) -> Any:
    return x * 0.5 * (_gelu_tanh_gate(x) + 1.0)


def _gelu_tanh_vjp(ct: Any, attrs: Attrs, x: Any) -> Any:
    gate = _gelu_tanh_gate(x)
    slope = (x * x * (3.0 * _GELU_CUBIC) + 1.0) * _GELU_SCALE
    return along(ct, ((gate + 1.0) + x * (1.0 - gate * gate) * slope) * 0.5)


GELU_TANH = define_activation("gelu_tanh", _gelu_tanh_formula, _gelu_tanh_vjp)

_GELUS = {"none": make_unary(GELU), "tanh": make_unary(GELU_TANH)}


def gelu(x: TensorLike, /, approximate: str = "none") -> Tensor:
    """Each element times the share of a standard normal distribution that lies below it.

    Parameters
    ----------
    x : TensorLike of float
        Of any shape.
    approximate : str
        "none" for the exact share, by the error function; "tanh" for the formula with tanh that
        many published models use.

    Returns
    -------
    Tensor of float
        Of the shape of `x`.

    Raises
    ------
    ArgumentError
        If `approximate` is something else.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.nn.gelu([-1.0, 1.0]).numpy()
    array([-0.15865525,  0.84134475])
    >>> tl.nn.gelu([-1.0, 1.0], approximate="tanh").numpy()
    array([-0.15880801,  0.84119199])
    """
    function = _GELUS.get(approximate)
    if function is None:
        raise ArgumentError(f"gelu: approximate must be 'none' or 'tanh', got {approximate!r}")
    return function(x)


# --- glu -------------------------------------------------------------------------------------


def glu(x: TensorLike, /, axis: int = -1) -> Tensor:
    """The first half along an axis, times the logistic function of the second half.

    Parameters
    ----------
    x : TensorLike of float
        With an even extent along the axis.
    axis : int
        The axis to halve.

    Returns
    -------
    Tensor of float
        Half as long along the axis.

    Raises
    ------
    ShapeError
        If the extent is odd.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.nn.glu([4.0, 6.0, 0.0, 1000.0]).numpy()
    array([2., 6.])
    """
    x = as_tensor(x, argument="glu")
    axis = normalize_axis("glu", axis, x.ndim)
    extent = x.shape[axis]
    if extent % 2:
        raise ShapeError(f"glu: axis {axis} of shape {x.shape} has an odd extent; it must be even")
    value = slice_along(x, axis, 0, extent // 2)
    result: Tensor = value * sigmoid(slice_along(x, axis, extent // 2, extent))
    return result
