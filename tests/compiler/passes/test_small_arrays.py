"""Loops that carry small arrays run on their elements in registers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapeline as tl

Function = Callable[..., Any]


def carried(function: Function, *args: Any) -> list[str]:
    """The shapes that the loops of a compiled function carry, as text."""
    graph = tl.function(function).get_concrete_function(*args).optimized_graph
    lines = [line for line in str(graph).split("\n") if "while_loop(" in line or "scan(" in line]
    return [line.split(" : ")[1].split("  #")[0].strip() for line in lines]


def oscillator(x: Any) -> Any:
    def slope(v: Any) -> Any:
        return tl.stack([v[1], -v[0], v[0] * v[1]])

    def turn(i: Any, v: Any) -> Any:
        k = slope(v)
        return i + 1, v + 0.01 * slope(v + 0.005 * k)

    return tl.while_loop(lambda i, v: i < 50, turn, (0, x))[1]


def matrices(x: Any) -> Any:
    def turn(i: Any, m: Any) -> Any:
        m = m.T * 0.5 + tl.sum(m, axis=0, keepdims=True) * 0.1
        return i + 1, tl.concat([m[1:], m[:1]]) + m.max() * 0.01

    return tl.while_loop(lambda i, m: i < 20, turn, (0, x[:2] + x[1:, None]))[1]


def rows(x: Any) -> Any:
    def turn(c: Any, row: Any) -> Any:
        return tl.tanh(c * row) + x, c[::-1]

    return tl.scan(turn, x, tl.ones((20, 3)) * x, reverse=True)


def test_state_of_three_elements_is_three_numbers() -> None:
    assert carried(oscillator, tl.ones(3)) == ["(int64[], float64[], float64[], float64[])"]


def test_array_that_is_indexed_by_a_tensor_stays_an_array() -> None:
    def run(x: Any) -> Any:
        return tl.while_loop(lambda i, v: i < 20, lambda i, v: (i + 1, v * v[i % 3]), (0, x))[1]

    assert carried(run, tl.ones(3)) == ["(int64[], float64[3])"]


def test_big_state_and_short_loop_keep_their_arrays() -> None:
    def run(x: Any) -> Any:
        return tl.scan(lambda c, _: (c * c[0], None), x, length=20)[0]

    def short(x: Any) -> Any:
        return tl.scan(lambda c, _: (c * c[0], None), x, length=4)[0]

    assert carried(run, tl.ones(30)) == ["(int64[], float64[30])"]
    assert carried(short, tl.ones(3)) == ["(int64[], float64[3])"]


@pytest.mark.parametrize("program", [oscillator, matrices, rows], ids=lambda f: f.__name__)
def test_split_loop_gives_what_the_eager_one_gives(program: Function) -> None:
    x = tl.asarray([0.3, -0.2, 0.9])
    expected, found = program(x), tl.function(program)(x)
    if not isinstance(expected, tuple):
        expected, found = (expected,), (found,)
    for a, b in zip(expected, found, strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-13)


@pytest.mark.parametrize("program", [oscillator, matrices], ids=lambda f: f.__name__)
def test_split_loop_has_the_gradient_of_the_eager_one(program: Function) -> None:
    def gradient(x: Any) -> Any:
        with tl.GradientTape() as tape:
            tape.watch(x)
            value = (program(x) ** 2).sum()
        return tape.gradient(value, x)

    x = tl.asarray([0.3, -0.2, 0.9])
    np.testing.assert_allclose(
        tl.function(gradient)(x).numpy(), gradient(x).numpy(), rtol=1e-11, atol=1e-13
    )
