"""Shrinkage towards 0: what minimizes a distance plus a penalty on the size."""

from __future__ import annotations

from tapeline.runtime.errors import ArgumentError
from tapeline.runtime.ops.arithmetic import DIVIDE
from tapeline.runtime.ops.selection import clip, where
from tapeline.runtime.ops.signs import abs as magnitude
from tapeline.runtime.promotion import promote_one
from tapeline.runtime.tensor import Tensor, TensorLike


def _check(op_name: str, threshold: float) -> None:
    if not threshold >= 0:
        raise ArgumentError(f"{op_name}: threshold must be at least 0, got {threshold}")


def softshrink(x: TensorLike, /, threshold: float = 0.5) -> Tensor:
    """Each element moved towards 0 by the threshold, but not beyond 0.

    Parameters
    ----------
    x : TensorLike of float
        Of any shape; ints are taken as floats.
    threshold : float
        At least 0.

    Returns
    -------
    Tensor of float
        Of the shape of `x`.

    Raises
    ------
    ArgumentError
        If the threshold is below 0.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.nn.softshrink([-2.0, 0.25, 1.0]).numpy()
    array([-1.5,  0. ,  0.5])
    """
    _check("softshrink", threshold)
    found = promote_one(DIVIDE, x)
    return found - clip(found, -threshold, threshold)


def hardshrink(x: TensorLike, /, threshold: float = 0.5) -> Tensor:
    """Each element that is farther from 0 than the threshold, 0 for the others.

    Parameters
    ----------
    x : TensorLike of float
        Of any shape; ints are taken as floats.
    threshold : float
        At least 0.

    Returns
    -------
    Tensor of float
        Of the shape of `x`.

    Raises
    ------
    ArgumentError
        If the threshold is below 0.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.nn.hardshrink([-2.0, 0.25, 1.0]).numpy()
    array([-2.,  0.,  1.])
    """
    _check("hardshrink", threshold)
    found = promote_one(DIVIDE, x)
    return where(magnitude(found) > threshold, found, 0.0)
