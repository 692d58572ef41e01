"""Forward mode as a context."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapeline as tl
from tapeline.runtime.errors import ArgumentError, ShapeError

Wrapper = Callable[[Callable[..., Any]], Callable[..., Any]]


def eager(f: Callable[..., Any]) -> Callable[..., Any]:
    return f


MODES = pytest.mark.parametrize("mode", [eager, tl.function], ids=["eager", "compiled"])


def along(f: Callable[..., Any]) -> Callable[..., Any]:
    """The derivative of a function of one number, by an accumulator."""

    def derivative(x: Any) -> Any:
        with tl.ForwardAccumulator(x, tl.ones_like(x)) as accumulator:
            y = f(x)
        return accumulator.jvp(y)

    return derivative


@MODES
def test_accumulators_nest(mode: Wrapper) -> None:
    f: Any = mode(lambda x: x * x * x * x)
    found = []
    for _ in range(4):
        f = mode(along(f))
        found.append(f(tl.asarray(2.0)).item())
    assert found == [32.0, 48.0, 48.0, 24.0]


@MODES
def test_tape_over_accumulator_and_accumulator_over_tape(mode: Wrapper) -> None:
    cube = mode(lambda x: x * x * x)

    def tape_over(x: Any) -> Any:
        with tl.GradientTape() as tape:
            tape.watch(x)
            with tl.ForwardAccumulator(x, 1.0) as accumulator:
                y = cube(x)
                slope = accumulator.jvp(y)
        return tape.gradient(slope, x)

    def over_tape(x: Any) -> Any:
        with tl.ForwardAccumulator(x, 1.0) as accumulator:
            with tl.GradientTape() as tape:
                tape.watch(x)
                y = cube(x)
            slope = tape.gradient(y, x)
        return accumulator.jvp(slope)

    x = tl.asarray(2.0)
    assert mode(tape_over)(x).item() == mode(over_tape)(x).item() == 12.0


@MODES
def test_variables_are_primals(mode: Wrapper) -> None:
    v, w = tl.Variable(2.0), tl.Variable(3.0)

    def run() -> Any:
        with tl.ForwardAccumulator([v, w], [1.0, 10.0]) as accumulator:
            y = v * w
        return accumulator.jvp({"y": y})["y"]

    assert mode(run)().item() == 23.0
    product = mode(lambda: v * w)
    with tl.ForwardAccumulator(v, 1.0) as accumulator:
        y = product()
    assert accumulator.jvp(y).item() == 3.0


def test_tangent_of_a_primal_is_its_own_and_of_others_none() -> None:
    x, z = tl.asarray(2.0), tl.asarray(3.0)
    with tl.ForwardAccumulator(x, 5.0) as accumulator:
        y = z * z
    assert accumulator.jvp(x).item() == 5.0
    assert accumulator.jvp([y, x])[0] is None
    assert accumulator.jvp(y, unconnected_gradients="zero").item() == 0.0
    with pytest.raises(ArgumentError, match="must be 'none' or 'zero'"):
        accumulator.jvp(y, unconnected_gradients="nan")  # type: ignore[arg-type]


def test_accumulator_records_only_its_blocks_and_can_be_entered_again() -> None:
    x = tl.asarray(2.0)
    accumulator = tl.ForwardAccumulator(x, 1.0)
    before = x * x
    with accumulator:
        first = x * x
        with pytest.raises(ValueError, match="already"), accumulator:
            pass
    with accumulator:
        second = first * x
    assert accumulator.jvp(before) is None
    assert accumulator.jvp(second).item() == 12.0


def test_bad_primals_and_tangents_are_refused() -> None:
    x = tl.asarray(2.0)
    with pytest.raises(ArgumentError, match="multiple times"):
        tl.ForwardAccumulator([x, x], [1.0, 1.0])
    with pytest.raises(ArgumentError, match="1 tangents for 2 primals"):
        tl.ForwardAccumulator([x, tl.asarray(1.0)], [1.0])
    with pytest.raises(ShapeError, match="tangent of shape"):
        tl.ForwardAccumulator(x, [1.0, 1.0])


def test_accumulator_sees_through_a_custom_gradient() -> None:
    @tl.custom_gradient
    def f(x: Any) -> Any:
        return x * x, lambda dy: dy * x * 100.0

    assert along(f)(tl.asarray(2.0)).item() == 200.0
    assert along(along(f))(tl.asarray(2.0)).item() == 100.0


def test_accumulator_around_sees_a_derivative_that_is_asked_for_later() -> None:
    x = tl.asarray(2.0)
    with tl.ForwardAccumulator(x, 1.0) as outer, tl.ForwardAccumulator(x, 1.0) as inner:
        y = x * x * x
    slope = inner.jvp(y)
    assert slope.item() == 12.0
    assert outer.jvp(slope).item() == 12.0
    assert inner.jvp(outer.jvp(y)) is None


def test_later_tangents_add_up() -> None:
    x = tl.asarray(-2.0)
    with tl.ForwardAccumulator(x, 3.0) as accumulator:
        accumulator.watch(x, 10.0)
        y = 3.0 * x
    assert accumulator.jvp(x).item() == 13.0
    assert accumulator.jvp(y).item() == 39.0


def test_accumulator_keeps_no_tensor_of_the_program() -> None:
    x, tangent = tl.asarray([1.0, 2.0]), tl.asarray([0.0, 1.0])
    alive = [weakref.ref(x), weakref.ref(tangent)]
    with tl.ForwardAccumulator(x, tangent) as accumulator:
        y = 2.0 * x
        del x, tangent
    assert accumulator.jvp(y).numpy().tolist() == [0.0, 2.0]
    assert [ref() for ref in alive] == [None, None]


@MODES
def test_many_directions_at_once(mode: Wrapper) -> None:
    x, y = tl.asarray([1.0, 2.0]), tl.Variable(3.0)
    directions = (tl.asarray([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]), [0.0, 0.0, 2.0])
    f = mode(lambda x: (tl.sum(x * x) * y, y * y))
    with tl.ForwardAccumulator.batched((x, y), directions) as accumulator:
        z, w = f(x)
        other = tl.asarray(2.0) * 3.0
    assert accumulator.jvp(z).numpy().tolist() == [6.0, 12.0, 18.0 + 2 * 5.0]
    assert accumulator.jvp(w).numpy().tolist() == [0.0, 0.0, 12.0]
    assert accumulator.jvp(other) is None
    assert accumulator.jvp(other, "zero").numpy().tolist() == [0.0, 0.0, 0.0]


def test_directions_must_be_as_many_for_all() -> None:
    with pytest.raises(ShapeError, match="a first axis of one length"):
        tl.ForwardAccumulator.batched((tl.asarray(1.0), tl.asarray(2.0)), ([1.0], [1.0, 2.0]))


def test_an_error_in_a_rule_shows_at_the_call() -> None:
    @tl.custom_gradient
    def f(x: Any) -> Any:
        def grad_fn(dy: Any) -> Any:
            raise ValueError("the rule is broken")

        return x * 1.0, grad_fn

    x = tl.asarray(1.0)
    with tl.ForwardAccumulator(x, 1.0), pytest.raises(ValueError, match="the rule is broken"):
        f(x)


def test_recompute_grad_refuses_forward_mode_and_checkpoint_has_it() -> None:
    x = tl.asarray([0.5, 1.5])

    def slope(f: Any) -> Any:
        with tl.ForwardAccumulator(x, [1.0, 0.0]) as accumulator:
            y = f(x)
        return accumulator.jvp(y)

    with pytest.raises(NotImplementedError, match="recompute_grad tried to transpose"):
        slope(tl.recompute_grad(lambda x: tl.sin(x) ** 2))
    found = slope(tl.checkpoint(lambda x: tl.sin(x) ** 2))
    np.testing.assert_allclose(found.numpy(), [np.sin(1.0), 0.0])


@MODES
def test_the_tangent_of_a_variable_is_its_own(mode: Wrapper) -> None:
    v = tl.Variable([1.0, 2.0])

    def run() -> Any:
        with tl.ForwardAccumulator(v, [0.5, -1.0]) as accumulator:
            y = v * 2.0
        return accumulator.jvp((v, y))

    of_v, of_y = mode(run)()
    assert (of_v.tolist(), of_y.tolist()) == ([0.5, -1.0], [1.0, -2.0])
