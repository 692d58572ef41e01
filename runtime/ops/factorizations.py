"""Triangular factorizations of matrices: cholesky, qr."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, NoReturn

import numpy as np

from tapeline.runtime.dispatch import bind
from tapeline.runtime.errors import ArgumentError, GradientError
from tapeline.runtime.op import OUT, Attrs, Sample, Trait, define_op
from tapeline.runtime.ops.axes import Array
from tapeline.runtime.ops.batch_rules import batch_leading
from tapeline.runtime.ops.bilinear import is_guarding, regular, regular_parts
from tapeline.runtime.ops.joining import CONCAT
from tapeline.runtime.ops.matrices import (
    adjoint,
    halved_diagonal,
    hermitian_part,
    lower_triangle,
    matrix_operand,
    matrix_spec,
    product,
    upper_triangle,
)
from tapeline.runtime.ops.pointwise import apply, call
from tapeline.runtime.ops.slicing import slice_along
from tapeline.runtime.ops.solving import INV, SOLVE
from tapeline.runtime.spec import TensorSpec, spec_of
from tapeline.runtime.tensor import Tensor, TensorLike, register_ufunc


def _draw(*shape: int, positive: bool = False, complex_: bool = False) -> Any:
    """Draws matrices, positive definite ones if asked."""

    def make(rng: np.random.Generator) -> Array:
        x = rng.normal(size=shape) + (1j * rng.normal(size=shape) if complex_ else 0.0)
        return x @ x.conj().swapaxes(-1, -2) + np.eye(shape[-1]) if positive else x

    return make


# --- cholesky --------------------------------------------------------------------------------


def _cholesky_kernel(x: Array, upper: bool) -> Any:
    return np.linalg.cholesky((x + x.conj().swapaxes(-1, -2)) * 0.5, upper=upper)


def _cholesky_infer(x: TensorSpec, upper: bool) -> TensorSpec:
    matrix_spec("cholesky", x, square=True)
    return spec_of(x.static_shape, x.dtype)


def _cholesky_vjp(ct: Any, attrs: Attrs, out: Any) -> Any:
    """Of x = f f^H: f^-H p f^-1, made hermitian, where p is the lower half of f^H ct."""
    factor, ct = (adjoint(out), adjoint(ct)) if attrs[0] else (out, ct)
    if is_guarding():
        ct = lower_triangle(ct)
        factor = regular(factor, ct)
    half = halved_diagonal(lower_triangle(product(adjoint(factor), ct)))
    inverse = call(INV, factor)
    return hermitian_part(product(product(adjoint(inverse), half), inverse))


CHOLESKY = define_op(
    "cholesky",
    batch=batch_leading,
    kernel=_cholesky_kernel,
    infer=_cholesky_infer,
    attr_names=("upper",),
    saves=(OUT,),
    vjps=(_cholesky_vjp,),
    traits=Trait.NO_RECOMPUTE,
    kinds="fc",
    samples=(
        Sample((_draw(3, 3, positive=True),), (False,)),
        Sample((_draw(2, 2, 2, positive=True),), (True,)),
        Sample((_draw(2, 2, positive=True, complex_=True),), (False,)),
        Sample((_draw(2, 2, positive=True, complex_=True),), (True,)),
    ),
)


def cholesky(x: TensorLike, /, *, upper: bool = False) -> Tensor:
    """The triangular factors of hermitian, positive definite matrices: `f @ f^H` is x.

    Of a matrix that is not hermitian, the mean of it and its adjoint is taken, so gradients are
    hermitian.

    Parameters
    ----------
    x : TensorLike, shape (..., n, n)
        The matrices; ints count as float64.
    upper : bool
        Whether to give the upper factor, `f^H @ f = x`, instead of the lower one.

    Returns
    -------
    Tensor, shape (..., n, n)
        Zero on the other side of the diagonal.

    Raises
    ------
    ShapeError
        If the matrices are not square.
    LinAlgError
        If one is not positive definite.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.linalg.cholesky([[4.0, 2.0], [2.0, 2.0]]).numpy()
    array([[2., 0.],
           [1., 1.]])
    """
    return apply(CHOLESKY, matrix_operand("cholesky", x, square=True), attrs=(bool(upper),))


# --- qr --------------------------------------------------------------------------------------


class QR(NamedTuple):
    """What `tl.linalg.qr` gives."""

    Q: Tensor
    R: Tensor


def _qr_kernel(x: Array, mode: Literal["reduced", "complete"]) -> tuple[Any, Any]:
    q, r = np.linalg.qr(x, mode)
    return q, r


def _qr_infer(x: TensorSpec, mode: str) -> tuple[TensorSpec, TensorSpec]:
    stack, rows, columns = matrix_spec("qr", x)
    inner = rows if mode == "complete" else min(rows, columns)
    return (
        spec_of((*stack, rows, inner), x.dtype),
        spec_of((*stack, inner, columns), x.dtype),
    )


def _qr_vjp(cts: tuple[Any, Any], attrs: Attrs, needed: Any, q: Any, r: Any) -> tuple[Any]:
    rows, columns = q.shape[-2], r.shape[-1]
    ct_q, ct_r = cts
    q, r = regular_parts((q, r), cts, (2, 2))
    if q.shape[-1] > columns:
        _reject_complete(rows, columns)
    if columns <= rows:
        return (_tall_qr_vjp(ct_q, ct_r, q, r),)
    # x = [y | z] with a square y = q u; r = [u | v] with v = q^H z
    ct_u, ct_v = slice_along(ct_r, -1, 0, rows), slice_along(ct_r, -1, rows, columns)
    u, v = slice_along(r, -1, 0, rows), slice_along(r, -1, rows, columns)
    ct_y = _tall_qr_vjp(ct_q + product(product(q, v), adjoint(ct_v)), ct_u, q, u)
    ct_z = product(q, ct_v)
    axis = len(q.shape) - 1
    return (call(CONCAT, ct_y, ct_z, attrs=(axis, (rows, columns - rows))),)


def _tall_qr_vjp(ct_q: Any, ct_r: Any, q: Any, r: Any) -> Any:
    half = upper_triangle(product(ct_r, adjoint(r)) - product(adjoint(q), ct_q))
    mirrored = half + adjoint(half)
    inner = ct_q + product(q, halved_diagonal(mirrored))
    return adjoint(call(SOLVE, r, adjoint(inner)))


def _reject_complete(rows: int, columns: int) -> NoReturn:
    raise GradientError(
        f"qr: with mode='complete' there is no gradient for matrices of more rows ({rows}) than "
        f"columns ({columns}), because the further columns of Q are arbitrary; use mode='reduced'"
    )


QR_OP = define_op(
    "qr",
    batch=batch_leading,
    kernel=_qr_kernel,
    infer=_qr_infer,
    attr_names=("mode",),
    n_outputs=2,
    saves=(OUT, OUT - 1),
    joint_vjp=_qr_vjp,
    traits=Trait.NO_RECOMPUTE,
    kinds="fc",
    samples=(
        Sample((_draw(3, 3),), ("reduced",)),
        Sample((_draw(2, 4, 2),), ("reduced",)),
        Sample((_draw(2, 4),), ("complete",)),
        Sample((_draw(3, 2, complex_=True),), ("reduced",)),
        Sample((_draw(2, 3, complex_=True),), ("reduced",)),
    ),
)


def qr(x: TensorLike, /, mode: Literal["reduced", "complete"] = "reduced") -> QR:
    """The factors of `x = Q @ R`: columns that are orthonormal, and an upper triangle.

    Gradients need the first columns of x, as many as it has rows, to be independent.

    Parameters
    ----------
    x : TensorLike, shape (..., m, n)
        The matrices; ints count as float64.
    mode : "reduced" or "complete"
        Whether Q has min(m, n) or m columns.

    Returns
    -------
    QR
        `Q`, shape (..., m, k), and `R`, shape (..., k, n).

    Raises
    ------
    ArgumentError
        If `mode` is another word.
    GradientError
        In the backward pass, where Q is complete and m > n: further columns of Q are arbitrary.

    Examples
    --------
    >>> import tapeline as tl
    >>> q, r = tl.linalg.qr([[3.0, 0.0], [4.0, 5.0]])
    >>> bool(tl.all(tl.abs(q @ r - tl.asarray([[3.0, 0.0], [4.0, 5.0]])) < 1e-12))
    True
    """
    if mode not in ("reduced", "complete"):
        raise ArgumentError(f"qr: mode is {mode!r}; expected 'reduced' or 'complete'")
    return QR(*bind(QR_OP, (matrix_operand("qr", x),), (mode,)))


register_ufunc(np.linalg.cholesky, cholesky)
register_ufunc(np.linalg.qr, qr)
