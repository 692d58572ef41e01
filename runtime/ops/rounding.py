"""Rounding to whole numbers. Ints and bools are whole and come back as they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tapeline.runtime.op import Attrs, Op, ScalarEmitter, ShapeOf, Trait, V
from tapeline.runtime.operators import attach_method, make_binary, make_unary
from tapeline.runtime.ops.pointwise import define_pointwise, unbroadcast
from tapeline.runtime.promotion import promote_one
from tapeline.runtime.spec import Shape
from tapeline.runtime.tensor import Tensor, TensorLike, cast_tensor, register_ufunc


def _define_rounding(
    name: str, kernel: Any, emit_float: Callable[..., Any], kinds: str = "biuf"
) -> Op:
    def run(x: Any) -> Any:
        return kernel(x) if x.dtype.kind in "fc" else x

    def emit(b: ScalarEmitter[V], x: V) -> V:
        kind = b.dtype_of(x).kind
        if kind == "c":
            return b.each(emit_float, x)
        rounded: V = x if kind in "biu" else emit_float(b, x)
        return rounded

    return define_pointwise(
        name, kernel=run, kinds=kinds, vjps=(None,), emit=emit, traits=Trait.IDEMPOTENT
    )


def _floor_emit(b: ScalarEmitter[V], x: V) -> V:
    return b.floor(x)


def _ceil_emit(b: ScalarEmitter[V], x: V) -> V:
    return b.ceil(x)


def _trunc_emit(b: ScalarEmitter[V], x: V) -> V:
    return b.trunc(x)


def _round_emit(b: ScalarEmitter[V], x: V) -> V:
    return b.rint(x)


FLOOR = _define_rounding("floor", np.floor, _floor_emit)

_floor = make_unary(FLOOR)


def floor(x: TensorLike, /) -> Tensor:
    """The largest whole number not above x, element by element.

    Ints and bools stay as they are, unless `decimals` is negative. There is no gradient.

    Parameters
    ----------
    x : TensorLike of real dtype
        Of any shape.

    Returns
    -------
    Tensor
        Of the shape of `x`.

    Raises
    ------
    DTypeError
        If x is not of real dtype.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.floor([1.5, -1.5]).numpy()
    array([ 1., -2.])
    """
    return _floor(x)


register_ufunc(np.floor, floor)

CEIL = _define_rounding("ceil", np.ceil, _ceil_emit)

_ceil = make_unary(CEIL)


def ceil(x: TensorLike, /) -> Tensor:
    """The smallest whole number not below x, element by element.

    Ints and bools stay as they are, unless `decimals` is negative. There is no gradient.

    Parameters
    ----------
    x : TensorLike of real dtype
        Of any shape.

    Returns
    -------
    Tensor
        Of the shape of `x`.

    Raises
    ------
    DTypeError
        If x is not of real dtype.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.ceil([1.5, -1.5]).numpy()
    array([ 2., -1.])
    """
    return _ceil(x)


register_ufunc(np.ceil, ceil)

TRUNC = _define_rounding("trunc", np.trunc, _trunc_emit)

_trunc = make_unary(TRUNC)


def trunc(x: TensorLike, /) -> Tensor:
    """x without its fraction, element by element.

    Ints and bools stay as they are, unless `decimals` is negative. There is no gradient.

    Parameters
    ----------
    x : TensorLike of real dtype
        Of any shape.

    Returns
    -------
    Tensor
        Of the shape of `x`.

    Raises
    ------
    DTypeError
        If x is not of real dtype.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.trunc([1.5, -1.5]).numpy()
    array([ 1., -1.])
    """
    return _trunc(x)


register_ufunc(np.trunc, trunc)

ROUND = _define_rounding("round", np.rint, _round_emit, "iufc")


def round(x: TensorLike, /, decimals: int = 0) -> Tensor:
    """The nearest number of `decimals` decimal digits, of two equally near ones the even one.

    Ints and bools stay as they are, unless `decimals` is negative. There is no gradient.

    Parameters
    ----------
    x : TensorLike of int, float or complex
        Of any shape.
    decimals : int
        Digits after the point; negative ones count before it.

    Returns
    -------
    Tensor
        Of the shape of `x`.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.round([0.5, 1.5, 2.25], decimals=1).numpy()
    array([0.5, 1.5, 2.2])
    """
    if decimals == 0:
        return _round(x)
    x = promote_one(ROUND, x)
    if x.dtype.kind in "iu":
        return x if decimals > 0 else cast_tensor(round(x / 1.0, decimals), x.dtype)
    scale = 10.0 ** abs(decimals)
    return _round(x * scale) / scale if decimals > 0 else _round(x / scale) * scale


_round = make_unary(ROUND)
register_ufunc(np.round, round)
register_ufunc(np.rint, round)
attach_method("round", round)
attach_method("__round__", round)
attach_method("__floor__", floor)
attach_method("__ceil__", ceil)
attach_method("__trunc__", trunc)


# -- neighbours ------------------------------------------------------------------------------------


def _nextafter_vjp_x(ct: Any, attrs: Attrs, shape: Shape) -> Any:
    return unbroadcast(ct, shape)


def _nextafter_emit(b: ScalarEmitter[V], x: V, y: V) -> V:
    """The next bits up or down, counted away from zero; from zero to the least subnormal."""
    dtype = b.dtype_of(x)
    integer = np.dtype(f"i{dtype.itemsize}")
    zero, one = b.const(0, x), b.constant(1, integer)
    bits = b.bitcast(x, integer)
    outward = b.compare("eq", b.compare("gt", y, x), b.compare("gt", x, zero))
    stepped = b.bitcast(b.select(outward, b.add(bits, one), b.sub(bits, one)), dtype)
    least = b.copysign(b.bitcast(one, dtype), y)
    moved = b.select(b.compare("eq", x, zero), least, stepped)
    result = b.select(b.compare("eq", x, y), y, moved)
    return b.select(b.compare("ne", x, x), x, b.select(b.compare("ne", y, y), y, result))


NEXTAFTER = define_pointwise(
    "nextafter",
    kernel=np.nextafter,
    n_inputs=2,
    kinds="f",
    saves=(ShapeOf(0),),
    vjps=(_nextafter_vjp_x, None),
    emit=_nextafter_emit,
)

_nextafter = make_binary(NEXTAFTER)


def nextafter(x1: TensorLike, x2: TensorLike, /) -> Tensor:
    """The float that follows x1 in the direction of x2, element by element.

    The gradient goes to `x1` as it is, and none to `x2`.

    Parameters
    ----------
    x1, x2 : TensorLike of float
        Of shapes that broadcast.

    Returns
    -------
    Tensor of float

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.nextafter(1.0, 2.0).item() - 1.0 == tl.finfo(tl.float64).eps
    True
    """
    return _nextafter(x1, x2)


register_ufunc(np.nextafter, nextafter)
