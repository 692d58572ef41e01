"""The math functions as ONNX nodes.

ONNX has most of them, and CPU runtimes have all of those in float32. In float64 they lack kernels
for some: these are put together of what there is, with the polynomials of our own math library, and
so are the functions that ONNX lacks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tapeline.compiler.codegen.math.coefficients import POLYNOMIALS, SEGMENTS
from tapeline.compiler.export.onnx.model import INT64, Ref

if TYPE_CHECKING:
    from tapeline.compiler.export.onnx.scalar import OnnxScalars

_ERF_SPACING = 25 / 64
_ERF_SEGMENTS = 15.499


def _is_single(x: Ref) -> bool:
    return x.dtype.itemsize == 4


def _native(kind: str) -> Callable[..., Ref]:
    """An operator that has kernels in both dtypes."""
    return lambda b, x: b.unary(kind, x)


def _native_single(kind: str, double: Callable[..., Ref]) -> Callable[..., Ref]:
    """An operator that has a kernel in float32, and what serves in float64."""
    return lambda b, x: b.unary(kind, x) if _is_single(x) else double(b, x)


def _polynomial(b: OnnxScalars, x: Ref, coefficients: Sequence[float]) -> Ref:
    """The lowest coefficient first."""
    result = b.const(coefficients[-1], x)
    for coefficient in coefficients[-2::-1]:
        result = b.fma(x, result, b.const(coefficient, x))
    return result


def _fitted(b: OnnxScalars, name: str, x: Ref) -> Ref:
    return _polynomial(b, x, POLYNOMIALS[name][0 if _is_single(x) else 1])


# ---- exponentials and logarithms


def expm1(b: OnnxScalars, x: Ref) -> Ref:
    """exp(x) - 1: the rounding error of exp is taken out by its logarithm."""
    one = b.const(1, x)
    u = b.unary("Exp", x)
    less = b.sub(u, one)
    ratio = b.div(x, b.unary("Log", u))
    near = b.select(b.compare("eq", u, one), x, b.mul(less, ratio))
    is_near = b.compare("lt", b.abs(x), b.const(0.5, x))
    return b.select(is_near, near, less)


def log1p(b: OnnxScalars, x: Ref) -> Ref:
    """log(1 + x): the rounding error of the sum is taken out by a division."""
    one = b.const(1, x)
    u = b.add(one, x)
    near = b.select(b.compare("eq", u, one), x, b.mul(b.unary("Log", u), b.div(x, b.sub(u, one))))
    is_near = b.compare("lt", b.abs(x), b.const(0.5, x))
    return b.select(is_near, near, b.unary("Log", u))


def exp2(b: OnnxScalars, x: Ref) -> Ref:
    """2**x."""
    return power(b, b.const(2, x), x)


def _log_base(base: float) -> Callable[..., Ref]:
    def run(b: OnnxScalars, x: Ref) -> Ref:
        return b.div(b.unary("Log", x), b.const(math.log(base), x))

    return run


def softplus(b: OnnxScalars, x: Ref) -> Ref:
    """log(1 + exp(x))."""
    zero = b.const(0, x)
    return b.add(b.maximum(x, zero), log1p(b, b.unary("Exp", b.neg(b.abs(x)))))


def logaddexp(b: OnnxScalars, x: Ref, y: Ref) -> Ref:
    """log(exp(x) + exp(y))."""
    greater = b.maximum(x, y)
    apart = b.neg(b.abs(b.sub(x, y)))
    found = b.add(greater, log1p(b, b.unary("Exp", apart)))
    return b.select(b.compare("eq", x, y), b.add(x, b.const(math.log(2), x)), found)


def power(b: OnnxScalars, x: Ref, y: Ref) -> Ref:
    """x**y."""
    return b.graph.add("Pow", x, y)


# ---- hyperbolic functions


def sinh(b: OnnxScalars, x: Ref) -> Ref:
    """From expm1, which keeps what is small; in halves, so that nothing overflows early."""
    a = b.abs(x)
    one, half = b.const(1, x), b.const(0.5, x)
    t = expm1(b, a)
    near = b.mul(half, b.add(t, b.div(t, b.add(t, one))))
    root = b.unary("Exp", b.mul(a, half))
    far = b.mul(b.mul(half, root), root)
    is_far = b.compare("gt", a, b.const(22, x))
    return b.copysign(b.select(is_far, far, near), x)


def cosh(b: OnnxScalars, x: Ref) -> Ref:
    """(exp(x) + exp(-x)) / 2, in halves."""
    half = b.const(0.5, x)
    root = b.unary("Exp", b.mul(b.abs(x), half))
    far = b.mul(b.mul(half, root), root)
    return b.add(far, b.mul(half, b.unary("Exp", b.neg(b.abs(x)))))


def asinh(b: OnnxScalars, x: Ref) -> Ref:
    """By log1p; a large x by the logarithm of 2x."""
    a, one = b.abs(x), b.const(1, x)
    limit = b.const(2.0 ** (12 if _is_single(x) else 28), x)
    is_far = b.compare("gt", a, limit)
    safe = b.select(is_far, one, a)
    square = b.mul(safe, safe)
    near = log1p(b, b.add(safe, b.div(square, b.add(one, b.sqrt(b.add(square, one))))))
    far = b.add(b.unary("Log", a), b.const(math.log(2), x))
    return b.copysign(b.select(is_far, far, near), x)


def acosh(b: OnnxScalars, x: Ref) -> Ref:
    """By log1p of what x exceeds 1 by."""
    one = b.const(1, x)
    limit = b.const(2.0 ** (12 if _is_single(x) else 28), x)
    is_far = b.compare("gt", x, limit)
    t = b.sub(b.select(is_far, one, x), one)
    near = log1p(b, b.add(t, b.sqrt(b.mul(t, b.add(t, b.const(2, x))))))
    far = b.add(b.unary("Log", x), b.const(math.log(2), x))
    below = b.compare("lt", x, one)
    return b.select(below, b.const(np.nan, x), b.select(is_far, far, near))


def atanh(b: OnnxScalars, x: Ref) -> Ref:
    """log1p(2a / (1 - a)) / 2."""
    a, one = b.abs(x), b.const(1, x)
    found = log1p(b, b.div(b.add(a, a), b.sub(one, a)))
    return b.copysign(b.mul(b.const(0.5, x), found), x)


# ---- circular functions


def _tan(b: OnnxScalars, x: Ref) -> Ref:
    return b.div(b.unary("Sin", x), b.unary("Cos", x))


def _asin(b: OnnxScalars, x: Ref) -> Ref:
    upper, found = _asin_parts(b, x)
    large = b.sub(b.const(math.pi / 2, x), b.add(found, found))
    return b.copysign(b.select(upper, large, found), x)


def _acos(b: OnnxScalars, x: Ref) -> Ref:
    upper, found = _asin_parts(b, x)
    twice = b.add(found, found)
    negative = b.compare("lt", x, b.const(0, x))
    large = b.select(negative, b.sub(b.const(math.pi, x), twice), twice)
    return b.select(upper, large, b.sub(b.const(math.pi / 2, x), b.copysign(found, x)))


def _asin_parts(b: OnnxScalars, x: Ref) -> tuple[Ref, Ref]:
    """Whether |x| > 0.5; arcsin(s) for s = |x|, or sqrt((1 - |x|) / 2) above 0.5."""
    a, half = b.abs(x), b.const(0.5, x)
    upper = b.compare("gt", a, half)
    z = b.select(upper, b.mul(b.sub(b.const(1, x), a), half), b.mul(a, a))
    s = b.select(upper, b.sqrt(z), a)
    return upper, b.add(s, b.mul(b.mul(s, z), _fitted(b, "arcsin", z)))


def _atan(b: OnnxScalars, x: Ref) -> Ref:
    return b.copysign(_first_quadrant(b, b.abs(x), b.const(1, x)), x)


def _first_quadrant(b: OnnxScalars, y: Ref, x: Ref) -> Ref:
    """The angle of a point with y, x >= 0."""
    steep = b.compare("gt", y, b.mul(x, b.const(math.sqrt(2) + 1, x)))
    middle = b.compare("gt", y, b.mul(x, b.const(math.sqrt(2) - 1, x)))
    upper = b.select(steep, b.neg(x), b.select(middle, b.sub(y, x), y))
    lower = b.select(steep, y, b.select(middle, b.add(y, x), x))
    t = b.div(upper, lower)
    z = b.mul(t, t)
    quarter, zero = b.const(math.pi / 4, x), b.const(0, x)
    base = b.select(steep, b.const(math.pi / 2, x), b.select(middle, quarter, zero))
    return b.add(base, b.add(t, b.mul(b.mul(t, z), _fitted(b, "arctan", z))))


def atan2(b: OnnxScalars, y: Ref, x: Ref) -> Ref:
    """The angle of the point (x, y); points are scaled so that no quotient leaves the range."""
    ay, ax, one, zero = b.abs(y), b.abs(x), b.const(1, x), b.const(0, x)
    infinity = b.const(np.inf, x)
    both = b.bit_and(b.compare("eq", ax, infinity), b.compare("eq", ay, infinity))
    none = b.bit_and(b.compare("eq", ax, zero), b.compare("eq", ay, zero))
    ay = b.select(both, one, ay)
    ax = b.select(b.bit_or(both, none), one, ax)
    big = b.maximum(ax, ay)
    bias = 127 if _is_single(x) else 1023
    shrink = b.compare("gt", big, b.const(2.0 ** (bias - 3), x))
    grow = b.compare("lt", big, b.const(2.0 ** -(bias - 30), x))
    factor = b.select(shrink, b.const(0.125, x), b.select(grow, b.const(2.0**24, x), one))
    angle = _first_quadrant(b, b.mul(ay, factor), b.mul(ax, factor))
    left = b.sub(b.const(math.pi, x), angle)
    return b.copysign(b.select(b.sign_bit(x), left, angle), y)


# ---- others


def sigmoid(b: OnnxScalars, x: Ref) -> Ref:
    """1 / (1 + exp(-x)); small values keep their digits."""
    one = b.const(1, x)
    small = b.unary("Exp", b.neg(b.abs(x)))
    upper = b.div(one, b.add(one, small))
    lower = b.div(small, b.add(one, small))
    return b.select(b.compare("lt", x, b.const(0, x)), lower, upper)


def _erf(b: OnnxScalars, x: Ref) -> Ref:
    """By segments: a table row per segment, and its polynomial around the middle."""
    rows = SEGMENTS["erf_f8"]
    a = b.minimum(b.abs(x), b.const(_ERF_SEGMENTS * _ERF_SPACING, x))
    a = b.select(b.compare("eq", a, a), a, b.const(0, x))
    index = b.graph.cast(b.rint(b.mul(a, b.const(1 / _ERF_SPACING, x))), INT64)
    *terms, centre = (
        b.graph.add("Gather", b.graph.constant(np.array(row, x.dtype)), index, dtype=x.dtype)
        for row in rows
    )
    t = b.sub(a, centre)
    series = terms[-1]
    for term in terms[-2:0:-1]:
        series = b.fma(t, series, term)
    lead = b.select(b.compare("lt", a, b.const(_ERF_SPACING / 2, x)), t, terms[0])
    found = b.copysign(b.fma(t, series, lead), x)
    return b.select(b.compare("eq", x, x), found, x)


def rsqrt(b: OnnxScalars, x: Ref) -> Ref:
    """1 / sqrt(x)."""
    return b.div(b.const(1, x), b.sqrt(x))


def hypot(b: OnnxScalars, x: Ref, y: Ref) -> Ref:
    """sqrt(x*x + y*y), scaled so that no square leaves the range."""
    ax, ay, zero = b.abs(x), b.abs(y), b.const(0, x)
    infinity, one = b.const(np.inf, x), b.const(1, x)
    big, small = b.maximum(ax, ay), b.minimum(ax, ay)
    is_zero = b.compare("eq", big, zero)
    ratio = b.div(small, b.select(is_zero, one, big))
    found = b.mul(big, b.sqrt(b.add(one, b.mul(ratio, ratio))))
    infinite = b.bit_or(b.compare("eq", ax, infinity), b.compare("eq", ay, infinity))
    return b.select(infinite, infinity, found)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "exp": _native("Exp"),
    "exp2": exp2,
    "expm1": expm1,
    "log": _native("Log"),
    "log1p": log1p,
    "log2": _log_base(2),
    "log10": _log_base(10),
    "softplus": softplus,
    "logaddexp": logaddexp,
    "power": power,
    "sigmoid": sigmoid,
    "tanh": _native("Tanh"),
    "sinh": sinh,
    "cosh": cosh,
    "arcsinh": asinh,
    "arccosh": acosh,
    "arctanh": atanh,
    "sin": _native("Sin"),
    "cos": _native("Cos"),
    "tan": _native_single("Tan", _tan),
    "arcsin": _native_single("Asin", _asin),
    "arccos": _native_single("Acos", _acos),
    "arctan": _native_single("Atan", _atan),
    "arctan2": atan2,
    "erf": _native_single("Erf", _erf),
    "rsqrt": rsqrt,
    "hypot": hypot,
}
FUNCTIONS |= {
    name.replace("arc", "a", 1): function
    for name, function in FUNCTIONS.items()
    if name.startswith("arc")
}
