"""What a turn wrote and the next one reads is carried as a number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapeline as tl
from tapeline.runtime.errors import IndexOutOfRangeError


def reads_in_loops(function: Callable[..., Any], *args: Any) -> int:
    """How often the innermost body of a function reads an element."""
    graph = tl.function(function).get_concrete_function(*args).optimized_graph
    while True:
        inner = [op for op in graph.ops if op.subgraphs]
        if not inner:
            return [op.name for op in graph.ops].count("take")
        graph = inner[0].subgraphs[0]


def check(function: Callable[..., Any], reads: int, *args: Any) -> None:
    """The results are those of plain Python, and so many reads are left."""
    expected = function(*[np.array(x) for x in args])
    assert reads_in_loops(function, *map(tl.asarray, args)) == reads
    found = tl.function(function)(*map(tl.asarray, args))
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-12, atol=1e-12)


A = np.random.default_rng(0).standard_normal(150)


def test_recurrence_reads_nothing_of_what_it_writes() -> None:
    def run(x: Any, a: Any) -> Any:
        for i in tl.range(1, 150):
            x[i] = x[i - 1] * 0.5 + a[i]
        return x

    check(run, 1, np.ones(150), A)


def test_first_turn_reads_the_last_element_by_a_negative_index() -> None:
    def run(x: Any, a: Any) -> Any:
        for i in tl.range(150):
            x[i] = x[i - 1] * 0.5 + a[i]
        return x

    check(run, 1, np.arange(150.0), A)


def test_steps_and_elements_further_back() -> None:
    def run(x: Any, a: Any) -> Any:
        for i in tl.range(6, 150, 2):
            x[i] = x[i - 2] * 0.5 + x[i - 4] * 0.25 + x[i - 1] + a[i]
        return x

    check(run, 3, np.arange(150.0), A)


def test_element_ahead_and_element_that_stays_are_read() -> None:
    def run(x: Any, a: Any) -> Any:
        for i in tl.range(2, 149):
            x[i] = x[i + 1] * 0.5 + x[1] + a[i]
        return x

    check(run, 3, np.arange(150.0), A)


def test_table_row_by_row() -> None:
    def run(table: Any, a: Any) -> Any:
        for i in tl.range(1, 70):
            for j in tl.range(1, 80):
                table[i, j] = (
                    table[i - 1, j] * 0.3 + table[i, j - 1] * 0.4 + table[i - 1, j - 1] * 0.2 + a[j]
                )
        return table

    check(run, 3, np.random.default_rng(1).standard_normal((70, 80)), A)


def test_loop_that_ends_early() -> None:
    def run(x: Any, a: Any) -> Any:
        for i in tl.range(1, 150):
            x[i] = x[i - 1] + a[i] * a[i]
            if x[i] > 20.0:
                break
        return x

    expected = run(np.zeros(150), A)
    np.testing.assert_allclose(tl.function(run)(tl.zeros(150), tl.asarray(A)).numpy(), expected)


def test_index_out_of_range_is_still_an_error() -> None:
    def run(x: Any) -> Any:
        for i in tl.range(1, 151):
            x[i] = x[i - 1] * 0.5
        return x

    with pytest.raises(IndexError, match="150"):
        tl.function(run)(tl.ones(150))


def test_gradient_through_a_recurrence() -> None:
    def slope(a: Any) -> Any:
        with tl.GradientTape() as tape:
            tape.watch(a)
            x = tl.zeros(150, dtype=tl.float64)
            for i in tl.range(1, 150):
                x[i] = tl.sin(x[i - 1]) * 0.5 + a[i]
            total = tl.sum(x * x)
        return tape.gradient(total, a)

    a = tl.asarray(A)
    np.testing.assert_allclose(tl.function(slope)(a).numpy(), slope(a).numpy(), rtol=1e-12)


def test_fixed_element_that_is_read_does_not_make_a_copy() -> None:
    def run(row: Any, a: Any) -> Any:
        for i in tl.range(100):
            first = row[0]
            row[0] = a[i]
            for j in tl.range(1, 100):
                row[j] = row[j - 1] * 0.5 + first * 0.01
        return row

    concrete = tl.function(run).get_concrete_function(tl.ones(200), tl.asarray(A))
    assert "phi ptr" not in concrete.llvm_ir()
    found = tl.function(run)(tl.ones(200), tl.asarray(A)).numpy()
    np.testing.assert_allclose(found, run(np.ones(200), A), rtol=1e-12)


def test_array_of_equal_numbers_is_not_made_to_read_its_first() -> None:
    def run(a: Any) -> Any:
        x = tl.zeros(150)
        for i in tl.range(1, 150):
            x[i] = x[i - 1] * 0.5 + a[i]
        return x

    concrete = tl.function(run).get_concrete_function(tl.asarray(A))
    assert "take" not in [op.name for op in concrete.optimized_graph.ops]
    expected = np.zeros(150)
    for i in range(1, 150):
        expected[i] = expected[i - 1] * 0.5 + A[i]
    np.testing.assert_allclose(concrete(tl.asarray(A)).numpy(), expected, rtol=1e-12)


def test_first_index_out_of_range_is_an_error_for_equal_numbers_too() -> None:
    def run(a: Any) -> Any:
        x = tl.ones(20)
        for i in tl.range(30, 90):
            x[i] = x[i - 1] * 0.5 + a[i]
        return x

    with pytest.raises(IndexOutOfRangeError, match="index 29 is out of range"):
        tl.function(run)(tl.asarray(A))
