"""Bounds for gradients."""

from __future__ import annotations

import functools
import operator
from typing import Any

import numpy as np

from tapeline.runtime.errors import ArgumentError
from tapeline.runtime.indexed_slices import IndexedSlices
from tapeline.runtime.ops.powers import sqrt
from tapeline.runtime.ops.reduction import sum as sum_over
from tapeline.runtime.ops.selection import clip, maximum
from tapeline.runtime.optimizers.rows import added_up, map_gradients
from tapeline.runtime.tensor import Tensor, as_tensor, cast_tensor, new_tensor


def global_norm(gradients: Any, /) -> Tensor:
    """The root of the sum of the squares of all elements of a structure of tensors.

    Parameters
    ----------
    gradients : structure of TensorLike of float, IndexedSlices or None
        None counts as zeros.

    Returns
    -------
    Tensor of float, 0-d

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.optimizers.global_norm([[3.0], None, [[4.0]]]).item()
    5.0
    """
    squares: list[Tensor] = []

    def add(gradient: Any) -> None:
        if type(gradient) is IndexedSlices:
            gradient = added_up(gradient).values
        tensor = as_tensor(gradient, argument="global_norm")
        squares.append(sum_over(tensor * tensor))

    map_gradients(add, gradients)
    return sqrt(functools.reduce(operator.add, squares) if squares else new_tensor(np.zeros(())))


def clip_by_global_norm(gradients: Any, max_norm: float, /) -> tuple[Any, Tensor]:
    """All gradients scaled down by one factor, so that the norm of them all is at most `max_norm`.

    Parameters
    ----------
    gradients : structure of TensorLike of float, IndexedSlices or None
        None stays None, sparse gradients stay sparse.
    max_norm : float
        Above 0.

    Returns
    -------
    (structure of Tensor or IndexedSlices, Tensor)
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

    def scaled(gradient: Any) -> Any:
        if type(gradient) is IndexedSlices:
            return gradient * cast_tensor(factor, gradient.dtype)
        tensor = as_tensor(gradient, argument="clip_by_global_norm")
        return tensor * cast_tensor(factor, tensor.dtype)

    return map_gradients(scaled, gradients), norm


def clip_by_value(gradients: Any, limit: float, /) -> Any:
    """Each element of each gradient, but no further from 0 than `limit`; rows stay rows.

    Parameters
    ----------
    gradients : any structure
        Of tensors, `IndexedSlices` and None.
    limit : float
        The largest magnitude that stays.

    Returns
    -------
    any structure
        Of the same form.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.optimizers.clip_by_value([tl.asarray([3.0, -0.5])], 1.0)[0].numpy()
    array([ 1. , -0.5])
    """
    if not limit > 0:
        raise ArgumentError(f"clip_by_value: limit must be above 0, got {limit}")
    bound = float(limit)

    def clipped(gradient: Any) -> Any:
        if type(gradient) is IndexedSlices:
            rows = added_up(gradient)
            return rows.with_values(clip(rows.values, -bound, bound))
        return clip(gradient, -bound, bound)

    return map_gradients(clipped, gradients)
