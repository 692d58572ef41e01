"""What a case is: competing calls that do the same, and the figures they should reach."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from benchmarks.measure import Call, Timing

OURS = "tapeline"
EAGER = "tapeline eager"
NUMPY = "numpy"
JAX = "jax"
TORCH = "torch"
NUMBA = "numba"
AUTOGRAD = "autograd"
TENSORFLOW = "tensorflow"


@dataclass(frozen=True, slots=True)
class Faster:
    """Goal: at least `ratio` times as fast as another, by medians of one run."""

    ratio: float
    than: str
    who: str = OURS

    def __str__(self) -> str:
        return f"{self.ratio:g}x {self.than}"

    def is_reached(self, timings: dict[str, Timing]) -> bool | None:
        """None where one of the two was not measured."""
        if self.who not in timings or self.than not in timings:
            return None
        return timings[self.than].median >= self.ratio * timings[self.who].median


@dataclass(frozen=True, slots=True)
class Below:
    """Goal: the fastest block takes less than so many seconds per call."""

    seconds: float
    who: str = OURS

    def __str__(self) -> str:
        return f"< {time_text(self.seconds)}"

    def is_reached(self, timings: dict[str, Timing]) -> bool | None:
        return timings[self.who].minimum < self.seconds if self.who in timings else None


Goal = Faster | Below


@dataclass(frozen=True, slots=True)
class Case:
    """One line of the table.

    `build` returns one call per contender, each with the same result. Where `once` is given it
    measures by itself (a first call, an import) and returns the timings.
    """

    name: str
    what: str
    build: Callable[[], dict[str, Call]] | None = None
    goals: tuple[Goal, ...] = ()
    once: Callable[[], dict[str, Timing]] | None = None
    tolerance: float = 1e-4
    """How far results may differ, relative to the largest value."""
    group: str = ""
    """Cases of one group also count as a geometric mean."""


def peer(name: str) -> Any | None:
    """The module of a peer, or None where it is not installed."""
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def time_text(seconds: float) -> str:
    """A time with three digits and a unit."""
    for limit, scale, unit in ((1e-6, 1e9, "ns"), (1e-3, 1e6, "us"), (1.0, 1e3, "ms")):
        if seconds < limit:
            return f"{seconds * scale:.3g} {unit}"
    return f"{seconds:.3g} s"
