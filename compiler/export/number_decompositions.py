"""Common divisors, and floats taken apart into powers of two and put together, by simple ops: for
what runs where NumPy is not. All of them are exact."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tapeline.runtime.loops import while_loop
from tapeline.runtime.ops.arithmetic import floor_divide, remainder
from tapeline.runtime.ops.comparison import equal, not_equal
from tapeline.runtime.ops.gather import take
from tapeline.runtime.ops.logic import isfinite
from tapeline.runtime.ops.reduction import any as any_of
from tapeline.runtime.ops.selection import clip, where
from tapeline.runtime.ops.shaping import broadcast_arrays
from tapeline.runtime.ops.signs import abs as size
from tapeline.runtime.ops.signs import sign
from tapeline.runtime.tensor import Tensor, cast_tensor, new_tensor

_INT32 = np.dtype(np.int32)
_LIMITS = {2: 45, 4: 300, 8: 2199}
"""Per bytes of a float: a power of two that takes all numbers to 0 or infinity, and whose third is
an exponent of floats."""


def gcd(a: Tensor, b: Tensor) -> Tensor:
    """Euclid's way, for all elements at once until the last is done."""
    a, b = broadcast_arrays(size(a), size(b))

    def turn(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
        goes_on = not_equal(b, 0)
        rest = remainder(a, where(goes_on, b, 1))
        return where(goes_on, b, a), where(goes_on, rest, 0)

    found: Tensor = while_loop(lambda a, b: any_of(not_equal(b, 0)), turn, (a, b))[0]
    return found


def lcm(a: Tensor, b: Tensor) -> Tensor:
    """Of one number what the other does not have."""
    common = gcd(a, b)
    return floor_divide(size(a), where(equal(common, 0), 1, common)) * size(b)


def ldexp(x: Tensor, exponent: Tensor) -> Tensor:
    """By up to four powers of two, since one alone may be no float: the small one first, so that
    nothing is rounded twice."""
    third = _LIMITS[x.dtype.itemsize] // 3
    powers = new_tensor(np.ldexp(1.0, np.arange(-third, third + 1)).astype(x.dtype))
    wide = cast_tensor(exponent, np.dtype(np.int64))
    whole = cast_tensor(clip(wide, -3 * third, 3 * third), _INT32)
    rest = sign(whole) * remainder(size(whole), third)
    x = x * take(powers, rest + third)
    left = whole - rest
    for _ in range(3):
        part = clip(left, -third, third)
        left = left - part
        x = x * take(powers, part + third)
    return x


def exponent(x: Tensor) -> Tensor:
    """By halving: how often each power of two goes into the number, or it into 1."""
    top = {2: 8, 4: 64, 8: 512}[x.dtype.itemsize]
    steps = [top >> k for k in range(top.bit_length())]
    is_special = equal(x, 0) | ~isfinite(x)
    left = where(is_special, 1, size(x))
    found = cast_tensor(left, _INT32) * 0 + 1
    for step in steps:
        is_large = left >= 2.0**step
        left = where(is_large, left * 2.0**-step, left)
        found = where(is_large, found + step, found)
    for step in (top, top, *steps):
        is_small = left < 2.0 ** (1 - step)
        left = where(is_small, left * 2.0**step, left)
        found = where(is_small, found - step, found)
    return where(is_special, 0, found)


NUMBER_DECOMPOSITIONS: dict[str, Callable[..., Tensor]] = {
    "gcd": gcd, "lcm": lcm, "ldexp": ldexp, "exponent": exponent,
}  # fmt: skip
