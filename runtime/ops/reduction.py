"""Ops that reduce some axes of a tensor to one value: sum, prod, max, min, argmax, argmin, any,
all.

Their attributes are the axes (sorted, counted from the front) and `keepdims`. Reductions that are
made of several steps, such as the mean, stand in `statistics`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from tapeline.runtime.errors import ArgumentTypeError, ShapeError
from tapeline.runtime.op import OUT, Attrs, Expansion, Op, Reduction, Sample, ShapeOf, define_op
from tapeline.runtime.operators import attach_method
from tapeline.runtime.ops.axes import ANY_KIND, Array, Axis, kept_shape, normalize_axes
from tapeline.runtime.ops.permuting import PERMUTE_DIMS
from tapeline.runtime.ops.pointwise import along, apply, call
from tapeline.runtime.ops.scan import products_of_others
from tapeline.runtime.ops.shaping import RESHAPE, spread
from tapeline.runtime.spec import Shape, TensorSpec, accumulator_dtype, canonical_dtype, spec_of
from tapeline.runtime.tensor import Tensor, TensorLike, as_tensor, cast_tensor

_INT = canonical_dtype(np.int64)
_BOOL = canonical_dtype(np.bool)

add_reduce: Callable[..., Any] = np.add.reduce
multiply_reduce: Callable[..., Any] = np.multiply.reduce
min_reduce: Callable[..., Any] = np.minimum.reduce
max_reduce: Callable[..., Any] = np.maximum.reduce
or_reduce: Callable[..., Any] = np.logical_or.reduce
and_reduce: Callable[..., Any] = np.logical_and.reduce
"""Called as (x, axes, dtype, out, keepdims, initial) by position, the fastest way into NumPy."""

_SAMPLES = (
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


def _reject_empty(op_name: str, shape: Shape, axes: tuple[int, ...]) -> None:
    empty = [axis for axis in axes if shape[axis] == 0]
    if empty and 0 not in reduced_shape(shape, axes, False):
        raise ShapeError(
            f"{op_name}: no elements, no result: axis {empty[0]} of shape {shape} is empty"
        )


# --- sum -------------------------------------------------------------------------------------


def _sum_kernel(x: Array, axes: tuple[int, ...], keepdims: bool) -> Any:
    return add_reduce(x, axes, None, None, keepdims)


def _sum_vjp(ct: Any, attrs: Attrs, shape: Shape) -> Any:
    return spread(ct, shape, *attrs)  # type: ignore[arg-type]  # attributes are typed loosely


SUM = define_op(
    "sum",
    kernel=_sum_kernel,
    infer=_infer_accumulated,
    attr_names=("axes", "keepdims"),
    saves=(ShapeOf(0),),
    vjps=(_sum_vjp,),
    emit=Reduction("sum"),
    identity=0.0,
    kinds=ANY_KIND,
    samples=_SAMPLES + _EMPTY_SAMPLES,
)


def _accumulate(
    op: Op, x: TensorLike, axis: Axis, dtype: npt.DTypeLike | None, keepdims: bool
) -> Tensor:
    tensor = as_tensor(x, argument=op.name)
    if dtype is not None:
        tensor = cast_tensor(tensor, canonical_dtype(dtype, f"{op.name}: dtype"))
    axes = normalize_axes(op.name, axis, tensor.ndim)
    result: Tensor = apply(op, tensor, attrs=(axes, bool(keepdims)))
    return result if dtype is None else cast_tensor(result, tensor.dtype)


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
    kernel=_prod_kernel,
    infer=_infer_accumulated,
    attr_names=("axes", "keepdims"),
    saves=(0,),
    vjps=(_prod_vjp,),
    emit=Reduction("prod"),
    identity=1.0,
    kinds=ANY_KIND,
    domain=(-2.0, 2.0),
    samples=_SAMPLES + _EMPTY_SAMPLES,
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

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.prod(tl.asarray([[1, 2], [3, 4]]), axis=1).numpy()
    array([ 2, 12])
    """
    return _accumulate(PROD, x, axis, dtype, keepdims)


# --- max and min -----------------------------------------------------------------------------


def _tie_shares_kernel(x: Array, extremum: Array, axes: tuple[int, ...]) -> Any:
    chosen = (x == extremum) | (x != x)
    count = add_reduce(chosen, axes, x.dtype, None, True)
    return np.divide(chosen, count, dtype=x.dtype)


def _tie_shares_infer(x: TensorSpec, extremum: TensorSpec, axes: tuple[int, ...]) -> TensorSpec:
    return spec_of(x.static_shape, x.dtype)


def _tie_shares_expand(x: Tensor, extremum: Tensor, axes: tuple[int, ...]) -> Tensor:
    chosen = cast_tensor((x == extremum) | (x != x), x.dtype)
    count: Tensor = apply(SUM, chosen, attrs=(axes, True))
    return chosen / count


TIE_SHARES = define_op(
    "tie_shares",
    kernel=_tie_shares_kernel,
    infer=_tie_shares_infer,
    n_inputs=2,
    attr_names=("axes",),
    vjps=(None, None),
    emit=Expansion(_tie_shares_expand),
    kinds="f",
    samples=(
        Sample((lambda rng: np.array([[1.0, 3.0, 3.0]]), lambda rng: np.array([[3.0]])), ((1,),)),
    ),
)
"""How the cotangent of an extremum (its reduced axes kept) is shared out: equally among the
elements that attain it, NaNs among them; nothing for the others."""


def _extremum_vjp(ct: Any, attrs: Attrs, x: Any, out: Any) -> Any:
    shape = x.shape
    kept = keep(out, shape, *attrs)  # type: ignore[arg-type]  # attributes are typed loosely
    shares = call(TIE_SHARES, x, kept, attrs=attrs[:1])
    return keep(ct, shape, *attrs) * shares  # type: ignore[arg-type]  # as above


def _define_extremum(
    name: str, reduce: Callable[..., Any], lowering: Reduction, identity: float
) -> Op:
    def kernel(x: Array, axes: tuple[int, ...], keepdims: bool) -> Any:
        return reduce(x, axes, None, None, keepdims)

    def infer(x: TensorSpec, axes: tuple[int, ...], keepdims: bool) -> TensorSpec:
        shape = x.static_shape
        _reject_empty(name, shape, axes)
        return spec_of(reduced_shape(shape, axes, keepdims), x.dtype)

    return define_op(
        name,
        kernel=kernel,
        infer=infer,
        attr_names=("axes", "keepdims"),
        saves=(0, OUT),
        vjps=(_extremum_vjp,),
        emit=lowering,
        identity=identity,
        kinds="biuf",
        samples=(*_SAMPLES, Sample(((0, 3),), ((1,), False))),
    )


MAX = _define_extremum("max", max_reduce, Reduction("max"), -np.inf)
MIN = _define_extremum("min", min_reduce, Reduction("min"), np.inf)


def _reduce(op: Op, x: TensorLike, axis: Axis, keepdims: bool) -> Tensor:
    tensor = as_tensor(x, argument=op.name)
    attrs = (normalize_axes(op.name, axis, tensor.ndim), bool(keepdims))
    if 0 in tensor.shape:
        op.infer(spec_of(tensor.shape, tensor.dtype), *attrs)
    return apply(op, tensor, attrs=attrs)


def max(x: TensorLike, /, axis: Axis = None, *, keepdims: bool = False) -> Tensor:
    """The largest element over the given axes; NaN where there is a NaN.

    The gradient goes to the elements that attain the maximum, in equal shares.

    Parameters
    ----------
    x : TensorLike of bool, int or float
        The tensor.
    axis : int, sequence of int or None
        Axes to reduce; all of them for None.
    keepdims : bool
        Whether the reduced axes stay with extent 1.

    Raises
    ------
    ShapeError
        If there is no element to choose from.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.max(tl.asarray([[1, 5], [3, 4]]), axis=1).numpy()
    array([5, 4])
    """
    return _reduce(MAX, x, axis, keepdims)


def min(x: TensorLike, /, axis: Axis = None, *, keepdims: bool = False) -> Tensor:
    """The smallest element over the given axes; parameters and gradient as for `tl.max`.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.min(tl.asarray([[1, 5], [3, 4]]), axis=1).numpy()
    array([1, 3])
    """
    return _reduce(MIN, x, axis, keepdims)


# --- argmax and argmin -----------------------------------------------------------------------


def _define_position(name: str, function: Callable[..., Any], lowering: Reduction) -> Op:
    def kernel(x: Array, axes: tuple[int, ...], keepdims: bool) -> Any:
        if len(axes) == 1:
            return function(x, axis=axes[0], keepdims=keepdims)
        flat = function(x)
        return np.full((1,) * x.ndim, flat) if keepdims else flat

    def infer(x: TensorSpec, axes: tuple[int, ...], keepdims: bool) -> TensorSpec:
        shape = x.static_shape
        if len(axes) not in (1, len(shape)):
            raise ArgumentTypeError(f"{name}: axis must be one int or None, got {axes}")
        _reject_empty(name, shape, axes)
        return spec_of(reduced_shape(shape, axes, keepdims), _INT)

    return define_op(
        name,
        kernel=kernel,
        infer=infer,
        attr_names=("axes", "keepdims"),
        vjps=(None,),
        emit=lowering,
        kinds="biuf",
        samples=(
            Sample(((3, 4),), ((1,), False)),
            Sample(((3, 4),), ((0,), True)),
            Sample(((3, 4),), ((0, 1), False)),
            Sample(((2, 3),), ((0, 1), True)),
            Sample(((),), ((), False)),
        ),
    )


ARGMAX = _define_position("argmax", np.argmax, Reduction("argmax"))
ARGMIN = _define_position("argmin", np.argmin, Reduction("argmin"))


def argmax(x: TensorLike, /, axis: int | None = None, *, keepdims: bool = False) -> Tensor:
    """The position of the first largest element along an axis; in row-major order for None.

    A NaN counts as largest. The positions have no gradient.

    Parameters
    ----------
    x : TensorLike of bool, int or float
        The tensor.
    axis : int or None
        Axis to search along; None searches all elements as one row.
    keepdims : bool
        Whether the searched axes stay with extent 1.

    Returns
    -------
    Tensor of int64

    Raises
    ------
    ShapeError
        If there is no element to choose from.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.argmax(tl.asarray([[1, 5], [7, 4]]), axis=1).numpy()
    array([1, 0])
    """
    return _position(ARGMAX, x, axis, keepdims)


def argmin(x: TensorLike, /, axis: int | None = None, *, keepdims: bool = False) -> Tensor:
    """The position of the first smallest element; parameters as for `tl.argmax`.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.argmin(tl.asarray([[1, 5], [7, 4]]), axis=1).numpy()
    array([0, 1])
    """
    return _position(ARGMIN, x, axis, keepdims)


def _position(op: Op, x: TensorLike, axis: int | None, keepdims: bool) -> Tensor:
    if axis is not None and not isinstance(axis, int | np.integer):
        raise ArgumentTypeError(f"{op.name}: axis must be one int or None, got {axis!r}")
    return _reduce(op, x, axis, keepdims)


# --- any and all -----------------------------------------------------------------------------


def _any_kernel(x: Array, axes: tuple[int, ...], keepdims: bool) -> Any:
    return or_reduce(x, axes, None, None, keepdims)


def _all_kernel(x: Array, axes: tuple[int, ...], keepdims: bool) -> Any:
    return and_reduce(x, axes, None, None, keepdims)


ANY = define_op(
    "any",
    kernel=_any_kernel,
    infer=_infer_bool,
    attr_names=("axes", "keepdims"),
    vjps=(None,),
    emit=Reduction("any"),
    identity=False,
    kinds=ANY_KIND,
    samples=_SAMPLES + _EMPTY_SAMPLES,
)

ALL = define_op(
    "all",
    kernel=_all_kernel,
    infer=_infer_bool,
    attr_names=("axes", "keepdims"),
    vjps=(None,),
    emit=Reduction("all"),
    identity=True,
    kinds=ANY_KIND,
    samples=_SAMPLES + _EMPTY_SAMPLES,
)


def any(x: TensorLike, /, axis: Axis = None, *, keepdims: bool = False) -> Tensor:
    """Whether some element over the given axes is not zero; a NaN is not zero.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.any(tl.asarray([[0, 5], [0, 0]]), axis=1).numpy()
    array([ True, False])
    """
    return _reduce(ANY, x, axis, keepdims)


def all(x: TensorLike, /, axis: Axis = None, *, keepdims: bool = False) -> Tensor:
    """Whether no element over the given axes is zero; a NaN is not zero.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.all(tl.asarray([[1, 5], [0, 2]]), axis=1).numpy()
    array([ True, False])
    """
    return _reduce(ALL, x, axis, keepdims)


def count_nonzero(x: TensorLike, /, axis: Axis = None, *, keepdims: bool = False) -> Tensor:
    """The number of elements over the given axes that are not zero, as int64.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.count_nonzero(tl.asarray([[1, 5], [0, 2]]), axis=1).numpy()
    array([2, 1])
    """
    tensor = as_tensor(x, argument="count_nonzero")
    return sum(cast_tensor(tensor, _BOOL), axis, keepdims=keepdims)


for _function in (sum, prod, max, min, argmax, argmin, any, all):
    attach_method(_function.__name__, _function)
