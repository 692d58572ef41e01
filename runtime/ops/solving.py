"""Systems of linear equations: solve, inv, pinv, det, slogdet.

Matrices without an inverse are an error of NumPy's, `LinAlgError`, also where a gradient needs the
inverse.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from tapeline.runtime.dispatch import bind
from tapeline.runtime.errors import DTypeError, ShapeError
from tapeline.runtime.op import OUT, Attrs, Op, Sample, ShapeOf, Trait, define_op, get_op
from tapeline.runtime.ops.axes import Array
from tapeline.runtime.ops.batch_rules import batch_leading, batch_solve, rank, spread, widen
from tapeline.runtime.ops.bilinear import counted, regular
from tapeline.runtime.ops.matrices import (
    FLOAT64,
    adjoint,
    as_column,
    as_dtype_of,
    check_matrices,
    identity_matrix,
    matrix_operand,
    matrix_spec,
    product,
)
from tapeline.runtime.ops.pointwise import along, apply, call, conjugate, to_real, unbroadcast
from tapeline.runtime.ops.shaping import EXPAND_DIMS, SQUEEZE
from tapeline.runtime.promotion import promote
from tapeline.runtime.spec import Shape, TensorSpec, broadcast_shapes, spec_of
from tapeline.runtime.tensor import Tensor, TensorLike, as_tensor, cast_tensor, register_ufunc
from tapeline.runtime.unwatched import numpys_own, plain_arrays


def _regular(*shape: int, complex_: bool = False) -> Any:
    """Draws matrices that are far from singular."""

    def make(rng: np.random.Generator) -> Array:
        x = rng.uniform(-0.4, 0.4, shape) + 1.5 * np.eye(shape[-1])
        return x + 0.4j * rng.normal(size=shape) if complex_ else x

    return make


def _normal(*shape: int, complex_: bool = False) -> Any:
    """Draws any matrices."""

    def make(rng: np.random.Generator) -> Array:
        x = rng.normal(size=shape)
        return x + 1j * rng.normal(size=shape) if complex_ else x

    return make


_SQUARE_SAMPLES = (
    Sample((_regular(3, 3),)),
    Sample((_regular(2, 2, 2),)),
    Sample((_regular(2, 2, complex_=True),)),
    Sample((lambda rng: np.zeros((0, 3, 3)),)),
)

# --- inv -------------------------------------------------------------------------------------


def _inv_infer(x: TensorSpec) -> TensorSpec:
    matrix_spec("inv", x, square=True)
    return spec_of(x.static_shape, x.dtype)


def _inv_vjp(ct: Any, attrs: Attrs, out: Any) -> Any:
    back = adjoint(regular(out, ct))
    return -product(product(back, ct), back)


INV = define_op(
    "inv",
    batch=batch_leading,
    kernel=np.linalg.inv,
    infer=_inv_infer,
    saves=(OUT,),
    vjps=(_inv_vjp,),
    traits=Trait.NO_RECOMPUTE,
    kinds="fc",
    samples=_SQUARE_SAMPLES,
)


def inv(x: TensorLike, /) -> Tensor:
    """The inverses of square matrices.

    Parameters
    ----------
    x : TensorLike, shape (..., n, n)
        The matrices; ints count as float64.

    Returns
    -------
    Tensor, shape (..., n, n)

    Raises
    ------
    ShapeError
        If they are not square.
    LinAlgError
        If one has no inverse.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.linalg.inv([[2.0, 0.0], [0.0, 4.0]]).numpy()
    array([[0.5 , 0.  ],
           [0.  , 0.25]])
    """
    found = numpys_own(np.linalg.inv, x)
    return apply(INV, matrix_operand("inv", x, square=True)) if found is None else found


# --- solve -----------------------------------------------------------------------------------


def _solve_infer(a: TensorSpec, b: TensorSpec) -> TensorSpec:
    stack, n, _ = matrix_spec("solve", a, square=True)
    if b.dtype != a.dtype:
        raise DTypeError(f"solve: dtypes {a.dtype} and {b.dtype} differ; cast one")
    shape = b.static_shape
    check_matrices("solve", shape)
    if shape[-2] != n:
        raise ShapeError(
            f"solve: a has shape {a.shape}, b has shape {b.shape}; b must have as many rows as a"
        )
    return spec_of((*broadcast_shapes("solve", stack, shape[:-2]), *shape[-2:]), a.dtype)


def _solve_vjp_a(ct: Any, attrs: Attrs, a: Any, shape: Shape, out: Any) -> Any:
    back = call(SOLVE, regular(adjoint(a), ct), ct)
    return unbroadcast(-product(back, adjoint(counted(out, ct, -2))), a.shape)


def _solve_vjp_b(ct: Any, attrs: Attrs, a: Any, shape: Shape, out: Any) -> Any:
    return unbroadcast(call(SOLVE, regular(adjoint(a), ct), ct), shape)


SOLVE = define_op(
    "solve",
    batch=batch_solve,
    kernel=np.linalg.solve,
    infer=_solve_infer,
    n_inputs=2,
    saves=(0, ShapeOf(1), OUT),
    vjps=(_solve_vjp_a, _solve_vjp_b),
    traits=Trait.NO_RECOMPUTE,
    kinds="fc",
    samples=(
        Sample((_regular(3, 3), _normal(3, 2))),
        Sample((_regular(2, 2, 2), _normal(2, 1))),
        Sample((_regular(2, 2), _normal(2, 2, 1))),
        Sample((_regular(2, 2, complex_=True), _normal(2, 2, complex_=True))),
    ),
)


def solve(x1: TensorLike, x2: TensorLike, /) -> Tensor:
    """The solution x of `x1 @ x = x2`.

    Parameters
    ----------
    x1 : TensorLike, shape (..., n, n)
        The matrices.
    x2 : TensorLike, shape (n,) or (..., n, k)
        The right sides: one vector, or columns.

    Returns
    -------
    Tensor, shape (..., n) for a vector, else (..., n, k)

    Raises
    ------
    ShapeError
        If the matrices are not square, or the shapes do not fit.
    LinAlgError
        If a matrix has no inverse.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.linalg.solve([[2.0, 0.0], [0.0, 4.0]], [2.0, 2.0]).numpy()
    array([1. , 0.5])
    """
    arrays = plain_arrays((x1, x2))
    if arrays is not None:
        found = numpys_own(np.linalg.solve, x1, arrays[1])
        if found is not None:
            return found
    a, b = promote(SOLVE, x1, x2)
    if b.ndim != 1:
        return apply(SOLVE, a, b)
    column = apply(SOLVE, a, apply(EXPAND_DIMS, b, attrs=((1,),)))
    return apply(SQUEEZE, column, attrs=((column.ndim - 1,),))


# --- det -------------------------------------------------------------------------------------


def _det_infer(x: TensorSpec) -> TensorSpec:
    stack, _, _ = matrix_spec("det", x, square=True)
    return spec_of(stack, x.dtype)


def _det_vjp(ct: Any, attrs: Attrs, x: Any, out: Any) -> Any:
    return _inverse_times(along(ct, out), regular(x, ct, 0))


def _inverse_times(factor: Any, x: Any) -> Any:
    """The adjoints of the inverses, each times a number."""
    return as_column(as_column(factor)) * adjoint(call(INV, x))


DET = define_op(
    "det",
    batch=batch_leading,
    kernel=np.linalg.det,
    infer=_det_infer,
    saves=(0, OUT),
    vjps=(_det_vjp,),
    traits=Trait.NO_RECOMPUTE,
    kinds="fc",
    samples=_SQUARE_SAMPLES,
)


def det(x: TensorLike, /) -> Tensor:
    """The determinants of square matrices.

    There is a gradient where the matrix has an inverse.

    Parameters
    ----------
    x : TensorLike, shape (..., n, n)
        The matrices; ints count as float64.

    Returns
    -------
    Tensor, shape (...)

    Raises
    ------
    ShapeError
        If the matrices are not square.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.linalg.det([[0.0, 1.0], [1.0, 0.0]]).item()
    -1.0
    """
    found = numpys_own(np.linalg.det, x)
    return apply(DET, matrix_operand("det", x, square=True)) if found is None else found


# --- slogdet ---------------------------------------------------------------------------------


class SignAndLog(NamedTuple):
    """What `tl.linalg.slogdet` gives."""

    sign: Tensor
    logabsdet: Tensor


def _slogdet_kernel(x: Array) -> tuple[Any, Any]:
    sign, logarithm = np.linalg.slogdet(x)
    return sign, logarithm


def _slogdet_infer(x: TensorSpec) -> tuple[TensorSpec, TensorSpec]:
    stack, _, _ = matrix_spec("slogdet", x, square=True)
    return spec_of(stack, x.dtype), spec_of(stack, to_real(x.dtype))


def _slogdet_vjp(cts: tuple[Any, Any], attrs: Attrs, needed: Any, x: Any, sign: Any) -> tuple[Any]:
    """The logarithm moves with the real part of tr(inv(x) dx), the sign turns with the other."""
    factor = as_dtype_of(cts[1], x)
    if x.dtype.kind == "c":
        turn = call(get_op("imag"), conjugate(cts[0]) * sign)
        factor = factor - as_dtype_of(turn, x) * 1j
    return (_inverse_times(factor, regular(x, factor, 0)),)


SLOGDET = define_op(
    "slogdet",
    batch=batch_leading,
    kernel=_slogdet_kernel,
    infer=_slogdet_infer,
    n_outputs=2,
    saves=(0, OUT),
    joint_vjp=_slogdet_vjp,
    traits=Trait.NO_RECOMPUTE,
    kinds="fc",
    samples=_SQUARE_SAMPLES,
)


def slogdet(x: TensorLike, /) -> SignAndLog:
    """The signs of the determinants of square matrices, and the logarithms of their magnitudes.

    Parameters
    ----------
    x : TensorLike, shape (..., n, n)
        The matrices; ints count as float64.

    Returns
    -------
    SignAndLog
        `sign`, of magnitude 1, or 0 for a matrix without an inverse, and `logabsdet`, both of shape
        (...).

    Raises
    ------
    ShapeError
        If the matrices are not square.

    Examples
    --------
    >>> import tapeline as tl
    >>> sign, logarithm = tl.linalg.slogdet([[0.0, 1.0], [1.0, 0.0]])
    >>> sign.item(), logarithm.item()
    (-1.0, 0.0)
    """
    return SignAndLog(*bind(SLOGDET, (matrix_operand("slogdet", x, square=True),)))


# --- pinv ------------------------------------------------------------------------------------


def _pinv_kernel(x: Array, rtol: Array) -> Any:
    return np.linalg.pinv(x, rtol=rtol)


def _pinv_infer(x: TensorSpec, rtol: TensorSpec) -> TensorSpec:
    stack, rows, columns = matrix_spec("pinv", x)
    return spec_of((*stack, columns, rows), x.dtype)


def _pinv_vjp(ct: Any, attrs: Attrs, x: Any, out: Any) -> Any:
    """The rule of Golub and Pereyra, for matrices whose rank does not change nearby."""
    x, out = regular(x, ct), regular(out, ct)
    back, ct_back = adjoint(out), adjoint(ct)
    rows = identity_matrix(x, -2) - product(x, out)
    columns = identity_matrix(x) - product(out, x)
    return (
        product(product(rows, ct_back), product(out, back))
        + product(product(back, out), product(ct_back, columns))
        - product(product(back, ct), back)
    )


def _tolerance(value: float) -> Any:
    return lambda rng: np.asarray(value)


def _batch_pinv(
    op: Op, size: int, inputs: Sequence[Tensor], mapped: Sequence[bool], attrs: Attrs
) -> Any:
    """The tolerance stands for the stack of matrices of one example."""
    (x, tolerance), (map_x, map_tolerance) = inputs, mapped
    stack = rank(x, map_x) - 2
    return bind(op, (spread(x, map_x, size), widen(tolerance, map_tolerance, stack)), attrs)


PINV = define_op(
    "pinv",
    batch=_batch_pinv,
    kernel=_pinv_kernel,
    infer=_pinv_infer,
    n_inputs=2,
    saves=(0, OUT),
    vjps=(_pinv_vjp, None),
    traits=Trait.NO_RECOMPUTE,
    kinds="fc",
    samples=(
        Sample((_regular(3, 3), _tolerance(1e-12))),
        Sample((_normal(2, 4), _tolerance(1e-12))),
        Sample((_normal(2, 3, 2), _tolerance(1e-12))),
        Sample((_normal(3, 2, complex_=True), _tolerance(1e-12))),
    ),
)


def pinv(x: TensorLike, /, *, rtol: TensorLike | None = None) -> Tensor:
    """The pseudo-inverses of matrices.

    The gradient is that at a fixed rank.

    Parameters
    ----------
    x : TensorLike, shape (..., m, n)
        The matrices; ints count as float64.
    rtol : number or tensor-like, shape (...), optional
        Singular values up to this part of the largest one count as zero; by default
        max(m, n) * eps.

    Returns
    -------
    Tensor, shape (..., n, m)

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.linalg.pinv([[2.0], [0.0]]).numpy()
    array([[0.5, 0. ]])
    """
    x = matrix_operand("pinv", x)
    return apply(PINV, x, relative_tolerance("pinv", x, rtol))


def relative_tolerance(op_name: str, x: Tensor, rtol: TensorLike | None) -> Tensor:
    """The part of the largest singular value below which one counts as zero."""
    dtype = to_real(x.dtype)
    if rtol is None:
        rtol = max(x.shape[-2:]) * float(np.finfo(dtype).eps)
    tolerance = as_tensor(rtol, argument=f"{op_name}: rtol")
    return cast_tensor(tolerance, FLOAT64 if tolerance.dtype.kind in "biu" else dtype)


for _function, _numpy in (
    (inv, np.linalg.inv),
    (solve, np.linalg.solve),
    (det, np.linalg.det),
    (slogdet, np.linalg.slogdet),
    (pinv, np.linalg.pinv),
):
    register_ufunc(_numpy, _function)
