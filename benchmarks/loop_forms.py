"""Loops that write a million elements, in the forms that people write, by us and by Numba.

Each is one Python function that both compile, with their own `zeros`.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any

import numpy as np

import tapeline as tl
from benchmarks.case import NUMBA, OURS, Case, Faster, peer
from benchmarks.measure import Call

WRITES = 1_000_000
SIDE = 1000
BINS = 1000
zeros: Any = tl.zeros


def mapped(a: Any) -> Any:
    x = zeros(WRITES)
    for i in range(WRITES):
        x[i] = a[i] * 0.5 + 1.0
    return x


def scattered(order: Any) -> Any:
    x = zeros(WRITES)
    for i in range(WRITES):
        x[order[i]] = 1.5
    return x


def filled(n: Any) -> Any:
    x = zeros(WRITES)
    for i in range(n):
        x[i] = i * 1.0
    return x


def recurrent(a: Any) -> Any:
    x = zeros(WRITES)
    for i in range(1, WRITES):
        x[i] = x[i - 1] * 0.5 + a[i]
    return x


def argument(x: Any, n: Any) -> Any:
    for i in range(n):
        x[i] = x[i] * 0.5 + 1.0
    return x


def table(n: Any, m: Any) -> Any:
    x = zeros((SIDE, SIDE))
    for i in range(n):
        for j in range(m):
            x[i, j] = i * j * 1.0
    return x


def single_precision(a: Any) -> Any:
    x = zeros(WRITES, np.float32)
    for i in range(1, WRITES):
        x[i] = x[i - 1] * np.float32(0.5) + a[i]
    return x


def computed_index(a: Any, n: Any) -> Any:
    x = zeros(WRITES)
    for i in range(n):
        x[(i * 7 + 3) % n] = a[i]
    return x


def stencil(a: Any, n: Any) -> Any:
    x = zeros(WRITES)
    for i in range(1, n - 1):
        x[i] = a[i - 1] - 2.0 * a[i] + a[i + 1]
    return x


def histogram(bins: Any) -> Any:
    counts = zeros(BINS, np.int64)
    for i in range(WRITES):
        counts[bins[i]] += 1
    return counts


def calls_of(function: Callable[..., Any], *args: Any) -> dict[str, Call]:
    """Our call and Numba's."""
    assert isinstance(function, FunctionType)
    compiled, tensors = tl.function(function), [tl.asarray(x) for x in args]
    calls: dict[str, Call] = {OURS: lambda: compiled(*tensors)}
    numba = peer(NUMBA)
    if numba is not None:
        names = {**function.__globals__, "zeros": np.zeros}
        by_numba = numba.njit(FunctionType(function.__code__, names))
        calls[NUMBA] = lambda: by_numba(*args)
    return calls


def numbers() -> Any:
    return np.random.default_rng(0).random(WRITES)


def whole_numbers(below: int) -> Any:
    return np.random.default_rng(0).integers(0, below, WRITES)


def argument_calls() -> dict[str, Call]:
    """Both change what they are given; the numbers settle at 2."""
    return calls_of(argument, np.full(WRITES, 2.0), WRITES)


FORMS: tuple[tuple[str, str, Callable[[], dict[str, Call]]], ...] = (
    ("writes", "written in order", lambda: calls_of(mapped, numbers())),
    (
        "writes_anywhere", "written at random places",
        lambda: calls_of(scattered, np.random.default_rng(0).permutation(WRITES)),
    ),
    ("fill", "filled with their index", lambda: calls_of(filled, WRITES)),
    ("recurrence", "each from the one before", lambda: calls_of(recurrent, numbers())),
    ("argument", "of an argument changed", argument_calls),
    ("table", "of a table filled", lambda: calls_of(table, SIDE, SIDE)),
    (
        "float32", "of float32, each from the one before",
        lambda: calls_of(single_precision, numbers().astype(np.float32)),
    ),
    (
        "computed_index", "written at places with a remainder",
        lambda: calls_of(computed_index, numbers(), WRITES),
    ),
    ("stencil", "from three neighbours", lambda: calls_of(stencil, numbers(), WRITES)),
    ("histogram", "counted in a thousand bins", lambda: calls_of(histogram, whole_numbers(BINS))),
)  # fmt: skip

CASES = [
    Case(f"loop_{name}", f"a million elements {what}", build, (Faster(1 / 1.2, NUMBA),))
    for name, what, build in FORMS
]
