"""Norms of vectors and of matrices, and what follows from singular values: rank and condition."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import numpy as np

from tapeline.runtime.errors import ArgumentError
from tapeline.runtime.op import OUT, Attrs, Expansion, Sample, define_op, get_op
from tapeline.runtime.ops.axes import Array, Axis, normalize_axes
from tapeline.runtime.ops.batch_rules import batch_changed, next_axes
from tapeline.runtime.ops.extrema import max as max_over
from tapeline.runtime.ops.extrema import min as min_over
from tapeline.runtime.ops.matrices import FLOAT64, as_dtype_of, matrix_operand
from tapeline.runtime.ops.pointwise import (
    apply,
    call,
    check_dtype,
    computable,
    over,
    scaled,
    to_real,
    zero_like,
)
from tapeline.runtime.ops.reduction import SUM, add_reduce, count_nonzero, keep, reduced_shape
from tapeline.runtime.ops.reduction import sum as sum_over
from tapeline.runtime.ops.shaping import expand_dims
from tapeline.runtime.ops.signs import abs as magnitude
from tapeline.runtime.ops.singular import svdvals
from tapeline.runtime.ops.solving import relative_tolerance
from tapeline.runtime.promotion import narrowed
from tapeline.runtime.spec import TensorSpec, spec_of
from tapeline.runtime.tensor import Tensor, TensorLike, cast_tensor, register_ufunc

Order: TypeAlias = float | Literal["fro", "nuc"]

# --- the euclidean norm ----------------------------------------------------------------------


def _norm_kernel(x: Array, axes: tuple[int, ...], keepdims: bool) -> Any:
    squares = x * x if x.dtype.kind == "f" else x.real * x.real + x.imag * x.imag
    return np.sqrt(add_reduce(squares, axes, None, None, keepdims))


def _norm_infer(x: TensorSpec, axes: tuple[int, ...], keepdims: bool) -> TensorSpec:
    check_dtype("norm", x.dtype, "fc")
    return spec_of(reduced_shape(x.static_shape, axes, keepdims), to_real(x.dtype))


def _norm_vjp(ct: Any, attrs: Attrs, x: Any, out: Any) -> Any:
    """x / norm; 0 for a vector of zeros, where every direction is as good."""
    axes: tuple[int, ...]
    keepdims: bool
    axes, keepdims = attrs  # type: ignore[assignment]  # attributes are typed loosely
    null = out == 0
    divisor = call(get_op("where"), null, np.ones((), out.dtype), out)
    share = call(get_op("where"), null, zero_like(out), over(ct, divisor))
    return scaled(as_dtype_of(keep(share, x.shape, axes, keepdims), x), x)


def _norm_expand(x: Tensor, axes: tuple[int, ...], keepdims: bool) -> Tensor:
    if x.dtype.kind == "c":
        real, imag = apply(get_op("real"), x), apply(get_op("imag"), x)
        squares = real * real + imag * imag
    else:
        squares = x * x
    return apply(get_op("sqrt"), apply(SUM, squares, attrs=(axes, keepdims)))


NORM = define_op(
    "norm",
    batch=batch_changed(next_axes, None),
    kernel=_norm_kernel,
    infer=_norm_infer,
    attr_names=("axes", "keepdims"),
    saves=(0, OUT),
    vjps=(_norm_vjp,),
    emit=Expansion(_norm_expand),
    kinds="fc",
    samples=(
        Sample(((5,),), ((0,), False)),
        Sample(((3, 4),), ((1,), True)),
        Sample(((2, 3, 2),), ((0, 2), False)),
    ),
    ulp=(8.0, 8.0),
)

# --- vectors ---------------------------------------------------------------------------------


def vector_norm(
    x: TensorLike, /, *, axis: Axis = None, keepdims: bool = False, ord: float = 2
) -> Tensor:
    """The norm of the elements along axes, taken as one vector.

    The gradient of the euclidean norm of a vector of zeros is zero.

    Parameters
    ----------
    x : TensorLike
        The vectors; ints count as float64.
    axis : int, sequence of int or None
        The axes that make up a vector; all of them for None.
    keepdims : bool
        Whether those axes stay with extent 1.
    ord : number
        2 for the euclidean norm, 1 for the sum and inf and -inf for the largest and the smallest of
        the magnitudes, 0 for how many are not zero, p for the p-th root of the sum of p-th powers.

    Returns
    -------
    Tensor of real dtype

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.linalg.vector_norm([3.0, -4.0]).item(), tl.linalg.vector_norm([3.0, -4.0], ord=1).item()
    (5.0, 7.0)
    """
    tensor = computable(x, argument="vector_norm")
    if tensor.dtype.kind in "biu":
        tensor = cast_tensor(tensor, FLOAT64)
    return narrowed(_norm_over(tensor, axis, keepdims, ord), x)


def _norm_over(x: Tensor, axis: Axis, keepdims: bool, ord: float) -> Tensor:
    axes = normalize_axes("vector_norm", axis, x.ndim)
    if ord == 2:
        return apply(NORM, x, attrs=(axes, bool(keepdims)))
    if ord == 0:
        return cast_tensor(count_nonzero(x, axis=axes, keepdims=keepdims), to_real(x.dtype))
    sizes = magnitude(x)
    if ord == 1:
        return sum_over(sizes, axis=axes, keepdims=keepdims)
    if ord == np.inf:
        return max_over(sizes, axis=axes, keepdims=keepdims)
    if ord == -np.inf:
        return min_over(sizes, axis=axes, keepdims=keepdims)
    return sum_over(sizes ** float(ord), axis=axes, keepdims=keepdims) ** (1.0 / ord)


# --- matrices --------------------------------------------------------------------------------


def matrix_norm(x: TensorLike, /, *, keepdims: bool = False, ord: Order | None = "fro") -> Tensor:
    """The norms of the matrices in the last two dimensions.

    Parameters
    ----------
    x : TensorLike, shape (..., m, n)
        The matrices; ints count as float64.
    keepdims : bool
        Whether the last two dimensions stay with extent 1.
    ord : "fro", "nuc", 1, -1, 2, -2, inf or -inf
        The euclidean norm of all elements; the sum of the singular values; the largest and the
        smallest sum of magnitudes of a column; singular value; sum of magnitudes of a row.

    Returns
    -------
    Tensor of real dtype, shape (...)

    Raises
    ------
    ArgumentError
        If `ord` is something else.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.linalg.matrix_norm([[3.0, 0.0], [0.0, 4.0]]).item()
    5.0
    """
    x = matrix_operand("matrix_norm", x)
    if ord == "fro" or ord is None:
        return apply(NORM, x, attrs=((x.ndim - 2, x.ndim - 1), bool(keepdims)))
    if ord == "nuc":
        result = sum_over(svdvals(x), axis=-1)
    elif ord in (2, -2):
        values = svdvals(x)
        result = max_over(values, axis=-1) if ord == 2 else min_over(values, axis=-1)
    elif ord in (1, -1, np.inf, -np.inf):
        sums = sum_over(magnitude(x), axis=-2 if ord in (1, -1) else -1)
        result = max_over(sums, axis=-1) if ord > 0 else min_over(sums, axis=-1)
    else:
        raise ArgumentError(
            f"matrix_norm: ord is {ord!r}; expected 'fro', 'nuc', 1, -1, 2, -2, inf or -inf"
        )
    return expand_dims(result, axis=(-2, -1)) if keepdims else result


def matrix_rank(x: TensorLike, /, *, rtol: TensorLike | None = None) -> Tensor:
    """The ranks of matrices: how many singular values are not zero.

    Parameters
    ----------
    x : TensorLike, shape (..., m, n)
        The matrices; ints count as float64.
    rtol : number or tensor-like, shape (...), optional
        Singular values up to this part of the largest one count as zero; by default
        max(m, n) * eps.

    Returns
    -------
    Tensor of int64, shape (...)

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.linalg.matrix_rank([[1.0, 2.0], [2.0, 4.0]]).item()
    1
    """
    x = matrix_operand("matrix_rank", x)
    tolerance = relative_tolerance("matrix_rank", x, rtol)
    values = svdvals(x)
    if values.shape[-1] == 0:
        return count_nonzero(values, axis=-1)
    largest = max_over(values, axis=-1)
    return count_nonzero(values > expand_dims(largest * tolerance, axis=-1), axis=-1)


register_ufunc(np.linalg.vector_norm, vector_norm)
register_ufunc(np.linalg.matrix_norm, matrix_norm)
register_ufunc(np.linalg.matrix_rank, matrix_rank)
