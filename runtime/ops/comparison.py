"""Comparisons. Ints of any two dtypes compare by their exact values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tapeline.runtime.op import Op, Predicate, ScalarEmitter, Trait, V
from tapeline.runtime.operators import attach_method, make_binary
from tapeline.runtime.ops.pointwise import define_pointwise, to_bool
from tapeline.runtime.ops.promotion import promote_to_compare
from tapeline.runtime.tensor import Tensor, TensorLike, register_ufunc


def _emit_compare(predicate: Predicate) -> Callable[..., Any]:
    def emit(b: ScalarEmitter[V], x: V, y: V) -> V:
        return b.compare(predicate, x, y)

    return emit


def _define_comparison(
    name: str, kernel: Any, predicate: Predicate, kinds: str, traits: Trait = Trait.NONE
) -> Op:
    return define_pointwise(
        name,
        kernel=kernel,
        kinds=kinds,
        result=to_bool,
        n_inputs=2,
        vjps=(None, None),
        emit=_emit_compare(predicate),
        traits=traits,
    )


EQUAL = _define_comparison("equal", np.equal, "eq", "biufc", Trait.COMMUTATIVE)

_equal = make_binary(EQUAL, promote=promote_to_compare)


def equal(x1: TensorLike, x2: TensorLike, /) -> Tensor:
    """Whether `x1` is equal to `x2`, element by element; `x1 == x2`.

    With a NaN only `not_equal` holds.

    Parameters
    ----------
    x1, x2 : TensorLike
        With shapes that broadcast.

    Returns
    -------
    Tensor of bool
        Of the broadcast shape.

    Raises
    ------
    ShapeError
        If the shapes do not broadcast.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.equal([1, 2, 3], 2).numpy()
    array([False,  True, False])
    """
    return _equal(x1, x2)


register_ufunc(np.equal, equal)
attach_method("__eq__", make_binary(EQUAL, method=True, promote=promote_to_compare))

NOT_EQUAL = _define_comparison("not_equal", np.not_equal, "ne", "biufc", Trait.COMMUTATIVE)

_not_equal = make_binary(NOT_EQUAL, promote=promote_to_compare)


def not_equal(x1: TensorLike, x2: TensorLike, /) -> Tensor:
    """Whether `x1` differs from `x2`, element by element; `x1 != x2`.

    With a NaN only `not_equal` holds.

    Parameters
    ----------
    x1, x2 : TensorLike
        With shapes that broadcast.

    Returns
    -------
    Tensor of bool
        Of the broadcast shape.

    Raises
    ------
    ShapeError
        If the shapes do not broadcast.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.not_equal([1, 2, 3], 2).numpy()
    array([ True, False,  True])
    """
    return _not_equal(x1, x2)


register_ufunc(np.not_equal, not_equal)
attach_method("__ne__", make_binary(NOT_EQUAL, method=True, promote=promote_to_compare))

LESS = _define_comparison("less", np.less, "lt", "biuf")

_less = make_binary(LESS, promote=promote_to_compare)


def less(x1: TensorLike, x2: TensorLike, /) -> Tensor:
    """Whether `x1` is less than `x2`, element by element; `x1 < x2`.

    False with a NaN.

    Parameters
    ----------
    x1, x2 : TensorLike of real dtype
        With shapes that broadcast.

    Returns
    -------
    Tensor of bool
        Of the broadcast shape.

    Raises
    ------
    DTypeError
        If an operand is not of real dtype.
    ShapeError
        If the shapes do not broadcast.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.less([1, 2, 3], 2).numpy()
    array([ True, False, False])
    """
    return _less(x1, x2)


register_ufunc(np.less, less)
attach_method("__lt__", make_binary(LESS, method=True, promote=promote_to_compare))

LESS_EQUAL = _define_comparison("less_equal", np.less_equal, "le", "biuf")

_less_equal = make_binary(LESS_EQUAL, promote=promote_to_compare)


def less_equal(x1: TensorLike, x2: TensorLike, /) -> Tensor:
    """Whether `x1` is less than or equal to `x2`, element by element; `x1 <= x2`.

    False with a NaN.

    Parameters
    ----------
    x1, x2 : TensorLike of real dtype
        With shapes that broadcast.

    Returns
    -------
    Tensor of bool
        Of the broadcast shape.

    Raises
    ------
    DTypeError
        If an operand is not of real dtype.
    ShapeError
        If the shapes do not broadcast.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.less_equal([1, 2, 3], 2).numpy()
    array([ True,  True, False])
    """
    return _less_equal(x1, x2)


register_ufunc(np.less_equal, less_equal)
attach_method("__le__", make_binary(LESS_EQUAL, method=True, promote=promote_to_compare))

GREATER = _define_comparison("greater", np.greater, "gt", "biuf")

_greater = make_binary(GREATER, promote=promote_to_compare)


def greater(x1: TensorLike, x2: TensorLike, /) -> Tensor:
    """Whether `x1` is greater than `x2`, element by element; `x1 > x2`.

    False with a NaN.

    Parameters
    ----------
    x1, x2 : TensorLike of real dtype
        With shapes that broadcast.

    Returns
    -------
    Tensor of bool
        Of the broadcast shape.

    Raises
    ------
    DTypeError
        If an operand is not of real dtype.
    ShapeError
        If the shapes do not broadcast.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.greater([1, 2, 3], 2).numpy()
    array([False, False,  True])
    """
    return _greater(x1, x2)


register_ufunc(np.greater, greater)
attach_method("__gt__", make_binary(GREATER, method=True, promote=promote_to_compare))

GREATER_EQUAL = _define_comparison("greater_equal", np.greater_equal, "ge", "biuf")

_greater_equal = make_binary(GREATER_EQUAL, promote=promote_to_compare)


def greater_equal(x1: TensorLike, x2: TensorLike, /) -> Tensor:
    """Whether `x1` is greater than or equal to `x2`, element by element; `x1 >= x2`.

    False with a NaN.

    Parameters
    ----------
    x1, x2 : TensorLike of real dtype
        With shapes that broadcast.

    Returns
    -------
    Tensor of bool
        Of the broadcast shape.

    Raises
    ------
    DTypeError
        If an operand is not of real dtype.
    ShapeError
        If the shapes do not broadcast.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.greater_equal([1, 2, 3], 2).numpy()
    array([False,  True,  True])
    """
    return _greater_equal(x1, x2)


register_ufunc(np.greater_equal, greater_equal)
attach_method("__ge__", make_binary(GREATER_EQUAL, method=True, promote=promote_to_compare))
