"""Diagonals, triangles and grids of coordinates."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tapeline.runtime.device import Device, check_device
from tapeline.runtime.dims import is_open_shape
from tapeline.runtime.errors import ArgumentError, ShapeError
from tapeline.runtime.op import get_op
from tapeline.runtime.ops.axes import ANY_KIND
from tapeline.runtime.ops.creation import chosen_dtype, shape_argument
from tapeline.runtime.ops.evenly_spaced import arange
from tapeline.runtime.ops.pointwise import apply
from tapeline.runtime.ops.selection import WHERE
from tapeline.runtime.ops.shaping import expand_dims
from tapeline.runtime.promotion import constant
from tapeline.runtime.tensor import Tensor, TensorLike, as_tensor, new_tensor, wrap
from tapeline.runtime.unwatched import plain_array, plain_arrays, wrapped

if TYPE_CHECKING:
    import numpy.typing as npt


def eye(
    n_rows: int,
    n_cols: int | None = None,
    /,
    *,
    k: int = 0,
    dtype: npt.DTypeLike | None = None,
    device: Device | None = None,
) -> Tensor:
    """A matrix with ones on a diagonal and zeros elsewhere.

    Parameters
    ----------
    n_rows, n_cols : int
        The shape; square by default.
    k : int
        The diagonal: 0 the main one, positive above it, negative below it.
    dtype : dtype-like, optional
        Element type, by default float64.
    device : "cpu", optional
        Where the tensor lives.

    Returns
    -------
    Tensor
        Of shape (n_rows, n_cols).

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.eye(2, 3).numpy()
    array([[1., 0., 0.],
           [0., 1., 0.]])
    """
    check_device("eye", device)
    if dtype is None and type(n_rows) is type(k) is int and n_cols is None and n_rows >= 0:
        return new_tensor(np.eye(n_rows, k=k))
    wanted = chosen_dtype("eye", dtype, np.dtype(np.float64))
    shape = shape_argument("eye", (n_rows, n_rows if n_cols is None else n_cols))
    if is_open_shape(shape):
        rows, columns = (arange(extent) for extent in shape)
        return as_tensor(expand_dims(rows, axis=1) + k == columns, wanted)
    return new_tensor(np.eye(shape[0], shape[1], k=k, dtype=wanted))


def tril(x: TensorLike, /, *, k: int = 0) -> Tensor:
    """The matrices in the last two dimensions with zeros above diagonal `k`.

    Parameters
    ----------
    x : TensorLike, shape (..., m, n)
        The matrices.
    k : int
        The last diagonal kept: 0 the main one, positive above it, negative below it.

    Returns
    -------
    Tensor
        Of the shape and dtype of `x`.

    Raises
    ------
    ShapeError
        If `x` has less than two dimensions.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.tril(tl.ones((2, 2))).numpy()
    array([[1., 0.],
           [1., 1.]])
    """
    return _triangle("tril", x, k, True)


def triu(x: TensorLike, /, *, k: int = 0) -> Tensor:
    """The matrices in the last two dimensions with zeros below diagonal `k`; else as `tril`.

    Parameters
    ----------
    x : TensorLike, shape (..., m, n)
        The matrices.
    k : int
        The first diagonal that is kept; 0 is the main one, those above are positive.

    Returns
    -------
    Tensor
        Of the shape of `x`.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.triu(tl.ones((2, 2))).numpy()
    array([[1., 1.],
           [0., 1.]])
    """
    return _triangle("triu", x, k, False)


def _triangle(op_name: str, x: TensorLike, k: int, lower: bool) -> Tensor:
    array = plain_array(x)
    if array is not None and array.ndim > 1 and array.dtype.kind in ANY_KIND and type(k) is int:
        return wrapped(np.tril(array, k) if lower else np.triu(array, k))
    x = as_tensor(x, None, op_name)
    if x.ndim < 2:
        raise ShapeError(f"{op_name}: x has shape {x.shape}; expected at least two dimensions")
    offset = k if lower else k - 1
    if is_open_shape(x.shape[-2:]):
        rows, columns = (arange(extent) for extent in x.shape[-2:])
        below = expand_dims(rows, axis=1) + offset >= columns
        kept = below if lower else ~below
    else:
        table = np.tri(x.shape[-2], x.shape[-1], k=offset, dtype=np.bool_)
        kept = new_tensor(table if lower else ~table)
    return apply(WHERE, kept, x, constant(0, x.dtype))


def meshgrid(*arrays: TensorLike, indexing: str = "xy") -> tuple[Tensor, ...]:
    """The coordinates of a grid, one tensor per axis, from the coordinates along each axis.

    Parameters
    ----------
    *arrays : TensorLike, 1-d
        Coordinates along each axis.
    indexing : "xy" or "ij"
        With "xy" the first two axes of the results are swapped, as in pictures.

    Returns
    -------
    tuple of Tensor
        As many as there are arrays, all of the shape of the grid.

    Raises
    ------
    ArgumentError
        If `indexing` is something else.
    ShapeError
        If an array has more than one dimension.

    Examples
    --------
    >>> import tapeline as tl
    >>> xs, ys = tl.meshgrid([0, 1, 2], [5, 6])
    >>> ys.numpy()
    array([[5, 5, 5],
           [6, 6, 6]])
    """
    if indexing not in ("xy", "ij"):
        raise ArgumentError(f"meshgrid: indexing is {indexing!r}; expected 'xy' or 'ij'")
    plain = plain_arrays(arrays)
    if plain and all(array.ndim == 1 for array in plain):
        return tuple(map(wrap, np.meshgrid(*plain, indexing=indexing, copy=False)))  # type: ignore[call-overload]  # NumPy types two words
    tensors = [as_tensor(x, None, "meshgrid") for x in arrays]
    for x in tensors:
        if x.ndim > 1:
            raise ShapeError(f"meshgrid: an array has shape {x.shape}; expected one dimension")
    order = list(range(len(tensors)))
    if indexing == "xy" and len(tensors) > 1:
        order[:2] = [1, 0]
    sizes = [tensors[axis].size for axis in order]
    grids = []
    for number, x in enumerate(tensors):
        shape = tuple(
            size if axis == number else 1 for size, axis in zip(sizes, order, strict=True)
        )
        column = apply(get_op("reshape"), x, attrs=(shape,))
        grids.append(apply(get_op("broadcast_to"), column, attrs=(tuple(sizes),)))
    return tuple(grids)
