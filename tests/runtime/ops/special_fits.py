"""How the polynomials of `tapeline.runtime.series` were made, with mpmath.

`python -m tests.runtime.ops.special_fits` prints that module anew; it needs mpmath and takes half a
minute. Every polynomial is a Chebyshev fit (`mpmath.chebyfit`) of the function given here on the
interval given here. A test repeats some of the fits.
"""

from __future__ import annotations

import textwrap
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import mpmath

mp = mpmath.MPContext()
mp.prec = 400
_NEAR = mp.mpf(10) ** -24
_DIGAMMA_ROOT = mp.findroot(mp.digamma, 1.4616)


@dataclass(frozen=True)
class Fit:
    """A function, the interval to fit it on, how many terms, and what it is in words."""

    function: Callable[[Any], Any]
    low: Any
    high: Any
    terms: int
    meaning: str


def _log_gamma(t: Any) -> Any:
    t = t + _NEAR
    return mp.loggamma(2 + t) / (t * (t + 1))


def _digamma(t: Any) -> Any:
    x = mp.mpf(1.5) + t
    return mp.digamma(x) / (x - _DIGAMMA_ROOT)


def _stirling(x: Any) -> Any:
    """log(gamma(x)) less the leading terms of Stirling's series."""
    return mp.loggamma(x) - (x - 0.5) * mp.log(x) + x - mp.log(2 * mp.pi) / 2


def _log_gamma_tail(z: Any) -> Any:
    x = 1 / mp.sqrt(max(z, _NEAR))
    return _stirling(x) * x


def _gamma_tail(w: Any) -> Any:
    return mp.exp(_stirling(1 / max(w, mp.mpf(10) ** -12)))


def _digamma_tail(z: Any) -> Any:
    x = 1 / mp.sqrt(max(z, _NEAR))
    return (mp.log(x) - 1 / (2 * x) - mp.digamma(x)) * x * x


def _erfcx(t: Any) -> Any:
    x = mp.mpf(3.75) * (1 + t) / max(1 - t, _NEAR)
    if x < 60:
        return (1 + 2 * x) * mp.exp(x * x) * mp.erfc(x)
    return (
        (1 + 2 * x) * _asymptotic(lambda j: -mp.mpf(2 * j - 1) / (2 * x * x)) / (x * mp.sqrt(mp.pi))
    )


def _asymptotic(ratio: Callable[[int], Any]) -> Any:
    """1 plus terms of which each is the one before times `ratio(number)`."""
    total = term = mp.mpf(1)
    for number in range(1, 30):
        term *= ratio(number)
        total += term
    return total


def _erfinv(z: Any) -> Any:
    x = mp.sqrt(max(z, _NEAR))
    return mp.erfinv(x) / x


def _normal_tail(v: Any) -> Any:
    """y / r where a normal number is above y with probability exp(-r**2), at r = exp(v + 1.7)."""
    r = mp.exp(v + mp.mpf("1.7"))
    y = mp.sqrt(max(mp.mpf(0.4), 2 * r * r - mp.log(4 * mp.pi * r * r)))
    for _ in range(60):
        above = mp.erfc(y / mp.sqrt(2)) / 2
        step = (mp.log(above) + r * r) * above * mp.sqrt(2 * mp.pi) * mp.exp(y * y / 2)
        y += step
        if abs(step) < mp.mpf(2) ** -150:
            break
    return y / r


def _bessel(order: int) -> Callable[[Any], Any]:
    def function(z: Any) -> Any:
        z = max(z, _NEAR**2)
        return mp.besseli(order, 2 * mp.sqrt(z)) / mp.sqrt(z) ** order

    return function


def _bessel_tail(order: int) -> Callable[[Any], Any]:
    def function(t: Any) -> Any:
        x = 16 / max(1 + t, _NEAR)
        if x < 2000:
            return mp.sqrt(x) * mp.exp(-x) * mp.besseli(order, x)
        square = 4 * order * order
        ratio = lambda j: -(square - mp.mpf(2 * j - 1) ** 2) / (8 * j * x)  # noqa: E731  # one use
        return _asymptotic(ratio) / mp.sqrt(2 * mp.pi)

    return function


_HALF, _EDGE = mp.mpf(0.5), mp.mpf(1) / 64
FITS: dict[str, Fit] = {
    "log_gamma": Fit(_log_gamma, -1, 1, 29, "log(gamma(2 + t)) / (t * (1 + t))"),
    "log_gamma_tail": Fit(
        _log_gamma_tail, 0, _EDGE, 7,
        "x * (log(gamma(x)) - (x - 1/2) * log(x) + x - log(2 * pi) / 2) at x = t**-0.5",
    ),
    "gamma": Fit(lambda t: mp.gamma(mp.mpf(2.5) + t), -_HALF, _HALF, 17, "gamma(2.5 + t)"),
    "gamma_tail": Fit(
        _gamma_tail, 0, mp.mpf(1) / 8, 10,
        "gamma(x) * exp(x) * x**(1/2 - x) / sqrt(2 * pi) at x = 1/t",
    ),
    "digamma": Fit(
        _digamma, -_HALF, _HALF, 23, "digamma(1.5 + t) / (1.5 + t - root), where root is its root"
    ),
    "digamma_tail": Fit(
        _digamma_tail, 0, _EDGE, 8, "x**2 * (log(x) - 1 / (2 * x) - digamma(x)) at x = t**-0.5"
    ),
    "erfcx": Fit(
        _erfcx, -1, 1, 27, "(1 + 2 * x) * exp(x**2) * erfc(x) at x = 3.75 * (1 + t) / (1 - t)"
    ),
    "erfinv": Fit(_erfinv, 0, mp.mpf(0.25), 14, "erfinv(x) / x at x = t**0.5"),
    "normal_tail": Fit(
        _normal_tail, mp.mpf("-1.545"), mp.mpf("1.615"), 29,
        "y / r at r = exp(t + 1.7), where a normal number is above y with probability exp(-r**2)",
    ),
    "i0": Fit(_bessel(0), 0, 16, 18, "I0(x) at x = 2 * t**0.5"),
    "i1": Fit(_bessel(1), 0, 16, 18, "I1(x) * 2 / x at x = 2 * t**0.5"),
    "i0_tail": Fit(_bessel_tail(0), -1, 1, 26, "x**0.5 * exp(-x) * I0(x) at x = 16 / (1 + t)"),
    "i1_tail": Fit(_bessel_tail(1), -1, 1, 26, "x**0.5 * exp(-x) * I1(x) at x = 16 / (1 + t)"),
}  # fmt: skip


def fit(name: str) -> tuple[float, ...]:
    """The coefficients of a polynomial, the lowest first."""
    made = FITS[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # mpmath's own use of polyval
        found = mp.chebyfit(made.function, [made.low, made.high], made.terms)
    return tuple(float(c) for c in found[::-1])


def digamma_root() -> tuple[float, float]:
    """The positive root of digamma as a sum of two floats."""
    high = float(_DIGAMMA_ROOT)
    return high, float(_DIGAMMA_ROOT - high)


_HEAD = '''"""Polynomials that the special functions are made of.

All are our own fits, made with mpmath: each is `mpmath.chebyfit(f, interval, terms)`, its constant
term first. `tests/runtime/ops/special_fits.py` makes this file anew and is part of the tests.
With t the variable, the functions are

'''


def main() -> None:
    """Prints the module."""
    print(_HEAD, end="")
    for name, made in FITS.items():
        interval = f"[{mp.nstr(mp.mpf(made.low), 6)}, {mp.nstr(mp.mpf(made.high), 6)}]"
        text = f"- {name}: {made.meaning}; {interval}, {made.terms} terms"
        print(textwrap.fill(text, 100, subsequent_indent="  "))
    print('"""\n\nfrom __future__ import annotations\n')
    print("POLYNOMIALS: dict[str, tuple[float, ...]] = {")
    for name in FITS:
        numbers = ", ".join(map(repr, fit(name)))
        body = textwrap.indent(textwrap.fill(numbers, 92), "        ")
        print(f'    "{name}": (\n{body},\n    ),')
    print("}  # fmt: skip\n")
    print(f"DIGAMMA_ROOT = {digamma_root()!r}")
    print('"""The root of digamma above 0, as a sum of two floats."""')


if __name__ == "__main__":
    main()
