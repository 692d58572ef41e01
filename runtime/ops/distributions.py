"""Numbers of the usual continuous distributions, drawn from a key.

Draws are made of the key's random bits by basic arithmetic, so their numbers agree to the bit in
NumPy and in compiled code; only the truncated normal distribution runs one NumPy kernel everywhere.
Parameters that
only move and scale are applied with ops, so they have gradients.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from tapeline.runtime.errors import ArgumentError, DTypeError
from tapeline.runtime.op import Expansion, Op, Sample, Trait, define_op, get_op
from tapeline.runtime.ops.arithmetic import add
from tapeline.runtime.ops.axes import Array
from tapeline.runtime.ops.creation import chosen_dtype, shape_argument
from tapeline.runtime.ops.draw_blocks import Steps, draw_in_blocks
from tapeline.runtime.ops.each import batch_each
from tapeline.runtime.ops.exact import COSINE_OF_TURNS, EXACT_LOG, SINE_OF_TURNS
from tapeline.runtime.ops.joining import stack
from tapeline.runtime.ops.pointwise import apply, call
from tapeline.runtime.ops.powers import SQRT
from tapeline.runtime.ops.random_bits import (
    RANDOM_BITS,
    as_key,
    check_key,
    count_of,
    counter_for_draws,
    draw_key,
    philox,
)
from tapeline.runtime.ops.shaping import RESHAPE
from tapeline.runtime.ops.slicing import FULL, GETITEM, slice_along
from tapeline.runtime.ops.special import erf_kernel
from tapeline.runtime.spec import DType, Shape, TensorSpec, spec_of
from tapeline.runtime.tensor import Tensor, TensorLike, as_tensor, cast_tensor, new_tensor

ShapeLike: TypeAlias = int | Sequence[int]

_FLOAT64 = np.dtype(np.float64)
_INT64 = np.dtype(np.int64)
_MANTISSA_BITS = {4: 24, 8: 53}


def float_dtype(op_name: str, dtype: npt.DTypeLike | None) -> DType:
    """The dtype of a draw: float64 unless another float is asked for."""
    found = chosen_dtype(op_name, dtype, _FLOAT64)
    if found.kind != "f":
        raise DTypeError(f"{op_name}: dtype {found} is not supported; expected a float")
    return found


def _units(key: Array, count: int) -> Array:
    """Numbers from 0 up to 1, 1 left out, in double precision."""
    return np.random.Generator(philox(key)).random(count)


def _define_draw(
    name: str,
    function: Callable[..., Array],
    attrs: tuple[Any, ...] = (),
    names: tuple[str, ...] = (),
    steps: Steps | None = None,
) -> Op:
    """An op `(key; shape, dtype, ...)`; `function(key, count, ...)` gives doubles.

    `steps` are the same by ops, where there are such ops.
    """

    def kernel(key: Array, shape: Shape, dtype: DType, *rest: Any) -> Array:
        count = count_of(shape)
        if steps is not None:
            drawn = draw_in_blocks(name, steps, key, count, dtype, rest)
            if drawn is not None:
                return drawn.reshape(shape)
        return function(key, count, *rest).reshape(shape).astype(dtype, copy=False)

    def expand(key: Tensor, shape: Shape, dtype: DType, *rest: Any) -> Any:
        assert steps is not None
        return steps(key, counter_for_draws(), shape, dtype, *rest)

    def infer(key: TensorSpec, shape: Shape, dtype: DType, *rest: Any) -> TensorSpec:
        check_key(name, key)
        return spec_of(shape, dtype)

    return define_op(
        name,
        kernel=kernel,
        infer=infer,
        batch=batch_each,
        emit=None if steps is None else Expansion(expand),
        attr_names=("shape", "dtype", *names),
        vjps=(None,),
        traits=Trait.NO_RECOMPUTE,
        kinds="u",
        samples=(
            Sample((draw_key,), ((3,), _FLOAT64, *attrs)),
            Sample((draw_key,), ((2, 3), np.dtype(np.float32), *attrs)),
            Sample((draw_key,), ((), _FLOAT64, *attrs)),
            Sample((draw_key,), ((0,), _FLOAT64, *attrs)),
        ),
    )


def _draw(
    op: Op, key: TensorLike, shape: ShapeLike, dtype: npt.DTypeLike | None, *rest: Any
) -> Tensor:
    shape = shape_argument(op.name, shape)
    return apply(op, as_key(op.name, key), attrs=(shape, float_dtype(op.name, dtype), *rest))


def placed(x: Tensor, scale: Any, start: Any) -> Tensor:
    """`x * scale + start`, without what changes nothing."""
    if not (type(scale) in (int, float) and scale == 1):
        x = x * as_tensor(scale, x.dtype)
    if not (type(start) in (int, float) and start == 0):
        x = add(x, as_tensor(start, x.dtype))
    return x


# --- uniform ---------------------------------------------------------------------------------


def _uniform_function(key: Array, count: int, digits: int) -> Array:
    """The highest bits of each word as binary digits after the point."""
    if digits == _MANTISSA_BITS[8]:
        return _units(key, count)
    return (philox(key).random_raw(count) >> np.uint64(64 - digits)) * 2.0**-digits


def unit_tensor(key: Tensor, counter: Tensor, shape: Shape) -> Tensor:
    """What `_units` gives, by ops."""
    return _uniform_steps(key, counter, shape, _FLOAT64, _MANTISSA_BITS[8])


def _uniform_steps(key: Tensor, counter: Tensor, shape: Shape, dtype: DType, digits: int) -> Tensor:
    words = apply(RANDOM_BITS, key, counter, attrs=(shape,))
    shift = new_tensor(np.array(64 - digits, np.uint64))
    whole = cast_tensor(apply(get_op("bitwise_right_shift"), words, shift), _INT64)
    unit = new_tensor(np.array(2.0**-digits))
    return cast_tensor(apply(get_op("multiply"), cast_tensor(whole, _FLOAT64), unit), dtype)


STANDARD_UNIFORM = _define_draw(
    "standard_uniform", _uniform_function, (24,), ("digits",), _uniform_steps
)


def uniform(
    key: TensorLike,
    shape: ShapeLike = (),
    low: TensorLike = 0.0,
    high: TensorLike = 1.0,
    *,
    dtype: npt.DTypeLike | None = None,
) -> Tensor:
    """Numbers from `low` up to `high`, all equally likely.

    The highest 53 bits of each random word (24 for float32) are the digits after the point.

    Parameters
    ----------
    key : TensorLike of uint64, shape (2,)
        The same key gives the same numbers: make a new one for each draw.
    shape : int or sequence of int
        Shape of the result; `low` and `high` broadcast against it.
    low, high : TensorLike of float
        The ends; `high` itself can come out only by rounding. They have gradients.
    dtype : dtype-like, optional
        float64 (the default) or float32.

    Returns
    -------
    Tensor of float
        Of the given shape.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.random.uniform(tl.random.key(7), 2).numpy()
    array([0.46881749, 0.42614584])
    """
    dtype = float_dtype("uniform", dtype)
    units = _draw(STANDARD_UNIFORM, key, shape, dtype, _MANTISSA_BITS[dtype.itemsize])
    if type(low) in (int, float) and low == 0:
        return placed(units, high, 0)
    return placed(units, as_tensor(high, dtype) - as_tensor(low, dtype), low)


# --- normal ----------------------------------------------------------------------------------


def _points(first: Any, second: Any) -> tuple[Any, Any]:
    """Two even numbers give two normal ones: radius and angle of a point in the plane (Box and
    Muller)."""
    radius = call(SQRT, call(EXACT_LOG, 1.0 - first) * -2.0)
    return radius * call(COSINE_OF_TURNS, second), radius * call(SINE_OF_TURNS, second)


def _normal_function(key: Array, count: int) -> Array:
    pairs = (count + 1) // 2
    units = _units(key, 2 * pairs)
    return np.stack(_points(units[0::2], units[1::2]), axis=-1).reshape(-1)[:count]


def _normal_steps(key: Tensor, counter: Tensor, shape: Shape, dtype: DType) -> Any:
    count = count_of(shape)
    pairs = (count + 1) // 2
    units = unit_tensor(key, counter, (pairs, 2))
    points = _points(*(call(GETITEM, units, attrs=((FULL, k),)) for k in range(2)))
    flat = call(RESHAPE, stack(points, axis=-1), attrs=((2 * pairs,),))
    flat = flat if count == 2 * pairs else slice_along(flat, 0, 0, count)
    return cast_tensor(call(RESHAPE, flat, attrs=(shape,)), dtype)


STANDARD_NORMAL = _define_draw("standard_normal", _normal_function, steps=_normal_steps)


def normal(
    key: TensorLike,
    shape: ShapeLike = (),
    mean: TensorLike = 0.0,
    deviation: TensorLike = 1.0,
    *,
    dtype: npt.DTypeLike | None = None,
) -> Tensor:
    """Numbers of the normal distribution, by Box and Muller's method.

    Parameters
    ----------
    key : TensorLike of uint64, shape (2,)
        The same key gives the same numbers.
    shape : int or sequence of int
        Shape of the result; `mean` and `deviation` broadcast against it.
    mean, deviation : TensorLike of float
        Mean and standard deviation. They have gradients.
    dtype : dtype-like, optional
        float64 (the default) or float32.

    Returns
    -------
    Tensor of float
        Of the given shape.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.random.normal(tl.random.key(7), 2).numpy()
    array([-1.0059039 ,  0.50344467])
    """
    return placed(_draw(STANDARD_NORMAL, key, shape, dtype), deviation, mean)


INVERSE_ERF = 0.147
"""The constant of Winitzki's formula."""


def _inverse_erf(x: Array) -> Array:
    """The inverse of erf for |x| < 1: Winitzki's formula, then Halley's steps."""
    logs = np.log1p(-x * x)
    middle = 2.0 / (math.pi * INVERSE_ERF) + logs / 2.0
    y: Array = np.copysign(np.sqrt(np.sqrt(middle * middle - logs / INVERSE_ERF) - middle), x)
    for _ in range(3):
        error = erf_kernel(y) - x
        slope = 2.0 / math.sqrt(math.pi) * np.exp(-y * y)
        y = y - error / (slope + y * error)
    return y


def _truncated_function(key: Array, count: int, low: float, high: float) -> Array:
    """The inverse of the distribution function, at numbers that are even between its values."""
    first, last = math.erf(low * math.sqrt(0.5)), math.erf(high * math.sqrt(0.5))
    place = first + (last - first) * _units(key, count)
    inside = np.clip(place, -1.0 + 2.0**-53, 1.0 - 2.0**-53)
    return np.asarray(np.clip(_inverse_erf(inside) * math.sqrt(2.0), low, high))


TRUNCATED_NORMAL = _define_draw(
    "truncated_normal", _truncated_function, (-2.0, 1.0), ("low", "high")
)


def truncated_normal(
    key: TensorLike,
    shape: ShapeLike = (),
    mean: TensorLike = 0.0,
    deviation: TensorLike = 1.0,
    *,
    low: float = -2.0,
    high: float = 2.0,
    dtype: npt.DTypeLike | None = None,
) -> Tensor:
    """Numbers of the normal distribution that lie between two bounds; the others are left out.

    Parameters
    ----------
    key, shape, mean, deviation, dtype
        As for `normal`; mean and deviation are those before cutting.
    low, high : float
        The bounds, in deviations from the mean, between -8 and 8.

    Returns
    -------
    Tensor of float
        Of the given shape.

    Raises
    ------
    ArgumentError
        If the bounds are not in order, or too far out.

    Examples
    --------
    >>> import tapeline as tl
    >>> x = tl.random.truncated_normal(tl.random.key(7), 1000, low=0.0, high=1.0)
    >>> bool(tl.min(x) >= 0.0), bool(tl.max(x) <= 1.0)
    (True, True)
    """
    if not -8.0 <= low < high <= 8.0:
        raise ArgumentError(
            f"truncated_normal: low must be below high and both between -8 and 8, got {low} and "
            f"{high}"
        )
    drawn = _draw(TRUNCATED_NORMAL, key, shape, dtype, float(low), float(high))
    return placed(drawn, deviation, mean)


# --- exponential and gumbel ------------------------------------------------------------------


def _exponential(units: Any) -> Any:
    return -call(EXACT_LOG, 1.0 - units)


def _exponential_function(key: Array, count: int) -> Array:
    return np.asarray(_exponential(_units(key, count)))


def _exponential_steps(key: Tensor, counter: Tensor, shape: Shape, dtype: DType) -> Tensor:
    return cast_tensor(_exponential(unit_tensor(key, counter, shape)), dtype)


STANDARD_EXPONENTIAL = _define_draw(
    "standard_exponential", _exponential_function, steps=_exponential_steps
)


def exponential(
    key: TensorLike,
    shape: ShapeLike = (),
    scale: TensorLike = 1.0,
    *,
    dtype: npt.DTypeLike | None = None,
) -> Tensor:
    """Numbers of the exponential distribution.

    Parameters
    ----------
    key, shape, dtype
        As for `normal`.
    scale : TensorLike of float
        The mean, one over the rate. It has a gradient.

    Returns
    -------
    Tensor of float
        Of the given shape.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.random.exponential(tl.random.key(7), 2).numpy()
    array([0.6326496 , 0.55537999])
    """
    return placed(_draw(STANDARD_EXPONENTIAL, key, shape, dtype), scale, 0)


def _gumbel(units: Any) -> Any:
    """-log of an exponential number; half a step keeps it finite."""
    return -call(EXACT_LOG, -call(EXACT_LOG, units + 2.0**-54))


def _gumbel_function(key: Array, count: int) -> Array:
    return np.asarray(_gumbel(_units(key, count)))


def _gumbel_steps(key: Tensor, counter: Tensor, shape: Shape, dtype: DType) -> Tensor:
    return cast_tensor(_gumbel(unit_tensor(key, counter, shape)), dtype)


STANDARD_GUMBEL = _define_draw("standard_gumbel", _gumbel_function, steps=_gumbel_steps)


def gumbel(key: TensorLike, shape: ShapeLike = (), *, dtype: npt.DTypeLike | None = None) -> Tensor:
    """Numbers of the Gumbel distribution, that of the largest of many.

    Parameters
    ----------
    key : TensorLike of uint64, shape (2,)
        The same key gives the same numbers.
    shape : int or sequence of int
        Shape of the result.
    dtype : dtype-like, optional
        float64 (the default) or float32.

    Returns
    -------
    Tensor of float
        Of the given shape.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.random.gumbel(tl.random.key(7), 2).numpy()
    array([0.27767664, 0.15902662])
    """
    return _draw(STANDARD_GUMBEL, key, shape, dtype)
