"""Singular values of matrices, with and without their vectors.

Vectors are arbitrary where singular values are equal, and in sign or phase. The gradient leaves
such pairs out, which is right for whatever does not depend on the choice.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tapeline.runtime.dispatch import bind
from tapeline.runtime.errors import GradientError
from tapeline.runtime.op import OUT, Attrs, Sample, Trait, define_op
from tapeline.runtime.ops.axes import Array
from tapeline.runtime.ops.batch_rules import batch_leading
from tapeline.runtime.ops.bilinear import regular, regular_parts
from tapeline.runtime.ops.matrices import (
    adjoint,
    as_column,
    as_diagonal,
    as_dtype_of,
    as_row,
    diagonal_of,
    inverse_gaps,
    matrix_operand,
    matrix_spec,
    product,
)
from tapeline.runtime.ops.pointwise import apply, call, to_real, zeros_for
from tapeline.runtime.ops.slicing import slice_along
from tapeline.runtime.spec import TensorSpec, spec_of
from tapeline.runtime.tensor import Tensor, TensorLike, register_ufunc


class SVD(NamedTuple):
    """What `tl.linalg.svd` gives."""

    U: Tensor
    S: Tensor
    Vh: Tensor


def _draw(*shape: int, complex_: bool = False) -> Any:
    """Draws matrices whose singular values lie apart."""

    def make(rng: np.random.Generator) -> Array:
        x = rng.uniform(-0.3, 0.3, shape)
        for k in range(min(shape[-2:])):
            x[..., k, k] += 1.0 + k
        return x + 0.2j * rng.normal(size=shape) if complex_ else x

    return make


# --- with vectors ----------------------------------------------------------------------------


def _svd_kernel(x: Array, full_matrices: bool) -> tuple[Any, Any, Any]:
    u, s, vh = np.linalg.svd(x, full_matrices)
    return u, s, vh


def _svd_infer(x: TensorSpec, full_matrices: bool) -> tuple[TensorSpec, TensorSpec, TensorSpec]:
    stack, rows, columns = matrix_spec("svd", x)
    k = min(rows, columns)
    return (
        spec_of((*stack, rows, rows if full_matrices else k), x.dtype),
        spec_of((*stack, k), to_real(x.dtype)),
        spec_of((*stack, columns if full_matrices else k, columns), x.dtype),
    )


def _svd_vjp(
    cts: tuple[Any, Any, Any], attrs: Attrs, needed: Any, u: Any, s: Any, vh: Any
) -> tuple[Any]:
    ct_u, ct_s, ct_vh = cts
    rows, columns, k = u.shape[-2], vh.shape[-1], s.shape[-1]
    if u.shape[-1] > k or vh.shape[-2] > k:
        if ct_u is not None or ct_vh is not None:
            raise GradientError(
                f"svd: with full_matrices=True the vectors of matrices of {rows} rows and "
                f"{columns} columns have no gradient, because the further ones are arbitrary; use "
                f"full_matrices=False"
            )
        u, vh = slice_along(u, -1, 0, k), slice_along(vh, -2, 0, k)
    u, s, vh = regular_parts((u, s, vh), cts, (2, 1, 2))
    scale = as_dtype_of(s, u)
    core = _core(ct_u, ct_s, ct_vh, u, s, vh)
    left = product(u, core)
    if ct_u is not None and rows > k:
        outside = ct_u - product(u, product(adjoint(u), ct_u))
        left = left + outside / as_row(scale)
    result = product(left, vh)
    if ct_vh is not None and columns > k:
        outside = ct_vh - product(product(ct_vh, adjoint(vh)), vh)
        result = result + product(u, outside / as_column(scale))
    return (result,)


def _core(ct_u: Any, ct_s: Any, ct_vh: Any, u: Any, s: Any, vh: Any) -> Any:
    """The cotangent between the vectors: diagonal from the values, the rest from rotations."""
    scale = as_dtype_of(s, u)
    gaps = as_dtype_of(inverse_gaps(s * s), u)
    core = as_diagonal(as_dtype_of(zeros_for(s) if ct_s is None else ct_s, u))
    if ct_u is not None:
        turn = product(adjoint(u), ct_u)
        turn = turn - adjoint(turn)
        core = core + turn * gaps * as_row(scale)
        if u.dtype.kind == "c" and ct_vh is not None:
            core = core + as_diagonal(diagonal_of(turn) / (scale * 2))
    if ct_vh is not None:
        turn = product(vh, adjoint(ct_vh))
        core = core + as_column(scale) * ((turn - adjoint(turn)) * gaps)
    return core


SVD_OP = define_op(
    "svd",
    batch=batch_leading,
    kernel=_svd_kernel,
    infer=_svd_infer,
    attr_names=("full_matrices",),
    n_outputs=3,
    saves=(OUT, OUT - 1, OUT - 2),
    joint_vjp=_svd_vjp,
    accepts_none=True,
    traits=Trait.NO_RECOMPUTE,
    kinds="fc",
    samples=(
        Sample((_draw(3, 3),), (True,)),
        Sample((_draw(2, 2, 3),), (False,)),
        Sample((_draw(4, 2),), (False,)),
    ),
)


def svd(x: TensorLike, /, full_matrices: bool = True) -> SVD:
    """The singular values, descending, and the singular vectors of matrices: x is
    `U @ diag(S) @ Vh`.

    The gradient leaves out pairs of equal singular values, and is right for what does not depend on
    the signs or phases of the vectors.

    Parameters
    ----------
    x : TensorLike, shape (..., m, n)
        The matrices; ints count as float64.
    full_matrices : bool
        Whether U and Vh are square, or have k = min(m, n) columns and rows.

    Returns
    -------
    SVD
        `U`, shape (..., m, m or k); `S`, real, shape (..., k); `Vh`, shape (..., n or k, n).

    Raises
    ------
    GradientError
        In the backward pass, for vectors of full matrices that are not square.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.linalg.svd([[3.0, 0.0], [0.0, 4.0]]).S.numpy()
    array([4., 3.])
    """
    return SVD(*bind(SVD_OP, (matrix_operand("svd", x),), (bool(full_matrices),)))


# --- values only -----------------------------------------------------------------------------


def _svdvals_kernel(x: Array) -> Any:
    return np.linalg.svd(x, compute_uv=False)


def _svdvals_infer(x: TensorSpec) -> TensorSpec:
    return _svd_infer(x, False)[1]


def _svdvals_vjp(ct: Any, attrs: Attrs, x: Any) -> Any:
    u, _, vh = call(SVD_OP, regular(x, ct, 1), attrs=(False,))
    return product(u * as_row(as_dtype_of(ct, u)), vh)


SVDVALS = define_op(
    "svdvals",
    batch=batch_leading,
    kernel=_svdvals_kernel,
    infer=_svdvals_infer,
    saves=(0,),
    vjps=(_svdvals_vjp,),
    traits=Trait.NO_RECOMPUTE,
    kinds="fc",
    samples=(
        Sample((_draw(3, 3),)),
        Sample((_draw(2, 2, 3),)),
        Sample((_draw(3, 2, complex_=True),)),
    ),
)


def svdvals(x: TensorLike, /) -> Tensor:
    """The singular values of matrices, descending; see `svd`.

    Parameters
    ----------
    x : TensorLike of float or complex, shape (..., m, n)
        The matrices; ints count as float64.

    Returns
    -------
    Tensor of float, shape (..., min(m, n))
        In descending order.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.linalg.svdvals([[3.0, 0.0], [0.0, 4.0]]).numpy()
    array([4., 3.])
    """
    return apply(SVDVALS, matrix_operand("svdvals", x))


register_ufunc(np.linalg.svd, svd)
register_ufunc(np.linalg.svdvals, svdvals)
