"""Tensors from shapes, from numbers and from arrays.

What these functions make has no history on any tape, but for `asarray` and `full` of tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tapeline.runtime.device import Device, check_device
from tapeline.runtime.dims import extent, is_open_shape
from tapeline.runtime.dispatch import BUSY
from tapeline.runtime.errors import ArgumentError, ShapeError
from tapeline.runtime.op import get_op
from tapeline.runtime.ops.axes import as_index
from tapeline.runtime.ops.cast import copied
from tapeline.runtime.ops.pointwise import apply
from tapeline.runtime.promotion import constant
from tapeline.runtime.spec import DType, Shape, canonical_dtype
from tapeline.runtime.tensor import (
    Tensor,
    TensorLike,
    adopt,
    as_tensor,
    new_tensor,
    reject_masked,
    wrap,
)
from tapeline.runtime.unwatched import is_int_or_ints, plain_array, wrapped

if TYPE_CHECKING:
    import numpy.typing as npt

_FLOAT64 = canonical_dtype(np.float64)
_INT64 = canonical_dtype(np.int64)


def shape_argument(op_name: str, shape: int | Sequence[int]) -> Shape:
    """A shape argument as a tuple of ints."""
    if isinstance(shape, int | np.integer):
        shape = (extent(shape),)
    is_number = not isinstance(shape, Iterable) or getattr(shape, "ndim", 1) == 0
    extents: tuple[Any, ...] = (shape,) if is_number else tuple(shape)
    made = []
    for size in extents:
        if isinstance(size, Tensor) and size.dtype.kind in "iu" and size.ndim == 0:
            size = as_index(op_name, size)
        if not isinstance(size, int | np.integer) or size < 0:
            raise ShapeError(f"{op_name}: shape must be ints >= 0, got {shape!r}")
        made.append(extent(size))
    return tuple(made)


def chosen_dtype(op_name: str, dtype: npt.DTypeLike | None, default: DType) -> DType:
    """A dtype argument, or the default where none is given."""
    return default if dtype is None else canonical_dtype(dtype, f"{op_name}: dtype")


# -- from values -----------------------------------------------------------------------------------


def asarray(
    obj: TensorLike,
    /,
    dtype: npt.DTypeLike | None = None,
    *,
    device: Device | None = None,
    copy: bool | None = None,
) -> Tensor:
    """A tensor of the values of `obj`.

    Parameters
    ----------
    obj : Tensor, Variable, array, number or nested sequence
        A sequence may hold tensors; gradients flow to them.
    dtype : dtype-like, optional
        The wanted dtype; by default that of the values: bool, int64, float64 or complex128 for
        Python numbers.
    device : "cpu", optional
        Where the tensor lives.
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
    check_device("asarray", device)
    if copy is False and type(obj) is not Tensor:
        return _shared(obj, dtype)
    result = as_tensor(obj, dtype)
    if copy is False and result is not obj:
        raise ArgumentError(
            f"asarray: copy=False, but the tensor has dtype {obj.dtype} and not "  # type: ignore[union-attr]
            f"{result.dtype}; leave copy out"
        )
    return copied(result) if copy and result is obj else result


def _shared(obj: Any, dtype: npt.DTypeLike | None) -> Tensor:
    """The array itself as the value of a tensor."""
    if hasattr(type(obj), "__tapeline_tensor__"):
        return asarray(as_tensor(obj), dtype, copy=False)
    if not isinstance(obj, np.ndarray):
        raise ArgumentError(
            f"asarray: copy=False needs an array or a tensor, got {type(obj).__name__}; leave copy "
            f"out"
        )
    reject_masked(obj, "asarray")
    own = canonical_dtype(obj.dtype, "asarray")
    wanted = chosen_dtype("asarray", dtype, own)
    if wanted != obj.dtype:
        raise ArgumentError(
            f"asarray: copy=False, but the array has dtype {obj.dtype} and not {wanted}; leave "
            f"copy out"
        )
    return adopt(wrap(np.asarray(obj).view(own)), obj)


def _filled(
    op_name: str, shape: Any, value: int, dtype: npt.DTypeLike | None, make: Callable[..., Any]
) -> Tensor:
    """A tensor of a shape that may hold open sizes: one number, then, broadcast."""
    chosen = chosen_dtype(op_name, dtype, _FLOAT64)
    if is_int_or_ints(shape, 0):  # nothing open, nothing wrong
        return new_tensor(make(shape, chosen))
    extents = shape_argument(op_name, shape)
    if is_open_shape(extents):
        return apply(get_op("broadcast_to"), constant(value, chosen), attrs=(extents,))
    return new_tensor(make(extents, chosen))


def _full(shape: Any, value: float, dtype: DType) -> Any:
    """As `np.full`, which copies through more of Python."""
    made = np.empty(shape, dtype)
    made.fill(value)
    return made


# -- filled ----------------------------------------------------------------------------------------


def zeros(
    shape: int | Sequence[int],
    dtype: npt.DTypeLike | None = None,
    *,
    device: Device | None = None,
) -> Tensor:
    """A tensor of zeros.

    Parameters
    ----------
    shape : int or sequence of int
        Extent of each dimension.
    dtype : dtype-like, optional
        Element type, by default float64.
    device : "cpu", optional
        Where the tensor lives.

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
    check_device("zeros", device)
    return _filled("zeros", shape, 0, dtype, np.zeros)


def ones(
    shape: int | Sequence[int],
    dtype: npt.DTypeLike | None = None,
    *,
    device: Device | None = None,
) -> Tensor:
    """A tensor of ones; errors as in `zeros`.

    Parameters
    ----------
    shape : int or tuple of int
        The shape.
    dtype : dtype, optional
        The dtype, float64 by default.
    device : str, optional
        "cpu" or None.

    Returns
    -------
    Tensor
        Of that shape and dtype.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.ones(3, dtype="int8").numpy()
    array([1, 1, 1], dtype=int8)
    """
    check_device("ones", device)
    return _filled("ones", shape, 1, dtype, np.ones)


def empty(
    shape: int | Sequence[int],
    dtype: npt.DTypeLike | None = None,
    *,
    device: Device | None = None,
) -> Tensor:
    """A tensor whose values do not matter; errors as in `zeros`.

    Parameters
    ----------
    shape : int or tuple of int
        The shape.
    dtype : dtype, optional
        The dtype, float64 by default.
    device : str, optional
        "cpu" or None.

    Returns
    -------
    Tensor
        Of that shape and dtype.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.empty((2, 0)).shape
    (2, 0)
    """
    check_device("empty", device)
    return _filled("empty", shape, 0, dtype, np.empty)


def full(
    shape: int | Sequence[int],
    fill_value: TensorLike,
    dtype: npt.DTypeLike | None = None,
    *,
    device: Device | None = None,
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
    device : "cpu", optional
        Where the tensor lives.

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
    check_device("full", device)
    if type(fill_value) is float and is_int_or_ints(shape, 0) and not BUSY[0]:
        wanted = chosen_dtype("full", dtype, _FLOAT64)
        if wanted.kind == "f":
            return wrapped(_full(shape, fill_value, wanted))
    value = as_tensor(fill_value, dtype, "full: fill_value")
    if value.shape != ():
        raise ShapeError(f"full: fill_value has shape {value.shape}; expected a single value")
    extents = shape_argument("full", shape)
    is_plain = type(value._value) is np.ndarray and value._node is None
    if is_plain and not is_open_shape(extents):
        return new_tensor(np.full(extents, value._value))
    return apply(get_op("broadcast_to"), value, attrs=(extents,))


def zeros_like(
    x: TensorLike,
    /,
    dtype: npt.DTypeLike | None = None,
    *,
    device: Device | None = None,
) -> Tensor:
    """Zeros of the shape of `x`, and of its dtype unless one is given.

    Parameters
    ----------
    x : TensorLike
        Gives the shape, and the dtype unless one is given.
    dtype : dtype, optional
        Another dtype.
    device : str, optional
        "cpu" or None.

    Returns
    -------
    Tensor
        Of the shape of `x`.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.zeros_like([1.0, 2.0]).numpy()
    array([0., 0.])
    """
    array = plain_array(x)
    if dtype is None and device is None and array is not None:
        return wrapped(np.zeros(array.shape, array.dtype))
    x = as_tensor(x, None, "zeros_like")
    return zeros(x.shape, x.dtype if dtype is None else dtype, device=device)


def ones_like(
    x: TensorLike,
    /,
    dtype: npt.DTypeLike | None = None,
    *,
    device: Device | None = None,
) -> Tensor:
    """Ones of the shape of `x`, and of its dtype unless one is given.

    Parameters
    ----------
    x : TensorLike
        Gives the shape, and the dtype unless one is given.
    dtype : dtype, optional
        Another dtype.
    device : str, optional
        "cpu" or None.

    Returns
    -------
    Tensor
        Of the shape of `x`.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.ones_like([1.0, 2.0]).numpy()
    array([1., 1.])
    """
    array = plain_array(x)
    if dtype is None and device is None and array is not None:
        return wrapped(np.ones(array.shape, array.dtype))
    x = as_tensor(x, None, "ones_like")
    return ones(x.shape, x.dtype if dtype is None else dtype, device=device)


def empty_like(
    x: TensorLike,
    /,
    dtype: npt.DTypeLike | None = None,
    *,
    device: Device | None = None,
) -> Tensor:
    """A tensor of the shape of `x` whose values do not matter.

    Parameters
    ----------
    x : TensorLike
        Gives the shape, and the dtype unless one is given.
    dtype : dtype, optional
        Another dtype.
    device : str, optional
        "cpu" or None.

    Returns
    -------
    Tensor
        Of the shape of `x`.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.empty_like([1.0, 2.0]).shape
    (2,)
    """
    x = as_tensor(x, None, "empty_like")
    return empty(x.shape, x.dtype if dtype is None else dtype, device=device)


def full_like(
    x: TensorLike,
    /,
    fill_value: TensorLike,
    dtype: npt.DTypeLike | None = None,
    *,
    device: Device | None = None,
) -> Tensor:
    """One value everywhere, in the shape of `x`, and in its dtype unless one is given.

    Parameters
    ----------
    x : TensorLike
        Gives the shape, and the dtype unless one is given.
    fill_value : number or 0-d tensor
        What every element is.
    dtype : dtype, optional
        Another dtype.
    device : str, optional
        "cpu" or None.

    Returns
    -------
    Tensor
        Of the shape of `x`.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.full_like([1.0, 2.0], 7).numpy()
    array([7., 7.])
    """
    array = plain_array(x)
    if array is not None and type(fill_value) is float and array.dtype.kind == "f":
        wanted = array.dtype if dtype is None else canonical_dtype(dtype, "full_like: dtype")
        check_device("full_like", device)
        if wanted.kind == "f":
            return wrapped(_full(array.shape, fill_value, wanted))
    x = as_tensor(x, None, "full_like")
    return full(x.shape, fill_value, x.dtype if dtype is None else dtype, device=device)
