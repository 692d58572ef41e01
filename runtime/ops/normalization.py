"""Normalization: layer, RMS, batch and group. The channels are the last axis."""

from __future__ import annotations

from typing import Any

from tapeline.runtime.errors import ArgumentError, ShapeError
from tapeline.runtime.ops.axes import Axis, as_index, normalize_axes
from tapeline.runtime.ops.cast import stop_gradient
from tapeline.runtime.ops.powers import RSQRT, rsqrt
from tapeline.runtime.ops.shaping import reshape
from tapeline.runtime.ops.statistics import mean as mean_over
from tapeline.runtime.ops.statistics import var
from tapeline.runtime.promotion import narrowed, promote_one
from tapeline.runtime.tensor import Tensor, TensorLike, as_tensor


def _fitted(
    x: TensorLike, y: Tensor, scale: TensorLike | None, offset: TensorLike | None
) -> Tensor:
    """`y * scale + offset`, as far as they are given, for what was made of `x`."""
    y = narrowed(y, x)
    if scale is not None:
        y = y * as_tensor(scale, argument="scale")
    return y if offset is None else y + as_tensor(offset, argument="offset")


def _standardized(x: Tensor, axes: tuple[int, ...], epsilon: float) -> Tensor:
    """`x` with mean 0 and variance 1 over the axes."""
    centred = x - mean_over(x, axis=axes, keepdims=True)
    return centred * rsqrt(var(x, axis=axes, keepdims=True) + epsilon)


def layer_norm(
    x: TensorLike,
    /,
    scale: TensorLike | None = None,
    offset: TensorLike | None = None,
    *,
    axis: Axis = -1,
    epsilon: float = 1e-5,
) -> Tensor:
    """Each row brought to mean 0 and variance 1, then scaled and moved.

    Parameters
    ----------
    x : TensorLike of float
        The tensor; ints are taken as floats.
    scale, offset : TensorLike of float, optional
        Broadcast against `x`.
    axis : int, sequence of int or None
        Axes that make up a row.
    epsilon : float
        Added to the variance.

    Returns
    -------
    Tensor of float
        Of the shape of `x`.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.nn.layer_norm([[1.0, 3.0], [0.0, 8.0]], epsilon=0.0).numpy()
    array([[-1.,  1.],
           [-1.,  1.]])
    """
    given, x = x, promote_one(RSQRT, x)
    axes = normalize_axes("layer_norm", axis, x.ndim)
    return _fitted(given, _standardized(x, axes, float(epsilon)), scale, offset)


def rms_norm(
    x: TensorLike, /, scale: TensorLike | None = None, *, axis: Axis = -1, epsilon: float = 1e-6
) -> Tensor:
    """Each row divided by the root of the mean of its squares, then scaled; as `layer_norm`
    otherwise.

    Parameters
    ----------
    x : TensorLike of float
        The tensor; ints are taken as floats.
    scale : TensorLike of float, optional
        Broadcast against `x`.
    axis : int, tuple of int or None
        Axes that make up a row.
    epsilon : float
        Added to the mean of the squares.

    Returns
    -------
    Tensor of float
        Of the shape of `x`.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.nn.rms_norm([2.0, -2.0], [1.0, 10.0], epsilon=0.0).numpy()
    array([  1., -10.])
    """
    given, x = x, promote_one(RSQRT, x)
    axes = normalize_axes("rms_norm", axis, x.ndim)
    mean_square = mean_over(x * x, axis=axes, keepdims=True)
    return _fitted(given, x * rsqrt(mean_square + float(epsilon)), scale, None)


def batch_norm(
    x: TensorLike,
    /,
    running_mean: Any = None,
    running_variance: Any = None,
    scale: TensorLike | None = None,
    offset: TensorLike | None = None,
    *,
    training: bool = False,
    momentum: float = 0.9,
    epsilon: float = 1e-5,
) -> Tensor:
    """Each channel brought to mean 0 and variance 1 over the batch, or by running statistics.

    Parameters
    ----------
    x : TensorLike of float, shape (batch, ..., channels)
        The tensor.
    running_mean, running_variance : TensorLike of float, shape (channels,), optional
        Without `training` they are the statistics. With it Variables given here move towards the
        statistics of the batch.
    scale, offset : TensorLike of float, shape (channels,), optional
        What the normalized channels are multiplied by, and what is added.
    training : bool
        Whether to take the statistics of the batch.
    momentum : float
        How much of a running statistic stays at each call.
    epsilon : float
        Added to the variance.

    Returns
    -------
    Tensor of float
        Of the shape of `x`.

    Raises
    ------
    ArgumentError
        If there are no running statistics, outside of training.

    Examples
    --------
    >>> import tapeline as tl
    >>> average, variance = tl.Variable([0.0], trainable=False), tl.Variable([1.0], trainable=False)
    >>> tl.nn.batch_norm([[1.0], [3.0]], average, variance, training=True, epsilon=0.0).numpy()
    array([[-1.],
           [ 1.]])
    >>> average.numpy()
    array([0.2])
    """
    given, x = x, promote_one(RSQRT, x)
    if not training:
        if running_mean is None or running_variance is None:
            raise ArgumentError(
                "batch_norm: running_mean and running_variance must be given unless training=True"
            )
        spread = as_tensor(running_variance, argument="batch_norm: running_variance") + epsilon
        centred = x - as_tensor(running_mean, argument="batch_norm: running_mean")
        return _fitted(given, centred * rsqrt(spread), scale, offset)
    axes = tuple(range(x.ndim - 1))
    mean, variance = mean_over(x, axis=axes), var(x, axis=axes)
    for running, current in ((running_mean, mean), (running_variance, variance)):
        if hasattr(running, "assign"):
            kept = stop_gradient(running) * float(momentum)
            running.assign(kept + stop_gradient(current) * (1.0 - momentum))
    return _fitted(given, (x - mean) * rsqrt(variance + float(epsilon)), scale, offset)


def group_norm(
    x: TensorLike,
    /,
    groups: int,
    scale: TensorLike | None = None,
    offset: TensorLike | None = None,
    *,
    epsilon: float = 1e-5,
) -> Tensor:
    """Each sample's groups of channels brought to mean 0 and variance 1, then scaled and moved.

    Parameters
    ----------
    x : TensorLike of float, shape (batch, ..., channels)
        The tensor.
    groups : int
        Into how many groups the channels fall; as many as channels is instance normalization.
    scale, offset : TensorLike of float, shape (channels,), optional
        What the normalized channels are multiplied by, and what is added.
    epsilon : float
        Added to the variance.

    Returns
    -------
    Tensor of float
        Of the shape of `x`.

    Raises
    ------
    ShapeError
        If the channels do not fall into that many groups of one size.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.nn.group_norm([[1.0, 3.0, 10.0, 30.0]], 2, epsilon=0.0).numpy()
    array([[-1.,  1., -1.,  1.]])
    """
    given, x = x, promote_one(RSQRT, x)
    count = as_index("group_norm", groups)
    if x.ndim < 2 or count < 1 or x.shape[-1] % count:
        raise ShapeError(
            f"group_norm: shape {x.shape} must be (batch, ..., channels) with channels that fall "
            f"into {groups} groups of one size"
        )
    split = reshape(x, (*x.shape[:-1], count, x.shape[-1] // count))
    axes = (*range(1, x.ndim - 1), x.ndim)
    normal = reshape(_standardized(split, axes, float(epsilon)), x.shape)
    return _fitted(given, normal, scale, offset)
