"""Numbers of distributions that are drawn by rejection: gamma, beta and Poisson's.

They come from NumPy's generator on top of the key's stream, eagerly and compiled.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tapeline.runtime.op import Op, Sample, Trait, define_op
from tapeline.runtime.ops.axes import Array
from tapeline.runtime.ops.creation import shape_argument
from tapeline.runtime.ops.distributions import ShapeLike, placed
from tapeline.runtime.ops.each import batch_each
from tapeline.runtime.ops.exponential import EXP
from tapeline.runtime.ops.pointwise import apply
from tapeline.runtime.ops.random_bits import as_key, check_key, draw_key, philox, split
from tapeline.runtime.ops.shaping import broadcast_to
from tapeline.runtime.promotion import promote_one
from tapeline.runtime.spec import DType, TensorSpec, broadcast_shapes, spec_of
from tapeline.runtime.tensor import Tensor, TensorLike, as_tensor

_INT64 = np.dtype(np.int64)

# --- gamma, beta and poisson -----------------------------------------------------------------


def _define_rejection(
    name: str, function: Callable[[np.random.Generator, Array], Array], result: DType | None
) -> Op:
    """An op `(key, parameter)` with one number for each element of the parameter."""

    def kernel(key: Array, parameter: Array) -> Array:
        generator = np.random.Generator(philox(key))
        numbers = np.asarray(function(generator, parameter.astype(np.float64, order="C")))
        return numbers.astype(result or parameter.dtype, copy=False)

    def infer(key: TensorSpec, parameter: TensorSpec) -> TensorSpec:
        check_key(name, key)
        return spec_of(parameter.static_shape, result or parameter.dtype)

    return define_op(
        name,
        kernel=kernel,
        infer=infer,
        batch=batch_each,
        n_inputs=2,
        vjps=(None, None),
        traits=Trait.NO_RECOMPUTE,
        kinds="f",
        domain=(0.5, 3.0),
        samples=tuple(Sample((draw_key, shape)) for shape in ((3,), (2, 3), (), (0,))),
    )


GAMMA = _define_rejection("gamma", lambda generator, x: generator.standard_gamma(x), None)
POISSON = _define_rejection("poisson", lambda generator, x: generator.poisson(x), _INT64)


def _spread_parameter(op: Op, parameter: TensorLike, shape: ShapeLike | None) -> Tensor:
    tensor = promote_one(EXP, as_tensor(parameter, argument=op.name))
    if shape is None:
        return tensor
    wanted = shape_argument(op.name, shape)
    return broadcast_to(tensor, broadcast_shapes(op.name, tensor.shape, wanted))


def gamma(
    key: TensorLike,
    concentration: TensorLike,
    shape: ShapeLike | None = None,
    scale: TensorLike = 1.0,
) -> Tensor:
    """Numbers of the gamma distribution, by the method of NumPy's generators.

    Parameters
    ----------
    key : TensorLike of uint64, shape (2,)
        The same key gives the same numbers.
    concentration : TensorLike of float
        The shape parameter, above 0. It has no gradient.
    shape : int or sequence of int, optional
        Shape of the result, by default that of `concentration`, which broadcasts against it.
    scale : TensorLike of float
        What the numbers are multiplied by; it has a gradient.

    Returns
    -------
    Tensor of float
        Of the given shape.

    Examples
    --------
    >>> import tapeline as tl
    >>> x = tl.random.gamma(tl.random.key(7), [1.0, 5.0], (1000, 2))
    >>> tl.round(tl.mean(x, axis=0)).numpy()
    array([1., 5.])
    """
    parameter = _spread_parameter(GAMMA, concentration, shape)
    return placed(apply(GAMMA, as_key("gamma", key), parameter), scale, 0)


def beta(key: TensorLike, a: TensorLike, b: TensorLike, shape: ShapeLike | None = None) -> Tensor:
    """Numbers from 0 to 1 of the beta distribution: the share of one of two gamma numbers.

    Parameters
    ----------
    key : TensorLike of uint64, shape (2,)
        The same key gives the same numbers.
    a, b : TensorLike of float
        Both parameters, above 0; they broadcast and have no gradient.
    shape : int or sequence of int, optional
        Shape of the result, by default that of the parameters.

    Returns
    -------
    Tensor of float
        Of the given shape.

    Examples
    --------
    >>> import tapeline as tl
    >>> x = tl.random.beta(tl.random.key(7), 2.0, 2.0, 1000)
    >>> abs(tl.mean(x).item() - 0.5) < 0.03
    True
    """
    keys = split(key)
    first, second = as_tensor(a, argument="beta: a"), as_tensor(b, argument="beta: b")
    common = broadcast_shapes("beta", first.shape, second.shape)
    wanted = common if shape is None else shape
    x, y = gamma(keys[0], first, wanted), gamma(keys[1], second, wanted)
    return x / (x + y)


def poisson(key: TensorLike, rate: TensorLike, shape: ShapeLike | None = None) -> Tensor:
    """Counts of the Poisson distribution, by the method of NumPy's generators.

    Parameters
    ----------
    key : TensorLike of uint64, shape (2,)
        The same key gives the same numbers.
    rate : TensorLike of float
        The mean count, at least 0.
    shape : int or sequence of int, optional
        Shape of the result, by default that of `rate`, which broadcasts against it.

    Returns
    -------
    Tensor of int64

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.random.poisson(tl.random.key(7), 4.0, 1000).dtype
    dtype('int64')
    """
    return apply(POISSON, as_key("poisson", key), _spread_parameter(POISSON, rate, shape))
