"""Bounds for gradients."""

from __future__ import annotations

from typing import Any

import numpy as np

from tapeline.runtime import nest
from tapeline.runtime.errors import ArgumentError
from tapeline.runtime.ops.powers import sqrt
from tapeline.runtime.ops.reduction import sum as sum_over
from tapeline.runtime.ops.selection import clip, maximum
from tapeline.runtime.tensor import Tensor, as_tensor, cast_tensor, new_tensor


def global_norm(gradients: Any, /) -> Tensor:
    """The root of the sum of the squares of all elements of a structure of tensors.

    Parameters
    ----------
    gradients : structure of TensorLike of float or None
        None counts as zeros.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.optimizers.global_norm([[3.0], None, [[4.0]]]).item()
    5.0
    """
    total: Tensor | None = None
    for leaf in nest.flatten(gradients):
        tensor = as_tensor(leaf, argument="global_norm")
        square = sum_over(tensor * tensor)
        total = square if total is None else total + square
    return sqrt(new_tensor(np.zeros(())) if total is None else total)


def clip_by_global_norm(gradients: Any, max_norm: float, /) -> tuple[Any, Tensor]:
    """All gradients scaled down by one factor, so that the norm of them all is at most `max_norm`.

    Parameters
    ----------
    gradients : structure of TensorLike of float or None
        None stays None.
    max_norm : float
        Above 0.

    Returns
    -------
    (structure of Tensor, Tensor)
        The gradients, and their norm before.

    Examples
    --------
    >>> import tapeline as tl
    >>> (clipped,), norm = tl.optimizers.clip_by_global_norm([tl.asarray([3.0, 4.0])], 1.0)
    >>> clipped.numpy(), norm.item()
    (array([0.6, 0.8]), 5.0)
    """
    if not max_norm > 0:
        raise ArgumentError(f"clip_by_global_norm: max_norm must be above 0, got {max_norm}")
    norm = global_norm(gradients)
    factor = float(max_norm) / maximum(norm, float(max_norm))

    def scaled(gradient: Any) -> Tensor:
        tensor = as_tensor(gradient, argument="clip_by_global_norm")
        return tensor * cast_tensor(factor, tensor.dtype)

    return nest.map_structure(scaled, gradients), norm


def clip_by_value(gradients: Any, limit: float, /) -> Any:
    """Each element of each gradient, but no further from 0 than `limit`.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.optimizers.clip_by_value([tl.asarray([3.0, -0.5])], 1.0)[0].numpy()
    array([ 1. , -0.5])
    """
    if not limit > 0:
        raise ArgumentError(f"clip_by_value: limit must be above 0, got {limit}")
    bound = float(limit)
    return nest.map_structure(lambda gradient: clip(gradient, -bound, bound), gradients)
