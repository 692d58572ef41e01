"""Bitwise ops on ints and bools."""

from __future__ import annotations

import numpy as np

from tapeline.runtime.op import ScalarEmitter, Trait, V
from tapeline.runtime.operators import attach_method, make_binary, make_unary
from tapeline.runtime.ops.pointwise import attach_operators, define_pointwise
from tapeline.runtime.ops.promotion import bool_as_int8
from tapeline.runtime.tensor import Tensor, TensorLike, register_ufunc

# -- bitwise_and, bitwise_or, bitwise_xor, bitwise_invert ------------------------------------------


def _and_emit(b: ScalarEmitter[V], x: V, y: V) -> V:
    return b.bit_and(x, y)


BITWISE_AND = define_pointwise(
    "bitwise_and",
    kernel=np.bitwise_and,
    kinds="biu",
    n_inputs=2,
    vjps=(None, None),
    emit=_and_emit,
    traits=Trait.COMMUTATIVE,
)

_bitwise_and = make_binary(BITWISE_AND)


def bitwise_and(x1: TensorLike, x2: TensorLike, /) -> Tensor:
    """The bits set in both, element by element; `x1 & x2`.

    Parameters
    ----------
    x1, x2 : TensorLike of int or bool
        With shapes that broadcast.

    Returns
    -------
    Tensor
        Of the broadcast shape.

    Raises
    ------
    DTypeError
        If an operand is not of int or bool.
    ShapeError
        If the shapes do not broadcast.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.bitwise_and([5, 6], 3).numpy()
    array([1, 2])
    """
    return _bitwise_and(x1, x2)


register_ufunc(np.bitwise_and, bitwise_and)
attach_operators("and", "&", BITWISE_AND)


def _or_emit(b: ScalarEmitter[V], x: V, y: V) -> V:
    return b.bit_or(x, y)


BITWISE_OR = define_pointwise(
    "bitwise_or",
    kernel=np.bitwise_or,
    kinds="biu",
    n_inputs=2,
    vjps=(None, None),
    emit=_or_emit,
    traits=Trait.COMMUTATIVE,
    identity=0.0,
)

_bitwise_or = make_binary(BITWISE_OR)


def bitwise_or(x1: TensorLike, x2: TensorLike, /) -> Tensor:
    """The bits set in one or both, element by element; `x1 | x2`.

    Parameters
    ----------
    x1, x2 : TensorLike of int or bool
        With shapes that broadcast.

    Returns
    -------
    Tensor
        Of the broadcast shape.

    Raises
    ------
    DTypeError
        If an operand is not of int or bool.
    ShapeError
        If the shapes do not broadcast.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.bitwise_or([5, 6], 3).numpy()
    array([7, 7])
    """
    return _bitwise_or(x1, x2)


register_ufunc(np.bitwise_or, bitwise_or)
attach_operators("or", "|", BITWISE_OR)


def _xor_emit(b: ScalarEmitter[V], x: V, y: V) -> V:
    return b.bit_xor(x, y)


BITWISE_XOR = define_pointwise(
    "bitwise_xor",
    kernel=np.bitwise_xor,
    kinds="biu",
    n_inputs=2,
    vjps=(None, None),
    emit=_xor_emit,
    traits=Trait.COMMUTATIVE,
    identity=0.0,
)

_bitwise_xor = make_binary(BITWISE_XOR)


def bitwise_xor(x1: TensorLike, x2: TensorLike, /) -> Tensor:
    """The bits set in just one, element by element; `x1 ^ x2`.

    Parameters
    ----------
    x1, x2 : TensorLike of int or bool
        With shapes that broadcast.

    Returns
    -------
    Tensor
        Of the broadcast shape.

    Raises
    ------
    DTypeError
        If an operand is not of int or bool.
    ShapeError
        If the shapes do not broadcast.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.bitwise_xor([5, 6], 3).numpy()
    array([6, 5])
    """
    return _bitwise_xor(x1, x2)


register_ufunc(np.bitwise_xor, bitwise_xor)
attach_operators("xor", "^", BITWISE_XOR)


def _invert_emit(b: ScalarEmitter[V], x: V) -> V:
    return b.bit_not(x)


BITWISE_INVERT = define_pointwise(
    "bitwise_invert",
    kernel=np.invert,
    kinds="biu",
    vjps=(None,),
    emit=_invert_emit,
    traits=Trait.INVOLUTION,
)

_bitwise_invert = make_unary(BITWISE_INVERT)


def bitwise_invert(x: TensorLike, /) -> Tensor:
    """All bits turned over, element by element; `~x`. For bools it is `not`.

    Parameters
    ----------
    x : TensorLike of int or bool
        Of any shape.

    Returns
    -------
    Tensor
        Of the shape of `x`.

    Raises
    ------
    DTypeError
        If x is not of int or bool.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.bitwise_invert([5, -1]).numpy()
    array([-6,  0])
    """
    return _bitwise_invert(x)


register_ufunc(np.invert, bitwise_invert)
attach_method("__invert__", _bitwise_invert)

# -- shifts ----------------------------------------------------------------------------------------


def _left_shift_emit(b: ScalarEmitter[V], x: V, y: V) -> V:
    return b.shift_left(x, y)


BITWISE_LEFT_SHIFT = define_pointwise(
    "bitwise_left_shift",
    kernel=np.left_shift,
    kinds="iu",
    n_inputs=2,
    vjps=(None, None),
    emit=_left_shift_emit,
)

_bitwise_left_shift = make_binary(BITWISE_LEFT_SHIFT, promote=bool_as_int8)


def bitwise_left_shift(x1: TensorLike, x2: TensorLike, /) -> Tensor:
    """`x1 * 2**x2` with wrap-around, element by element; `x1 << x2`.

    0 where `x2` is the bit width or more.

    Parameters
    ----------
    x1, x2 : TensorLike of int
        With shapes that broadcast.

    Returns
    -------
    Tensor
        Of the broadcast shape.

    Raises
    ------
    DTypeError
        If an operand is not of int.
    ShapeError
        If the shapes do not broadcast.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.bitwise_left_shift([1, 5], 2).numpy()
    array([ 4, 20])
    """
    return _bitwise_left_shift(x1, x2)


register_ufunc(np.left_shift, bitwise_left_shift)
attach_operators("lshift", "<<", BITWISE_LEFT_SHIFT, promote=bool_as_int8)


def _right_shift_emit(b: ScalarEmitter[V], x: V, y: V) -> V:
    return b.shift_right(x, y)


BITWISE_RIGHT_SHIFT = define_pointwise(
    "bitwise_right_shift",
    kernel=np.right_shift,
    kinds="iu",
    n_inputs=2,
    vjps=(None, None),
    emit=_right_shift_emit,
)

_bitwise_right_shift = make_binary(BITWISE_RIGHT_SHIFT, promote=bool_as_int8)


def bitwise_right_shift(x1: TensorLike, x2: TensorLike, /) -> Tensor:
    """`x1 // 2**x2`, element by element; `x1 >> x2`.

    0 or -1 where `x2` is the bit width or more.

    Parameters
    ----------
    x1, x2 : TensorLike of int
        With shapes that broadcast.

    Returns
    -------
    Tensor
        Of the broadcast shape.

    Raises
    ------
    DTypeError
        If an operand is not of int.
    ShapeError
        If the shapes do not broadcast.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.bitwise_right_shift([8, -5], 1).numpy()
    array([ 4, -3])
    """
    return _bitwise_right_shift(x1, x2)


register_ufunc(np.right_shift, bitwise_right_shift)
attach_operators("rshift", ">>", BITWISE_RIGHT_SHIFT, promote=bool_as_int8)
