"""Eigenvalues and singular values of matrices, with and without their vectors.

Where two values are equal their vectors are arbitrary within a plane and have no derivative. The
gradient then leaves such pairs out, which is right for whatever does not depend on the choice. The
same holds for the signs and phases of vectors.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tapeline.runtime.dispatch import bind
from tapeline.runtime.op import OUT, Attrs, Sample, Trait, define_op, get_op
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
    hermitian_part,
    inverse_gaps,
    matrix_operand,
    matrix_spec,
    product,
)
from tapeline.runtime.ops.pointwise import apply, call, conjugate, to_real
from tapeline.runtime.ops.solving import SOLVE
from tapeline.runtime.spec import DType, TensorSpec, spec_of
from tapeline.runtime.tensor import Tensor, TensorLike, register_ufunc


def _draw(*shape: int, complex_: bool = False) -> Any:
    """Draws matrices whose eigenvalues and singular values lie apart."""

    def make(rng: np.random.Generator) -> Array:
        x = rng.uniform(-0.3, 0.3, shape)
        for k in range(min(shape[-2:])):
            x[..., k, k] += 1.0 + k
        return x + 0.2j * rng.normal(size=shape) if complex_ else x

    return make


# --- eigh ------------------------------------------------------------------------------------


class Eigen(NamedTuple):
    """What `tl.linalg.eigh` and `tl.linalg.eig` give."""

    eigenvalues: Tensor
    eigenvectors: Tensor


def _hermitian(x: Array) -> Array:
    return (x + x.conj().swapaxes(-1, -2)) * 0.5


def _eigh_kernel(x: Array) -> tuple[Any, Any]:
    values, vectors = np.linalg.eigh(_hermitian(x))
    return values, vectors


def _eigh_infer(x: TensorSpec) -> tuple[TensorSpec, TensorSpec]:
    stack, n, _ = matrix_spec("eigh", x, square=True)
    return spec_of((*stack, n), to_real(x.dtype)), spec_of(x.static_shape, x.dtype)


def _eigh_vjp(
    cts: tuple[Any, Any], attrs: Attrs, needed: Any, values: Any, vectors: Any
) -> tuple[Any]:
    ct_values, ct_vectors = cts
    values, vectors = regular_parts((values, vectors), cts, (1, 2))
    inner = None
    if ct_vectors is not None:
        inner = product(adjoint(vectors), ct_vectors) * inverse_gaps(values)
    if ct_values is not None:
        diagonal = as_diagonal(as_dtype_of(ct_values, vectors))
        inner = diagonal if inner is None else inner + diagonal
    return (hermitian_part(product(product(vectors, inner), adjoint(vectors))),)


EIGH = define_op(
    "eigh",
    batch=batch_leading,
    kernel=_eigh_kernel,
    infer=_eigh_infer,
    n_outputs=2,
    saves=(OUT, OUT - 1),
    joint_vjp=_eigh_vjp,
    accepts_none=True,
    traits=Trait.NO_RECOMPUTE,
    kinds="fc",
    samples=(Sample((_draw(3, 3),)), Sample((_draw(2, 2, 2),))),
)


def eigh(x: TensorLike, /) -> Eigen:
    """The eigenvalues, ascending, and the eigenvectors of hermitian matrices.

    Of a matrix that is not hermitian, the mean of it and its adjoint is taken, so gradients are
    hermitian. The gradient leaves out pairs of equal eigenvalues.

    Parameters
    ----------
    x : TensorLike, shape (..., n, n)
        The matrices; ints count as float64.

    Returns
    -------
    Eigen
        `eigenvalues`, real, of shape (..., n), and `eigenvectors`, of shape (..., n, n), the
        columns, of length 1.

    Raises
    ------
    ShapeError
        If the matrices are not square.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.linalg.eigh([[2.0, 0.0], [0.0, 1.0]]).eigenvalues.numpy()
    array([1., 2.])
    """
    return Eigen(*bind(EIGH, (matrix_operand("eigh", x, square=True),)))


def _eigvalsh_kernel(x: Array) -> Any:
    return np.linalg.eigvalsh(_hermitian(x))


def _eigvalsh_infer(x: TensorSpec) -> TensorSpec:
    return _eigh_infer(x)[0]


def _eigvalsh_vjp(ct: Any, attrs: Attrs, x: Any) -> Any:
    _, vectors = call(EIGH, regular(x, ct, 1))
    scaled = vectors * as_row(as_dtype_of(ct, vectors))
    return hermitian_part(product(scaled, adjoint(vectors)))


EIGVALSH = define_op(
    "eigvalsh",
    batch=batch_leading,
    kernel=_eigvalsh_kernel,
    infer=_eigvalsh_infer,
    saves=(0,),
    vjps=(_eigvalsh_vjp,),
    traits=Trait.NO_RECOMPUTE,
    kinds="fc",
    samples=(Sample((_draw(3, 3),)), Sample((_draw(2, 2, 2, complex_=True),))),
)


def eigvalsh(x: TensorLike, /) -> Tensor:
    """The eigenvalues of hermitian matrices, ascending; see `eigh`.

    Parameters
    ----------
    x : TensorLike of float or complex, shape (..., n, n)
        The matrices; ints count as float64.

    Returns
    -------
    Tensor of float, shape (..., n)
        In ascending order.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.linalg.eigvalsh([[2.0, 0.0], [0.0, 1.0]]).numpy()
    array([1., 2.])
    """
    return apply(EIGVALSH, matrix_operand("eigvalsh", x, square=True))


# --- eig -------------------------------------------------------------------------------------


def _as_complex(dtype: DType) -> DType:
    return np.dtype(np.complex64 if dtype.name in ("float32", "complex64") else np.complex128)


def _eig_kernel(x: Array) -> tuple[Any, Any]:
    values, vectors = np.linalg.eig(x)
    dtype = _as_complex(x.dtype)
    return values.astype(dtype, copy=False), vectors.astype(dtype, copy=False)


def _eig_infer(x: TensorSpec) -> tuple[TensorSpec, TensorSpec]:
    stack, n, _ = matrix_spec("eig", x, square=True)
    dtype = _as_complex(x.dtype)
    return spec_of((*stack, n), dtype), spec_of(x.static_shape, dtype)


def _eig_vjp(
    cts: tuple[Any, Any], attrs: Attrs, needed: Any, x: Any, values: Any, vectors: Any
) -> tuple[Any]:
    """The vectors have length 1, so a cotangent along one of them moves nothing."""
    ct_values, ct_vectors = cts
    values, vectors = regular_parts((values, vectors), cts, (1, 2))
    back = adjoint(vectors)
    inner = None
    if ct_vectors is not None:
        turned = product(back, ct_vectors)
        along = call(get_op("real"), diagonal_of(turned))
        turned = turned - product(back, vectors) * as_row(as_dtype_of(along, vectors))
        inner = turned * conjugate(inverse_gaps(values))
    if ct_values is not None:
        diagonal = as_diagonal(ct_values)
        inner = diagonal if inner is None else inner + diagonal
    return (as_dtype_of(call(SOLVE, back, product(inner, back)), x),)


EIG = define_op(
    "eig",
    batch=batch_leading,
    kernel=_eig_kernel,
    infer=_eig_infer,
    n_outputs=2,
    saves=(0, OUT, OUT - 1),
    joint_vjp=_eig_vjp,
    accepts_none=True,
    traits=Trait.NO_RECOMPUTE,
    kinds="fc",
)


def eig(x: TensorLike, /) -> Eigen:
    """The eigenvalues and the eigenvectors of square matrices.

    The gradient leaves out pairs of equal eigenvalues, and is right for what does not depend on the
    phases of the vectors.

    Parameters
    ----------
    x : TensorLike, shape (..., n, n)
        The matrices; ints count as float64.

    Returns
    -------
    Eigen
        `eigenvalues`, of shape (..., n), and `eigenvectors`, of shape (..., n, n), the columns, of
        length 1; both complex.

    Raises
    ------
    ShapeError
        If the matrices are not square.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.linalg.eig([[2.0, 0.0], [0.0, 1.0]]).eigenvalues.numpy()
    array([2.+0.j, 1.+0.j])
    """
    return Eigen(*bind(EIG, (matrix_operand("eig", x, square=True),)))


def _eigvals_kernel(x: Array) -> Any:
    return np.linalg.eigvals(x).astype(_as_complex(x.dtype), copy=False)


def _eigvals_infer(x: TensorSpec) -> TensorSpec:
    return _eig_infer(x)[0]


def _eigvals_vjp(ct: Any, attrs: Attrs, x: Any) -> Any:
    _, vectors = call(EIG, regular(x, ct, 1))
    back = adjoint(vectors)
    return as_dtype_of(call(SOLVE, back, as_column(ct) * back), x)


EIGVALS = define_op(
    "eigvals",
    batch=batch_leading,
    kernel=_eigvals_kernel,
    infer=_eigvals_infer,
    saves=(0,),
    vjps=(_eigvals_vjp,),
    traits=Trait.NO_RECOMPUTE,
    kinds="fc",
    samples=(Sample((_draw(3, 3),)), Sample((_draw(2, 2, 2, complex_=True),))),
)


def eigvals(x: TensorLike, /) -> Tensor:
    """The eigenvalues of square matrices, complex; see `eig`.

    Parameters
    ----------
    x : TensorLike of float or complex, shape (..., n, n)
        The matrices; ints count as float64.

    Returns
    -------
    Tensor of complex, shape (..., n)

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.linalg.eigvals([[0.0, -1.0], [1.0, 0.0]]).numpy()
    array([0.+1.j, 0.-1.j])
    """
    return apply(EIGVALS, matrix_operand("eigvals", x, square=True))


for _function, _numpy in (
    (eigh, np.linalg.eigh),
    (eigvalsh, np.linalg.eigvalsh),
    (eig, np.linalg.eig),
    (eigvals, np.linalg.eigvals),
):
    register_ufunc(_numpy, _function)
