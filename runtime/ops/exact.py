"""Functions of doubles in basic arithmetic, for draws: the same bits in NumPy and in native code.

Additions, products, quotients and roots are rounded alike everywhere, the functions of math
libraries are not. So these are written once, as steps of basic arithmetic, and the kernel takes the
very steps that the emitted code takes. They are good to two units in the last place of the result;
sine and cosine to one of 1, which is enough for draws.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tapeline.runtime.errors import DTypeError
from tapeline.runtime.op import Op, Sample, ScalarEmitter, V, define_op
from tapeline.runtime.ops.axes import Array
from tapeline.runtime.ops.batch_rules import batch_elementwise
from tapeline.runtime.ops.steps import in_chunks, polynomial
from tapeline.runtime.spec import TensorSpec

_FLOAT64, _INT64 = np.dtype(np.float64), np.dtype(np.int64)

# --- logarithm -------------------------------------------------------------------------------

_MANTISSA = (1 << 52) - 1
_LN2_HIGH = float.fromhex("0x1.62e42fefa0000p-1")
_LN2_LOW = float.fromhex("0x1.cf79abc9e3b3ap-40")
_LOG_TERMS = [
    0.666666666666667, 0.39999999999899444, 0.2857142862600327, 0.22222211130259878,
    0.18182889455674947, 0.15331710618210773, 0.14616585424888623,
]  # fmt: skip
"""log((1 + s) / (1 - s)) is 2 s + s**3 times these in s**2. Like those below, they interpolate at
Chebyshev's points of the interval that occurs; a test holds the functions to exact values."""


def _log_steps(b: ScalarEmitter[V], x: V) -> V:
    """By x = 2**k * m with m within the root of 2 of 1, and the series in s = (m - 1) / (m + 1)."""
    bits = b.bitcast(x, _INT64)
    exponent = b.shift_right(bits, b.constant(52, _INT64))
    low = b.bit_and(bits, b.constant(_MANTISSA, _INT64))
    one = b.const(1.0, x)
    m = b.bitcast(b.bit_or(low, b.constant(1023 << 52, _INT64)), _FLOAT64)
    is_large = b.compare("gt", m, b.const(math.sqrt(2.0), x))
    m = b.select(is_large, b.mul(m, b.const(0.5, x)), m)
    k = b.cast(b.sub(exponent, b.constant(1023, _INT64)), _FLOAT64)
    k = b.select(is_large, b.add(k, one), k)
    s = b.div(b.sub(m, one), b.add(m, one))
    z = b.mul(s, s)
    tail = b.mul(b.mul(s, z), polynomial(b, z, _LOG_TERMS))
    rest = b.add(tail, b.mul(k, b.const(_LN2_LOW, x)))
    return b.add(b.mul(k, b.const(_LN2_HIGH, x)), b.add(b.add(s, s), rest))


# --- sine and cosine -------------------------------------------------------------------------

_SINE = [
    1.0, -0.16666666666666666, 0.008333333333330948, -0.00019841269836756774,
    2.7557316101617874e-06, -2.505113165023518e-08, 1.5918115263265974e-10,
]  # fmt: skip
_COSINE = [
    1.0, -0.5, 0.041666666666666664, -0.0013888888888887398, 2.480158729876456e-05,
    -2.7557317271145144e-07, 2.087614614655861e-09, -1.1382623647474462e-11,
]  # fmt: skip
"""sin(a) / a and cos(a) by a**2, up to an eighth of a turn."""


def _turned(b: ScalarEmitter[V], x: V, quarters: int) -> V:
    """The cosine of x turns less so many quarters of one."""
    quarter = b.rint(b.mul(x, b.const(4.0, x)))
    angle = b.mul(b.sub(x, b.mul(quarter, b.const(0.25, x))), b.const(2.0 * math.pi, x))
    square = b.mul(angle, angle)
    sine = b.mul(angle, polynomial(b, square, _SINE))
    cosine = polynomial(b, square, _COSINE)
    number = b.sub(b.cast(quarter, _INT64), b.constant(quarters, _INT64))
    zero = b.constant(0, _INT64)
    is_odd = b.compare("ne", b.bit_and(number, b.constant(1, _INT64)), zero)
    found = b.select(is_odd, sine, cosine)
    after = b.bit_and(b.add(number, b.constant(1, _INT64)), b.constant(2, _INT64))
    return b.select(b.compare("ne", after, zero), b.neg(found), found)


def _cosine_steps(b: ScalarEmitter[V], x: V) -> V:
    return _turned(b, x, 0)


def _sine_steps(b: ScalarEmitter[V], x: V) -> V:
    return _turned(b, x, 1)


# --- ops -------------------------------------------------------------------------------------


def _units(*shape: int) -> Callable[[np.random.Generator], Array]:
    def draw(rng: np.random.Generator) -> Array:
        return 1.0 - rng.random(shape)

    return draw


def _define(name: str, steps: Callable[..., Any]) -> Op:
    """An op of doubles alone, element by element."""

    def infer(x: TensorSpec) -> TensorSpec:
        if x.dtype != _FLOAT64:
            raise DTypeError(f"{name}: dtype {x.dtype} is not supported; expected float64")
        return x

    samples = tuple(Sample((_units(*shape),)) for shape in ((), (0,), (5000,), (3, 4)))
    return define_op(
        name,
        batch=batch_elementwise,
        kernel=in_chunks(steps),
        infer=infer,
        vjps=(None,),
        emit=steps,
        samples=samples,
    )


EXACT_LOG = _define("exact_log", _log_steps)
"""The logarithm of normal positive doubles."""
COSINE_OF_TURNS = _define("cosine_of_turns", _cosine_steps)
"""cos(2 pi x) for 0 <= x <= 1."""
SINE_OF_TURNS = _define("sine_of_turns", _sine_steps)
"""sin(2 pi x) for 0 <= x <= 1."""
