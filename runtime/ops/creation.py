"""Tensors from shapes, from numbers and from arrays.

What these functions make has no history on any tape, but for `asarray` and `full` of tensors.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tapeline.runtime.device import Device, check_device
from tapeline.runtime.dims import extent, is_open_shape
from tapeline.runtime.dispatch import BUSY
from tapeline.runtime.errors import ArgumentError, ArgumentTypeError, ShapeError
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
    known_value,
    new_tensor,
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


# -- counting --------------------------------------------------------------------------------------


def arange(
    start: float,
    /,
    stop: float | None = None,
    step: float = 1,
    *,
    dtype: npt.DTypeLike | None = None,
    device: Device | None = None,
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
    device : "cpu", optional
        Where the tensor lives.

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
    check_device("arange", device)
    is_plain = type(start) is type(step) is int and (stop is None or type(stop) is int)
    if is_plain and step == 1 and dtype is None:
        return new_tensor(np.arange(start, stop))
    start, stop, step = known_number(start), known_number(stop), known_number(step)
    if stop is None:
        start, stop = 0, start
    if not isinstance(step, Tensor) and step == 0:
        raise ArgumentError("arange: step is 0; expected a number that leads from start to stop")
    for name, value in (("start", start), ("stop", stop), ("step", step)):
        if value is None or isinstance(value, str | bytes):
            raise ArgumentTypeError(f"arange: {name} must be a number, got {value!r}")
    if any(type(bound) is Tensor for bound in (start, stop, step)):
        return _unknown_range(start, stop, step, chosen_dtype("arange", dtype, _INT64))
    if is_open_shape((start, stop, step)):
        scaled = _in_whole_steps(start, stop, step)
        if scaled is not None:
            start, stop, step, scale = scaled
            kind = _INT64 if scale is None else _FLOAT64
            return _open_range(start, stop, step, chosen_dtype("arange", dtype, kind), scale or 1)
    values = np.arange(start, stop, step)
    return new_tensor(values.astype(chosen_dtype("arange", dtype, canonical_dtype(values.dtype))))


def known_number(bound: Any) -> Any:
    """A bound as a number; a tensor whose value a trace does not know as it is."""
    found = known_value(bound) if type(bound) is Tensor else None
    return bound if found is None else found.item()


def _unknown_range(start: Any, stop: Any, step: Any, dtype: DType) -> Tensor:
    """Whole numbers between bounds that a trace computes."""
    from tapeline.runtime.ops.searching import span  # which is made of what follows here

    if not isinstance(step, int | np.integer):
        raise ArgumentTypeError(
            f"arange: step must be an int where a trace computes start or stop, got {step!r}"
        )
    for name, bound in (("start", start), ("stop", stop)):
        given = as_tensor(bound)
        if given.dtype.kind not in "iu" or given.size != 1:
            raise ArgumentTypeError(
                f"arange: {name} must be a whole number where a trace computes start or stop, got "
                f"{bound!r}"
            )
    start, stop = (as_tensor(bound, _INT64).reshape(()) for bound in (start, stop))
    if step == 1:
        return as_tensor(span(start, stop), dtype)
    return as_tensor(span(0, -((start - stop) // step)) * step + start, dtype)


def _in_whole_steps(*bounds: Any) -> tuple[Any, Any, Any, int | None] | None:
    """Start, stop and step of a range as multiples of a unit fraction, and its denominator; that is
    None where all are ints. None where floats are not such multiples, short of rounding."""
    floats = [bound for bound in bounds if isinstance(bound, float)]
    if not all(math.isfinite(bound) and abs(bound) < _MOST_STEPS for bound in floats):
        return None
    scale = max((bound.as_integer_ratio()[1] for bound in floats), default=1)
    if scale > _MOST_STEPS or not all(isinstance(bound, int | float) for bound in bounds):
        return None
    start, stop, step = (
        int(bound * scale) if isinstance(bound, float) else bound * scale for bound in bounds
    )
    return start, stop, step, scale if floats else None


_MOST_STEPS = 1 << 16


def _open_range(start: Any, stop: Any, step: Any, dtype: DType, scale: int) -> Tensor:
    """Multiples of 1 / scale, of which it is open how many there are."""
    count = max(0, -((start - stop) // step))
    places = get_op("cumulative_sum")
    counted = apply(places, ones(count, _INT64), attrs=(0,)) - 1
    found = counted * step + start
    return as_tensor(found if scale == 1 else found * (1.0 / scale), dtype)


def _open_linspace(start: complex, stop: complex, num: int, endpoint: bool) -> Tensor:
    """Evenly spaced numbers, of which it is open how many there are; more than one."""
    parts = num - 1 if endpoint else num
    if parts <= 0:
        return as_tensor(np.full(num, start) * 1.0)
    places = arange(num)
    found = places * ((stop - start) / parts) + start
    if not endpoint:
        return found
    last = apply(get_op("equal"), places, as_tensor(parts, _INT64))
    return apply(get_op("where"), last, as_tensor(stop, found.dtype), found)


def linspace(
    start: complex,
    stop: complex,
    /,
    num: int,
    *,
    dtype: npt.DTypeLike | None = None,
    device: Device | None = None,
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
    device : "cpu", optional
        Where the tensor lives.
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
    check_device("linspace", device)
    num = as_index("linspace: num", num)
    if num < 0:
        raise ArgumentError(f"linspace: num is {num}; expected an int >= 0")
    if is_open_shape((num,)):
        found = _open_linspace(start, stop, num, endpoint)
        return as_tensor(found, chosen_dtype("linspace", dtype, found.dtype))
    values = np.linspace(start, stop, num, endpoint=endpoint)
    if dtype is None and values.dtype is _FLOAT64:
        return new_tensor(values)
    wanted = chosen_dtype("linspace", dtype, canonical_dtype(values.dtype))
    return new_tensor(values.astype(wanted, copy=False))
