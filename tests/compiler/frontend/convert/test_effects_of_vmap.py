"""Checks, exceptions and printing under `vmap`: only of the examples that come there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapeline as tl

WAYS: dict[str, Callable[[Any], Callable[[Any], Any]]] = {
    "vmap": tl.vmap,
    "vmap in a function": lambda f: tl.function(lambda x: tl.vmap(f)(x)),
    "function in vmap": lambda f: tl.vmap(tl.function(f)),
    "function in a branch": lambda f: tl.vmap(lambda x: _in_a_branch(tl.function(f), x)),
    "gradient": lambda f: lambda x: _with_gradient(f, x),
    "two levels": lambda f: lambda x: tl.vmap(tl.vmap(f))(x.reshape((1, -1)))[0],
}


def _in_a_branch(f: Any, x: Any) -> Any:
    return f(x) if x > -100 else x


def _with_gradient(f: Any, x: Any) -> Any:
    tl.vmap(tl.grad(f))(x)
    return tl.vmap(f)(x)


def raises(x: Any) -> Any:
    if x < 0:
        raise ValueError("negative")
    return x * 2


def raises_deep_inside(x: Any) -> Any:
    if x < 1:
        if x < -0.5:
            raise ValueError("too small")
        x = x + 1
    elif x > 100:
        raise KeyError("too large")
    return x


def asserts(x: Any) -> Any:
    if x > 0:
        assert x < 5, "too large"
        x = x * 2
    return x


def asserts_in_an_expression(x: Any) -> Any:
    return checked_square(x) if x >= 0 else x


def checked_square(x: Any) -> Any:
    assert x >= 0, "negative"
    return x * x


def raises_in_a_loop(x: Any) -> Any:
    n = 0
    while x > 1:
        if n > 2:
            raise RuntimeError("too many rounds")
        x = x / 2
        n = n + 1
    return x


def asserts_in_a_for(x: Any) -> Any:
    total = x
    for _ in tl.range(tl.astype(abs(x), "int64")):
        assert total < 20, "too large a total"
        total = total + abs(x)
    return total


PROGRAMS = [
    (raises, [1.0, 2.0], [1.0, -2.0]),
    (raises_deep_inside, [1.0, 0.5, 7.0], [3.0, -0.75]),
    (raises_deep_inside, [1.0, 0.5, 7.0], [3.0, 101.0]),
    (asserts, [1.0, -7.0, 4.5], [1.0, 6.0]),
    (asserts_in_an_expression, [4.0, -7.0], None),
    (raises_in_a_loop, [0.5, 8.0, 3.0], [0.5, 9.0]),
    (asserts_in_a_for, [0.5, -3.0, 4.0], [1.0, 6.0]),
]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("program", "good", "bad"), PROGRAMS, ids=lambda x: getattr(x, "__name__", "")
)
def test_an_exception_is_that_of_an_example(
    way: str, program: Callable[..., Any], good: list[float], bad: list[float] | None
) -> None:
    mapped = WAYS[way](program)
    expected = [float(program(tl.asarray(v))) for v in good]
    np.testing.assert_allclose(mapped(tl.asarray(good)).numpy(), expected)
    if bad is not None:
        with pytest.raises(Exception) as alone:  # noqa: PT011  # compared below
            [program(tl.asarray(value)) for value in bad]
        with pytest.raises(alone.type) as together:
            mapped(tl.asarray(bad))
        said = [str(error.value).splitlines()[0] for error in (alone, together)]
        assert said[0] == said[1]


@pytest.mark.parametrize("way", [way for way in WAYS if way != "gradient"])
def test_only_examples_that_come_there_print(way: str, capsys: pytest.CaptureFixture[str]) -> None:
    def f(x: Any) -> Any:
        if x > 0:
            print("positive", x)
        while x > 2:
            print("halved", x)
            x = x / 2
        return x

    values = [1.0, -2.0, 6.0, 3.0]
    for value in values:
        f(tl.asarray(value))
    expected = sorted(capsys.readouterr().out.splitlines())
    WAYS[way](f)(tl.asarray(values))
    assert sorted(capsys.readouterr().out.splitlines()) == expected


def test_checks_of_numbers_hold_for_all_examples() -> None:
    def f(x: Any) -> Any:
        if x > 0:
            tl.debugging.assert_less(x, 5.0)
        return x

    mapped = tl.vmap(tl.function(f))
    mapped(tl.asarray([1.0, -2.0]))
    with pytest.raises(AssertionError):
        mapped(tl.asarray([1.0, 7.0]))
