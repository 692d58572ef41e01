"""Exact constants, and how they are taken apart into floats."""

from __future__ import annotations

from fractions import Fraction
from functools import cache

LN2 = Fraction(
    "0.693147180559945309417232121458176568075500134360255254120680009493393621969694715605863327"
)
LN10 = Fraction(
    "2.30258509299404568401799145468436420760110148862877297603332790096757260967735248023599721"
)
PI = Fraction(
    "3.14159265358979323846264338327950288419716939937510582097494459230781640628620899862803483"
)
PER_LN2 = 1 / LN2
TWO_PER_PI = 2 / PI
HALF_PI = PI / 2


def _scale(x: Fraction, bits: int) -> Fraction:
    """The power of two that makes |x| an integer of so many bits, before rounding."""
    exponent = 0
    while abs(x) >= 2:
        x, exponent = x / 2, exponent + 1
    while 0 < abs(x) < 1:
        x, exponent = x * 2, exponent - 1
    return Fraction(2) ** (bits - 1 - exponent)


@cache
def rounded(x: Fraction, bits: int) -> Fraction:
    """The nearest number with so many significant bits."""
    scale = _scale(x, bits)
    return round(x * scale) / scale


@cache
def rounded_down(x: Fraction, bits: int) -> Fraction:
    """The greatest number with so many significant bits that is not above x."""
    scale = _scale(x, bits)
    return (x * scale).__floor__() / scale


@cache
def parts(x: Fraction, count: int, bits: int) -> tuple[Fraction, ...]:
    """Numbers of so many bits with (almost) the sum `x`, the greatest first."""
    found = []
    for _ in range(count):
        found.append(rounded(x, bits))
        x -= found[-1]
    return tuple(found)
