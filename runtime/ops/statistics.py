"""Mean, variance, standard deviation.

The eager kernels are direct; compiled, the ops become the simpler ones they are made of, which
fusion then joins with what stands around them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tapeline.runtime.op import OUT, Attrs, Expansion, Op, Sample, ShapeOf, define_op, get_op
from tapeline.runtime.operators import attach_method
from tapeline.runtime.ops.axes import Array, Axis, normalize_axes
from tapeline.runtime.ops.batch_rules import batch_changed, next_axes
from tapeline.runtime.ops.cast import imag, real
from tapeline.runtime.ops.pointwise import along, apply, call, check_dtype, computable, over
from tapeline.runtime.ops.reduction import (
    SUM,
    add_reduce,
    closure_of,
    keep,
    plain_attrs,
    reduced_shape,
)
from tapeline.runtime.ops.shaping import spread
from tapeline.runtime.promotion import narrowed
from tapeline.runtime.spec import DType, Shape, TensorSpec, spec_of
from tapeline.runtime.tensor import Tensor, TensorLike, cast_tensor, register_ufunc

_FLOAT16, _FLOAT32, _FLOAT64 = np.dtype(np.float16), np.dtype(np.float32), np.dtype(np.float64)

_SHAPES = (
    Sample(((3, 4),), ((0,), False)),
    Sample(((3, 4),), ((1,), True)),
    Sample(((2, 3, 4),), ((0, 2), False)),
    Sample(((5,),), ((0,), False)),
)
_VAR_SAMPLES = tuple(
    Sample(sample.inputs, (*sample.attrs, correction))
    for sample in _SHAPES
    for correction in (0, 1)
)


def count_along(shape: Shape, axes: tuple[int, ...]) -> int:
    """How many elements are reduced to one."""
    count = 1
    for axis in axes:
        count *= shape[axis]
    return count


def _sum_dtype(dtype: DType) -> DType:
    """In which the elements are added: the sum of float16s may be out of their range, their mean is
    not."""
    return _FLOAT32 if dtype is _FLOAT16 else _float_dtype(dtype)


def _float_dtype(dtype: DType) -> DType:
    return _FLOAT64 if dtype.kind in "biu" else dtype


# --- mean ------------------------------------------------------------------------------------


def _mean_kernel(x: Array, axes: tuple[int, ...], keepdims: bool) -> Any:
    summed = _sum_dtype(x.dtype)
    total = add_reduce(x, axes, None if summed is x.dtype else summed, None, keepdims)
    count = count_along(x.shape, axes)
    found = total / count if count else np.full_like(total, np.nan)
    return found if summed is not _FLOAT32 or x.dtype is summed else found.astype(_FLOAT16)


def _mean_infer(x: TensorSpec, axes: tuple[int, ...], keepdims: bool) -> TensorSpec:
    return spec_of(reduced_shape(x.static_shape, axes, keepdims), _float_dtype(x.dtype))


def _mean_vjp(ct: Any, attrs: Attrs, shape: Shape) -> Any:
    axes: tuple[int, ...] = attrs[0]  # type: ignore[assignment]  # attributes are typed loosely
    share = ct / (count_along(shape, axes) or 1)
    return spread(share, shape, *attrs)  # type: ignore[arg-type]  # as above


def _mean_expand(x: Tensor, axes: tuple[int, ...], keepdims: bool) -> Tensor:
    total = apply(SUM, cast_tensor(x, _sum_dtype(x.dtype)), attrs=(axes, keepdims))
    count = count_along(x.shape, axes)
    found = total / float(count) if count else total * np.nan
    return cast_tensor(found, _float_dtype(x.dtype))


MEAN = define_op(
    "mean",
    batch=batch_changed(next_axes, None),
    kernel=_mean_kernel,
    infer=_mean_infer,
    attr_names=("axes", "keepdims"),
    saves=(ShapeOf(0),),
    vjps=(_mean_vjp,),
    emit=Expansion(_mean_expand),
    kinds="biufc",
    samples=(*_SHAPES, Sample(((),), ((), False)), Sample(((0, 3),), ((0,), False))),
    ulp=(4.0, 4.0),
)


def mean(x: TensorLike, /, axis: Axis = None, *, keepdims: bool = False) -> Tensor:
    """The arithmetic mean of the elements over the given axes.

    Parameters
    ----------
    x : TensorLike
        The tensor.
    axis : int, sequence of int or None
        Axes to average over; all of them for None.
    keepdims : bool
        Whether the reduced axes stay with extent 1.

    Returns
    -------
    Tensor of the dtype of `x`, of float64 for bools and ints; NaN where there is no element

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.mean(tl.asarray([[1, 2], [3, 4]]), axis=0).numpy()
    array([2., 3.])
    """
    if type(x) is Tensor and x._value.dtype.kind == "f":
        attrs = plain_attrs(axis, len(x._value.shape), keepdims)
        if attrs is not None:
            return closure_of(MEAN)(x, attrs)
    tensor = computable(x, argument="mean")
    attrs = (normalize_axes("mean", axis, tensor.ndim), bool(keepdims))
    return narrowed(apply(MEAN, tensor, attrs=attrs), x)


# --- variance and standard deviation ---------------------------------------------------------


def _freedom(shape: Shape, axes: tuple[int, ...], correction: float) -> float:
    return max(count_along(shape, axes) - correction, 0.0)


def _var_kernel(x: Array, axes: tuple[int, ...], keepdims: bool, correction: float) -> Any:
    if x.dtype.kind in "biu":
        x = x.astype(_FLOAT64)
    deviation = x - _mean_kernel(x, axes, True)
    squares = np.multiply(deviation, deviation, deviation if x.ndim else None)
    total = add_reduce(squares, axes, None, None, keepdims)
    freedom = _freedom(x.shape, axes, correction)
    if freedom == 0:
        with np.errstate(divide="ignore", invalid="ignore"):
            return total / freedom
    return total / freedom


def _std_kernel(x: Array, axes: tuple[int, ...], keepdims: bool, correction: float) -> Any:
    return np.sqrt(_var_kernel(x, axes, keepdims, correction))


def _define_infer(op_name: str) -> Any:
    def infer(
        x: TensorSpec, axes: tuple[int, ...], keepdims: bool, correction: float
    ) -> TensorSpec:
        check_dtype(op_name, x.dtype, "biuf")
        return spec_of(reduced_shape(x.static_shape, axes, keepdims), _float_dtype(x.dtype))

    return infer


def _scaled_deviation(x: Any, attrs: Attrs, factor: float) -> Any:
    """(x - mean) * factor / freedom."""
    axes: tuple[int, ...]
    correction: float
    axes, _, correction = attrs  # type: ignore[assignment]  # attributes are typed loosely
    freedom = _freedom(x.shape, axes, correction)
    return (x - call(MEAN, x, attrs=(axes, True))) * (factor / freedom if freedom else np.nan)


def _var_vjp(ct: Any, attrs: Attrs, x: Any) -> Any:
    axes: tuple[int, ...]
    keepdims: bool
    axes, keepdims = attrs[:2]  # type: ignore[assignment]  # attributes are typed loosely
    return along(keep(ct, x.shape, axes, keepdims), _scaled_deviation(x, attrs, 2.0))


def _std_vjp(ct: Any, attrs: Attrs, x: Any, out: Any) -> Any:
    axes: tuple[int, ...]
    keepdims: bool
    axes, keepdims = attrs[:2]  # type: ignore[assignment]  # attributes are typed loosely
    slope = keep(over(ct, out), x.shape, axes, keepdims)
    return along(slope, _scaled_deviation(x, attrs, 1.0))


def _var_expand(x: Tensor, axes: tuple[int, ...], keepdims: bool, correction: float) -> Tensor:
    x = cast_tensor(x, _float_dtype(x.dtype))
    deviation = x - _mean_expand(x, axes, True)
    total = apply(SUM, deviation * deviation, attrs=(axes, keepdims))
    return total / float(_freedom(x.shape, axes, correction))


def _std_expand(x: Tensor, axes: tuple[int, ...], keepdims: bool, correction: float) -> Tensor:
    return apply(get_op("sqrt"), _var_expand(x, axes, keepdims, correction))


VAR = define_op(
    "var",
    batch=batch_changed(next_axes, None, None),
    kernel=_var_kernel,
    infer=_define_infer("var"),
    attr_names=("axes", "keepdims", "correction"),
    saves=(0,),
    vjps=(_var_vjp,),
    emit=Expansion(_var_expand),
    kinds="biuf",
    samples=(*_VAR_SAMPLES, Sample(((2,),), ((0,), False, 0.5))),
    ulp=(8.0, 8.0),
)

STD = define_op(
    "std",
    batch=batch_changed(next_axes, None, None),
    kernel=_std_kernel,
    infer=_define_infer("std"),
    attr_names=("axes", "keepdims", "correction"),
    saves=(0, OUT),
    vjps=(_std_vjp,),
    emit=Expansion(_std_expand),
    kinds="biuf",
    samples=_VAR_SAMPLES,
    ulp=(8.0, 8.0),
)


def var(
    x: TensorLike,
    /,
    axis: Axis = None,
    *,
    correction: float = 0,
    ddof: float | None = None,
    keepdims: bool = False,
) -> Tensor:
    """The variance of the elements over the given axes.

    Parameters
    ----------
    x : TensorLike of bool, int or float
        The tensor.
    axis : int, sequence of int or None
        Axes to reduce; all of them for None.
    correction : number
        The sum of squared deviations is divided by the number of elements less this: 0 for the
        population, 1 for a sample.
    ddof : number, optional
        NumPy's name for `correction`.
    keepdims : bool
        Whether the reduced axes stay with extent 1.

    Returns
    -------
    Tensor of the dtype of `x`, of float64 for bools and ints

    Raises
    ------
    DTypeError
        If `x` is complex.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.var(tl.asarray([1.0, 2.0, 3.0]), correction=1).item()
    1.0
    """
    return _spread_of(VAR, x, axis, correction if ddof is None else ddof, keepdims)


def std(
    x: TensorLike,
    /,
    axis: Axis = None,
    *,
    correction: float = 0,
    ddof: float | None = None,
    keepdims: bool = False,
) -> Tensor:
    """The standard deviation of the elements over the given axes.

    Parameters
    ----------
    x : TensorLike
        Numbers.
    axis : int, tuple of int or None
        The axes; None for all of them.
    correction : number
        What is taken off the count of elements: 1 for the sample's estimate.
    keepdims : bool
        Whether reduced axes stay with extent 1.
    ddof : number, optional
        NumPy's name of `correction`.

    Returns
    -------
    Tensor of float
        Without the reduced axes, or with extent 1 there.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.std(tl.asarray([1.0, 3.0])).item()
    1.0
    """
    return _spread_of(STD, x, axis, correction if ddof is None else ddof, keepdims)


def _spread_of(op: Op, x: TensorLike, axis: Axis, correction: float, keepdims: bool) -> Tensor:
    tensor = computable(x, argument=op.name)
    attrs = (normalize_axes(op.name, axis, tensor.ndim), bool(keepdims), correction)
    if tensor.dtype.kind == "c":  # the squared distances are those of both parts
        parts = real(tensor), imag(tensor)
        total = apply(VAR, parts[0], attrs=attrs) + apply(VAR, parts[1], attrs=attrs)
        return total if op is VAR else apply(get_op("sqrt"), total)
    return narrowed(apply(op, tensor, attrs=attrs), x)


for _function, _numpy in ((mean, np.mean), (var, np.var), (std, np.std)):
    attach_method(_function.__name__, _function)
    register_ufunc(_numpy, _function)
