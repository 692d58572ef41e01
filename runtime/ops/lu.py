"""LU factorization with partial pivoting, and systems solved with it.

NumPy has none, so the kernel is our own: blocks of columns, after G. H. Golub and C. F. Van Loan,
"Matrix Computations", 3.4, with the work outside of a block in matrix products.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tapeline.runtime.dispatch import bind
from tapeline.runtime.errors import GradientError, ShapeError
from tapeline.runtime.op import OUT, Attrs, Sample, Trait, define_op
from tapeline.runtime.ops.along_axis import TAKE_ALONG_AXIS
from tapeline.runtime.ops.axes import Array
from tapeline.runtime.ops.batch_rules import batch_leading
from tapeline.runtime.ops.bilinear import regular_parts
from tapeline.runtime.ops.losses import one_hot
from tapeline.runtime.ops.matmul import matmul
from tapeline.runtime.ops.matrices import (
    adjoint,
    lower_triangle,
    matrix_operand,
    matrix_spec,
    product,
    upper_triangle,
)
from tapeline.runtime.ops.permuting import matrix_transpose
from tapeline.runtime.ops.pointwise import call
from tapeline.runtime.ops.shaping import BROADCAST_TO, EXPAND_DIMS, expand_dims, squeeze
from tapeline.runtime.ops.sorting import ARGSORT
from tapeline.runtime.ops.triangular import SOLVE_TRIANGULAR, solve_triangular
from tapeline.runtime.promotion import promote
from tapeline.runtime.spec import TensorSpec, spec_of
from tapeline.runtime.tensor import Tensor, TensorLike, cast_tensor

_BLOCK = 32
_INT64 = np.dtype(np.int64)

# --- kernel ----------------------------------------------------------------------------------


def _size(x: Array) -> Array:
    """What pivots are compared by, as in LAPACK."""
    return np.abs(x.real) + np.abs(x.imag) if x.dtype.kind == "c" else np.abs(x)


def _factor(a: Array, order: Array) -> None:
    """Puts both factors of one matrix in its place, and into `order` which row went where."""
    k = min(a.shape)
    for start in range(0, k, _BLOCK):
        stop = min(start + _BLOCK, k)
        for column in range(start, stop):
            pivot = column + int(np.argmax(_size(a[column:, column])))
            if pivot != column:
                a[[column, pivot]] = a[[pivot, column]]
                order[[column, pivot]] = order[[pivot, column]]
            if a[column, column] != 0:
                a[column + 1 :, column] /= a[column, column]
            a[column + 1 :, column + 1 : stop] -= np.multiply.outer(
                a[column + 1 :, column], a[column, column + 1 : stop]
            )
        inner = np.tril(a[start:stop, start:stop], -1) + np.eye(stop - start, dtype=a.dtype)
        a[start:stop, stop:] = np.linalg.solve(inner, a[start:stop, stop:])
        a[stop:, stop:] -= a[stop:, start:stop] @ a[start:stop, stop:]


def _kernel(x: Array) -> tuple[Array, Array, Array]:
    packed = np.array(x, order="C")
    m, n = x.shape[-2:]
    order = np.empty((*x.shape[:-2], m), _INT64)
    order[...] = np.arange(m)
    for place in np.ndindex(x.shape[:-2]):
        _factor(packed[place], order[place])
    k = min(m, n)
    lower = np.tril(packed[..., :k], -1) + np.eye(m, k, dtype=x.dtype)
    return order, lower, np.triu(packed[..., :k, :])


# --- rules -----------------------------------------------------------------------------------


def _infer(x: TensorSpec) -> tuple[TensorSpec, TensorSpec, TensorSpec]:
    stack, m, n = matrix_spec("lu", x)
    k = min(m, n)
    shapes = (*stack, m), (*stack, m, k), (*stack, k, n)
    return spec_of(shapes[0], _INT64), spec_of(shapes[1], x.dtype), spec_of(shapes[2], x.dtype)


def _joint_vjp(
    cts: Any, attrs: Attrs, needed: Any, order: Any, lower: Any, upper: Any
) -> tuple[Any]:
    """With dL = L tril(M, -1) and dU = triu(M) U, where M = L^-1 P^T dA U^-1."""
    if lower.shape[-2] != upper.shape[-1]:
        raise GradientError(
            f"lu: gradients are known for square matrices; these are {lower.shape[-2]} by "
            f"{upper.shape[-1]}"
        )
    lower, upper = regular_parts((lower, upper), cts[1:], (2, 2))
    middle = lower_triangle(product(adjoint(lower), cts[1]), -1)
    middle = middle + upper_triangle(product(cts[2], adjoint(upper)))
    rows = call(SOLVE_TRIANGULAR, adjoint(lower), middle, attrs=(True,))
    moved = adjoint(call(SOLVE_TRIANGULAR, upper, adjoint(rows), attrs=(True,)))
    ndim = len(moved.shape)
    back = call(ARGSORT, order, attrs=(ndim - 2, False))
    back = call(EXPAND_DIMS, back, attrs=((ndim - 1,),))
    back = call(BROADCAST_TO, back, attrs=(tuple(moved.shape),))
    return (call(TAKE_ALONG_AXIS, moved, back, attrs=(ndim - 2,)),)


def _regular(*shape: int) -> Any:
    """Draws matrices whose pivots are far apart."""

    def draw(rng: np.random.Generator) -> Array:
        scale = 3.0 * np.eye(shape[-1])[rng.permutation(shape[-1])]
        return scale + rng.uniform(-0.5, 0.5, shape)

    return draw


LU_OP = define_op(
    "lu",
    kernel=_kernel,
    infer=_infer,
    n_outputs=3,
    saves=(OUT, OUT - 1, OUT - 2),
    joint_vjp=_joint_vjp,
    batch=batch_leading,
    traits=Trait.NO_RECOMPUTE,
    kinds="fc",
    samples=(Sample((_regular(3, 3),)), Sample((_regular(2, 3, 3),))),
)
"""The rows in the order of the pivots, and both factors."""

# --- functions -------------------------------------------------------------------------------


class LU(NamedTuple):
    """What `tl.linalg.lu` gives."""

    P: Tensor
    L: Tensor
    U: Tensor


def lu(x: TensorLike, /) -> LU:
    """Permutations, lower and upper triangular factors of matrices: `P @ L @ U` is x.

    Parameters
    ----------
    x : TensorLike, shape (..., m, n)
        The matrices; ints count as float64. Gradients are known for square ones.

    Returns
    -------
    LU
        `P` of shape (..., m, m); `L` of shape (..., m, k), with ones on its diagonal and nothing
        larger below; `U` of shape (..., k, n), where k is the smaller of m and n.

    Raises
    ------
    ShapeError
        If there are less than two dimensions.

    Examples
    --------
    >>> import tapeline as tl
    >>> P, L, U = tl.linalg.lu([[1.0, 2.0], [4.0, 2.0]])
    >>> L.numpy()
    array([[1.  , 0.  ],
           [0.25, 1.  ]])
    >>> (P @ L @ U).numpy()
    array([[1., 2.],
           [4., 2.]])
    """
    order, lower, upper = bind(LU_OP, (matrix_operand("lu", x),))
    rows = cast_tensor(one_hot(order, order.shape[-1]), lower.dtype)
    return LU(matrix_transpose(rows), lower, upper)


def lu_solve(factors: LU, b: TensorLike, /) -> Tensor:
    """The solution x of `a @ x = b`, from what `tl.linalg.lu` gave of `a`.

    Parameters
    ----------
    factors : LU
        Of square matrices, shape (..., n, n).
    b : TensorLike, shape (n,) or (..., n, k)
        The right sides: one vector, or columns.

    Returns
    -------
    Tensor
        Of the shape of `b`, with broadcast batches.

    Raises
    ------
    ShapeError
        If the matrices are not square, or the shapes do not fit.
    LinAlgError
        If a matrix has no inverse.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.linalg.lu_solve(tl.linalg.lu([[1.0, 2.0], [4.0, 2.0]]), [5.0, 8.0]).numpy()
    array([1., 2.])
    """
    lower, side = promote(SOLVE_TRIANGULAR, factors.L, b)
    if lower.shape[-2:] != factors.U.shape[-2:] or lower.shape[-1] != lower.shape[-2]:
        raise ShapeError(
            f"lu_solve: the factors have shapes {lower.shape} and {factors.U.shape}; they must be "
            "square"
        )
    columns = expand_dims(side, axis=-1) if side.ndim == 1 else side
    rows = matmul(matrix_transpose(factors.P), columns)
    found = solve_triangular(factors.U, solve_triangular(lower, rows), upper=True)
    return squeeze(found, axis=-1) if side.ndim == 1 else found
