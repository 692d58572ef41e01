"""Ops that reduce some axes of a tensor to one value: sum, prod, any, all.

Their attributes are the axes (sorted, counted from the front) and `keepdims`. Reductions that are
made of several steps, such as the mean, stand in `statistics`, the largest
and the smallest element in `extrema`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from tapeline.runtime.op import Attrs, Op, Reduction, Sample, ShapeOf, define_op
from tapeline.runtime.operators import attach_method, make_unary
from tapeline.runtime.ops.axes import ANY_KIND, Array, Axis, kept_shape, normalize_axes
from tapeline.runtime.ops.batch_rules import batch_changed, next_axes
from tapeline.runtime.ops.permuting import PERMUTE_DIMS
from tapeline.runtime.ops.pointwise import along, apply, call, check_dtype, computable
from tapeline.runtime.ops.scan import products_of_others
from tapeline.runtime.ops.shaping import RESHAPE, spread
from tapeline.runtime.promotion import narrowed
from tapeline.runtime.spec import Shape, TensorSpec, accumulator_dtype, canonical_dtype, spec_of
from tapeline.runtime.tensor import Tensor, TensorLike, cast_tensor, register_ufunc
from tapeline.runtime.unwatched import plain_array, wrapped

if TYPE_CHECKING:
    import numpy.typing as npt

_INT = canonical_dtype(np.int64)
_BOOL = canonical_dtype(np.bool)

add_reduce: Callable[..., Any] = np.add.reduce
multiply_reduce: Callable[..., Any] = np.multiply.reduce
or_reduce: Callable[..., Any] = np.logical_or.reduce
and_reduce: Callable[..., Any] = np.logical_and.reduce
"""Called as (x, axes, dtype, out, keepdims, initial) by position, the fastest way into NumPy."""

SAMPLES = (
    Sample(((3, 4),), ((0,), False)),
    Sample(((3, 4),), ((1,), True)),
    Sample(((2, 3, 4),), ((0, 2), False)),
    Sample(((5,),), ((0,), False)),
    Sample(((),), ((), False)),
)
_EMPTY_SAMPLES = (Sample(((0, 3),), ((0,), False)), Sample(((0, 3),), ((1,), False)))


def reduced_shape(shape: Shape, axes: tuple[int, ...], keepdims: bool) -> Shape:
    """What is left of `shape` when `axes` are reduced."""
    if keepdims:
        return kept_shape(shape, axes)
    return tuple(extent for axis, extent in enumerate(shape) if axis not in axes)


def keep(x: Any, shape: Shape, axes: tuple[int, ...], keepdims: bool) -> Any:
    """A reduced value of a tensor of `shape` with its reduced axes put back as extent 1."""
    return x if keepdims else call(RESHAPE, x, attrs=(kept_shape(shape, axes),))


def _infer_accumulated(x: TensorSpec, axes: tuple[int, ...], keepdims: bool) -> TensorSpec:
    return spec_of(reduced_shape(x.static_shape, axes, keepdims), accumulator_dtype(x.dtype))


def _infer_bool(x: TensorSpec, axes: tuple[int, ...], keepdims: bool) -> TensorSpec:
    return spec_of(reduced_shape(x.static_shape, axes, keepdims), _BOOL)


_EVERYWHERE = [(tuple(range(ndim)), False) for ndim in range(65)]
_EVERYWHERE_KEPT = [(axes, True) for axes, _ in _EVERYWHERE]
"""Attributes of a reduction of all axes, by the number of dimensions; NumPy has at most 64."""
_ALONG: dict[tuple[int, int, bool], Attrs] = {}
_CLOSURES: dict[Op, Callable[..., Tensor]] = {}


def plain_attrs(axis: Axis, ndim: int, keepdims: Any) -> Attrs | None:
    """Attributes for all axes or one, looked up; None for axes that must be resolved first."""
    if axis is None:
        return (_EVERYWHERE_KEPT if keepdims else _EVERYWHERE)[ndim]
    if type(axis) is not int or not -ndim <= axis < ndim:
        return None
    key = axis, ndim, bool(keepdims)
    found = _ALONG.get(key)
    if found is None:
        found = _ALONG[key] = ((axis % ndim,), bool(keepdims))
    return found


def closure_of(op: Op) -> Callable[..., Tensor]:
    """The short way into a reduction."""
    found = _CLOSURES.get(op)
    if found is None:
        found = _CLOSURES[op] = make_unary(op)
    return found


def reduce_over(op: Op, x: TensorLike, axis: Axis, keepdims: bool) -> Tensor:
    """One of the reductions whose attributes are axes and `keepdims`."""
    if type(x) is Tensor and x._value.dtype.kind in op.kinds and 0 not in x._value.shape:
        attrs = plain_attrs(axis, len(x._value.shape), keepdims)
        if attrs is not None:
            return closure_of(op)(x, attrs)
    tensor = computable(x, argument=op.name)
    check_dtype(op.name, tensor.dtype, op.kinds)
    attrs = (normalize_axes(op.name, axis, tensor.ndim), bool(keepdims))
    if 0 in tensor.shape:
        op.infer(spec_of(tensor.shape, tensor.dtype), *attrs)
    return narrowed(apply(op, tensor, attrs=attrs), x)


# --- sum -------------------------------------------------------------------------------------


def _sum_kernel(x: Array, axes: tuple[int, ...], keepdims: bool) -> Any:
    if x.dtype.kind == "b" and len(axes) == x.ndim and not keepdims:
        return np.int64(np.count_nonzero(x))
    return add_reduce(x, axes, None, None, keepdims)


def _sum_vjp(ct: Any, attrs: Attrs, shape: Shape) -> Any:
    return spread(ct, shape, *attrs)  # type: ignore[arg-type]  # attributes are typed loosely


SUM = define_op(
    "sum",
    batch=batch_changed(next_axes, None),
    kernel=_sum_kernel,
    infer=_infer_accumulated,
    attr_names=("axes", "keepdims"),
    saves=(ShapeOf(0),),
    vjps=(_sum_vjp,),
    emit=Reduction("sum"),
    identity=0.0,
    kinds=ANY_KIND,
    samples=SAMPLES + _EMPTY_SAMPLES,
    ulp=(4.0, 4.0),
)


_sum = make_unary(SUM)


def _accumulate(
    op: Op, x: TensorLike, axis: Axis, dtype: npt.DTypeLike | None, keepdims: bool
) -> Tensor:
    tensor = computable(x, argument=op.name)
    if dtype is not None:
        tensor = cast_tensor(tensor, canonical_dtype(dtype, f"{op.name}: dtype"))
    axes = normalize_axes(op.name, axis, tensor.ndim)
    result = apply(op, tensor, attrs=(axes, bool(keepdims)))
    return narrowed(result, x) if dtype is None else cast_tensor(result, tensor.dtype)


def sum(
    x: TensorLike,
    /,
    axis: Axis = None,
    *,
    dtype: npt.DTypeLike | None = None,
    keepdims: bool = False,
) -> Tensor:
    """The sum of the elements over the given axes.

    Parameters
    ----------
    x : TensorLike
        The tensor.
    axis : int, sequence of int or None
        Axes to sum over; all of them for None.
    dtype : dtype-like, optional
        Element type to sum in. By default that of `x`, but int64 for bools and signed ints and
        uint64 for unsigned ints.
    keepdims : bool
        Whether the reduced axes stay with extent 1.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.sum(tl.asarray([[1, 2], [3, 4]]), axis=0).numpy()
    array([4, 6])
    """
    if dtype is None and type(x) is Tensor:
        attrs = plain_attrs(axis, len(x._value.shape), keepdims)
        if attrs is not None:
            return _sum(x, attrs)
    return _accumulate(SUM, x, axis, dtype, keepdims)


# --- prod ------------------------------------------------------------------------------------


def _prod_kernel(x: Array, axes: tuple[int, ...], keepdims: bool) -> Any:
    return multiply_reduce(x, axes, None, None, keepdims)


def _prod_vjp(ct: Any, attrs: Attrs, x: Any) -> Any:
    """The cotangent times the product of all other elements, which is right with zeros too."""
    axes: tuple[int, ...] = attrs[0]  # type: ignore[assignment]  # attributes are typed loosely
    if not axes:
        return ct
    shape = x.shape
    rest = tuple(axis for axis in range(len(shape)) if axis not in axes)
    order = rest + axes
    moved = call(PERMUTE_DIMS, x, attrs=(order,))
    by_row = (*(shape[axis] for axis in rest), _count(shape, axes))
    others = products_of_others(call(RESHAPE, moved, attrs=(by_row,)))
    others = call(RESHAPE, others, attrs=(tuple(shape[axis] for axis in order),))
    inverse = tuple(sorted(range(len(order)), key=order.__getitem__))
    others = call(PERMUTE_DIMS, others, attrs=(inverse,))
    return along(keep(ct, shape, *attrs), others)  # type: ignore[arg-type]  # as above


def _count(shape: Shape, axes: tuple[int, ...]) -> int:
    count = 1
    for axis in axes:
        count *= shape[axis]
    return count


PROD = define_op(
    "prod",
    batch=batch_changed(next_axes, None),
    kernel=_prod_kernel,
    infer=_infer_accumulated,
    attr_names=("axes", "keepdims"),
    saves=(0,),
    vjps=(_prod_vjp,),
    emit=Reduction("prod"),
    identity=1.0,
    kinds=ANY_KIND,
    domain=(-2.0, 2.0),
    samples=SAMPLES + _EMPTY_SAMPLES,
    ulp=(8.0, 8.0),
)


def prod(
    x: TensorLike,
    /,
    axis: Axis = None,
    *,
    dtype: npt.DTypeLike | None = None,
    keepdims: bool = False,
) -> Tensor:
    """The product of the elements over the given axes; parameters and dtypes as for `tl.sum`.

    The gradient is right where elements are zero too.

    Parameters
    ----------
    x : TensorLike
        Of any shape.
    axis : int, tuple of int or None
        The axes; None for all of them.
    dtype : dtype, optional
        The dtype to compute in; by default that of `x`, int64 or uint64 for narrower ints.
    keepdims : bool
        Whether reduced axes stay with extent 1.

    Returns
    -------
    Tensor
        Without the reduced axes, or with extent 1 there; 1 where there is no element.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.prod(tl.asarray([[1, 2], [3, 4]]), axis=1).numpy()
    array([ 2, 12])
    """
    if dtype is None and type(x) is Tensor:
        attrs = plain_attrs(axis, len(x._value.shape), keepdims)
        if attrs is not None:
            return closure_of(PROD)(x, attrs)
    return _accumulate(PROD, x, axis, dtype, keepdims)


# --- any and all -----------------------------------------------------------------------------


def _any_kernel(x: Array, axes: tuple[int, ...], keepdims: bool) -> Any:
    return or_reduce(x, axes, None, None, keepdims)


def _all_kernel(x: Array, axes: tuple[int, ...], keepdims: bool) -> Any:
    return and_reduce(x, axes, None, None, keepdims)


ANY = define_op(
    "any",
    batch=batch_changed(next_axes, None),
    kernel=_any_kernel,
    infer=_infer_bool,
    attr_names=("axes", "keepdims"),
    vjps=(None,),
    emit=Reduction("any"),
    identity=False,
    kinds=ANY_KIND,
    samples=SAMPLES + _EMPTY_SAMPLES,
)

ALL = define_op(
    "all",
    batch=batch_changed(next_axes, None),
    kernel=_all_kernel,
    infer=_infer_bool,
    attr_names=("axes", "keepdims"),
    vjps=(None,),
    emit=Reduction("all"),
    identity=True,
    kinds=ANY_KIND,
    samples=SAMPLES + _EMPTY_SAMPLES,
)


def any(x: TensorLike, /, axis: Axis = None, *, keepdims: bool = False) -> Tensor:
    """Whether some element over the given axes is not zero; a NaN is not zero.

    Parameters
    ----------
    x : TensorLike
        Of any shape.
    axis : int, tuple of int or None
        The axes; None for all of them.
    keepdims : bool
        Whether reduced axes stay with extent 1.

    Returns
    -------
    Tensor of bool
        Without the reduced axes, or with extent 1 there.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.any(tl.asarray([[0, 5], [0, 0]]), axis=1).numpy()
    array([ True, False])
    """
    return reduce_over(ANY, x, axis, keepdims)


def all(x: TensorLike, /, axis: Axis = None, *, keepdims: bool = False) -> Tensor:
    """Whether no element over the given axes is zero; a NaN is not zero.

    Parameters
    ----------
    x : TensorLike
        Of any shape.
    axis : int, tuple of int or None
        The axes; None for all of them.
    keepdims : bool
        Whether reduced axes stay with extent 1.

    Returns
    -------
    Tensor of bool
        Without the reduced axes, or with extent 1 there.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.all(tl.asarray([[1, 5], [0, 2]]), axis=1).numpy()
    array([ True, False])
    """
    return reduce_over(ALL, x, axis, keepdims)


def count_nonzero(x: TensorLike, /, axis: Axis = None, *, keepdims: bool = False) -> Tensor:
    """The number of elements over the given axes that are not zero, as int64.

    Parameters
    ----------
    x : TensorLike
        Of any shape.
    axis : int, tuple of int or None
        The axes; None for all of them.
    keepdims : bool
        Whether reduced axes stay with extent 1.

    Returns
    -------
    Tensor of int64
        Without the reduced axes, or with extent 1 there.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.count_nonzero(tl.asarray([[1, 5], [0, 2]]), axis=1).numpy()
    array([2, 1])
    """
    array = plain_array(x)
    if array is not None and axis is None and not keepdims and array.dtype.kind in ANY_KIND:
        return wrapped(np.array(np.count_nonzero(array), _INT))
    tensor = computable(x, argument="count_nonzero")
    return sum(cast_tensor(tensor, _BOOL), axis, keepdims=keepdims)


for _function, _numpy in ((sum, np.sum), (prod, np.prod), (any, np.any), (all, np.all)):
    attach_method(_function.__name__, _function)
    register_ufunc(_numpy, _function)
