"""How far vectors lie apart, and their directions."""

from __future__ import annotations

import math

from tapeline.runtime.errors import ArgumentError, ShapeError
from tapeline.runtime.ops.arithmetic import DIVIDE
from tapeline.runtime.ops.axes import Axis
from tapeline.runtime.ops.matmul import vecdot
from tapeline.runtime.ops.norms import vector_norm
from tapeline.runtime.ops.selection import maximum
from tapeline.runtime.ops.shaping import expand_dims
from tapeline.runtime.promotion import promote_one
from tapeline.runtime.tensor import Tensor, TensorLike

_LEAST = 1e-12


def normalize(
    x: TensorLike, /, *, axis: Axis = -1, ord: float = 2, epsilon: float = _LEAST
) -> Tensor:
    """The vectors along an axis, divided by their norms.

    Parameters
    ----------
    x : TensorLike of float
        The vectors; ints are taken as floats.
    axis : int, sequence of int or None
        The axis of a vector, or the axes that make one up; None takes all.
    ord : float
        Which norm, as of `tl.linalg.vector_norm`.
    epsilon : float
        The least that is divided by, so that vectors of zeros stay.

    Returns
    -------
    Tensor of float
        Of the shape of `x`.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.nn.normalize([[3.0, 4.0], [0.0, 0.0]]).numpy()
    array([[0.6, 0.8],
           [0. , 0. ]])
    """
    vectors = promote_one(DIVIDE, x)
    return vectors / maximum(vector_norm(vectors, axis=axis, keepdims=True, ord=ord), epsilon)


def cosine_similarity(
    x1: TensorLike, x2: TensorLike, /, *, axis: int = -1, epsilon: float = _LEAST
) -> Tensor:
    """The cosine of the angle between vectors.

    Parameters
    ----------
    x1, x2 : TensorLike of float
        The vectors, in shapes that broadcast.
    axis : int
        The axis of the vectors.
    epsilon : float
        The least norm that is divided by: the result with a vector of zeros is 0.

    Returns
    -------
    Tensor of float
        Of the broadcast shape without the axis.

    Raises
    ------
    ShapeError
        If the shapes do not broadcast.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.nn.cosine_similarity([[3.0, 4.0], [1.0, 0.0]], [4.0, 3.0]).numpy()
    array([0.96, 0.8 ])
    """
    first = normalize(x1, axis=axis, epsilon=epsilon)
    return vecdot(first, normalize(x2, axis=axis, epsilon=epsilon), axis=axis)


def cdist(x1: TensorLike, x2: TensorLike, /, *, ord: float = 2) -> Tensor:
    """The distance of each vector of one set from each of another.

    By differences, so that close vectors keep their digits; the gradient at distance 0 is 0.

    Parameters
    ----------
    x1 : TensorLike of float, shape (..., m, n)
        The first set.
    x2 : TensorLike of float, shape (..., k, n)
        The second set.
    ord : float
        Which norm of the difference, above 0; infinity takes the largest component.

    Returns
    -------
    Tensor of float, shape (..., m, k)

    Raises
    ------
    ShapeError
        If the vectors have different lengths.
    ArgumentError
        If ord is not above 0.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.nn.cdist([[0.0, 0.0], [3.0, 4.0]], [[0.0, 1.0], [3.0, 0.0]]).numpy()
    array([[1.        , 3.        ],
           [4.24264069, 4.        ]])
    """
    first, second = promote_one(DIVIDE, x1), promote_one(DIVIDE, x2)
    if first.ndim < 2 or second.ndim < 2 or first.shape[-1] != second.shape[-1]:
        raise ShapeError(
            f"cdist: x1 has shape {first.shape}, x2 {second.shape}; expected (..., m, n) and "
            "(..., k, n)"
        )
    if math.isnan(ord) or ord <= 0:
        raise ArgumentError(f"cdist: ord must be above 0, got {ord}")
    difference = expand_dims(first, axis=-2) - expand_dims(second, axis=-3)
    return vector_norm(difference, axis=-1, ord=ord)
