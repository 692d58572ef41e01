"""Loops with an `else`: what either a `break` or the `else` gives a value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapeline as tl
from tapeline.runtime.errors import UndefinedVariableError


def while_loop(x: Any) -> Any:
    i = 0
    while i < 3:
        if x[i] < 0:
            r = x[i] * 10
            break
        i += 1
    else:
        r = x.sum()
    return r


def two_variables(x: Any) -> Any:
    for v in x:
        if v > 2:
            r, k = v, None
            k = 1
            r = v
            break
    else:
        r = x.sum() * 0
        k = 0
    return r * 10 + k


def two_breaks(x: Any) -> Any:
    for v in x:
        if v > 2:
            r = v
            break
        if v < -5:
            r = -v
            break
    else:
        r = x[0]
    return r * 2


def nested(x: Any) -> Any:
    total = x[0] * 0
    for v in x:
        for w in x:
            if w > v:
                found = w
                break
        else:
            found = v * 2
        total = total + found
    return total


PROGRAMS = [while_loop, two_variables, two_breaks, nested]
VALUES = [[5.0, -3.0, 2.0], [1.0, 1.0, 1.0], [1.0, -7.0, 0.0], [1.0, 2.5, 4.0]]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_as_eagerly_with_gradients_and_examples(program: Callable[..., Any]) -> None:
    compiled = tl.function(program)
    for values in VALUES:
        x = tl.asarray(values)
        assert float(compiled(x)) == float(program(x))
        slope = tl.grad(program)(x).numpy()
        np.testing.assert_allclose(tl.grad(compiled)(x).numpy(), slope)
    mapped = tl.vmap(program)(tl.asarray(VALUES)).numpy()
    np.testing.assert_array_equal(mapped, [float(program(tl.asarray(v))) for v in VALUES])


@pytest.mark.parametrize("program", [p for p in PROGRAMS if p is not while_loop])
def test_over_many_rounds(program: Callable[..., Any]) -> None:
    for values in (np.linspace(0, 2, 100), np.linspace(0, 4, 100)):
        x = tl.asarray(values)
        np.testing.assert_allclose(float(tl.function(program)(x)), float(program(x)))


def test_without_an_else_the_variable_may_be_undefined() -> None:
    @tl.function
    def f(x: Any) -> Any:
        for v in x:
            if v > 2:
                r = v
                break
        return r

    with pytest.raises(UndefinedVariableError, match="'r'"):
        f(tl.asarray([1.0, 3.0]))


def test_a_break_that_gives_no_value() -> None:
    @tl.function
    def f(x: Any) -> Any:
        for v in x:
            if v > 2:
                r = v
                break
            if v < -2:
                break
        else:
            r = x[0]
        return r

    with pytest.raises(UndefinedVariableError, match="'r'"):
        f(tl.asarray([1.0, 3.0]))
