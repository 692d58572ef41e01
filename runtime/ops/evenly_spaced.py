"""Evenly spaced numbers: by their distance, or by how many there are.

Where sizes are open, or a trace computes the bounds, they are made of ops instead of by NumPy.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from tapeline.runtime.device import Device, check_device
from tapeline.runtime.dims import is_open_shape
from tapeline.runtime.errors import ArgumentError, ArgumentTypeError
from tapeline.runtime.op import get_op
from tapeline.runtime.ops.axes import as_index
from tapeline.runtime.ops.creation import chosen_dtype, ones
from tapeline.runtime.ops.pointwise import apply
from tapeline.runtime.spec import DType, canonical_dtype
from tapeline.runtime.tensor import Tensor, as_tensor, known_value, new_tensor

if TYPE_CHECKING:
    import numpy.typing as npt

_FLOAT64 = canonical_dtype(np.float64)
_INT64 = canonical_dtype(np.int64)
_MOST_STEPS = 1 << 16
"""The largest bound, and the largest denominator, of steps that are counted as whole ones."""


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
