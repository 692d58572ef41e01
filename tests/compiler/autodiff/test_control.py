"""Gradients of choices and loops against differences, to second order, eager and compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapeline as tl
from tapeline.compiler.autodiff import room

Function = Callable[..., Any]


def counted(x: Any, a: Any) -> Any:
    """A choice in a loop of known length."""

    def turn(i: Any, x: Any) -> Any:
        return i + 1, tl.cond(i % 2 == 0, lambda: tl.sin(x * a) + x, lambda: x * x * 0.3)

    return tl.while_loop(lambda i, x: i < 5, turn, (0, x))[1].sum()


def open_ended(x: Any, a: Any) -> Any:
    """A loop that ends where its state says so."""

    def turn(x: Any) -> Any:
        return [tl.where(x > 0, x * a + 0.1 * x * x, x)]

    return tl.while_loop(lambda x: x.sum() < 4, turn, [x])[0].sum()


def limited(x: Any, a: Any) -> Any:
    """A loop that ends by its test or after six turns."""
    found = tl.while_loop(lambda x: x.sum() < 4, lambda x: [x * a + 0.1], [x], maximum_iterations=6)
    return found[0].sum()


def scanned(x: Any, a: Any) -> Any:
    """Loops over rows, forward and backward."""

    def turn(c: Any, row: Any) -> Any:
        return tl.tanh(c * a) + row, c * row

    c, ys = tl.scan(turn, x, tl.stack([x, a, x * a]))
    d, zs = tl.scan(turn, x, ys, reverse=True)
    return (c * d).sum() + (ys * zs).sum()


def nested(x: Any, a: Any) -> Any:
    """A loop in a loop, with a number of turns that differs."""

    def outer(i: Any, y: Any) -> Any:
        def inner(j: Any, y: Any) -> Any:
            return j + 1, y * a + tl.sin(y)

        y = tl.while_loop(lambda j, y: j < i, inner, (0 * i, y))[1]
        return i + 1, y + x

    return tl.while_loop(lambda i, y: i < 3, outer, (0, x))[1].sum()


def swept(x: Any, a: Any) -> Any:
    """Elements that are written one after the other, from their neighbours."""

    def outer(k: Any, y: Any) -> Any:
        def inner(i: Any, y: Any) -> Any:
            y[i] = 0.4 * y[i - 1] * a[i % 2] + y[i] * y[i + 1]
            return i + 1, y

        return k + 1, tl.while_loop(lambda i, y: i < 3, inner, (1, y))[1]

    y = tl.concat([x, a * x])
    return (tl.while_loop(lambda k, y: k < 2, outer, (0, y))[1] ** 2).sum()


def at_fixed_places(x: Any, a: Any) -> Any:
    """Elements that the program names by constants."""

    def turn(i: Any, y: Any) -> Any:
        y[0] = y[1] * a[0] + y[0]
        y[1] = tl.sin(y[0]) * a[1]
        return i + 1, y

    return (tl.while_loop(lambda i, y: i < 3, turn, (0, x))[1] ** 2).sum()


PROGRAMS = [at_fixed_places, swept, counted, open_ended, limited, scanned, nested]


def gradients(function: Function) -> Function:
    """The gradients with respect to all arguments."""

    def run(*args: Any) -> Any:
        with tl.GradientTape() as tape:
            tape.watch(list(args))
            value = function(*args)
        return tape.gradient(value, list(args))

    return run


def mixed(function: Function) -> Function:
    """A number made of the gradients, to be differentiated once more."""

    def run(*args: Any) -> Any:
        first, second = gradients(function)(*args)
        return (first * second).sum() + (first * first).sum()

    return run


def by_differences(function: Function, args: list[Any], which: int) -> Any:
    found = np.zeros_like(args[which])
    for place in np.ndindex(found.shape):
        values = []
        for sign in (1, -1):
            moved = [x.copy() for x in args]
            moved[which][place] += sign * 1e-5
            values.append(float(function(*map(tl.asarray, moved))))
        found[place] = (values[0] - values[1]) / 2e-5
    return found


ARGS = [np.array([0.3, 0.7]), np.array([1.3, 0.9])]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("order", [1, 2])
def test_gradients_agree_with_differences_and_compiled_ones_with_eager(
    program: Function, order: int
) -> None:
    eager = program if order == 1 else mixed(program)
    inside = gradients(program if order == 1 else mixed(program))
    outside = tl.function(program) if order == 1 else mixed(tl.function(program))
    tensors = [tl.asarray(x) for x in ARGS]
    expected = gradients(eager)(*tensors)
    for which, gradient in enumerate(expected):
        wanted = by_differences(eager, ARGS, which)
        np.testing.assert_allclose(gradient.numpy(), wanted, rtol=1e-4, atol=1e-5)
    for found in (tl.function(inside)(*tensors), gradients(outside)(*tensors)):
        for gradient, wanted in zip(found, expected, strict=True):
            np.testing.assert_allclose(gradient.numpy(), wanted.numpy(), rtol=1e-10)


def test_branch_without_a_path_has_a_gradient_of_zero() -> None:
    run = tl.function(lambda p, x: tl.cond(p, lambda: x * x, lambda: tl.ones(())))
    for p, expected in ((True, 6.0), (False, 0.0)):
        x = tl.asarray(3.0)
        with tl.GradientTape() as tape:
            tape.watch(x)
            y = run(tl.asarray(p), x)
        assert float(tape.gradient(y, x)) == expected


def test_variables_that_a_body_reads_have_gradients() -> None:
    v = tl.Variable(1.5)

    @tl.function
    def run() -> Any:
        return tl.while_loop(lambda i, y: i < 4, lambda i, y: (i + 1, y * v), (0, tl.ones(())))[1]

    with tl.GradientTape() as tape:
        y = run()
    assert np.isclose(float(tape.gradient(y, v)), 4 * 1.5**3)


def grows(x: Any, y: Any) -> Any:
    return tl.while_loop(lambda y: y < 100, lambda y: [y * y * 0.5 + x], [y])[0]


@pytest.fixture
def small_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "HISTORY_TURNS", 2)


@pytest.mark.usefixtures("small_room")
@pytest.mark.parametrize("kind", ["tape", "in a trace", "second order", "nested"])
def test_loop_that_outgrows_its_room_gets_more(kind: str) -> None:
    compiled = tl.function(grows)
    slopes: Any = {
        "tape": tl.grad(compiled),
        "in a trace": tl.function(tl.grad(grows)),
        "second order": tl.grad(tl.grad(compiled)),
        "nested": tl.function(lambda x, y: tl.grad(compiled)(x, y)),
    }[kind]
    order = 2 if kind == "second order" else 1
    plain = tl.grad(tl.grad(grows)) if order == 2 else tl.grad(grows)
    for _ in range(4):
        for x, y in ((1.0, 90.0), (0.6, 0.1), (0.52, 0.1), (1.0, 0.2)):
            args = tl.asarray(x), tl.asarray(y)
            np.testing.assert_allclose(slopes(*args).item(), plain(*args).item(), rtol=1e-12)


@pytest.mark.usefixtures("small_room")
def test_loop_without_memory_for_its_room_changes_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(room, "memory_bytes", lambda: 3 << 28)
    v = tl.Variable(0.0)

    @tl.function
    def f(x: Any) -> Any:
        v.assign_add(1.0)
        return tl.grad(grows)(x, x)

    f(tl.asarray(60.0))
    with pytest.raises(MemoryError, match=r"more than 6 turns, and the memory.*0.8 GB"):
        f(tl.asarray(0.52))
    assert float(v) == 1.0
    f(tl.asarray(60.0))
    assert float(v) == 2.0


@pytest.mark.usefixtures("small_room")
def test_memory_of_a_loop_is_known_without_a_call() -> None:
    concrete = tl.function(grows).get_concrete_function(tl.asarray(1.0), tl.asarray(2.0))
    assert concrete.gradient_memory() in (16, 24, 32)
