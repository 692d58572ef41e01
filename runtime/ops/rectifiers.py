"""Activations that are linear in parts, or bend at 0: relu and its kin.

Each formula is written once, with ops: on arrays it is the kernel, on tensors the expansion.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tapeline.runtime.op import OUT, Attrs, Expansion, Op, Sample, Saved
from tapeline.runtime.operators import make_unary
from tapeline.runtime.ops.exponential import EXP, EXPM1
from tapeline.runtime.ops.pointwise import along, call, define_pointwise, zero_like
from tapeline.runtime.ops.selection import MAXIMUM, MINIMUM, WHERE, clip, where
from tapeline.runtime.tensor import Tensor, TensorLike, as_tensor

_SELU_ALPHA = 1.6732632423543772
_SELU_SCALE = 1.0507009873554805


def define_activation(
    name: str,
    formula: Callable[..., Any],
    vjp: Callable[..., Any],
    *,
    saves: tuple[Saved, ...] = (0,),
    attr_names: tuple[str, ...] = (),
    attrs: tuple[Attrs, ...] = (),
) -> Op:
    """An elementwise op of one float input that is what its formula in simpler ops gives.

    Parameters
    ----------
    formula : callable (x, *attrs) -> y
        Works on arrays and on tensors.
    attrs : tuple of tuple
        The attributes that the generated tests use.
    """
    shapes = ((), (0,), (7,), (3, 4))
    return define_pointwise(
        name,
        kernel=formula,
        kinds="f",
        saves=saves,
        vjps=(vjp,),
        attr_names=attr_names,
        emit=Expansion(formula),
        domain=(-4.0, 4.0),
        ulp=(8.0, 8.0),
        samples=tuple(Sample((shape,), values) for values in attrs for shape in shapes),
    )


def number_like(x: Any, number: float) -> Any:
    """The number as a 0-d array of the dtype of `x`, to use as an operand in a formula."""
    return np.asarray(number, x.dtype)


def positive_part(x: Any) -> Any:
    """The larger of each element and 0."""
    return call(MAXIMUM, x, number_like(x, 0.0))


def negative_part(x: Any) -> Any:
    """The smaller of each element and 0."""
    return call(MINIMUM, x, number_like(x, 0.0))


def _chosen(condition: Any, ct: Any) -> Any:
    return call(WHERE, condition, ct, zero_like(ct))


# --- relu and relu6 --------------------------------------------------------------------------


def _relu_vjp(ct: Any, attrs: Attrs, out: Any) -> Any:
    return _chosen(out > 0, ct)


RELU = define_activation("relu", positive_part, _relu_vjp, saves=(OUT,))

_relu = make_unary(RELU)


def relu(x: TensorLike, /) -> Tensor:
    """Each element where it is positive and 0 elsewhere; the gradient at 0 is 0.

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
    >>> tl.nn.relu([-1.0, 0.0, 2.0]).numpy()
    array([0., 0., 2.])
    """
    return _relu(x)


def _relu6_formula(x: Any) -> Any:
    return call(MINIMUM, positive_part(x), number_like(x, 6.0))


def _relu6_vjp(ct: Any, attrs: Attrs, out: Any) -> Any:
    return _chosen((out > 0) & (out < 6), ct)


RELU6 = define_activation("relu6", _relu6_formula, _relu6_vjp, saves=(OUT,))

_relu6 = make_unary(RELU6)


def relu6(x: TensorLike, /) -> Tensor:
    """`relu`, but no more than 6; the gradients at 0 and at 6 are 0.

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
    >>> tl.nn.relu6([-1.0, 2.0, 7.0]).numpy()
    array([0., 2., 6.])
    """
    return _relu6(x)


# --- with a slope for negative elements ------------------------------------------------------


def _leaky_formula(x: Any, slope: float) -> Any:
    return call(WHERE, x > 0, x, x * slope)


def _leaky_vjp(ct: Any, attrs: Attrs, x: Any) -> Any:
    return call(WHERE, x > 0, ct, ct * attrs[0])


LEAKY_RELU = define_activation(
    "leaky_relu", _leaky_formula, _leaky_vjp, attr_names=("slope",), attrs=((0.01,), (0.3,))
)

_leaky_relu = make_unary(LEAKY_RELU)


def leaky_relu(x: TensorLike, /, negative_slope: float = 0.01) -> Tensor:
    """Each element where it is positive and a part of it elsewhere; the gradient at 0 is the
    slope.

    Parameters
    ----------
    x : TensorLike of float
        Of any shape.
    negative_slope : float
        What negative elements are multiplied by.

    Returns
    -------
    Tensor of float
        Of the shape of `x`.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.nn.leaky_relu([-1.0, 2.0], 0.25).numpy()
    array([-0.25,  2.  ])
    """
    return _leaky_relu(x, (float(negative_slope),))


def prelu(x: TensorLike, slope: TensorLike, /) -> Tensor:
    """`leaky_relu` with slopes that are tensors and have gradients.

    Parameters
    ----------
    x : TensorLike of float
        Of any shape.
    slope : TensorLike of float
        What negative elements are multiplied by; broadcast against `x`, so one slope per channel
        where the channels are the last axis.

    Returns
    -------
    Tensor of float
        Of the shape of `x`.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.nn.prelu([[-1.0, -2.0], [3.0, 4.0]], [0.5, 0.25]).numpy()
    array([[-0.5, -0.5],
           [ 3. ,  4. ]])
    """
    x = as_tensor(x, argument="prelu: x")
    return where(x > 0, x, as_tensor(slope, argument="prelu: slope") * x)


# --- exponential for negative elements -------------------------------------------------------


def _elu_formula(x: Any, alpha: float) -> Any:
    return call(WHERE, x > 0, x, call(EXPM1, negative_part(x)) * alpha)


def _elu_vjp(ct: Any, attrs: Attrs, x: Any) -> Any:
    return call(WHERE, x > 0, ct, along(ct, call(EXP, negative_part(x)) * attrs[0]))


ELU = define_activation(
    "elu", _elu_formula, _elu_vjp, attr_names=("alpha",), attrs=((1.0,), (0.5,))
)

_elu = make_unary(ELU)


def elu(x: TensorLike, /, alpha: float = 1.0) -> Tensor:
    """Each element where it is positive, `alpha * (exp(x) - 1)` elsewhere.

    Parameters
    ----------
    x : TensorLike of float
        Of any shape.
    alpha : float
        The result comes down to `-alpha`.

    Returns
    -------
    Tensor of float
        Of the shape of `x`.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.nn.elu([-1000.0, 2.0]).numpy()
    array([-1.,  2.])
    """
    return _elu(x, (float(alpha),))


def _selu_formula(x: Any) -> Any:
    return _elu_formula(x, _SELU_ALPHA) * _SELU_SCALE


def _selu_vjp(ct: Any, attrs: Attrs, x: Any) -> Any:
    return _elu_vjp(ct * _SELU_SCALE, (_SELU_ALPHA,), x)


SELU = define_activation("selu", _selu_formula, _selu_vjp)

_selu = make_unary(SELU)


def selu(x: TensorLike, /) -> Tensor:
    """`elu` with the scale and the alpha that keep mean 0 and variance 1 from layer to layer.

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
    >>> tl.nn.selu([-1.0, 1.0]).numpy()
    array([-1.11133074,  1.05070099])
    """
    return _selu(x)


def _celu_formula(x: Any, alpha: float) -> Any:
    return call(WHERE, x > 0, x, call(EXPM1, negative_part(x) / alpha) * alpha)


def _celu_vjp(ct: Any, attrs: Attrs, x: Any) -> Any:
    return call(WHERE, x > 0, ct, along(ct, call(EXP, negative_part(x) / attrs[0])))


CELU = define_activation(
    "celu", _celu_formula, _celu_vjp, attr_names=("alpha",), attrs=((1.0,), (0.5,))
)

_celu = make_unary(CELU)


def celu(x: TensorLike, /, alpha: float = 1.0) -> Tensor:
    """Each element where it is positive, `alpha * (exp(x / alpha) - 1)` elsewhere.

    Its gradient has no jump at 0, whatever `alpha` (not 0) is.

    Parameters
    ----------
    x : TensorLike of float
        Of any shape; ints are taken as floats.
    alpha : float
        Minus the limit far below 0.

    Returns
    -------
    Tensor of float
        Of the shape of `x`.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.nn.celu([-1000.0, 2.0], alpha=0.5).numpy()
    array([-0.5,  2. ])
    """
    return _celu(x, (float(alpha),))


# --- straight in three parts -----------------------------------------------------------------


def hardtanh(x: TensorLike, /, min: float = -1.0, max: float = 1.0) -> Tensor:
    """Each element, but no less than `min` and no more than `max`; the gradient of `tl.clip`.

    Parameters
    ----------
    x : TensorLike of float
        Of any shape; ints are taken as floats.
    min, max : float
        The bounds.

    Returns
    -------
    Tensor of float
        Of the shape of `x`.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.nn.hardtanh([-3.0, 0.5, 3.0]).numpy()
    array([-1. ,  0.5,  1. ])
    """
    return clip(x, float(min), float(max))


def _hardsigmoid_formula(x: Any) -> Any:
    return _relu6_formula(x + 3.0) / 6.0


def _hardsigmoid_vjp(ct: Any, attrs: Attrs, x: Any) -> Any:
    return _chosen((x > -3) & (x < 3), ct / 6.0)


HARDSIGMOID = define_activation("hardsigmoid", _hardsigmoid_formula, _hardsigmoid_vjp)

_hardsigmoid = make_unary(HARDSIGMOID)


def hardsigmoid(x: TensorLike, /) -> Tensor:
    """A line of slope 1/6 from 0 at -3 to 1 at 3, and flat elsewhere.

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
    >>> tl.nn.hardsigmoid([-4.0, 0.0, 4.0]).numpy()
    array([0. , 0.5, 1. ])
    """
    return _hardsigmoid(x)


def _hardswish_formula(x: Any) -> Any:
    return x * _hardsigmoid_formula(x)


def _hardswish_vjp(ct: Any, attrs: Attrs, x: Any) -> Any:
    inner = call(WHERE, x < 3, along(ct, (x * 2.0 + 3.0) / 6.0), ct)
    return _chosen(x > -3, inner)


HARDSWISH = define_activation("hardswish", _hardswish_formula, _hardswish_vjp)

_hardswish = make_unary(HARDSWISH)


def hardswish(x: TensorLike, /) -> Tensor:
    """`x * hardsigmoid(x)`, element by element.

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
    >>> tl.nn.hardswish([-4.0, 3.0, 4.0]).numpy()
    array([-0.,  3.,  4.])
    """
    return _hardswish(x)
