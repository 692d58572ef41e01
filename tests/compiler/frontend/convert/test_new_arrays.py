"""NumPy arrays that a function makes and fills: the same code, run by NumPy and compiled."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapeline as tl

X = np.linspace(-1.0, 2.0, 7)
Program = Callable[..., Any]


def doubled(x: Any) -> Any:
    out = np.zeros(7)
    for i in range(7):
        out[i] = x[i] * 2
    return out


def long_loop(x: Any) -> Any:
    out = np.empty(200, dtype=np.float32)
    for i in range(200):
        out[i] = x[i % 7] * i
    return out


def recurrence(x: Any) -> Any:
    out = np.zeros(x.shape[0] + 1)
    for i in range(x.shape[0]):
        out[i + 1] = 0.5 * out[i] + x[i]
    return out


def table(x: Any) -> Any:
    n, m = 5, x.shape[0]
    costs = np.zeros((n + 1, m + 1), dtype=float)
    costs[0, :] = np.arange(m + 1)
    for i in range(1, n + 1):
        costs[i, 0] = i
        for j in range(1, m + 1):
            step = abs(x[j - 1] - i)
            costs[i, j] = step + min(costs[i - 1, j], costs[i, j - 1], costs[i - 1, j - 1])
    return costs


def two_rows(x: Any) -> Any:
    before, now = np.ones(7), np.zeros(7)
    for k in range(5):
        for j in range(1, 7):
            now[j] = before[j - 1] + x[j] * k
        before, now = now, before
    return before, now


def histogram(x: Any) -> Any:
    counts = np.zeros(4, int)
    for value in x:
        counts[(value * 1.3 + 1.5).astype(int) % 4] += 1
    return counts


def whole(x: Any) -> Any:
    total = np.full(7, 0.25)
    total += x
    total[::2] *= 3
    total[x > 1] = -1
    return total


def branches(x: Any) -> Any:
    out = np.zeros_like(np.arange(3.0))
    if x[0] > 0:
        out[0] = x[1]
    else:
        out[1:] = x[:2]
    return out


def until(x: Any) -> Any:
    out = np.zeros(7)
    k = 0
    while x[k] < 1:
        out[k] = x[k] ** 2
        k += 1
    return out, k


def several_names(x: Any) -> Any:
    out = np.zeros(3)
    other = out
    kept = [out]
    out[1] = x[0]
    return other, kept[0]


def matrix_of_elements(x: Any) -> Any:
    turn = np.array([[tl.cos(x[0]), -tl.sin(x[0])], [tl.sin(x[0]), tl.cos(x[0])]])
    turn[0, 0] += 1
    return turn @ np.asarray([1.0, 2.0])


def list_of_elements(x: Any) -> Any:
    weights = np.asarray([0.5, 0.25, 0.125])
    weights[1] = x[2]
    return weights @ x[:3]


def table_of_python(x: Any) -> Any:
    angles = np.zeros(4)
    for k in range(4):
        angles[k] = math.sin(k)
    places = np.zeros(2, dtype=int)
    places[1] = 3
    scale = math.sqrt(abs(float(angles[2])))
    return x * scale + angles[int(places[1])], ["a", "b", "c", "d"][places[1]]


def in_a_nested_function(x: Any) -> Any:
    out = np.zeros(3)

    def put(k: int, value: Any) -> None:
        out[k] = value

    for k in range(3):
        put(k, x[k])
    return out


def inner_maker(x: Any) -> Any:
    def make() -> Any:
        out = np.zeros(3)
        for k in range(3):
            out[k] = x[k]
        return out

    return make() + 1


def flags_of_python(x: Any) -> Any:
    flags, weights = np.zeros(5, bool), np.ones(70)
    flags[1] = flags[3] = True
    for k in range(70):
        weights[k] = math.cos(k)
    kept = []
    for k in range(5):
        if flags[k]:
            kept.append(x * weights[k])
    return kept, math.sqrt(weights[6])


def flags_by_a_number(x: Any, n: int = 3) -> Any:
    flags = np.zeros(5, bool)
    flags[n] = True
    kept = []
    for k in range(5):
        if flags[k]:
            kept.append(x * k)
    return kept


def from_array_to_array(x: Any) -> Any:
    first, second, third = np.zeros(3), np.zeros(3), np.zeros(2)
    first[0] = x[0]
    second[1] = first[0] * 2
    third += second[:2]
    return third


PROGRAMS: list[Program] = [
    doubled, long_loop, recurrence, table, two_rows, histogram, whole, branches, until,
    several_names, matrix_of_elements, list_of_elements, table_of_python, in_a_nested_function,
    inner_maker, flags_of_python, flags_by_a_number,
    from_array_to_array,
]  # fmt: skip


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_results_are_numpys(program: Program) -> None:
    compiled = tl.function(program)
    for x in (X, X[::-1].copy(), X + 0.5):
        expected = tl.nest.flatten(program(x))
        for found, wanted in zip(tl.nest.flatten(compiled(x)), expected, strict=True):
            if isinstance(wanted, np.ndarray):
                assert found.dtype == wanted.dtype
                np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-6)
            else:
                assert found == wanted


def test_gradients_go_through_what_was_filled() -> None:
    for program in (recurrence, table, two_rows):
        tl.testing.check_gradients(tl.function(program), (0.9 * X + 0.13,), order=1)


def test_one_trace_serves_all_sizes() -> None:
    compiled = tl.function(recurrence)
    for n in range(3, 12):
        x = np.linspace(0.0, 1.0, n)
        np.testing.assert_allclose(compiled(x).numpy(), recurrence(x))
    assert compiled.trace_count <= 2


def test_arrays_that_nobody_writes_to_stay_numpys() -> None:
    kinds = []

    @tl.function
    def f(x: Any) -> Any:
        weights, names = np.ones(3), np.zeros(2, dtype=object)
        names[0] = "a"
        kinds.append((type(weights), type(names)))
        return x[:3] @ weights

    assert f(X).item() == pytest.approx(X[:3].sum())
    assert kinds == [(np.ndarray, np.ndarray)]
