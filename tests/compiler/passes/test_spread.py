"""Loops with independent turns become ops on arrays; all others stay loops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapeline as tl


def kinds(function: Callable[..., Any], *args: Any) -> set[str]:
    """What the steps of a compiled function are."""
    concrete = tl.function(function).get_concrete_function(*args)
    return {kernel.kind for kernel in concrete.kernels()}


def check(function: Callable[..., Any], *args: Any, spread: bool = True) -> None:
    """Whether the loop becomes ops on arrays; the results are those of plain Python."""
    tensors = [tl.asarray(arg) for arg in args]
    expected = function(*[np.array(arg) for arg in args])
    assert ("control" in kinds(function, *tensors)) != spread
    found = tl.function(function)(*map(tl.asarray, args))
    np.testing.assert_array_equal(found.numpy(), expected)


A = np.arange(200.0) % 7 - 2.5
B = np.arange(200.0) % 11 + 0.5


def test_every_element_written_from_elements_beside_it() -> None:
    def run(a: Any, b: Any) -> Any:
        for i in tl.range(200):
            b[i] = a[i] * 2.0 + b[i]
        return b

    check(run, A, B)


def test_a_part_written_and_elements_read_ahead() -> None:
    def run(a: Any, b: Any) -> Any:
        for i in tl.range(5, 190):
            b[i] = a[i + 3] * 0.5 - b[i + 1] + a[2 * i - 3 - i]
        return b

    check(run, A, B)


def test_choice_of_what_is_written() -> None:
    def run(a: Any, b: Any) -> Any:
        for i in tl.range(199):
            if a[i] > 0.0:
                b[i] = a[i + 1]
            elif a[i] < -1.0:
                b[i] = a[i] * 3.0
        return b

    check(run, A, B)


def test_choice_of_a_number_and_the_counter_as_a_value() -> None:
    def run(a: Any, b: Any) -> Any:
        for i in tl.range(200):
            value = a[i]
            if value < 0.0:
                value = value * value
            b[i] = value + i
        return b

    check(run, A, B)


def test_element_found_by_an_index_that_is_read() -> None:
    order = np.random.default_rng(0).permutation(200)

    def run(a: Any, b: Any, order: Any) -> Any:
        for i in tl.range(200):
            b[i] = a[order[i]] + 1.0
        return b

    check(run, A, B, order)
    order[17] = 200
    with pytest.raises(IndexError):
        tl.function(run)(tl.asarray(A), tl.asarray(B), tl.asarray(order))


def test_two_dimensional_place() -> None:
    def run(a: Any, table: Any) -> Any:
        for i in tl.range(100):
            table[1, i] = a[i] + a[i + 100]
        return table

    check(run, A, np.zeros((3, 100)))


def test_rows_in_and_out_and_last_counter() -> None:
    def run(xs: Any) -> Any:
        def turn(i: Any, x: Any) -> Any:
            return i + 2, x * x + i

        return tl.scan(turn, tl.asarray(3), xs)

    xs = tl.asarray(A)
    assert "control" not in kinds(run, xs)
    last, rows = tl.function(run)(xs)
    assert int(last) == 403
    np.testing.assert_array_equal(rows.numpy(), A * A + 3 + 2 * np.arange(200))


def test_element_that_an_earlier_turn_wrote_keeps_the_loop() -> None:
    def run(a: Any, b: Any) -> Any:
        for i in tl.range(1, 200):
            b[i] = b[i - 1] * 0.5 + a[i]
        return b

    check(run, A, B, spread=False)


def test_places_that_nobody_knows_keep_the_loop() -> None:
    order = np.random.default_rng(0).integers(0, 200, 200)

    def run(a: Any, b: Any, order: Any) -> Any:
        for i in tl.range(200):
            b[order[i]] = a[i]
        return b

    check(run, A, B, order, spread=False)


def test_number_that_is_carried_and_early_end_keep_the_loop() -> None:
    def total(a: Any, b: Any) -> Any:
        s = 0.0
        for i in tl.range(200):
            s = s + a[i]
            b[i] = s
        return b

    def stopped(a: Any, b: Any) -> Any:
        for i in tl.range(200):
            if a[i] > 3.0:
                break
            b[i] = a[i]
        return b

    check(total, A, B, spread=False)
    check(stopped, A, B, spread=False)


def test_place_out_of_range_is_an_error_still() -> None:
    def run(a: Any) -> Any:
        for i in tl.range(201):
            a[i] = a[i] + 1.0
        return a

    with pytest.raises(IndexError, match="200"):
        tl.function(run)(tl.asarray(A))


def test_gradients_to_all_that_is_read() -> None:
    def slope(a: Any, b: Any) -> Any:
        with tl.GradientTape() as tape:
            tape.watch(a)
            tape.watch(b)
            c = tl.zeros(200, dtype=tl.float64)
            for i in tl.range(1, 199):
                c[i] = a[i] * b[i + 1] - a[i - 1]
            total = tl.sum(c * c)
        return tape.gradient(total, [a, b])

    for x, y in zip(
        slope(tl.asarray(A), tl.asarray(B)),
        tl.function(slope)(tl.asarray(A), tl.asarray(B)),
        strict=True,
    ):
        np.testing.assert_allclose(y.numpy(), x.numpy(), rtol=1e-13, atol=1e-13)


def test_small_part_of_an_array_is_written_in_place() -> None:
    def run(a: Any, b: Any) -> Any:
        for i in tl.range(40):
            b[i] = a[i] * 2.0
        return b

    check(run, A, B, spread=False)
