"""Systems with triangular matrices, also those that factorizations leave, and matrices that are
made of blocks or diagonals.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tapeline.runtime.errors import ArgumentError, DTypeError, ShapeError
from tapeline.runtime.op import OUT, Attrs, Expansion, Sample, ShapeOf, Trait, define_op
from tapeline.runtime.ops.batch_rules import batch_solve
from tapeline.runtime.ops.bilinear import counted, is_guarding, regular
from tapeline.runtime.ops.creation import zeros
from tapeline.runtime.ops.gather import take
from tapeline.runtime.ops.joining import CONCAT, concat
from tapeline.runtime.ops.matrices import (
    adjoint,
    check_matrices,
    lower_triangle,
    matrix_spec,
    product,
    upper_triangle,
)
from tapeline.runtime.ops.permuting import flip
from tapeline.runtime.ops.pointwise import apply, call, computable, unbroadcast
from tapeline.runtime.ops.shaping import expand_dims, reshape, squeeze
from tapeline.runtime.ops.slicing import slice_along
from tapeline.runtime.ops.solving import SOLVE
from tapeline.runtime.promotion import promote
from tapeline.runtime.spec import Shape, TensorSpec, broadcast_shapes, spec_of
from tapeline.runtime.tensor import Tensor, TensorLike, as_tensor, cast_tensor

_BLOCK = 64
"""Up to so many rows the general solver is as fast as any."""


def _triangle(x: Any, upper: bool) -> Any:
    return upper_triangle(x) if upper else lower_triangle(x)


def _formula(a: Any, b: Any, upper: bool) -> Any:
    """One half of the unknowns, and the other half from what those leave of the right side."""
    n = a.shape[-1]
    if n <= _BLOCK:
        return call(SOLVE, _triangle(a, upper), b)
    half = (n // 2 + _BLOCK - 1) // _BLOCK * _BLOCK
    parts = ((0, half), (half, n))
    first, second = parts[::-1] if upper else parts
    rows = slice_along(a, -2, *second)
    known = _formula(_square(a, *first), slice_along(b, -2, *first), upper)
    rest = slice_along(b, -2, *second) - product(slice_along(rows, -1, *first), known)
    found = _formula(_square(a, *second), rest, upper)
    halves = (found, known) if upper else (known, found)
    ndim = len(known.shape)
    return call(CONCAT, *halves, attrs=(ndim - 2, tuple(part.shape[-2] for part in halves)))


def _square(a: Any, start: int, stop: int) -> Any:
    return slice_along(slice_along(a, -2, start, stop), -1, start, stop)


def _infer(a: TensorSpec, b: TensorSpec, upper: bool) -> TensorSpec:
    stack, n, _ = matrix_spec("solve_triangular", a, square=True)
    if b.dtype != a.dtype:
        raise DTypeError(f"solve_triangular: dtypes {a.dtype} and {b.dtype} differ; cast one")
    shape = b.static_shape
    check_matrices("solve_triangular", shape)
    if shape[-2] != n:
        raise ShapeError(
            f"solve_triangular: a has shape {a.shape}, b has shape {b.shape}; b must have as many "
            "rows as a"
        )
    batch = broadcast_shapes("solve_triangular", stack, shape[:-2])
    return spec_of((*batch, *shape[-2:]), a.dtype)


def _solved_back(ct: Any, upper: bool, a: Any) -> Any:
    """What the adjoint matrices make of the cotangent."""
    if is_guarding():
        a = regular(_triangle(a, upper), ct)
    return call(SOLVE_TRIANGULAR, adjoint(a), ct, attrs=(not upper,))


def _vjp_a(ct: Any, attrs: Attrs, a: Any, shape: Shape, out: Any) -> Any:
    upper = bool(attrs[0])
    back = _solved_back(ct, upper, a)
    products = product(back, adjoint(counted(out, ct, -2)))
    return unbroadcast(-_triangle(products, upper), a.shape)


def _vjp_b(ct: Any, attrs: Attrs, a: Any, shape: Shape, out: Any) -> Any:
    return unbroadcast(_solved_back(ct, bool(attrs[0]), a), shape)


def _regular(*shape: int) -> Any:
    def draw(rng: np.random.Generator) -> Any:
        return rng.uniform(-0.5, 0.5, shape) + 2.0 * np.eye(shape[-1])

    return draw


def _columns(*shape: int) -> Any:
    return lambda rng: rng.normal(size=shape)


SOLVE_TRIANGULAR = define_op(
    "solve_triangular",
    kernel=_formula,
    infer=_infer,
    n_inputs=2,
    attr_names=("upper",),
    saves=(0, ShapeOf(1), OUT),
    vjps=(_vjp_a, _vjp_b),
    emit=Expansion(_formula),
    batch=batch_solve,
    traits=Trait.NO_RECOMPUTE,
    kinds="fc",
    ulp=(64.0, 64.0),
    samples=(
        Sample((_regular(3, 3), _columns(3, 2)), (False,)),
        Sample((_regular(2, 3, 3), _columns(3, 1)), (True,)),
    ),
)


def solve_triangular(a: TensorLike, b: TensorLike, /, *, upper: bool = False) -> Tensor:
    """The solution x of `a @ x = b`, where only a triangle of `a` counts.

    Parameters
    ----------
    a : TensorLike, shape (..., n, n)
        The matrices; what is above the diagonal (below, if `upper`) is not looked at, and has
        gradient zero.
    b : TensorLike, shape (n,) or (..., n, k)
        The right sides: one vector, or columns.
    upper : bool
        Which triangle.

    Returns
    -------
    Tensor
        Of the shape of `b`, with broadcast batches.

    Raises
    ------
    ShapeError
        If the matrices are not square, or the shapes do not fit.
    LinAlgError
        If there is a 0 on the diagonal.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.linalg.solve_triangular([[2.0, 7.0], [1.0, 1.0]], [2.0, 3.0]).numpy()
    array([1., 2.])
    """
    first, second = promote(SOLVE, a, b)
    if second.ndim != 1:
        return apply(SOLVE_TRIANGULAR, first, second, attrs=(bool(upper),))
    column = expand_dims(second, axis=-1)
    return squeeze(apply(SOLVE_TRIANGULAR, first, column, attrs=(bool(upper),)), axis=-1)


def cho_solve(factor: TensorLike, b: TensorLike, /, *, upper: bool = False) -> Tensor:
    """The solution x of `a @ x = b`, from the factor that `tl.linalg.cholesky` gave of `a`.

    Parameters
    ----------
    factor : TensorLike, shape (..., n, n)
        The triangular factors.
    b : TensorLike, shape (n,) or (..., n, k)
        The right sides: one vector, or columns.
    upper : bool
        Whether the factors are upper ones.

    Returns
    -------
    Tensor
        Of the shape of `b`, with broadcast batches.

    Raises
    ------
    ShapeError
        If the factors are not square, or the shapes do not fit.

    Examples
    --------
    >>> import tapeline as tl
    >>> factor = tl.linalg.cholesky([[4.0, 2.0], [2.0, 2.0]])
    >>> tl.linalg.cho_solve(factor, [8.0, 6.0]).numpy()
    array([1., 2.])
    """
    first = computable(factor, "cho_solve")
    check_matrices("cho_solve", first.shape, square=True)
    other: Tensor = adjoint(first)
    left, right = (other, first) if upper else (first, other)
    return solve_triangular(right, solve_triangular(left, b), upper=True)


def block_diag(*blocks: TensorLike) -> Tensor:
    """A matrix with the blocks one after the other along its diagonal, zeros elsewhere.

    Parameters
    ----------
    blocks : TensorLike, shape (m, n)
        The blocks; vectors count as one row, numbers as one element.

    Returns
    -------
    Tensor
        Of the dtype to which those of the blocks promote.

    Raises
    ------
    ArgumentError
        If there is no block.
    ShapeError
        If a block has more than two dimensions.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.linalg.block_diag([[1, 2], [3, 4]], 5).numpy()
    array([[1, 2, 0],
           [3, 4, 0],
           [0, 0, 5]])
    """
    if not blocks:
        raise ArgumentError("block_diag: there must be at least one block")
    tensors = [as_tensor(block, argument="block_diag") for block in blocks]
    for block in tensors:
        if block.ndim > 2:
            raise ShapeError(f"block_diag: a block has shape {block.shape}; expected a matrix")
    matrices = [x if x.ndim == 2 else reshape(x, (1, x.size)) for x in tensors]
    width, column, rows = sum(x.shape[1] for x in matrices), 0, []
    dtype = np.result_type(*[x.dtype for x in matrices])
    for x in matrices:
        height, extent = x.shape
        before = zeros((height, column), dtype=dtype)
        after = zeros((height, width - column - extent), dtype=dtype)
        rows.append(concat([before, cast_tensor(x, dtype), after], axis=1))
        column += extent
    return concat(rows, axis=0)


def toeplitz(c: TensorLike, r: TensorLike | None = None, /) -> Tensor:
    """The matrix with equal elements along each diagonal, given by its first column and row.

    Parameters
    ----------
    c : TensorLike, shape (m,)
        The first column.
    r : TensorLike, shape (n,), optional
        The first row, whose first element does not count; by default the conjugate of `c`.

    Returns
    -------
    Tensor, shape (m, n)

    Raises
    ------
    ShapeError
        If these are no vectors.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.linalg.toeplitz([1, 2, 3], [1, 7, 8]).numpy()
    array([[1, 7, 8],
           [2, 1, 7],
           [3, 2, 1]])
    """
    column = as_tensor(c, argument="toeplitz: c")
    row = column.conj() if r is None else as_tensor(r, argument="toeplitz: r")
    if column.ndim != 1 or row.ndim != 1:
        raise ShapeError(f"toeplitz: expected vectors, got shapes {column.shape} and {row.shape}")
    m, n = column.shape[0], row.shape[0]
    values = concat([flip(column), row[1:]])
    places = np.arange(n) - np.arange(m)[:, None] + max(m - 1, 0)
    return reshape(take(values, places.reshape(-1), axis=0), (m, n))
