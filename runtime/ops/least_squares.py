"""Systems with more or less equations than unknowns."""

from __future__ import annotations

from typing import NamedTuple

from tapeline.runtime.errors import ShapeError
from tapeline.runtime.ops.extrema import max as max_over
from tapeline.runtime.ops.matmul import matmul
from tapeline.runtime.ops.matrices import check_matrices
from tapeline.runtime.ops.norms import vector_norm
from tapeline.runtime.ops.reduction import count_nonzero
from tapeline.runtime.ops.shaping import expand_dims, squeeze
from tapeline.runtime.ops.singular import svdvals
from tapeline.runtime.ops.solving import SOLVE, pinv, relative_tolerance
from tapeline.runtime.promotion import promote
from tapeline.runtime.tensor import Tensor, TensorLike


class LeastSquares(NamedTuple):
    """What `tl.linalg.lstsq` gives."""

    solution: Tensor
    residuals: Tensor
    rank: Tensor
    singular_values: Tensor


def lstsq(a: TensorLike, b: TensorLike, /, *, rtol: TensorLike | None = None) -> LeastSquares:
    """The shortest x for which `a @ x` is closest to `b`.

    The gradient is that at a fixed rank.

    Parameters
    ----------
    a : TensorLike, shape (..., m, n)
        The matrices.
    b : TensorLike, shape (m,) or (..., m, k)
        The right sides: one vector, or columns.
    rtol : number, optional
        Singular values up to this part of the largest one count as zero; by default
        max(m, n) * eps.

    Returns
    -------
    LeastSquares
        `solution`, of shape (..., n) or (..., n, k); `residuals`, the squared distances that are
        left, of shape (...) or (..., k), in NumPy only where the rank is n < m; `rank` and
        `singular_values` of `a`.

    Raises
    ------
    ShapeError
        If `b` does not have as many rows as `a`.

    Examples
    --------
    >>> import tapeline as tl
    >>> found = tl.linalg.lstsq([[1.0], [1.0]], [1.0, 3.0])
    >>> tl.round(found.solution).numpy(), tl.round(found.residuals).item()
    (array([2.]), 2.0)
    """
    first, second = promote(SOLVE, a, b)
    check_matrices("lstsq", first.shape)
    columns = expand_dims(second, -1) if second.ndim == 1 else second
    if columns.ndim < 2 or columns.shape[-2] != first.shape[-2]:
        raise ShapeError(
            f"lstsq: a has shape {first.shape}, b has shape {second.shape}; b must have as many "
            f"rows as a"
        )
    solution = matmul(pinv(first, rtol=rtol), columns)
    residuals = vector_norm(columns - matmul(first, solution), axis=-2) ** 2
    values = svdvals(first)
    least = expand_dims(max_over(values, axis=-1) * relative_tolerance("lstsq", first, rtol), -1)
    rank = count_nonzero(values > least, axis=-1)
    if second.ndim == 1:
        solution, residuals = squeeze(solution, axis=-1), squeeze(residuals, axis=-1)
    return LeastSquares(solution, residuals, rank, values)
