"""Loops over sizes that vary: one trace serves them, with what Python computes unchanged."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapeline as tl
from tapeline.runtime.errors import TracingError


def counted(x: Any) -> Any:
    total: Any = 0.0
    for i in range(x.shape[0]):
        total = total + x[i] * i
    return total


def over_rows(x: Any) -> Any:
    total = tl.zeros(3)
    for number, row in enumerate(x):
        total = total * 0.5 + row / (number + 1)
    return total


def neighbours(x: Any) -> Any:
    total: Any = 0.0
    for i in range(1, len(x)):
        total = total + x[i] * x[i - 1]
    return total / x.shape[0]


def backwards(x: Any) -> Any:
    last = x[0] * 0
    for i in range(x.shape[0] - 1, -1, -1):
        last = last * 0.9 + x[i]
    return last


def nested(x: Any) -> Any:
    total: Any = 0.0
    for i in range(x.shape[0]):
        for j in range(1, x.shape[0]):
            total = total + x[i] * x[j] * (i - j)
    return total


def ended(x: Any) -> Any:
    total = tl.sum(x[0]) * 0
    for i in range(x.shape[0]):
        if tl.sum(x[i]) > 2.5:
            break
        total = total + tl.sum(x[i])
    return total


LOOPS = [counted, over_rows, neighbours, backwards, nested, ended]


def numbers(rows: int, dtype: Any = np.float64) -> tl.Tensor:
    return tl.asarray(np.random.default_rng(rows).uniform(0.5, 1.5, (rows, 3)).astype(dtype))


@pytest.mark.parametrize("f", LOOPS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_sweep_costs_few_traces(f: Callable[[Any], Any], dtype: Any) -> None:
    traced = tl.function(f)
    for rows in (4, 5, 2, 9, 70, 3, 33):
        x = numbers(rows, dtype)
        got, expected = traced(x), f(x)
        assert got.dtype == expected.dtype
        np.testing.assert_allclose(got, expected, rtol=1e-12 if dtype is np.float64 else 1e-4)
    assert traced.trace_count <= 3


def test_hundreds_of_sizes_are_one_loop() -> None:
    traced = tl.function(neighbours)
    for rows in range(2, 302):
        x = np.arange(float(rows))
        expected = np.sum(x[1:] * x[:-1]) / rows
        np.testing.assert_allclose(traced(x).numpy(), expected, rtol=1e-12)
    assert traced.trace_count <= 3


@pytest.mark.parametrize("f", [counted, neighbours, backwards])
def test_gradients_go_through_open_loops(f: Callable[[Any], Any]) -> None:
    traced = tl.function(f)
    for rows in (4, 5, 3, 8):
        x = numbers(rows)
        got = tl.grad(lambda x: tl.sum(traced(x)))(x)
        np.testing.assert_allclose(got, tl.grad(lambda x: tl.sum(f(x)))(x), rtol=1e-12)
    assert traced.trace_count <= 3


def test_numbers_that_python_computes_stay_pythons() -> None:
    @tl.function
    def f(x: Any) -> Any:
        count, factorial = 0, 1
        for i in range(x.shape[0]):
            count += 1
            factorial *= i + 1
            x = x + 1
        return x, count, factorial

    for rows in (3, 4, 5, 25):
        x, count, factorial = f(tl.zeros(rows))
        assert x.tolist() == [rows] * rows
        assert type(count) is int
        assert count == rows
        assert factorial == math.factorial(rows)


TABLE = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0]


@pytest.mark.parametrize("signature", [None, [tl.TensorSpec([None], "float64")]])
def test_an_index_that_python_needs_is_pythons(signature: Any) -> None:
    @tl.function(input_signature=signature)
    def f(x: Any) -> Any:
        total: Any = 0.0
        for i in range(x.shape[0]):
            total = total + x[i] * TABLE[i]
        turns = range(x.shape[0])
        return total + turns[-1] + len(list(turns)) + (3 in turns)

    for rows in (3, 4, 5, 6, 3):
        expected = sum(TABLE[:rows]) + rows - 1 + rows + (rows > 3)
        assert float(f(tl.ones(rows))) == expected


def test_lists_that_grow_with_a_size_keep_one_trace_per_size() -> None:
    @tl.function
    def f(x: Any) -> Any:
        found = []
        for i in range(x.shape[0]):
            found.append(x[i] * i)
        return tl.stack(found), len(found)

    for rows in (3, 4, 5):
        got, count = f(tl.ones(rows))
        assert got.tolist() == list(range(rows))
        assert count == rows


def powers(x: Any) -> Any:
    total: Any = 0.0
    for i in range(x.shape[0]):
        total = total + x[i] * 10**i + x[i] * 2**-i
    return total


def with_an_array(x: Any) -> Any:
    counts, total = np.zeros(3), x[0] * 0
    for i in range(x.shape[0]):
        counts[i % 3] += 1
        total = total + x[i] * counts[0]
    return total


def summed(x: Any) -> Any:
    total, y = 0, x[0] * 0
    for i in range(x.shape[0]):
        total = total + i * i
        y = y + x[i]
    return y * total


@pytest.mark.parametrize("f", [powers, with_an_array, summed])
def test_what_ints_and_arrays_of_the_graph_cannot_hold_is_unrolled(f: Callable[[Any], Any]) -> None:
    traced = tl.function(f)
    for rows in (4, 5, 3, 26):
        x = numbers(rows)
        np.testing.assert_allclose(traced(x), f(x), rtol=1e-12)


def test_a_number_that_a_loop_leaves_behind_is_pythons() -> None:
    @tl.function
    def f(x: Any) -> Any:
        total: Any = 0.0
        for i in range(x.shape[0]):
            total = total + x[i]
        return total, i

    for rows in (3, 4, 5):
        last = f(tl.ones(rows))[1]
        assert type(last) is int
        assert last == rows - 1


def test_a_branch_over_a_tensor_cannot_write_to_an_array_of_numpy() -> None:
    counts = np.zeros(2)

    @tl.function
    def f(x: Any) -> Any:
        if x > 0:
            counts[0] += 1
            x = x + 1
        return x

    with pytest.raises(TracingError, match="counts"):
        f(tl.asarray(1.0))
    assert counts.tolist() == [0.0, 0.0]


def skips_the_first(x: Any) -> Any:
    total = tl.zeros(())
    for i in range(x.shape[0]):
        if i > 0:
            total = total + x[i] * x[i - 1]
    return total


def remembers_the_last(x: Any) -> Any:
    total, last = tl.zeros(()), None
    for i in range(len(x)):
        if last is not None:
            total = total + x[i] * last
        last = x[i]
    return total


@pytest.mark.parametrize("function", [skips_the_first, remembers_the_last])
def test_first_round_may_be_special(function: Callable[..., Any]) -> None:
    f = tl.function(function)
    for size in (70, 71, 90, 5):
        x = tl.asarray(np.random.default_rng(size).normal(size=size))
        np.testing.assert_allclose(f(x).numpy(), function(x).numpy(), rtol=1e-12)
    assert f.trace_count == 2
