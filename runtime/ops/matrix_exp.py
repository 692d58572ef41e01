"""The exponential function of matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

from tapeline.runtime.op import Attrs, Sample, Trait, define_op
from tapeline.runtime.ops.axes import Array
from tapeline.runtime.ops.batch_rules import batch_leading
from tapeline.runtime.ops.bilinear import regular
from tapeline.runtime.ops.joining import CONCAT
from tapeline.runtime.ops.matrices import adjoint, matrix_operand, matrix_spec
from tapeline.runtime.ops.pointwise import apply, call, zeros_for
from tapeline.runtime.ops.slicing import slice_along
from tapeline.runtime.spec import TensorSpec, spec_of
from tapeline.runtime.tensor import Tensor, TensorLike

_PADE = (
    64764752532480000.0, 32382376266240000.0, 7771770303897600.0, 1187353796428800.0,
    129060195264000.0, 10559470521600.0, 670442572800.0, 33522128640.0, 1323241920.0, 40840800.0,
    960960.0, 16380.0, 182.0, 1.0,
)  # fmt: skip
"""The coefficients of the Pade approximant of degree 13, lowest first (N. Higham, "The scaling and
squaring method for the matrix exponential revisited", 2005)."""

RADIUS = 5.371920351148152
"""Up to this 1-norm the approximant is good to double precision (there)."""


def _one_exponential(x: Array) -> Any:
    norm = float(np.abs(x).sum(axis=0).max(initial=0.0))
    if not np.isfinite(norm):
        return np.full_like(x, np.nan)
    halvings = max(0, int(np.ceil(np.log2(norm / RADIUS)))) if norm else 0
    x = x / 2.0**halvings
    even, odd = pade(x, np.eye(x.shape[-1], dtype=x.dtype))
    result = np.linalg.solve(even - odd, even + odd)
    for _ in range(halvings):
        result = result @ result
    return result


def pade(x: Any, identity: Any) -> tuple[Any, Any]:
    """The even and the odd part of the approximant's numerator."""
    x2 = x @ x
    x4 = x2 @ x2
    x6 = x2 @ x4
    b = _PADE
    odd = x6 @ (b[13] * x6 + b[11] * x4 + b[9] * x2)
    odd = x @ (odd + b[7] * x6 + b[5] * x4 + b[3] * x2 + b[1] * identity)
    even = x6 @ (b[12] * x6 + b[10] * x4 + b[8] * x2)
    even = even + b[6] * x6 + b[4] * x4 + b[2] * x2 + b[0] * identity
    return even, odd


def _matrix_exp_kernel(x: Array) -> Array:
    wide = x.astype(np.complex128 if x.dtype.kind == "c" else np.float64, copy=False)
    out = np.empty(x.shape, x.dtype)
    for index in np.ndindex(x.shape[:-2]):
        out[index] = _one_exponential(wide[index])
    return out


def _matrix_exp_infer(x: TensorSpec) -> TensorSpec:
    matrix_spec("matrix_exp", x, square=True)
    return spec_of(x.static_shape, x.dtype)


def _matrix_exp_vjp(ct: Any, attrs: Attrs, x: Any) -> Any:
    """The upper right block of the exponential of [[x^H, ct], [0, x^H]]."""
    n, ndim = x.shape[-1], len(x.shape)
    back = adjoint(regular(x, ct))
    top = call(CONCAT, back, ct, attrs=(ndim - 1, (n, n)))
    bottom = call(CONCAT, zeros_for(ct), back, attrs=(ndim - 1, (n, n)))
    block = call(MATRIX_EXP, call(CONCAT, top, bottom, attrs=(ndim - 2, (n, n))))
    return slice_along(slice_along(block, -2, 0, n), -1, n, 2 * n)


def _normal(*shape: int, complex_: bool = False) -> Any:
    def make(rng: np.random.Generator) -> Array:
        x = rng.normal(size=shape)
        return x + 1j * rng.normal(size=shape) if complex_ else x

    return make


MATRIX_EXP = define_op(
    "matrix_exp",
    batch=batch_leading,
    kernel=_matrix_exp_kernel,
    infer=_matrix_exp_infer,
    saves=(0,),
    vjps=(_matrix_exp_vjp,),
    traits=Trait.NO_RECOMPUTE,
    kinds="fc",
    samples=(
        Sample((_normal(3, 3),)),
        Sample((_normal(2, 2, 2),)),
        Sample((_normal(2, 2, complex_=True),)),
    ),
)


def matrix_exp(x: TensorLike, /) -> Tensor:
    """The exponentials of square matrices: the sums of their powers over factorials.

    Computed in double precision.

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
        If the matrices are not square.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.linalg.matrix_exp([[0.0, 1.0], [0.0, 0.0]]).numpy()
    array([[1., 1.],
           [0., 1.]])
    """
    return apply(MATRIX_EXP, matrix_operand("matrix_exp", x, square=True))
