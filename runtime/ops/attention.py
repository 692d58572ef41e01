"""Linear layers, embeddings, softmax under a mask, and attention."""

from __future__ import annotations

import math

import numpy as np

from tapeline.runtime.errors import DTypeError, ShapeError
from tapeline.runtime.ops.gather import index_tensor, take
from tapeline.runtime.ops.matmul import matmul
from tapeline.runtime.ops.permuting import swap_last
from tapeline.runtime.ops.pointwise import BOOL
from tapeline.runtime.ops.selection import where
from tapeline.runtime.ops.softmax import SOFTMAX
from tapeline.runtime.ops.softmax import log_softmax as log_softmax_of
from tapeline.runtime.ops.softmax import softmax as softmax_of
from tapeline.runtime.promotion import narrowed, promote_one
from tapeline.runtime.tensor import Tensor, TensorLike, as_tensor, new_tensor


def linear(x: TensorLike, weight: TensorLike, bias: TensorLike | None = None, /) -> Tensor:
    """`x @ weight + bias`.

    Parameters
    ----------
    x : TensorLike of float, shape (..., inputs)
        The rows.
    weight : TensorLike of float, shape (inputs, outputs)
        One column per output.
    bias : TensorLike of float, shape (outputs,), optional
        Added to each row.

    Returns
    -------
    Tensor, shape (..., outputs)

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.nn.linear([1.0, 2.0], [[1.0, 0.0], [0.0, 1.0]], [0.5, 0.5]).numpy()
    array([1.5, 2.5])
    """
    product = matmul(x, weight)
    return product if bias is None else product + as_tensor(bias, argument="linear: bias")


def embedding(table: TensorLike, indices: TensorLike, /) -> Tensor:
    """The rows of a table at the indices; the gradient adds up at the rows that were taken.

    Parameters
    ----------
    table : TensorLike, shape (rows, ...)
        The table.
    indices : TensorLike of int
        Which rows; of any shape.

    Returns
    -------
    Tensor, shape (*indices.shape, width)
        Of the dtype of the table.

    Raises
    ------
    DTypeError
        If the indices are no ints.
    IndexOutOfRangeError
        If there is no such row.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.nn.embedding([[1.0, 2.0], [3.0, 4.0]], [1, 0, 1]).numpy()
    array([[3., 4.],
           [1., 2.],
           [3., 4.]])
    """
    return take(table, index_tensor("embedding", indices), axis=0)


# --- softmax under a mask --------------------------------------------------------------------


def _lowest(x: Tensor) -> Tensor:
    return new_tensor(np.asarray(np.finfo(x.dtype).min, x.dtype))


def _mask_tensor(op_name: str, mask: TensorLike) -> Tensor:
    tensor = as_tensor(mask, argument=f"{op_name}: where")
    if tensor.dtype != BOOL:
        raise DTypeError(f"{op_name}: the mask has dtype {tensor.dtype}; expected bool")
    return tensor


def softmax(x: TensorLike, /, axis: int = -1, *, where: TensorLike | None = None) -> Tensor:
    """The exponentials of the elements, scaled so that they sum to 1 along an axis.

    Parameters
    ----------
    x : TensorLike of float
        The tensor.
    axis : int
        Axis along which the result sums to 1.
    where : TensorLike of bool, optional
        Which elements count; the others give 0, and so does a row without any. Broadcasts.

    Returns
    -------
    Tensor of float
        Of the shape of `x`.

    Raises
    ------
    DTypeError
        If the mask is not of bool.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.nn.softmax([1.0, 1.0, 9.0], where=[True, True, False]).numpy()
    array([0.5, 0.5, 0. ])
    """
    if where is None:
        return softmax_of(x, axis)
    tensor, mask = promote_one(SOFTMAX, x), _mask_tensor("softmax", where)
    result = _where(mask, softmax_of(_where(mask, tensor, _lowest(tensor)), axis), 0.0)
    return narrowed(result, x)


def log_softmax(x: TensorLike, /, axis: int = -1, *, where: TensorLike | None = None) -> Tensor:
    """The logarithm of `softmax`; -inf where the mask is false.

    Parameters
    ----------
    x : TensorLike of float
        Of any shape; ints are taken as floats.
    axis : int
        The axis along which the exponentials of the result sum to 1.
    where : TensorLike of bool, optional
        What takes part; broadcast against `x`.

    Returns
    -------
    Tensor of float
        Of the shape of `x`.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.nn.log_softmax([1.0, 1.0, 9.0], where=[True, True, False]).numpy()
    array([-0.69314718, -0.69314718,        -inf])
    """
    if where is None:
        return log_softmax_of(x, axis)
    tensor, mask = promote_one(SOFTMAX, x), _mask_tensor("log_softmax", where)
    result = _where(mask, log_softmax_of(_where(mask, tensor, _lowest(tensor)), axis), -math.inf)
    return narrowed(result, x)


_where = where


# --- attention -------------------------------------------------------------------------------


def scaled_dot_product_attention(
    query: TensorLike,
    key: TensorLike,
    value: TensorLike,
    /,
    *,
    mask: TensorLike | None = None,
    causal: bool = False,
    scale: float | None = None,
) -> Tensor:
    """For each query the mean of the values, weighted by the softmax of its products with the keys.

    Parameters
    ----------
    query : TensorLike of float, shape (..., queries, features)
        What is asked.
    key : TensorLike of float, shape (..., keys, features)
        What it is compared with.
    value : TensorLike of float, shape (..., keys, outputs)
        What is averaged. The leading axes of all three broadcast.
    mask : TensorLike, shape (..., queries, keys), optional
        Of bool: true where a query may look at a key; a query that may look at none gives 0. Of
        float: added to the products.
    causal : bool
        Whether query i may look at keys 0 to i only.
    scale : float, optional
        What the products are multiplied by; one over the root of the number of features if left
        out.

    Returns
    -------
    Tensor of float, shape (..., queries, outputs)

    Raises
    ------
    ShapeError
        If the shapes do not fit.

    Examples
    --------
    >>> import tapeline as tl
    >>> q, k = [[1.0], [1.0]], [[2.0], [2.0]]
    >>> tl.nn.scaled_dot_product_attention(q, k, [[1.0], [3.0]], causal=True).numpy()
    array([[1.],
           [2.]])
    """
    op_name = "scaled_dot_product_attention"
    q, k, v = (
        as_tensor(x, argument=f"{op_name}: {name}")
        for name, x in (("query", query), ("key", key), ("value", value))
    )
    if min(q.ndim, k.ndim, v.ndim) < 2 or q.shape[-1] != k.shape[-1] or k.shape[-2] != v.shape[-2]:
        raise ShapeError(
            f"{op_name}: query has shape {q.shape}, key {k.shape}, value {v.shape}; expected "
            f"(..., queries, features), (..., keys, features), (..., keys, outputs)"
        )
    factor = 1.0 / math.sqrt(q.shape[-1] or 1) if scale is None else float(scale)
    scores = matmul(q * factor, swap_last(k))
    allowed = None
    if mask is not None:
        mask = as_tensor(mask, argument=f"{op_name}: mask")
        if mask.dtype == BOOL:
            allowed = mask
        else:
            scores = scores + mask
    if causal:
        lower = new_tensor(np.tri(q.shape[-2], k.shape[-2], dtype=np.bool_))
        allowed = lower if allowed is None else allowed & lower
    return matmul(softmax(scores, where=allowed), v)
