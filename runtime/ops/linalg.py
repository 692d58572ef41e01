"""Linear algebra that is made of other ops: diagonals, traces, powers, cross products."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tapeline.runtime.errors import ArgumentError, ShapeError
from tapeline.runtime.ops.arithmetic import MULTIPLY
from tapeline.runtime.ops.axes import as_index
from tapeline.runtime.ops.grids import eye
from tapeline.runtime.ops.joining import concat
from tapeline.runtime.ops.matmul import matmul
from tapeline.runtime.ops.matrices import check_matrices
from tapeline.runtime.ops.reduction import sum as sum_over
from tapeline.runtime.ops.shaping import broadcast_arrays, broadcast_to
from tapeline.runtime.ops.slicing import diagonal as diagonal_between
from tapeline.runtime.ops.slicing import slice_along
from tapeline.runtime.ops.solving import inv
from tapeline.runtime.promotion import promote
from tapeline.runtime.spec import normalize_axis
from tapeline.runtime.tensor import Tensor, TensorLike, as_tensor, register_ufunc
from tapeline.runtime.unwatched import numpys_own

if TYPE_CHECKING:
    import numpy.typing as npt


def diagonal(x: TensorLike, /, *, offset: int = 0) -> Tensor:
    """The diagonals of the matrices in the last two dimensions.

    Parameters
    ----------
    x : TensorLike, shape (..., m, n)
        The matrices.
    offset : int
        How far above the main diagonal (below, if negative).

    Returns
    -------
    Tensor, shape (..., min(m, n))
        Shorter where the diagonal is another one than the main one.

    Raises
    ------
    ShapeError
        If there are less than two dimensions.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.linalg.diagonal([[1, 2], [3, 4]], offset=1).numpy()
    array([2])
    """
    x = as_tensor(x, argument="diagonal")
    check_matrices("diagonal", x.shape)
    return diagonal_between(x, offset, -2, -1)


def trace(x: TensorLike, /, *, offset: int = 0, dtype: npt.DTypeLike | None = None) -> Tensor:
    """The sums of the diagonals of the matrices in the last two dimensions.

    Parameters
    ----------
    x : TensorLike, shape (..., m, n)
        The matrices.
    offset : int
        How far above the main diagonal (below, if negative).
    dtype : dtype-like, optional
        Element type to sum in; by default as for `tl.sum`.

    Returns
    -------
    Tensor, shape (...)

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.linalg.trace([[1, 2], [3, 4]]).item()
    5
    """
    if dtype is None and type(offset) is int:
        found = numpys_own(np.trace, x, offset, -2, -1)
        if found is not None:
            return found
    return sum_over(diagonal(x, offset=offset), axis=-1, dtype=dtype)


def cross(x1: TensorLike, x2: TensorLike, /, *, axis: int = -1) -> Tensor:
    """The cross products of vectors of three elements; the rest broadcasts.

    Parameters
    ----------
    x1, x2 : TensorLike
        The vectors.
    axis : int
        The axis of the three elements.

    Returns
    -------
    Tensor
        Of the broadcast shape and the promoted dtype.

    Raises
    ------
    ShapeError
        If the extent along the axis is not 3.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.linalg.cross([1, 0, 0], [0, 1, 0]).numpy()
    array([0, 0, 1])
    """
    first, second = promote(MULTIPLY, x1, x2)
    for operand in (first, second):
        place = normalize_axis("cross", axis, operand.ndim)
        if operand.shape[place] != 3:
            raise ShapeError(
                f"cross: operands have shapes {first.shape} and {second.shape}; both must have "
                f"extent 3 along axis {axis}"
            )
    first, second = broadcast_arrays(first, second)
    a = [slice_along(first, axis, k, k + 1) for k in range(3)]
    b = [slice_along(second, axis, k, k + 1) for k in range(3)]
    parts = [a[k - 2] * b[k - 1] - a[k - 1] * b[k - 2] for k in range(3)]
    return concat(parts, axis=axis)


def matrix_power(x: TensorLike, n: int, /) -> Tensor:
    """Square matrices multiplied with themselves; of the inverses, if `n` is negative.

    Parameters
    ----------
    x : TensorLike, shape (..., m, m)
        The matrices.
    n : int
        How many factors; the identity for 0.

    Returns
    -------
    Tensor, shape (..., n, n)

    Raises
    ------
    ShapeError
        If the matrices are not square.
    LinAlgError
        If n is negative and a matrix has no inverse.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.linalg.matrix_power([[1, 1], [0, 1]], 5).numpy()
    array([[1, 5],
           [0, 1]])
    """
    x = as_tensor(x, argument="matrix_power")
    check_matrices("matrix_power", x.shape, square=True)
    n = as_index("matrix_power", n)
    if n == 0:
        return broadcast_to(eye(x.shape[-1], dtype=x.dtype), x.shape)
    if n < 0:
        x, n = inv(x), -n
    result: Tensor | None = None
    while n:
        if n % 2:
            result = x if result is None else matmul(result, x)
        n //= 2
        if n:
            x = matmul(x, x)
    assert result is not None
    return result


def multi_dot(arrays: list[TensorLike], /) -> Tensor:
    """The product of several matrices, multiplied in the order that takes the least work.

    Parameters
    ----------
    arrays : sequence of tensor-like
        At least two; all 2-d, but the first may be a row and the last a column that are 1-d.

    Returns
    -------
    Tensor
        Of the promoted dtype.

    Raises
    ------
    ArgumentError
        If there are less than two.
    ShapeError
        If neighbours do not fit, or one has another number of dimensions.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.linalg.multi_dot([tl.ones((2, 3)), tl.ones((3, 4)), tl.ones(4)]).numpy()
    array([12., 12.])
    """
    tensors = [as_tensor(array, argument="multi_dot") for array in arrays]
    if len(tensors) < 2:
        raise ArgumentError(f"multi_dot: got {len(tensors)} tensors; expected at least two")
    for number, x in enumerate(tensors):
        if x.ndim != 2 and not (x.ndim == 1 and number in (0, len(tensors) - 1)):
            raise ShapeError(f"multi_dot: tensor {number} has shape {x.shape}; expected a matrix")
    extents = [1 if tensors[0].ndim == 1 else tensors[0].shape[0]]
    extents += [x.shape[0] for x in tensors[1:]]
    extents.append(1 if tensors[-1].ndim == 1 else tensors[-1].shape[1])
    splits = _cheapest_splits(extents)

    def multiply(first: int, last: int) -> Tensor:
        if first == last:
            return tensors[first]
        split = splits[first, last]
        return matmul(multiply(first, split), multiply(split + 1, last))

    return multiply(0, len(tensors) - 1)


def _cheapest_splits(extents: list[int]) -> dict[tuple[int, int], int]:
    """For each run of factors where to cut it in two; factor k is extents[k] by extents[k + 1]."""
    count = len(extents) - 1
    cost = {(k, k): 0 for k in range(count)}
    splits: dict[tuple[int, int], int] = {}
    for length in range(1, count):
        for first in range(count - length):
            last = first + length
            best = None
            for split in range(first, last):
                work = extents[first] * extents[split + 1] * extents[last + 1]
                total = cost[first, split] + cost[split + 1, last] + work
                if best is None or total < best:
                    best, splits[first, last] = total, split
            assert best is not None
            cost[first, last] = best
    return splits


register_ufunc(np.linalg.diagonal, diagonal)
register_ufunc(np.linalg.trace, trace)
register_ufunc(np.linalg.cross, cross)
register_ufunc(np.linalg.matrix_power, matrix_power)
register_ufunc(np.linalg.multi_dot, multi_dot)
