"""What the ops of linear algebra share: operands that are stacks of matrices, spec rules, and words
for gradient rules.

The words take tensors and, in a walk's raw mode, arrays. The cotangent of a complex matrix follows
the convention of `pointwise`, so `adjoint` stands wherever a real rule would transpose.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tapeline.runtime.errors import ShapeError
from tapeline.runtime.op import get_op
from tapeline.runtime.ops.matmul import MATMUL
from tapeline.runtime.ops.permuting import swap_last
from tapeline.runtime.ops.pointwise import (
    beside,
    call,
    check_dtype,
    computable,
    conjugate,
    zero_like,
)
from tapeline.runtime.ops.shaping import EXPAND_DIMS
from tapeline.runtime.spec import Shape, TensorSpec
from tapeline.runtime.tensor import Tensor, TensorLike, cast_tensor

FLOAT64 = np.dtype(np.float64)

# --- operands and specs ----------------------------------------------------------------------


def matrix_operand(op_name: str, x: TensorLike, *, square: bool = False) -> Tensor:
    """A stack of matrices of floats or complex numbers; ints and bools become float64,
    bfloat16 float32.

    Raises
    ------
    ShapeError
        If there are less than two dimensions, or the matrices must be square and are not.
    """
    tensor = computable(x, argument=op_name)
    check_matrices(op_name, tensor.shape, square=square)
    return cast_tensor(tensor, FLOAT64) if tensor.dtype.kind in "biu" else tensor


def check_matrices(op_name: str, shape: Shape, *, square: bool = False) -> None:
    """A `ShapeError` where the last two dimensions are no matrix, or no square one."""
    if len(shape) < 2:
        raise ShapeError(
            f"{op_name}: x has shape {shape}; expected at least two dimensions, the last two of "
            f"which are matrices"
        )
    if square and shape[-1] != shape[-2]:
        raise ShapeError(
            f"{op_name}: x has shape {shape}; the matrices in the last two dimensions must be "
            f"square"
        )


def matrix_spec(op_name: str, x: TensorSpec, *, square: bool = False) -> tuple[Shape, int, int]:
    """The shape of the stack, the rows and the columns of its matrices, checked."""
    check_dtype(op_name, x.dtype, "fc")
    shape = x.static_shape
    check_matrices(op_name, shape, square=square)
    return shape[:-2], shape[-2], shape[-1]


# --- words for gradient rules ----------------------------------------------------------------


def product(a: Any, b: Any) -> Any:
    """The matrix product."""
    return call(MATMUL, a, b)


def adjoint(x: Any) -> Any:
    """The conjugate transpose."""
    return conjugate(swap_last(x))


def as_column(x: Any) -> Any:
    """Vectors as matrices of one column, to scale rows with."""
    return call(EXPAND_DIMS, x, attrs=((len(x.shape),),))


def as_row(x: Any) -> Any:
    """Vectors as matrices of one row, to scale columns with."""
    return call(EXPAND_DIMS, x, attrs=((len(x.shape) - 1,),))


def identity_matrix(like: Any, axis: int = -1) -> Any:
    """The identity matrix of the extent and the dtype of another tensor."""
    return beside(np.eye(like.shape[axis], dtype=like.dtype), like)


def as_diagonal(x: Any) -> Any:
    """Square matrices with the vectors as their diagonals."""
    return as_column(x) * identity_matrix(x)


def diagonal_of(x: Any) -> Any:
    """The diagonals of matrices, as vectors."""
    ndim = len(x.shape)
    return call(get_op("diagonal"), x, attrs=(0, ndim - 2, ndim - 1))


def kept(mask: Any, x: Any) -> Any:
    """`x` where the mask holds, zero elsewhere."""
    return call(get_op("where"), mask, x, zero_like(x))


def lower_triangle(x: Any, k: int = 0) -> Any:
    """The matrices with zeros above diagonal k."""
    return kept(np.tri(x.shape[-2], x.shape[-1], k=k, dtype=np.bool_), x)


def upper_triangle(x: Any, k: int = 0) -> Any:
    """The matrices with zeros below diagonal k."""
    return kept(~np.tri(x.shape[-2], x.shape[-1], k=k - 1, dtype=np.bool_), x)


def halved_diagonal(x: Any) -> Any:
    """The matrices with their diagonals halved."""
    return x * beside((1 - 0.5 * np.eye(x.shape[-1])).astype(x.dtype), x)


def hermitian_part(x: Any) -> Any:
    """The mean of each matrix and its adjoint."""
    return (x + adjoint(x)) * 0.5


def inverse_gaps(values: Any) -> Any:
    """1 / (v[j] - v[i]) at [i, j], zero where both are equal, as on the diagonal."""
    gaps = as_row(values) - as_column(values)
    equal = gaps == 0
    return kept(~equal, 1 / call(get_op("where"), equal, np.ones((), values.dtype), gaps))


def as_dtype_of(x: Any, like: Any) -> Any:
    """`x` in the dtype of another; a complex one keeps its real part where the other is real."""
    return x if x.dtype == like.dtype else call(get_op("cast"), x, attrs=(like.dtype,))
