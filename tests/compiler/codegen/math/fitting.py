"""How the tables of `tapeline.compiler.codegen.math.coefficients` were made, with mpmath.

`python -m tests.compiler.codegen.math.fitting` prints that module anew; it needs mpmath and takes a
minute. Every polynomial is a Chebyshev fit (`mpmath.chebyfit`) of the function given here on the
interval given here. A test repeats some of the fits.
"""

from __future__ import annotations

import textwrap
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import mpmath
import numpy as np

mp = mpmath.MPContext()
mp.prec = 480
_NEAR_ZERO = mp.mpf(10) ** -40
LN2 = mp.log(2)
EIGHTH_TURN = (mp.pi / 4 * mp.mpf("1.01")) ** 2


@dataclass(frozen=True)
class Fit:
    """A function to fit and, for float32 and float64, the interval and the number of terms."""

    function: Callable[[Any], Any]
    single: tuple[Any, Any, int]
    double: tuple[Any, Any, int]


def both(function: Callable[[Any], Any], low: Any, high: Any, single: int, double: int) -> Fit:
    """A fit on one interval for both dtypes."""
    return Fit(function, (low, high, single), (low, high, double))


def odd(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """P with function(x) = x + x**3 * P(x**2)."""
    return lambda t: (function(mp.sqrt(t)) / mp.sqrt(t) - 1) / t


def logarithm(scale: Any) -> Fit:
    """P with scale * log(1 + t) = scale * t + t**2 * P(t)."""
    return Fit(
        lambda t: (mp.log1p(t) - t) * scale / t**2,
        (mp.mpf("-0.25"), mp.mpf("0.5"), 9),
        (mp.mpf("-0.0472"), mp.mpf("0.0314"), 10),
    )


FITS: dict[str, Fit] = {
    # exp(t) = 1 + t + t**2 * P(t)
    "exp": both(lambda t: (mp.exp(t) - 1 - t) / t**2, -LN2 / 2 * 1.001, LN2 / 2 * 1.001, 5, 10),
    # 2**t = 1 + t * P(t)
    "exp2": both(lambda t: (mp.mpf(2) ** t - 1) / t, mp.mpf("-0.5001"), mp.mpf("0.5001"), 6, 12),
    "log": logarithm(mp.mpf(1)),
    "log2": logarithm(1 / LN2),
    "log10": logarithm(1 / mp.log(10)),
    # log(1 + t) = t - t**2 / 2 + t**3 * P(t)
    "power": both(
        lambda t: (mp.log1p(t) - t + t * t / 2) / t**3, mp.mpf("-0.0335"), mp.mpf("0.0335"), 3, 9
    ),
    "sin": both(odd(mp.sin), 0, EIGHTH_TURN, 3, 6),
    # cos(x) = 1 - x**2 / 2 + x**4 * P(x**2)
    "cos": both(lambda t: (mp.cos(mp.sqrt(t)) - 1 + t / 2) / t**2, 0, EIGHTH_TURN, 3, 6),
    "tan": both(odd(mp.tan), 0, EIGHTH_TURN, 7, 14),
    "arcsin": both(odd(mp.asin), 0, mp.mpf("0.2501"), 6, 13),
    "arctan": both(odd(mp.atan), 0, mp.mpf("0.1717"), 5, 12),
    "sinh": both(odd(mp.sinh), 0, 1, 3, 7),
    "tanh": both(odd(mp.tanh), 0, mp.mpf("0.56") ** 2, 5, 12),
    "inverse_cbrt": both(lambda t: t ** (-mp.mpf(1) / 3), 1, 2, 6, 5),
}


@dataclass(frozen=True)
class SegmentFit:
    """An odd function that saturates, in 16 segments of one spacing, each with its own terms."""

    function: Callable[[Any], Any]
    spacing: Any
    terms: int
    bits: int
    step: float
    """By how much a segment's centre may be moved at a time."""


SEGMENT_FITS: dict[str, SegmentFit] = {
    "erf_f4": SegmentFit(mp.erf, mp.mpf(33) / 128, 7, 24, 2.0**-19),
    "erf_f8": SegmentFit(mp.erf, mp.mpf(25) / 64, 14, 53, 1.0337e-7),
    "tanh_f4": SegmentFit(mp.tanh, mp.mpf(37) / 64, 9, 24, 2.0**-19),
}


def rounded(value: Any, bits: int) -> Any:
    """The nearest number with so many significant bits."""
    if value == 0:
        return mp.mpf(0)
    scale = mp.mpf(2) ** (bits - 1 - mp.floor(mp.log(abs(value), 2)))
    return mp.nint(value * scale) / scale


def chebyshev(function: Callable[[Any], Any], low: Any, high: Any, terms: int) -> list[Any]:
    """Coefficients of the fit, lowest power first. Functions are not asked at 0 itself."""
    with warnings.catch_warnings():
        # mpmath is about to change the order of the coefficients, and says so.
        warnings.simplefilter("ignore", DeprecationWarning)
        coefficients = mp.chebyfit(
            lambda t: function(t if abs(t) > _NEAR_ZERO else _NEAR_ZERO),
            [mp.mpf(low), mp.mpf(high)],
            terms,
        )
    return list(coefficients[::-1])


def fit(name: str) -> tuple[list[Any], list[Any]]:
    """The coefficients for float32 and for float64."""
    row = FITS[name]
    return chebyshev(row.function, *row.single), chebyshev(row.function, *row.double)


def fit_segments(name: str) -> list[list[Any]]:
    """One list of 16 numbers per coefficient, lowest power first, and last the centres.

    Segment 0 is x + x * P(x), with the constant 0. The centre c of any other segment is chosen near
    the segment's middle so that the function's value there is almost exactly a float.
    """
    row = SEGMENT_FITS[name]
    f, half = row.function, row.spacing / 2
    first = chebyshev(lambda u: f(u) / u - 1, 0, half * 1.001, row.terms - 1)
    columns = [[mp.mpf(0), *first, mp.mpf(0)]]
    for segment in range(1, 16):
        middle = segment * row.spacing
        choices = [rounded(middle + k * row.step, row.bits) for k in range(-150, 150)]

        def misfit(c: Any) -> Any:
            return abs(f(c) - rounded(f(c), row.bits)) / abs(f(c))

        centre = min(choices, key=misfit)

        def slope(u: Any, centre: Any = centre) -> Any:
            return (f(centre + u) - f(centre)) / u

        terms = chebyshev(slope, -half * 1.003, half * 1.003, row.terms - 1)
        columns.append([f(centre), *terms, centre])
    return [list(line) for line in zip(*columns, strict=True)]


def log_reciprocals() -> list[float]:
    """Numbers near 1/c, c = 1 + i/16 (halved from i = 8 on), with logarithms that are almost
    exactly doubles; 1 where c is 1 or almost."""
    found = []
    for i in range(16):
        c = 1 + mp.mpf(i) / 16
        c = c / 2 if i >= 8 else c
        if i in (0, 15):
            found.append(1.0)
            continue

        def misfit(q: float) -> Any:
            exact = mp.log(mp.mpf(q))
            return abs(exact - mp.mpf(float(exact))) / abs(exact)

        base = float(1 / c)
        found.append(min((base * (1 + k * 1.0337e-7) for k in range(-300, 300)), key=misfit))
    return found


def log_tables() -> dict[str, list[Any]]:
    """Minus the logarithms of the reciprocals, to each base."""
    scales = {"log": mp.mpf(1), "log2": 1 / LN2, "log10": 1 / mp.log(10)}
    exact = [-mp.log(mp.mpf(q)) for q in log_reciprocals()]
    return {name: [value * scale for value in exact] for name, scale in scales.items()}


def power_tables(leading_bits: int) -> list[list[Any]]:
    """Reciprocals of 9 bits, and minus their logarithms: a part with so many bits behind the point,
    and the rest."""
    reciprocals = [rounded((1 if i < 8 else 2) / (1 + mp.mpf(i) / 16), 9) for i in range(16)]
    logs = [-mp.log(q) for q in reciprocals]
    leading = [mp.nint(value * 2**leading_bits) / mp.mpf(2) ** leading_bits for value in logs]
    return [reciprocals, leading, [a - b for a, b in zip(logs, leading, strict=True)]]


def number(value: Any, *, single: bool = False) -> str:
    """The shortest text that reads back as the nearest float."""
    return repr(float(np.float32(float(value)))) if single else repr(float(value))


def tuple_lines(values: Sequence[Any], head: str, *, single: bool = False) -> Iterator[str]:
    """`head`, then the numbers as a tuple."""
    indent = " " * (len(head) - len(head.lstrip()))
    text = ", ".join(number(v, single=single) for v in values) + ","
    yield head + "("
    yield textwrap.fill(text, 98, initial_indent=indent + "  ", subsequent_indent=indent + "  ")
    yield indent + "),"


def table_lines(head: str, rows: dict[str, list[tuple[list[Any], bool]]]) -> Iterator[str]:
    """A dict of tuples of tuples."""
    yield head + " = {"
    for name, lists in rows.items():
        yield f'    "{name}": ('
        for values, single in lists:
            yield from tuple_lines(values, "        ", single=single)
        yield "    ),"
    yield "}  # fmt: skip"


def module_lines() -> Iterator[str]:
    """The text of the table module, without its docstring."""
    fits = {name: fit(name) for name in FITS}
    yield from table_lines(
        "POLYNOMIALS: dict[str, tuple[tuple[float, ...], tuple[float, ...]]]",
        {name: [(single, True), (double, False)] for name, (single, double) in fits.items()},
    )
    yield '"""Coefficients for float32 and for float64, lowest power first."""\n'
    yield from table_lines(
        "SEGMENTS: dict[str, tuple[tuple[float, ...], ...]]",
        {
            name: [(values, row.bits == 24) for values in fit_segments(name)]
            for name, row in SEGMENT_FITS.items()
        },
    )
    yield '"""Per coefficient, lowest power first, its value in 16 segments; last the centres."""\n'
    yield "LOG_RECIPROCALS: tuple[float, ...] = ("
    text = ", ".join(number(v) for v in log_reciprocals()) + ","
    yield textwrap.fill(text, 98, initial_indent="    ", subsequent_indent="    ")
    yield ")  # fmt: skip"
    yield '"""Numbers near 1/c for c = 1 + i/16, halved from i = 8 on."""\n'
    yield "LOG_TABLES: dict[str, tuple[float, ...]] = {"
    for name, values in log_tables().items():
        yield from tuple_lines(values, f'    "{name}": ')
    yield "}  # fmt: skip"
    yield '"""Minus the logarithm of each of `LOG_RECIPROCALS`, to three bases."""\n'
    yield from table_lines(
        "POWER_TABLES: dict[str, tuple[tuple[float, ...], ...]]",
        {
            "f4": [(values, True) for values in power_tables(15)],
            "f8": [(values, False) for values in power_tables(41)],
        },
    )
    yield '"""Reciprocals of few bits; minus their logarithms, leading part and rest."""\n'
    with mp.workprec(1600):
        digits = f"{int(mp.floor(2 / mp.pi * mp.mpf(2) ** 1280)):x}"
    yield "TWO_OVER_PI = int("
    for start in range(0, len(digits), 80):
        yield f'    "{digits[start : start + 80]}"'
    yield "    , 16)  # fmt: skip"
    yield '"""The integer part of 2/pi * 2**1280."""'


if __name__ == "__main__":
    print("\n".join(module_lines()))
