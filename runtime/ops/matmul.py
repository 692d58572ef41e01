"""Matrix products, and the products of tensors that are made of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tapeline.runtime.errors import ArgumentError, DTypeError, ShapeError
from tapeline.runtime.op import Attrs, LibraryCall, Sample, Trait, define_op
from tapeline.runtime.operators import attach_method, make_binary
from tapeline.runtime.ops.axes import ANY_KIND, Array, as_index
from tapeline.runtime.ops.batch_rules import batch_matmul
from tapeline.runtime.ops.bilinear import counted, through
from tapeline.runtime.ops.permuting import moveaxis, permute_dims, swap_last
from tapeline.runtime.ops.pointwise import (
    attach_operators,
    call,
    conjugate,
    scaled,
    unbroadcast,
)
from tapeline.runtime.ops.reduction import sum as sum_over
from tapeline.runtime.ops.shaping import EXPAND_DIMS, RESHAPE, SQUEEZE, expand_dims, reshape
from tapeline.runtime.spec import (
    FLOAT16,
    Shape,
    TensorSpec,
    broadcast_shapes,
    normalize_axis,
    spec_of,
)
from tapeline.runtime.tensor import Tensor, TensorLike, as_tensor, register_ufunc
from tapeline.runtime.unwatched import numpys_own, plain_arrays, wrapped

_FLOAT32 = np.dtype(np.float32)

# --- matmul ----------------------------------------------------------------------------------


def _matmul_kernel(a: Array, b: Array) -> Any:
    try:
        if a.dtype is FLOAT16:  # NumPy has no BLAS for it, and takes some hundred times longer
            return np.matmul(a.astype(_FLOAT32), b.astype(_FLOAT32)).astype(FLOAT16)
        return np.matmul(a, b)
    except ValueError:
        matmul_shape(a.shape, b.shape)
        raise


def matmul_shape(a: Shape, b: Shape) -> Shape:
    """The shape of `a @ b`; a `ShapeError` where they do not fit."""
    if not a or not b:
        name, shape = ("a", a) if not a else ("b", b)
        raise ShapeError(
            f"matmul: {name} has shape {shape}; both operands need at least 1 dimension, multiply "
            f"by a scalar with *"
        )
    row = -2 if len(b) > 1 else -1
    if a[-1] != b[row]:
        raise ShapeError(
            f"matmul: inner dimensions differ: a has shape {a}, b has shape {b}; a.shape[-1] must "
            f"equal b.shape[{row}]"
        )
    batch = broadcast_shapes("matmul", a[:-2], b[:-2])
    return (*batch, *a[-2:-1], *(b[-1:] if len(b) > 1 else ()))


def _matmul_infer(a: TensorSpec, b: TensorSpec) -> TensorSpec:
    if a.dtype != b.dtype:
        raise DTypeError(f"matmul: dtypes {a.dtype} and {b.dtype} differ; cast one")
    return spec_of(matmul_shape(a.static_shape, b.static_shape), a.dtype)


def _product(a: Any, b: Any) -> Any:
    return call(MATMUL, a, b)


def _column(x: Any) -> Any:
    """A stack of vectors as a stack of matrices with one column."""
    return call(EXPAND_DIMS, x, attrs=((len(x.shape),),))


def _as_rows(x: Any) -> Any:
    """A stack of matrices as one matrix of all their rows."""
    shape = x.shape
    count = 1
    for extent in shape[:-1]:
        count *= extent
    return call(RESHAPE, x, attrs=((count, shape[-1]),))


def _product_with_vector(matrices: Any, vectors: Any) -> Any:
    """The product of each matrix with the vector at its place in a stack."""
    column = _product(matrices, _column(vectors))
    return call(SQUEEZE, column, attrs=((len(column.shape) - 1,),))


def _vector_times(ct: Any, matrices: Any) -> Any:
    return _product_with_vector(matrices, ct)


def _rows_times(ct: Any, matrices: Any) -> Any:
    return _product(ct, swap_last(matrices))


def _times_rows(ct: Any, matrices: Any) -> Any:
    return _product(swap_last(matrices), ct)


def _times_vector(ct: Any, matrices: Any) -> Any:
    return _product_with_vector(swap_last(matrices), ct)


def _matmul_vjp_a(ct: Any, attrs: Attrs, a: Any, b: Any) -> Any:
    """ct @ b.T for matrices; vectors are rows or columns that are left out of the result."""
    b = conjugate(b)
    if len(b.shape) == 1:
        return scaled(_column(ct) if len(a.shape) > 1 else ct, b)
    multiply = _vector_times if len(a.shape) == 1 else _rows_times
    return unbroadcast(through(multiply, ct, b), a.shape)


def _matmul_vjp_b(ct: Any, attrs: Attrs, a: Any, b: Any) -> Any:
    """a.T @ ct for matrices; one product of all rows where `b` serves a whole stack."""
    a = conjugate(a)
    a_shape, b_shape = a.shape, b.shape
    if len(a_shape) == 1:
        if len(b_shape) == 1:
            return scaled(ct, a)
        rows = call(EXPAND_DIMS, ct, attrs=((len(ct.shape) - 1,),))
        return unbroadcast(scaled(rows, _column(a)), b_shape)
    if len(b_shape) == 1:
        a = counted(a, _column(ct), -1)
        return unbroadcast(through(_times_vector, ct, a), b_shape)
    a = counted(a, ct, -1)
    if len(b_shape) == 2 and len(a_shape) > 2:
        return through(_times_rows, _as_rows(ct), _as_rows(a))
    return unbroadcast(through(_times_rows, ct, a), b_shape)


MATMUL = define_op(
    "matmul",
    batch=batch_matmul,
    kernel=_matmul_kernel,
    infer=_matmul_infer,
    n_inputs=2,
    saves=(0, 1),
    vjps=(_matmul_vjp_a, _matmul_vjp_b),
    emit=LibraryCall("matmul"),
    traits=Trait.NO_RECOMPUTE,
    kinds=ANY_KIND,
    ulp=(64.0, 64.0),
    samples=(
        Sample(((2, 3), (3, 4))),
        Sample(((3,), (3,))),
        Sample(((2, 3), (3,))),
        Sample(((3,), (3, 2))),
        Sample(((3,), (2, 3, 2))),
        Sample(((2, 2, 3), (3,))),
        Sample(((2, 2, 3), (3, 2))),
        Sample(((2, 3), (2, 3, 2))),
        Sample(((2, 1, 2, 3), (2, 3, 1))),
        Sample(((0, 3), (3, 2))),
        Sample(((2, 0), (0, 2))),
    ),
)


_product_of_tensors = make_binary(MATMUL)


def matmul(a: TensorLike, b: TensorLike, /) -> Tensor:
    """The matrix product of two tensors, also written `a @ b`.

    The last two dimensions are matrices, the others a stack that broadcasts. A 1-d operand is a
    vector: a row on the left, a column on the right, and its dimension does not appear in the
    result.

    Parameters
    ----------
    a : TensorLike, shape (..., n, k) or (k,)
        Left operand.
    b : TensorLike, shape (..., k, m) or (k,)
        Right operand.

    Returns
    -------
    Tensor, shape (..., n, m)

    Raises
    ------
    ShapeError
        If the inner dimensions differ, the stacks do not broadcast, or an operand is 0-d.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.matmul([[1, 2], [3, 4]], [1, 1]).numpy()
    array([3, 7])
    """
    return _product_of_tensors(a, b)


attach_operators("matmul", "@", MATMUL)
register_ufunc(np.matmul, matmul)

# --- made of matmul --------------------------------------------------------------------------


def dot(a: TensorLike, b: TensorLike, /) -> Tensor:
    """NumPy's `dot`: the last axis of `a` times the last but one of `b`, or a scaling where one is
    0-d.

    Parameters
    ----------
    a, b : TensorLike
        Vectors, matrices or stacks of them: the last axis of `a` meets the last but one of `b`,
        or its only one.

    Returns
    -------
    Tensor
        Of the promoted dtype.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.dot([1, 2], [3, 4]).item()
    11
    """
    arrays = plain_arrays((a, b))
    if arrays is not None and arrays[0].ndim == arrays[1].ndim == 1:
        found = numpys_own(np.dot, a, arrays[1])
        return matmul(a, b) if found is None else found
    a, b = as_tensor(a, argument="dot: a"), as_tensor(b, argument="dot: b")
    if a.ndim == 0 or b.ndim == 0:
        return a * b
    if a.ndim <= 2 and b.ndim <= 2:
        return matmul(a, b)
    return tensordot(a, b, axes=([-1], [-2 if b.ndim > 1 else -1]))


def tensordot(
    a: TensorLike, b: TensorLike, /, *, axes: int | Sequence[Sequence[int] | int] = 2
) -> Tensor:
    """The sum of products over pairs of axes, one of `a` and one of `b` each.

    Parameters
    ----------
    a, b : TensorLike
        The operands.
    axes : int or (sequence of int, sequence of int)
        The number of last axes of `a` and first axes of `b` to sum over, or the axes themselves.

    Returns
    -------
    Tensor with the other axes of `a`, then those of `b`

    Raises
    ------
    ShapeError
        If the extents of a pair differ.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.tensordot([[1, 2], [3, 4]], [[1, 0], [0, 1]], axes=2).item()
    5
    """
    arrays = plain_arrays((a, b))
    if type(axes) is int and axes >= 0 and arrays and arrays[0].dtype.kind in "iufc":
        try:
            return wrapped(np.tensordot(arrays[0], arrays[1], axes))
        except (IndexError, ValueError):
            pass  # what follows says what is wrong
    a, b = as_tensor(a, argument="tensordot: a"), as_tensor(b, argument="tensordot: b")
    a_axes, b_axes = _contracted(axes, a.ndim, b.ndim)
    for i, k in zip(a_axes, b_axes, strict=True):
        if a.shape[i] != b.shape[k]:
            raise ShapeError(
                f"tensordot: axis {i} of a has extent {a.shape[i]}, axis {k} of b has extent "
                f"{b.shape[k]}; axes summed over together must be equal"
            )
    a_free = [axis for axis in range(a.ndim) if axis not in a_axes]
    b_free = [axis for axis in range(b.ndim) if axis not in b_axes]
    rows = tuple(a.shape[axis] for axis in a_free)
    columns = tuple(b.shape[axis] for axis in b_free)
    inner = math.prod([a.shape[axis] for axis in a_axes])
    left = reshape(permute_dims(a, [*a_free, *a_axes]), (math.prod(rows), inner))
    right = reshape(permute_dims(b, [*b_axes, *b_free]), (inner, math.prod(columns)))
    return reshape(matmul(left, right), (*rows, *columns))


def _contracted(
    axes: int | Sequence[Sequence[int] | int], a_ndim: int, b_ndim: int
) -> tuple[list[int], list[int]]:
    if isinstance(axes, int | np.integer):
        count = int(axes)
        if not 0 <= count <= min(a_ndim, b_ndim):
            raise ArgumentError(
                f"tensordot: axes={count} must be between 0 and the smaller number of dimensions, "
                f"{min(a_ndim, b_ndim)}"
            )
        return list(range(a_ndim - count, a_ndim)), list(range(count))
    if len(axes) != 2:
        raise ArgumentError(f"tensordot: axes must be an int or two sequences, got {axes!r}")
    sides = []
    for given, ndim in zip(axes, (a_ndim, b_ndim), strict=True):
        listed = [given] if isinstance(given, int | np.integer) else list(given)
        places = [normalize_axis("tensordot", as_index("tensordot", a), ndim) for a in listed]
        if len(set(places)) != len(places):
            raise ArgumentError(f"tensordot: axes {given!r} name the same axis twice")
        sides.append(places)
    if len(sides[0]) != len(sides[1]):
        raise ArgumentError(f"tensordot: axes {axes!r} must name as many axes of a as of b")
    return sides[0], sides[1]


def vecdot(a: TensorLike, b: TensorLike, /, *, axis: int = -1) -> Tensor:
    """The sum of products along one axis, of the conjugate of `a` with `b`; the rest broadcasts.

    Parameters
    ----------
    a, b : TensorLike
        With shapes that broadcast but for the axis, which must be as long in both.
    axis : int
        The axis, counted from the end.

    Returns
    -------
    Tensor
        Without the axis; the first operand is conjugated.

    Raises
    ------
    ShapeError
        If the extents along the axis differ.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.vecdot([[1, 2], [3, 4]], [1, 1]).numpy()
    array([3, 7])
    """
    arrays = plain_arrays((a, b))
    if arrays is not None and arrays[0].dtype.kind in "fc" and type(axis) is int:
        try:
            return wrapped(np.vecdot(arrays[0], arrays[1], axis=axis))  # type: ignore[call-overload]  # NumPy types only axes
        except ValueError:
            pass  # what follows says what is wrong
    a, b = as_tensor(a, argument="vecdot: a"), as_tensor(b, argument="vecdot: b")
    first = moveaxis(a, axis, -1)
    second = moveaxis(b, axis, -1)
    if first.shape[-1] != second.shape[-1]:
        raise ShapeError(
            f"vecdot: a has shape {a.shape}, b has shape {b.shape}; their extents along axis "
            f"{axis} must be equal"
        )
    products = conjugate(first) * second
    return sum_over(products, axis=-1, dtype=products.dtype)


def outer(a: TensorLike, b: TensorLike, /) -> Tensor:
    """All products of an element of a vector `a` (rows) and one of a vector `b` (columns).

    Parameters
    ----------
    a, b : TensorLike
        Vectors.

    Returns
    -------
    Tensor, shape (len(a), len(b))
        Of the promoted dtype.

    Raises
    ------
    ShapeError
        If an operand is not 1-d.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.outer([1, 2], [3, 4]).numpy()
    array([[3, 4],
           [6, 8]])
    """
    arrays = plain_arrays((a, b))
    if arrays is not None and arrays[0].ndim == arrays[1].ndim == 1:
        left, right = arrays
        if left.dtype.kind in "iufc":
            return wrapped(np.multiply.outer(left, right))
    a, b = as_tensor(a, argument="outer: a"), as_tensor(b, argument="outer: b")
    if a.ndim != 1 or b.ndim != 1:
        raise ShapeError(f"outer: both operands must be 1-d, got shapes {a.shape} and {b.shape}")
    return expand_dims(a, 1) * b


attach_method("dot", dot)
register_ufunc(np.dot, dot)
register_ufunc(np.tensordot, tensordot)
register_ufunc(np.outer, outer)
