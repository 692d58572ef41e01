"""Products and quotients in which an exact zero wins, for gradient rules only.

A cotangent that is exactly zero says that nothing depends on the result: the branch that a `where`
did not take, a masked element. What it meets there may be infinite or NaN, and is none of the
gradient's business, so 0 times anything is 0 here. Likewise an infinite slope on the way to a
derivative that is exactly zero: the norm has the subgradient 0 at the origin.

Gradient rules come here through `along` and `over` of `pointwise`: in traces, and where a walk over
arrays ended in NaN and is repeated.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tapeline.runtime.op import Attrs, ScalarEmitter, V
from tapeline.runtime.ops.pointwise import (
    along,
    call,
    conjugate,
    define_pointwise,
    masked,
    over,
    unbroadcast,
)

__all__: list[str] = []


def _multiply_kernel(ct: Any, derivative: Any) -> Any:
    with np.errstate(invalid="ignore", over="ignore"):
        product = ct * derivative
    wrong = np.isnan(product)
    if not wrong.any():
        return product
    wins = (ct == 0) | ((derivative == 0) & (ct == ct))
    return np.where(wrong & wins, product.dtype.type(0), product)


def _multiply_vjp_ct(ct: Any, attrs: Attrs, x: Any, derivative: Any) -> Any:
    return masked(unbroadcast(along(ct, derivative), x.shape))


def _multiply_vjp_derivative(ct: Any, attrs: Attrs, x: Any, derivative: Any) -> Any:
    return masked(unbroadcast(call(GUARDED_PRODUCT, conjugate(x), ct), derivative.shape))


def _multiply_emit(b: ScalarEmitter[V], ct: V, derivative: V) -> V:
    product = b.mul(ct, derivative)
    zero = b.const(0, ct)
    slope_wins = b.bit_and(b.compare("eq", derivative, zero), b.compare("eq", ct, ct))
    wins = b.bit_or(b.compare("eq", ct, zero), slope_wins)
    return b.select(b.bit_and(b.compare("ne", product, product), wins), zero, product)


GUARDED_MULTIPLY = define_pointwise(
    "guarded_multiply",
    kernel=_multiply_kernel,
    kinds="fc",
    n_inputs=2,
    saves=(0, 1),
    vjps=(_multiply_vjp_ct, _multiply_vjp_derivative),
    emit=_multiply_emit,
)
"""`ct * derivative`, but 0 where that is NaN although one of them is 0 and `ct` is a number."""


def _divide_kernel(ct: Any, divisor: Any) -> Any:
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        quotient = ct / divisor
    wrong = np.isnan(quotient)
    if not wrong.any():
        return quotient
    return np.where(wrong & (ct == 0), quotient.dtype.type(0), quotient)


def _divide_vjp_ct(ct: Any, attrs: Attrs, x: Any, divisor: Any) -> Any:
    return unbroadcast(over(ct, divisor), x.shape)


def _divide_vjp_divisor(ct: Any, attrs: Attrs, x: Any, divisor: Any) -> Any:
    twice = over(over(ct, divisor), divisor)
    return unbroadcast(-call(GUARDED_PRODUCT, conjugate(x), twice), divisor.shape)


def _divide_emit(b: ScalarEmitter[V], ct: V, divisor: V) -> V:
    quotient = b.div(ct, divisor)
    zero = b.const(0, ct)
    wins = b.bit_and(b.compare("ne", quotient, quotient), b.compare("eq", ct, zero))
    return b.select(wins, zero, quotient)


GUARDED_DIVIDE = define_pointwise(
    "guarded_divide",
    kernel=_divide_kernel,
    kinds="fc",
    n_inputs=2,
    saves=(0, 1),
    vjps=(_divide_vjp_ct, _divide_vjp_divisor),
    emit=_divide_emit,
    domain=(0.5, 3.0),
)
"""`ct / divisor`, but 0 where that is NaN and `ct` is 0."""


def _product_kernel(x: Any, y: Any) -> Any:
    with np.errstate(invalid="ignore", over="ignore"):
        product = x * y
    wrong = np.isnan(product)
    if not wrong.any():
        return product
    return np.where(wrong & ((x == 0) | (y == 0)), product.dtype.type(0), product)


def _product_vjp(ct: Any, attrs: Attrs, x: Any, y: Any) -> Any:
    return unbroadcast(call(GUARDED_PRODUCT, ct, conjugate(y)), x.shape)


def _product_vjp_y(ct: Any, attrs: Attrs, x: Any, y: Any) -> Any:
    return _product_vjp(ct, attrs, y, x)


def _product_emit(b: ScalarEmitter[V], x: V, y: V) -> V:
    product = b.mul(x, y)
    zero = b.const(0, x)
    wins = b.bit_or(b.compare("eq", x, zero), b.compare("eq", y, zero))
    return b.select(b.bit_and(b.compare("ne", product, product), wins), zero, product)


GUARDED_PRODUCT = define_pointwise(
    "guarded_product",
    kernel=_product_kernel,
    kinds="fc",
    n_inputs=2,
    saves=(0, 1),
    vjps=(_product_vjp, _product_vjp_y),
    emit=_product_emit,
)
"""`x * y`, but 0 where that is NaN and one of them is 0: two cotangents, of a derivative and of its
derivative, each of which says whether anything depends on the result."""


def _same_kernel(x: Any) -> Any:
    return x


def _same_vjp(ct: Any, attrs: Attrs) -> Any:
    return masked(ct)


def _same_emit(b: ScalarEmitter[V], x: V) -> V:
    return x


GUARDED_RESULT = define_pointwise(
    "guarded_result",
    kernel=_same_kernel,
    kinds="fc",
    vjps=(_same_vjp,),
    emit=_same_emit,
)
"""A gradient that was found behind a mask: so is what is differentiated once more through it, for
zeros of that mask are factors there."""
