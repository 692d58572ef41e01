"""Running maxima, minima and log-sums: scans of ops for which it makes no difference how operands
are grouped.
"""

from __future__ import annotations

from collections.abc import Callable

from tapeline.runtime.ops.exponential import EXP, logaddexp
from tapeline.runtime.ops.joining import concat
from tapeline.runtime.ops.selection import maximum, minimum
from tapeline.runtime.ops.shaping import ravel
from tapeline.runtime.promotion import promote_one
from tapeline.runtime.spec import normalize_axis
from tapeline.runtime.tensor import Tensor, TensorLike, as_tensor


def accumulated(function: Callable[[Tensor, Tensor], Tensor], x: Tensor, axis: int) -> Tensor:
    """In log2(n) steps: after each, an element stands for twice as many before it."""
    before = (slice(None),) * axis
    step = 1
    while step < x.shape[axis]:
        first, rest = x[(*before, slice(step))], x[(*before, slice(step, None))]
        x = concat([first, function(x[(*before, slice(-step))], rest)], axis=axis)
        step *= 2
    return x


def _running(
    name: str, function: Callable[[Tensor, Tensor], Tensor], x: Tensor, axis: int | None
) -> Tensor:
    if axis is None:
        return accumulated(function, ravel(x), 0)
    return accumulated(function, x, normalize_axis(name, axis, x.ndim))


def cumulative_max(x: TensorLike, /, axis: int | None = None) -> Tensor:
    """The largest element so far, along an axis; NaN from the first one on.

    Parameters
    ----------
    x : TensorLike of bool, int or float
        The tensor.
    axis : int or None
        Axis to run along; None runs over all elements in row-major order.

    Returns
    -------
    Tensor
        Of the shape of `x`, flat where `axis` is None.

    Raises
    ------
    AxisError
        If there is no such axis.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.cumulative_max(tl.asarray([1, 3, 2, 5, 4])).numpy()
    array([1, 3, 3, 5, 5])
    """
    return _running("cumulative_max", maximum, as_tensor(x, argument="cumulative_max"), axis)


def cumulative_min(x: TensorLike, /, axis: int | None = None) -> Tensor:
    """The smallest element so far, along an axis; NaN from the first one on.

    Parameters
    ----------
    x : TensorLike of bool, int or float
        The tensor.
    axis : int or None
        Axis to run along; None runs over all elements in row-major order.

    Returns
    -------
    Tensor
        Of the shape of `x`, flat where `axis` is None.

    Raises
    ------
    AxisError
        If there is no such axis.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.cumulative_min(tl.asarray([3, 4, 1, 2])).numpy()
    array([3, 3, 1, 1])
    """
    return _running("cumulative_min", minimum, as_tensor(x, argument="cumulative_min"), axis)


def cumulative_logsumexp(x: TensorLike, /, axis: int | None = None) -> Tensor:
    """`log(cumulative_sum(exp(x)))` along an axis, without overflow.

    Parameters
    ----------
    x : TensorLike of float
        The tensor; ints are taken as floats.
    axis : int or None
        Axis to run along; None runs over all elements in row-major order.

    Returns
    -------
    Tensor of float
        Of the shape of `x`, flat where `axis` is None.

    Raises
    ------
    AxisError
        If there is no such axis.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.cumulative_logsumexp(tl.asarray([1000.0, 1000.0, 0.0])).numpy()
    array([1000.        , 1000.69314718, 1000.69314718])
    """
    return _running("cumulative_logsumexp", logaddexp, promote_one(EXP, x), axis)
