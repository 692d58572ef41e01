"""Resizing of images and other grids by their nearest elements or by lines between them."""

from __future__ import annotations

from typing import Any

import numpy as np

from tapeline.runtime.errors import ArgumentError, ShapeError
from tapeline.runtime.ops.gather import TAKE
from tapeline.runtime.ops.pointwise import apply
from tapeline.runtime.ops.window_arguments import PerAxis, per_axis
from tapeline.runtime.ops.windows import SUM_POOL
from tapeline.runtime.promotion import narrowed, promote_one
from tapeline.runtime.tensor import Tensor, TensorLike, as_tensor, new_tensor

_METHODS = ("nearest", "linear")


def resize(x: TensorLike, extents: PerAxis, /, method: str = "linear") -> Tensor:
    """The inner axes brought to other extents.

    Elements are taken to lie in the middle of cells that share the axis evenly; beyond the middle
    of the first and the last cell their values go on. Neighbours are not averaged when an axis
    shrinks.

    Parameters
    ----------
    x : TensorLike of float, shape (batch, ..., channels)
        The input, with one inner axis or more.
    extents : int or sequence of int
        The wanted extents of all inner axes, or each.
    method : str
        "linear" for lines between the two elements beside a place, along each axis in turn (for
        images this is bilinear), "nearest" for the nearest element.

    Returns
    -------
    Tensor of float, shape (batch, *extents, channels)

    Raises
    ------
    ShapeError
        If there is no inner axis.
    ArgumentError
        If the method is unknown.

    Examples
    --------
    >>> import tapeline as tl
    >>> x = tl.reshape(tl.asarray([1.0, 3.0]), (1, 2, 1))
    >>> tl.nn.resize(x, 4).numpy().ravel()
    array([1. , 1.5, 2.5, 3. ])
    >>> tl.nn.resize(x, 4, method="nearest").numpy().ravel()
    array([1., 1., 3., 3.])
    """
    tensor = promote_one(SUM_POOL, as_tensor(x, argument="resize"))
    if tensor.ndim < 3:
        raise ShapeError(f"resize: x has shape {tensor.shape}; expected (batch, ..., channels)")
    if method not in _METHODS:
        raise ArgumentError(f"resize: method must be one of {_METHODS}, got {method!r}")
    for axis, wanted in enumerate(per_axis("resize", "extents", extents, tensor.ndim - 2), 1):
        if wanted == tensor.shape[axis]:
            continue
        if tensor.shape[axis] == 0:
            raise ShapeError(f"resize: axis {axis} of shape {tensor.shape} is empty")
        places = (np.arange(wanted) + 0.5) * tensor.shape[axis] / wanted
        along = _nearest if method == "nearest" else _linear
        tensor = along(tensor, axis, places)
    return narrowed(tensor, x)


def _taken(x: Tensor, axis: int, places: Any) -> Tensor:
    inside = np.clip(places, 0, x.shape[axis] - 1).astype(np.int64)
    return apply(TAKE, x, new_tensor(inside), attrs=(axis,))


def _nearest(x: Tensor, axis: int, places: Any) -> Tensor:
    return _taken(x, axis, np.floor(places))


def _linear(x: Tensor, axis: int, places: Any) -> Tensor:
    below = np.floor(places - 0.5)
    part = (places - 0.5 - below).reshape((-1,) + (1,) * (x.ndim - axis - 1))
    weight = new_tensor(np.asarray(part, x.dtype))
    low, high = _taken(x, axis, below), _taken(x, axis, below + 1)
    return low + (high - low) * weight
