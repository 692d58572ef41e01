"""Ops that run along one axis and keep every step: cumulative sums and products."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tapeline.runtime.errors import ArgumentError
from tapeline.runtime.op import Attrs, LibraryCall, Op, Sample, Trait, define_op
from tapeline.runtime.operators import attach_method
from tapeline.runtime.ops.axes import ANY_KIND, Array
from tapeline.runtime.ops.batch_rules import batch_changed, next_axis
from tapeline.runtime.ops.joining import CONCAT, concat
from tapeline.runtime.ops.permuting import FLIP, PERMUTE_DIMS
from tapeline.runtime.ops.pointwise import apply, call, computable, conjugate, scaled, shorten
from tapeline.runtime.ops.shaping import ravel
from tapeline.runtime.ops.slicing import slice_along
from tapeline.runtime.promotion import narrowed
from tapeline.runtime.spec import (
    TensorSpec,
    accumulator_dtype,
    canonical_dtype,
    normalize_axis,
    spec_of,
)
from tapeline.runtime.tensor import (
    Tensor,
    TensorLike,
    cast_tensor,
    new_tensor,
    register_ufunc,
)

if TYPE_CHECKING:
    import numpy.typing as npt


def _scan_infer(x: TensorSpec, axis: int) -> TensorSpec:
    return spec_of(x.static_shape, accumulator_dtype(x.dtype))


def _cumulative_sum_kernel(x: Array, axis: int) -> Array:
    return np.add.accumulate(x, axis, dtype=accumulator_dtype(x.dtype))


def _cumulative_sum_vjp(ct: Any, attrs: Attrs) -> Any:
    backward = call(FLIP, ct, attrs=(attrs,))
    return call(FLIP, call(CUMULATIVE_SUM, backward, attrs=attrs), attrs=(attrs,))


CUMULATIVE_SUM = define_op(
    "cumulative_sum",
    batch=batch_changed(next_axis),
    kernel=_cumulative_sum_kernel,
    emit=LibraryCall("cumulative_sum"),
    infer=_scan_infer,
    attr_names=("axis",),
    vjps=(_cumulative_sum_vjp,),
    kinds=ANY_KIND,
    traits=Trait.NO_RECOMPUTE,
    samples=(
        Sample(((5,),), (0,)),
        Sample(((3, 4),), (0,)),
        Sample(((3, 4),), (1,)),
        Sample(((3, 0),), (1,)),
        Sample(((0, 3),), (0,)),
    ),
)


# --- products --------------------------------------------------------------------------------


def _cumulative_prod_kernel(x: Array, axis: int) -> Array:
    return np.multiply.accumulate(x, axis, dtype=accumulator_dtype(x.dtype))


def _constants(like: Any, count: int, value: float) -> Any:
    """`count` constants on the last axis, the other extents and the dtype those of `like`."""
    return np.full((*like.shape[:-1], count), value, like.dtype)


def _shift(x: Any, count: int, fill: float) -> Any:
    """`x` moved back by `count` along its last axis, with `fill` at the start."""
    extent = x.shape[-1]
    kept = slice_along(x, -1, 0, extent - count)
    sizes = (count, extent - count)
    return call(CONCAT, _constants(x, count, fill), kept, attrs=(len(x.shape) - 1, sizes))


def _products_before(rows: Any) -> Any:
    """For each element the product of those before it on the last axis; 1 for the first.

    By doubling, so its gradient holds no division and is right with zeros.
    """
    if rows.shape[-1] == 0:
        return rows
    products = _shift(rows, 1, 1.0)
    distance = 1
    while distance < rows.shape[-1]:
        products = products * _shift(products, distance, 1.0)
        distance *= 2
    return products


def _reverse(rows: Any) -> Any:
    return call(FLIP, rows, attrs=((len(rows.shape) - 1,),))


def products_of_others(rows: Any) -> Any:
    """For each element the product of all others on the last axis, differentiable to any order."""
    return _products_before(rows) * _reverse(_products_before(_reverse(rows)))


def _decaying_sums(terms: Any, factors: Any) -> Any:
    """s with s[k] = terms[k] + factors[k] * s[k - 1] along the last axis, by doubling."""
    distance = 1
    while distance < terms.shape[-1]:
        terms = terms + scaled(_shift(terms, distance, 0.0), factors)
        factors = factors * _shift(factors, distance, 1.0)
        distance *= 2
    return terms


def _cumulative_prod_vjp(ct: Any, attrs: Attrs, x: Any) -> Any:
    """x[i] gets products_before[i] * sum over k >= i of ct[k] * x[i + 1] * ... * x[k]."""
    axis: int = attrs[0]  # type: ignore[assignment]  # attributes are typed loosely
    if x.shape[axis] == 0:
        return ct
    order = [a for a in range(len(x.shape)) if a != axis] + [axis]
    inverse = tuple(sorted(range(len(order)), key=order.__getitem__))
    rows = conjugate(call(PERMUTE_DIMS, x, attrs=(tuple(order),)))
    cts = call(PERMUTE_DIMS, ct, attrs=(tuple(order),))
    later = _decaying_sums(_reverse(cts), _shift(_reverse(rows), 1, 0.0))
    result = scaled(_reverse(later), _products_before(rows))
    return call(PERMUTE_DIMS, result, attrs=(inverse,))


CUMULATIVE_PROD = define_op(
    "cumulative_prod",
    batch=batch_changed(next_axis),
    kernel=_cumulative_prod_kernel,
    emit=LibraryCall("cumulative_prod"),
    infer=_scan_infer,
    attr_names=("axis",),
    saves=(0,),
    vjps=(_cumulative_prod_vjp,),
    kinds=ANY_KIND,
    traits=Trait.NO_RECOMPUTE,
    domain=(-2.0, 2.0),
    samples=(
        Sample(((5,),), (0,)),
        Sample(((3, 4),), (0,)),
        Sample(((3, 4),), (1,)),
        Sample(((2, 1),), (1,)),
    ),
)


# --- public ----------------------------------------------------------------------------------


def _scan(
    op: Op,
    x: TensorLike,
    axis: int | None,
    dtype: npt.DTypeLike | None,
    include_initial: bool,
    initial: int,
) -> Tensor:
    tensor = computable(x, argument=op.name)
    if dtype is not None:
        tensor = cast_tensor(tensor, canonical_dtype(dtype, f"{op.name}: dtype"))
    if axis is None:
        if tensor.ndim > 1 and include_initial:
            raise ArgumentError(f"{op.name}: include_initial needs an axis for {tensor.ndim}-d x")
        tensor, axis = ravel(tensor), 0
    axis = normalize_axis(op.name, axis, tensor.ndim)
    result: Tensor = apply(op, tensor, attrs=(axis,))
    if include_initial:
        shape = (*result.shape[:axis], 1, *result.shape[axis + 1 :])
        result = concat([new_tensor(np.full(shape, initial, result.dtype)), result], axis=axis)
    return narrowed(result, x) if dtype is None else cast_tensor(result, tensor.dtype)


def cumulative_sum(
    x: TensorLike,
    /,
    axis: int | None = None,
    *,
    dtype: npt.DTypeLike | None = None,
    include_initial: bool = False,
) -> Tensor:
    """The running sum of the elements along an axis.

    Parameters
    ----------
    x : TensorLike
        The tensor.
    axis : int or None
        Axis to run along; None runs over all elements in row-major order.
    dtype : dtype-like, optional
        Element type to sum in; by default as for `tl.sum`.
    include_initial : bool
        Whether the result starts with the sum of no elements, 0.

    Returns
    -------
    Tensor
        Of the shape of `x`, or one longer along the axis.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.cumulative_sum(tl.asarray([1, 2, 3]), include_initial=True).numpy()
    array([0, 1, 3, 6])
    """
    return _scan(CUMULATIVE_SUM, x, axis, dtype, include_initial, 0)


def cumulative_prod(
    x: TensorLike,
    /,
    axis: int | None = None,
    *,
    dtype: npt.DTypeLike | None = None,
    include_initial: bool = False,
) -> Tensor:
    """The running product of the elements along an axis.

    The gradient is right where elements are zero too.

    Parameters
    ----------
    x : TensorLike
        Numbers; bools are added as ints.
    axis : int or None
        The axis; None takes all elements in order.
    dtype : dtype, optional
        The dtype to compute in.
    include_initial : bool
        Whether the neutral element comes first, which makes the axis longer by one.

    Returns
    -------
    Tensor
        Of the shape of `x`, or one longer along the axis.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.cumulative_prod(tl.asarray([2, 3, 4])).numpy()
    array([ 2,  6, 24])
    """
    return _scan(CUMULATIVE_PROD, x, axis, dtype, include_initial, 1)


def cumsum(
    x: TensorLike, /, axis: int | None = None, *, dtype: npt.DTypeLike | None = None
) -> Tensor:
    """The running sum of the elements along an axis, under NumPy's name.

    Parameters
    ----------
    x : TensorLike
        Numbers; bools are added as ints.
    axis : int or None
        The axis; None takes all elements in order.
    dtype : dtype, optional
        The dtype to compute in.

    Returns
    -------
    Tensor
        Of the shape of `x`, flat where `axis` is None.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.cumsum(tl.asarray([1, 2, 3])).numpy()
    array([1, 3, 6])
    """
    return cumulative_sum(x, axis, dtype=dtype)


attach_method("cumsum", cumsum)
attach_method("cumprod", cumulative_prod)
register_ufunc(np.cumsum, cumsum)
register_ufunc(np.cumprod, cumulative_prod)

shorten(CUMULATIVE_SUM, CUMULATIVE_PROD)
