"""Tensors from nothing, from numbers and from arrays. What they make has no history on any tape,
but for `asarray` of tensors, `tril`, `triu` and `meshgrid`, through which gradients flow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tapeline.runtime.errors import ArgumentError, ShapeError
from tapeline.runtime.op import get_op
from tapeline.runtime.operators import constant
from tapeline.runtime.ops.cast import identity
from tapeline.runtime.ops.pointwise import apply
from tapeline.runtime.ops.selection import WHERE
from tapeline.runtime.spec import DType, Shape, canonical_dtype
from tapeline.runtime.tensor import Tensor, TensorLike, adopt, as_tensor, new_tensor, wrap

_FLOAT64 = canonical_dtype(np.float64)


def _shape_of(op_name: str, shape: int | Sequence[int]) -> Shape:
    """A shape argument as a tuple of ints."""
    extents = (shape,) if isinstance(shape, int | np.integer) else tuple(shape)
    for extent in extents:
        if not isinstance(extent, int | np.integer) or extent < 0:
            raise ShapeError(f"{op_name}: shape must be ints >= 0, got {shape!r}")
    return tuple([int(extent) for extent in extents])


def _dtype_of(op_name: str, dtype: npt.DTypeLike | None, default: DType) -> DType:
    return default if dtype is None else canonical_dtype(dtype, f"{op_name}: dtype")


# -- from values -----------------------------------------------------------------------------------


def asarray(
    obj: TensorLike, /, dtype: npt.DTypeLike | None = None, *, copy: bool | None = None
) -> Tensor:
    """A tensor of the values of `obj`.

    Parameters
    ----------
    obj : Tensor, Variable, array, number or nested sequence
        A sequence may hold tensors; gradients flow to them.
    dtype : dtype-like, optional
        The wanted dtype; by default that of the values: bool, int64, float64 or complex128 for
        Python numbers.
    copy : bool, optional
        By default an array is copied, and a tensor of the wanted dtype comes back as it is. True
        gives a tensor of its own in any case. False shares the memory of an array, which must not
        be written to any more, and is an error where a copy is needed.

    Returns
    -------
    Tensor
        Of the shape of `obj`.

    Raises
    ------
    DTypeError
        If the values are of no dtype that Tapeline has, such as objects or strings.
    ArgumentTypeError
        If no tensor can be made of `obj`.
    ArgumentError
        If `copy` is False and a copy is needed.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.asarray([[1, 2], [3, 4]], dtype="float32").numpy()
    array([[1., 2.],
           [3., 4.]], dtype=float32)
    """
    if copy is False and type(obj) is not Tensor:
        return _shared(obj, dtype)
    result = as_tensor(obj, dtype)
    if copy is False and result is not obj:
        raise ArgumentError(
            f"asarray: copy=False, but the tensor has dtype {obj.dtype} and not "  # type: ignore[union-attr]
            f"{result.dtype}; leave copy out"
        )
    return identity(result) if copy and result is obj else result


def _shared(obj: Any, dtype: npt.DTypeLike | None) -> Tensor:
    """The array itself as the value of a tensor."""
    if hasattr(type(obj), "__tapeline_tensor__"):
        return asarray(as_tensor(obj), dtype, copy=False)
    if not isinstance(obj, np.ndarray):
        raise ArgumentError(
            f"asarray: copy=False needs an array or a tensor, got {type(obj).__name__}; leave copy "
            f"out"
        )
    own = canonical_dtype(obj.dtype, "asarray")
    wanted = _dtype_of("asarray", dtype, own)
    if wanted != obj.dtype:
        raise ArgumentError(
            f"asarray: copy=False, but the array has dtype {obj.dtype} and not {wanted}; leave "
            f"copy out"
        )
    return adopt(wrap(np.asarray(obj).view(own)), obj)


# -- filled ----------------------------------------------------------------------------------------


def zeros(shape: int | Sequence[int], dtype: npt.DTypeLike | None = None) -> Tensor:
    """A tensor of zeros.

    Parameters
    ----------
    shape : int or sequence of int
        Extent of each dimension.
    dtype : dtype-like, optional
        Element type, by default float64.

    Returns
    -------
    Tensor
        Of that shape and dtype.

    Raises
    ------
    ShapeError
        If an extent is negative or no int.
    DTypeError
        If Tapeline has no such dtype.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.zeros((2, 2)).numpy()
    array([[0., 0.],
           [0., 0.]])
    """
    return new_tensor(np.zeros(_shape_of("zeros", shape), _dtype_of("zeros", dtype, _FLOAT64)))


def ones(shape: int | Sequence[int], dtype: npt.DTypeLike | None = None) -> Tensor:
    """A tensor of ones; parameters and errors as in `zeros`.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.ones(3, dtype="int8").numpy()
    array([1, 1, 1], dtype=int8)
    """
    return new_tensor(np.ones(_shape_of("ones", shape), _dtype_of("ones", dtype, _FLOAT64)))


def empty(shape: int | Sequence[int], dtype: npt.DTypeLike | None = None) -> Tensor:
    """A tensor whose values do not matter; parameters and errors as in `zeros`.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.empty((2, 0)).shape
    (2, 0)
    """
    return new_tensor(np.empty(_shape_of("empty", shape), _dtype_of("empty", dtype, _FLOAT64)))


def full(
    shape: int | Sequence[int], fill_value: TensorLike, dtype: npt.DTypeLike | None = None
) -> Tensor:
    """A tensor of one value everywhere.

    Parameters
    ----------
    shape : int or sequence of int
        Extent of each dimension.
    fill_value : number or 0-d tensor
        The value; gradients flow to a tensor.
    dtype : dtype-like, optional
        Element type, by default that of the value.

    Returns
    -------
    Tensor
        Of that shape and dtype.

    Raises
    ------
    ShapeError
        If an extent is negative or no int, or the value is not 0-d.
    DTypeError
        If Tapeline has no such dtype.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.full(3, 2.5).numpy()
    array([2.5, 2.5, 2.5])
    """
    value = as_tensor(fill_value, dtype, "full: fill_value")
    if value.shape != ():
        raise ShapeError(f"full: fill_value has shape {value.shape}; expected a single value")
    extents = _shape_of("full", shape)
    if type(value._value) is np.ndarray and value._node is None:
        return new_tensor(np.full(extents, value._value))
    return apply(get_op("broadcast_to"), value, attrs=(extents,))


def zeros_like(x: TensorLike, /, dtype: npt.DTypeLike | None = None) -> Tensor:
    """Zeros of the shape of `x`, and of its dtype unless one is given.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.zeros_like([1.0, 2.0]).numpy()
    array([0., 0.])
    """
    x = as_tensor(x, None, "zeros_like")
    return zeros(x.shape, x.dtype if dtype is None else dtype)


def ones_like(x: TensorLike, /, dtype: npt.DTypeLike | None = None) -> Tensor:
    """Ones of the shape of `x`, and of its dtype unless one is given.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.ones_like([1.0, 2.0]).numpy()
    array([1., 1.])
    """
    x = as_tensor(x, None, "ones_like")
    return ones(x.shape, x.dtype if dtype is None else dtype)


def empty_like(x: TensorLike, /, dtype: npt.DTypeLike | None = None) -> Tensor:
    """A tensor of the shape of `x` whose values do not matter.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.empty_like([1.0, 2.0]).shape
    (2,)
    """
    x = as_tensor(x, None, "empty_like")
    return empty(x.shape, x.dtype if dtype is None else dtype)


def full_like(
    x: TensorLike, /, fill_value: TensorLike, dtype: npt.DTypeLike | None = None
) -> Tensor:
    """One value everywhere, in the shape of `x`, and in its dtype unless one is given.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.full_like([1.0, 2.0], 7).numpy()
    array([7., 7.])
    """
    x = as_tensor(x, None, "full_like")
    return full(x.shape, fill_value, x.dtype if dtype is None else dtype)


# -- counting --------------------------------------------------------------------------------------


def arange(
    start: float,
    /,
    stop: float | None = None,
    step: float = 1,
    *,
    dtype: npt.DTypeLike | None = None,
) -> Tensor:
    """Evenly spaced numbers from `start` on, before `stop`.

    Parameters
    ----------
    start : number
        The first number; with one argument it is the end, and the numbers begin at 0.
    stop : number, optional
        The end, which is not included.
    step : number
        The distance, not 0.
    dtype : dtype-like, optional
        Element type, by default int64, or float64 if a number is a float.

    Returns
    -------
    Tensor
        1-d.

    Raises
    ------
    ArgumentError
        If the step is 0.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.arange(2, 10, 3).numpy()
    array([2, 5, 8])
    """
    if stop is None:
        start, stop = 0, start
    if step == 0:
        raise ArgumentError("arange: step is 0; expected a number that leads from start to stop")
    values = np.arange(start, stop, step)
    return new_tensor(values.astype(_dtype_of("arange", dtype, canonical_dtype(values.dtype))))


def linspace(
    start: complex,
    stop: complex,
    /,
    num: int,
    *,
    dtype: npt.DTypeLike | None = None,
    endpoint: bool = True,
) -> Tensor:
    """`num` evenly spaced numbers from `start` to `stop`.

    Parameters
    ----------
    start, stop : number
        The ends.
    num : int
        How many numbers, at least 0.
    dtype : dtype-like, optional
        Element type, by default float64 or complex128.
    endpoint : bool
        Whether `stop` is the last number, or the one after it.

    Returns
    -------
    Tensor
        Of shape (num,).

    Raises
    ------
    ArgumentError
        If `num` is negative.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.linspace(0.0, 1.0, 5).numpy()
    array([0.  , 0.25, 0.5 , 0.75, 1.  ])
    """
    if num < 0:
        raise ArgumentError(f"linspace: num is {num}; expected an int >= 0")
    values = np.linspace(start, stop, num, endpoint=endpoint)
    wanted = _dtype_of("linspace", dtype, canonical_dtype(values.dtype))
    return new_tensor(values.astype(wanted, copy=False))


# -- matrices and grids ----------------------------------------------------------------------------


def eye(
    n_rows: int, n_cols: int | None = None, /, *, k: int = 0, dtype: npt.DTypeLike | None = None
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
    shape = _shape_of("eye", (n_rows, n_rows if n_cols is None else n_cols))
    return new_tensor(np.eye(shape[0], shape[1], k=k, dtype=_dtype_of("eye", dtype, _FLOAT64)))


def tril(x: TensorLike, /, *, k: int = 0) -> Tensor:
    """The matrices in the last two dimensions with zeros above diagonal `k`.

    Parameters
    ----------
    x : tensor-like, shape (..., m, n)
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

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.triu(tl.ones((2, 2))).numpy()
    array([[1., 1.],
           [0., 1.]])
    """
    return _triangle("triu", x, k, False)


def _triangle(op_name: str, x: TensorLike, k: int, lower: bool) -> Tensor:
    x = as_tensor(x, None, op_name)
    if x.ndim < 2:
        raise ShapeError(f"{op_name}: x has shape {x.shape}; expected at least two dimensions")
    below = np.tri(x.shape[-2], x.shape[-1], k=k if lower else k - 1, dtype=np.bool_)
    kept = new_tensor(below if lower else ~below)
    return apply(WHERE, kept, x, constant(0, x.dtype))


def meshgrid(*arrays: TensorLike, indexing: str = "xy") -> list[Tensor]:
    """The coordinates of a grid, one tensor per axis, from the coordinates along each axis.

    Parameters
    ----------
    *arrays : tensor-like, 1-d
        Coordinates along each axis.
    indexing : "xy" or "ij"
        With "xy" the first two axes of the results are swapped, as in pictures.

    Returns
    -------
    list of Tensor
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
    return grids
