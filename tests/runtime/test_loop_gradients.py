"""Checkpoints and fixed points: the gradients of loops without what each turn needs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapeline as tl
from tapeline.runtime.errors import ArgumentError, LoopLimitError

MODES = ("stack", "checkpoint:1", "checkpoint:7", "checkpoint:500")
COMPILED = pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])


def as_is(function: Callable[..., Any], compiled: bool) -> Callable[..., Any]:
    return tl.function(function) if compiled else function


def derivatives(f: Callable[..., Any], x: Any, a: Any) -> list[Any]:
    first = tl.grad(f, (0, 1))(x, a)
    second = tl.grad(lambda a: tl.grad(f, 0)(x, a).sum())(a)
    return [part.numpy() for part in (f(x, a), *first, second)]


def logistic(mode: str, limit: int | None) -> Callable[..., Any]:
    def f(x: Any, a: Any) -> Any:
        def body(k: Any, y: Any) -> Any:
            return k + 1, a * y * (1 - y) + 0.01 * k

        return tl.sum(
            tl.while_loop(
                lambda k, y: k < 23, body, (0, x), maximum_iterations=limit, gradient=mode
            )[1]
        )

    return f


@COMPILED
@pytest.mark.parametrize("limit", [None, 100, 10], ids=["endless", "roomy", "stopping"])
def test_checkpoints_change_no_derivative_of_a_while_loop(
    limit: int | None, compiled: bool
) -> None:
    x, a = tl.asarray([0.1, 0.2]), tl.asarray(1.1)
    expected = derivatives(logistic("stack", limit), x, a)
    for mode in MODES:
        found = derivatives(as_is(logistic(mode, limit), compiled), x, a)
        for part, right in zip(found, expected, strict=True):
            np.testing.assert_allclose(part, right, rtol=1e-10)


@COMPILED
@pytest.mark.parametrize("reverse", [False, True])
def test_checkpoints_change_no_derivative_of_a_scan(reverse: bool, compiled: bool) -> None:
    def in_mode(mode: str) -> Callable[..., Any]:
        def f(x: Any, a: Any) -> Any:
            def turn(carry: Any, row: Any) -> Any:
                return tl.sin(carry * row) + carry, (carry * row, row)

            last, (products, rows) = tl.scan(turn, x, a, reverse=reverse, gradient=mode)
            return last.sum() + (products * tl.arange(17.0)[:, None]).sum() + (rows**3).sum()

        return f

    x, a = tl.asarray([0.3, 0.7]), tl.linspace(0.5, 1.5, 17)
    expected = in_mode("stack")(x, a), *tl.grad(in_mode("stack"), (0, 1))(x, a)
    for mode in MODES[1:]:
        f = as_is(in_mode(mode), compiled)
        for part, right in zip((f(x, a), *tl.grad(f, (0, 1))(x, a)), expected, strict=True):
            np.testing.assert_allclose(part.numpy(), right.numpy(), rtol=1e-12)


def test_loop_statements_with_checkpoints() -> None:
    def in_mode(mode: str, limit: int | None) -> Callable[..., Any]:
        def f(x: Any, a: Any) -> Any:
            y = x
            k = 0
            while k * k < a * 300:
                tl.set_loop_options(gradient=mode, maximum_iterations=limit)
                y = tl.sin(y * a) + y * 0.5
                k += 1
            for i in tl.range(41):
                tl.set_loop_options(gradient=mode)
                y = y * (1 - 0.001 * i * a)
            for part in tl.stack([a + 0.01 * n for n in range(70)]):
                tl.set_loop_options(gradient=mode)
                y = y + tl.cos(part * y)
                if y.sum() > 150:
                    break
            return y.sum()

        return f

    x, a = tl.asarray([0.3, 0.7]), tl.asarray(1.1)
    expected = derivatives(in_mode("stack", None), x, a)
    for mode, limit in (("stack", 60), ("checkpoint:6", None), ("checkpoint:6", 60)):
        found = derivatives(tl.function(in_mode(mode, limit)), x, a)
        for part, right in zip(found, expected, strict=True):
            np.testing.assert_allclose(part, right, rtol=1e-9)


def test_loop_that_breaks_its_promise_is_an_error() -> None:
    @tl.function
    def f(n: Any) -> Any:
        k = 0
        while k < n:
            tl.set_loop_options(maximum_iterations=10)
            k += 1
        return k

    assert f(tl.asarray(10)).item() == 10
    with pytest.raises(LoopLimitError, match=r"'while' at line .* makes more than the 10 rounds"):
        f(tl.asarray(11))


def test_memory_of_a_gradient_is_known_beforehand() -> None:
    def f(x: Any, mode: str) -> Any:
        return tl.scan(lambda y, _: (tl.sin(y), None), x, length=1000, gradient=mode)[0].sum()

    sizes = [
        tl.function(f).get_concrete_function(tl.ones(3), mode).gradient_memory()
        for mode in ("stack", "checkpoint:50")
    ]
    assert sizes == [3 * 8 * 1000, 3 * 8 * 20]


def square_root(a: Any) -> Any:
    def body(y: Any, k: Any) -> Any:
        return 0.9 * y + 0.1 * (a / y) * 1.0, k + 1

    return tl.while_loop(
        lambda y, k: tl.max(tl.abs(y * y - a)) > 1e-13, body, (tl.ones(2), 0), gradient="implicit"
    )[0]


@COMPILED
def test_gradient_of_a_fixed_point_is_that_of_the_solution(compiled: bool) -> None:
    a = tl.asarray([4.0, 9.0])
    f = as_is(lambda a: square_root(a).sum(), compiled)
    np.testing.assert_allclose(tl.grad(f)(a).numpy(), [0.25, 1 / 6], rtol=1e-10)
    second = tl.grad(lambda a: tl.grad(f)(a).sum())(a)
    np.testing.assert_allclose(second.numpy(), -0.25 * a.numpy() ** -1.5, rtol=1e-9)


@COMPILED
def test_fixed_point_of_a_body_that_reads_variables(compiled: bool) -> None:
    v = tl.Variable(0.5)

    def f() -> Any:
        return tl.while_loop(
            lambda y: tl.abs(tl.cos(v * y) - y) > 1e-14,
            lambda y: tl.cos(v * y),
            tl.asarray(1.0),
            gradient="implicit",
        )

    with tl.GradientTape() as tape:
        y = as_is(f, compiled)()
    y_value = y.item()
    assert y_value == pytest.approx(np.cos(0.5 * y_value))
    slope = -np.sin(0.5 * y_value)
    assert tape.gradient(y, v).item() == pytest.approx(slope * y_value / (1 - slope * 0.5))


@COMPILED
def test_forward_mode_and_examples_of_a_fixed_point(compiled: bool) -> None:
    def solution(x: Any) -> Any:
        return tl.while_loop(
            lambda y: tl.abs(tl.cos(x * y) - y) > 1e-13,
            lambda y: tl.cos(x * y),
            tl.asarray(0.5),
            gradient="implicit",
        )

    f = as_is(solution, compiled)
    x = tl.asarray(0.7)
    slope = tl.grad(f)(x).item()
    step = (solution(x + 1e-6).item() - solution(x - 1e-6).item()) / 2e-6
    assert slope == pytest.approx(step, rel=1e-6)
    assert tl.jvp(f, (x,), (tl.asarray(1.0),))[1].item() == pytest.approx(slope)
    many = tl.vmap(tl.grad(f))(tl.asarray([0.7, 0.5]))
    expected = [slope, tl.grad(f)(tl.asarray(0.5)).item()]
    np.testing.assert_allclose(many.numpy(), expected, rtol=1e-10)


def test_fixed_point_keeps_nothing_of_the_way() -> None:
    concrete = tl.function(square_root).get_concrete_function(tl.ones(2))
    assert concrete.gradient_memory() < 200


def test_statement_that_ends_at_a_fixed_point() -> None:
    @tl.function
    def root(x: Any) -> Any:
        y = x
        while abs(y * y - x) > 1e-12:
            tl.set_loop_options(gradient="implicit")
            y = (y + x / y) / 2
        return y

    assert tl.grad(root)(tl.asarray(4.0)).item() == pytest.approx(0.25)
    assert tl.grad(tl.grad(root))(tl.asarray(4.0)).item() == pytest.approx(-1 / 32)


def test_modes_that_do_not_exist_are_errors() -> None:
    for mode in ("checkpoint:0", "checkpoint", "checkpoint:x", "none"):
        with pytest.raises(ArgumentError, match="gradient must be"):
            tl.while_loop(lambda x: x < 3, lambda x: x + 1, 0, gradient=mode)
    with pytest.raises(ArgumentError, match='gradient="implicit" is for while_loop'):
        tl.scan(lambda c, x: (c, x), 0, [1, 2], gradient="implicit")
    with pytest.raises(ArgumentError, match="maximum_iterations must be >= 0"):
        tl.while_loop(lambda x: x < 3, lambda x: x + 1, 0, maximum_iterations=-1)
