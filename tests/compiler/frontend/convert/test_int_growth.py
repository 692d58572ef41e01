"""Python ints in loops of the graph: as Python's, or an error, never wrapped around."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapeline as tl


def fourth_powers(x: Any) -> Any:
    for i in range(60_000, 60_100):
        x = x + (i * i * i * i) % 7
    return x


def factorials(x: Any) -> Any:
    product = 1
    for i in range(1, 100):
        product = product * i
        x = x + 1.0 / product
    return x


def fibonacci(x: Any) -> Any:
    a, b = 0, 1
    for _ in range(200):
        a, b = b, a + b
        x = x + a * 1e-40
    return x


def shifts(x: Any) -> Any:
    for i in range(100):
        x = x + (1 << i) * 1e-20
    return x


def cubic_sums(x: Any) -> Any:
    a = b = c = 0
    for i in range(900):
        a = a + 1_000_000
        b = b + a * i
        c = c + b * i
        x = x + c * 1e-20
    return x


def rows(x: Any) -> Any:
    total = 0.0
    for i, row in enumerate(tl.ones(80) * x):
        total = total + row * (i + 40_000) ** 2 * (i * 60_000 * 60_000)
    return total


def nested(x: Any) -> Any:
    for i in range(70):
        for j in range(70):
            x = x + (i * 100_000_000) * (j * 100_000_000) * (i + j) * 1e-20
    return x


@pytest.mark.parametrize(
    "function", [fourth_powers, factorials, fibonacci, shifts, cubic_sums, rows, nested]
)
def test_large_ints_are_those_of_python(function: Callable[[Any], Any]) -> None:
    x = tl.asarray(0.5)
    np.testing.assert_allclose(float(tl.function(function)(x)), float(function(x)), rtol=1e-12)


def ops_of(function: Callable[..., Any], *args: Any) -> set[str]:
    return {op.name for op in tl.function(function).get_concrete_function(*args).graph.ops}


def remainders(x: Any) -> Any:
    state = 7
    for _ in range(100):
        state = (state * 1_103_515_245 + 12_345) % 2_147_483_648
        x = x + state * 1e-9
    return x


def index_arithmetic(x: Any) -> Any:
    total = 0
    for i in range(100_000):
        total += i * 8 + (i // 3) % 5 - (-i >> 2)
        x = x + 1
    return x + total


@pytest.mark.parametrize("function", [remainders, index_arithmetic])
def test_ints_that_surely_fit_stay_in_one_node(function: Callable[[Any], Any]) -> None:
    x = tl.asarray(0.5)
    ops = ops_of(function, x)
    assert "scan" in ops
    assert "host_assert" not in ops
    np.testing.assert_allclose(float(tl.function(function)(x)), float(function(x)), rtol=1e-12)


@tl.function
def powers_of_three(x: Any, n: Any) -> Any:
    product = 1
    for _ in tl.range(n):
        product = product * 3
        x = x + product * 1.0
    return x


def test_int_that_does_not_fit_is_an_error_where_python_cannot_run_the_loop() -> None:
    x = tl.asarray(0.0)
    assert float(powers_of_three(x, tl.asarray(39))) == sum(3.0**k for k in range(1, 40))
    with pytest.raises(OverflowError, match=r"64 bits.*make it a float"):
        powers_of_three(x, tl.asarray(40))
    assert float(powers_of_three(x, tl.asarray(2))) == 12.0


def test_gradient_goes_through_the_check() -> None:
    @tl.function
    def f(x: Any, n: Any) -> Any:
        k, y = 1, x
        for _ in tl.range(n):
            k = k * 2
            y = y + x * k
        return y

    assert float(tl.grad(f)(tl.asarray(1.0), tl.asarray(3))) == 1.0 + 2 + 4 + 8
    with pytest.raises(OverflowError, match="64 bits"):
        tl.grad(f)(tl.asarray(1.0), tl.asarray(70))


def test_tensors_wrap_around_as_arrays_do() -> None:
    @tl.function
    def f(n: Any) -> Any:
        product = tl.asarray(1)
        for _ in tl.range(n):
            product = product * 3
        return product

    with np.errstate(over="ignore"):
        wanted = np.prod(np.full(45, 3, np.int64))
    assert int(f(tl.asarray(45))) == int(wanted)
