"""Logical ops, and tests for NaN, infinity and sign."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tapeline.runtime.op import ScalarEmitter, Trait, V
from tapeline.runtime.operators import make_binary, make_unary
from tapeline.runtime.ops.axes import ANY_KIND
from tapeline.runtime.ops.pointwise import BOOL, apply, define_pointwise, to_bool
from tapeline.runtime.ops.promotion import promote_to_bool
from tapeline.runtime.tensor import Tensor, TensorLike, as_tensor, register_ufunc
from tapeline.runtime.unwatched import plain_array, wrapped

# -- logical_* -------------------------------------------------------------------------------------


def _logical_and_emit(b: ScalarEmitter[V], x: V, y: V) -> V:
    return b.bit_and(x, y)


LOGICAL_AND = define_pointwise(
    "logical_and",
    kernel=np.logical_and,
    kinds="b",
    n_inputs=2,
    vjps=(None, None),
    emit=_logical_and_emit,
    traits=Trait.COMMUTATIVE,
    identity=1.0,
)

_logical_and = make_binary(LOGICAL_AND, promote=promote_to_bool)


def logical_and(x1: TensorLike, x2: TensorLike, /) -> Tensor:
    """Whether both are true, element by element.

    Any number but 0 counts as true, NaN too.

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
    >>> tl.logical_and([True, True, False], [True, False, False]).numpy()
    array([ True, False, False])
    """
    return _logical_and(x1, x2)


register_ufunc(np.logical_and, logical_and)


def _logical_or_emit(b: ScalarEmitter[V], x: V, y: V) -> V:
    return b.bit_or(x, y)


LOGICAL_OR = define_pointwise(
    "logical_or",
    kernel=np.logical_or,
    kinds="b",
    n_inputs=2,
    vjps=(None, None),
    emit=_logical_or_emit,
    traits=Trait.COMMUTATIVE,
    identity=0.0,
)

_logical_or = make_binary(LOGICAL_OR, promote=promote_to_bool)


def logical_or(x1: TensorLike, x2: TensorLike, /) -> Tensor:
    """Whether one or both are true, element by element.

    Any number but 0 counts as true, NaN too.

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
    >>> tl.logical_or([True, True, False], [True, False, False]).numpy()
    array([ True,  True, False])
    """
    return _logical_or(x1, x2)


register_ufunc(np.logical_or, logical_or)


def _logical_xor_emit(b: ScalarEmitter[V], x: V, y: V) -> V:
    return b.bit_xor(x, y)


LOGICAL_XOR = define_pointwise(
    "logical_xor",
    kernel=np.logical_xor,
    kinds="b",
    n_inputs=2,
    vjps=(None, None),
    emit=_logical_xor_emit,
    traits=Trait.COMMUTATIVE,
    identity=0.0,
)

_logical_xor = make_binary(LOGICAL_XOR, promote=promote_to_bool)


def logical_xor(x1: TensorLike, x2: TensorLike, /) -> Tensor:
    """Whether just one is true, element by element.

    Any number but 0 counts as true, NaN too.

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
    >>> tl.logical_xor([True, True, False], [True, False, False]).numpy()
    array([False,  True, False])
    """
    return _logical_xor(x1, x2)


register_ufunc(np.logical_xor, logical_xor)


def _logical_not_emit(b: ScalarEmitter[V], x: V) -> V:
    return b.bit_not(x)


LOGICAL_NOT = define_pointwise(
    "logical_not",
    kernel=np.logical_not,
    kinds="b",
    vjps=(None,),
    emit=_logical_not_emit,
    traits=Trait.INVOLUTION,
)


def logical_not(x: TensorLike, /) -> Tensor:
    """Whether each element is false.

    Any number but 0 counts as true, NaN too.

    Parameters
    ----------
    x : TensorLike
        Of any shape.

    Returns
    -------
    Tensor of bool
        Of the shape of `x`.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.logical_not([True, False]).numpy()
    array([False,  True])
    """
    array = plain_array(x)
    if array is not None and array.dtype.kind in ANY_KIND:
        return wrapped(np.logical_not(array))
    return apply(LOGICAL_NOT, as_tensor(x, BOOL, "logical_not"))


register_ufunc(np.logical_not, logical_not)

# -- isnan, isinf, isfinite, signbit ---------------------------------------------------------------


def _emit_predicate(of_ints: bool, of_floats: Callable[..., Any]) -> Callable[..., Any]:
    """A body that is the same for all ints and bools; of complex numbers it asks both parts, and
    says that of all ints only where it holds for both."""

    def emit(b: ScalarEmitter[V], x: V) -> V:
        kind = b.dtype_of(x).kind
        if kind in "biu":
            return b.constant(of_ints, BOOL)
        if kind == "c":
            join = b.bit_and if of_ints else b.bit_or
            return join(of_floats(b, b.real(x)), of_floats(b, b.imag(x)))
        result: V = of_floats(b, x)
        return result

    return emit


def _isnan_emit(b: ScalarEmitter[V], x: V) -> V:
    return b.compare("ne", x, x)


ISNAN = define_pointwise(
    "isnan",
    kernel=np.isnan,
    kinds="biufc",
    result=to_bool,
    vjps=(None,),
    emit=_emit_predicate(False, _isnan_emit),
)

_isnan = make_unary(ISNAN)


def isnan(x: TensorLike, /) -> Tensor:
    """Whether each element is NaN, or has a NaN as a complex part.

    Parameters
    ----------
    x : TensorLike
        Of any shape.

    Returns
    -------
    Tensor of bool
        Of the shape of `x`.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.isnan([1.0, float("nan")]).numpy()
    array([False,  True])
    """
    return _isnan(x)


register_ufunc(np.isnan, isnan)


def _isinf_emit(b: ScalarEmitter[V], x: V) -> V:
    return b.compare("eq", b.abs(x), b.const(float("inf"), x))


ISINF = define_pointwise(
    "isinf",
    kernel=np.isinf,
    kinds="biufc",
    result=to_bool,
    vjps=(None,),
    emit=_emit_predicate(False, _isinf_emit),
)

_isinf = make_unary(ISINF)


def isinf(x: TensorLike, /) -> Tensor:
    """Whether each element is an infinity, or has one as a complex part.

    Parameters
    ----------
    x : TensorLike
        Of any shape.

    Returns
    -------
    Tensor of bool
        Of the shape of `x`.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.isinf([1.0, -float("inf")]).numpy()
    array([False,  True])
    """
    return _isinf(x)


register_ufunc(np.isinf, isinf)


def _isfinite_emit(b: ScalarEmitter[V], x: V) -> V:
    return b.compare("lt", b.abs(x), b.const(float("inf"), x))


ISFINITE = define_pointwise(
    "isfinite",
    kernel=np.isfinite,
    kinds="biufc",
    result=to_bool,
    vjps=(None,),
    emit=_emit_predicate(True, _isfinite_emit),
)

_isfinite = make_unary(ISFINITE)


def isfinite(x: TensorLike, /) -> Tensor:
    """Whether each element is neither an infinity nor NaN.

    Parameters
    ----------
    x : TensorLike
        Of any shape.

    Returns
    -------
    Tensor of bool
        Of the shape of `x`.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.isfinite([1.0, -float("inf")]).numpy()
    array([ True, False])
    """
    return _isfinite(x)


register_ufunc(np.isfinite, isfinite)


def _signbit_emit(b: ScalarEmitter[V], x: V) -> V:
    kind = b.dtype_of(x).kind
    if kind in "bu":
        return b.constant(False, BOOL)
    if kind == "f":
        x = b.copysign(b.const(1, x), x)
    return b.compare("lt", x, b.const(0, x))


SIGNBIT = define_pointwise(
    "signbit",
    kernel=np.signbit,
    kinds="biuf",
    result=to_bool,
    vjps=(None,),
    emit=_signbit_emit,
)

_signbit = make_unary(SIGNBIT)


def signbit(x: TensorLike, /) -> Tensor:
    """Whether each element has its sign bit set; -0.0 has.

    Parameters
    ----------
    x : TensorLike of real dtype
        Of any shape.

    Returns
    -------
    Tensor of bool
        Of the shape of `x`.

    Raises
    ------
    DTypeError
        If x is not of real dtype.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.signbit([-1.0, -0.0, 0.0]).numpy()
    array([ True,  True, False])
    """
    return _signbit(x)


register_ufunc(np.signbit, signbit)
