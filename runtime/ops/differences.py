"""Differences of neighbours along an axis."""

from __future__ import annotations

import numpy as np

from tapeline.runtime.errors import ArgumentError, ShapeError
from tapeline.runtime.ops.axes import ANY_KIND
from tapeline.runtime.ops.comparison import not_equal
from tapeline.runtime.ops.joining import concat
from tapeline.runtime.ops.shaping import broadcast_to
from tapeline.runtime.ops.slicing import slice_along
from tapeline.runtime.spec import normalize_axis
from tapeline.runtime.tensor import Tensor, TensorLike, as_tensor, register_ufunc
from tapeline.runtime.unwatched import plain_array, wrapped


def diff(
    x: TensorLike,
    /,
    *,
    axis: int = -1,
    n: int = 1,
    prepend: TensorLike | None = None,
    append: TensorLike | None = None,
) -> Tensor:
    """The differences of neighbours along an axis: `x[1:] - x[:-1]`, for bools whether they differ.

    Parameters
    ----------
    x : TensorLike
        Of at least one dimension.
    axis : int
        The axis to go along.
    n : int
        How many times to take differences.
    prepend, append : TensorLike, optional
        Put before and after `x` along the axis, before differences are taken.

    Returns
    -------
    Tensor
        Along the axis shorter than `x` with what is joined to it by `n`, but not below 0.

    Raises
    ------
    ArgumentError
        If `n` is negative.
    ShapeError
        If `x` is 0-d.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.diff([1, 4, 9, 16]).numpy(), tl.diff([1, 4, 9, 16], n=2).numpy()
    (array([3, 5, 7]), array([2, 2]))
    """
    array = plain_array(x)
    is_simple = n == 1 and prepend is append is None and type(axis) is int
    if is_simple and array is not None and array.dtype.kind in ANY_KIND:
        try:
            return wrapped(np.diff(array, 1, axis))
        except (TypeError, ValueError):
            pass  # what follows says what is wrong
    x = as_tensor(x, argument="diff")
    if n < 0:
        raise ArgumentError(f"diff: n is {n}; expected an int >= 0")
    if x.ndim == 0:
        raise ShapeError("diff: x is 0-d; there are no neighbours")
    axis = normalize_axis("diff", axis, x.ndim)
    parts = [part for part in (prepend, x, append) if part is not None]
    if len(parts) > 1:
        x = concat([_spread_scalar(part, x, axis) for part in parts], axis=axis)
    for _ in range(n):
        extent = x.shape[axis]
        later = slice_along(x, axis, min(1, extent), extent)
        earlier = slice_along(x, axis, 0, max(extent - 1, 0))
        x = not_equal(later, earlier) if x.dtype.kind == "b" else later - earlier
    return x


def _spread_scalar(part: TensorLike, x: Tensor, axis: int) -> Tensor:
    """The part itself; a single value as a slice of x of extent 1."""
    part = as_tensor(part, argument="diff")
    if part.ndim:
        return part
    return broadcast_to(part, (*x.shape[:axis], 1, *x.shape[axis + 1 :]))


register_ufunc(np.diff, diff)
