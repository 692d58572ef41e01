"""Compiled calls under tapes: one entry, any order, only what is watched."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import tapeline as tl

Array = npt.NDArray[Any]


def numeric(f: Callable[[Array], float], x: Array, h: float = 1e-6) -> Array:
    """Central differences of a scalar function."""
    result = np.zeros_like(x)
    for index in np.ndindex(x.shape):
        up, down = x.copy(), x.copy()
        up[index] += h
        down[index] -= h
        result[index] = (f(up) - f(down)) / (2 * h)
    return result


def energy(x: Any, w: Any) -> Any:
    return tl.exp(tl.sin(x) * w) + x * x * w


def test_a_call_is_one_entry_and_gives_the_gradient(rng: np.random.Generator) -> None:
    f = tl.function(energy)
    x, w = rng.standard_normal((2, 5))
    tx, tw = tl.asarray(x), tl.asarray(w)
    with tl.GradientTape() as tape:
        tape.watch(tx)
        tape.watch(tw)
        y = f(tx, tw)
        assert [entry.op for entry in tape.export()] == ["call:energy"]
    dx, dw = tape.gradient(y, [tx, tw])
    with tl.GradientTape() as tape:
        tape.watch(tx)
        tape.watch(tw)
        eager = energy(tx, tw)
    ex, ew = tape.gradient(eager, [tx, tw])
    np.testing.assert_allclose(dx.numpy(), ex.numpy(), rtol=1e-12)
    np.testing.assert_allclose(dw.numpy(), ew.numpy(), rtol=1e-12)


def test_eager_and_compiled_mix_on_one_tape(rng: np.random.Generator) -> None:
    f = tl.function(energy)
    x = rng.standard_normal(4)

    def total(values: Array) -> Any:
        t = tl.asarray(values)
        return t, lambda: f(t * 2, tl.sin(t)) * t + f(t, t)

    t, run = total(x)
    with tl.GradientTape() as tape:
        tape.watch(t)
        y = run()
    got = tape.gradient(y, t).numpy()

    def value(values: Array) -> float:
        return float(total(values)[1]().numpy().sum())

    np.testing.assert_allclose(got, numeric(value, x), rtol=1e-6, atol=1e-7)


def nth_derivative(f: Callable[[Any], Any], x: Any, order: int) -> Any:
    if order == 0:
        return f(x)
    with tl.GradientTape() as tape:
        tape.watch(x)
        y = nth_derivative(f, x, order - 1)
    return tape.gradient(y, x)


@pytest.mark.parametrize("order", [1, 2, 3])
def test_any_order_of_derivative(order: int) -> None:
    cases: list[tuple[Callable[[Any], Any], Callable[[Array], Array]]] = [
        (lambda x: tl.sin(x) * x, [
            lambda x: np.sin(x) + x * np.cos(x),
            lambda x: 2 * np.cos(x) - x * np.sin(x),
            lambda x: -3 * np.sin(x) - x * np.cos(x),
        ][order - 1]),
        (lambda x: x * x * x * x, [
            lambda x: 4 * x**3, lambda x: 12 * x**2, lambda x: 24 * x,
        ][order - 1]),
    ]  # fmt: skip
    x = np.array([0.3, -1.2, 2.0])
    for f, expected in cases:
        compiled = tl.function(f)
        for g in (compiled, lambda t, compiled=compiled: compiled(t) + 0.0):
            got = nth_derivative(g, tl.asarray(x), order)
            np.testing.assert_allclose(got.numpy(), expected(x), rtol=1e-12)


@pytest.mark.parametrize("order", [1, 2, 3])
def test_any_order_inside_one_trace(order: int) -> None:
    @tl.function
    def derivative(x: Any) -> Any:
        return nth_derivative(lambda t: tl.exp(t * 2) * t, x, order)

    x = np.array([0.1, -0.7])
    expected = (2**order * x + order * 2 ** (order - 1)) * np.exp(2 * x)
    np.testing.assert_allclose(derivative(tl.asarray(x)).numpy(), expected, rtol=1e-12)
    assert "call" not in " ".join(op.name for op in derivative.concrete_functions[0].graph.ops)


def test_one_persistent_tape_differentiates_its_own_gradient() -> None:
    f = tl.function(lambda x: x * x * x)
    x = tl.asarray([2.0, 3.0])
    with tl.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = f(x)
        g = tape.gradient(y, x)
    np.testing.assert_allclose(tape.gradient(g, x).numpy(), [12.0, 18.0])


def test_a_compiled_gradient_inside_a_compiled_function() -> None:
    @tl.function
    def f(x: Any) -> Any:
        return tl.tanh(x) * x

    @tl.function
    def g(x: Any) -> Any:
        with tl.GradientTape() as tape:
            tape.watch(x)
            y = f(x)
        return tape.gradient(y, x)

    x = np.array([0.5, -1.0])
    t = tl.asarray(x)
    expected = np.tanh(x) + x * (1 - np.tanh(x) ** 2)
    np.testing.assert_allclose(g(t).numpy(), expected, rtol=1e-12)
    with tl.GradientTape() as tape:
        tape.watch(t)
        y = g(t)
    second = tape.gradient(y, t).numpy()
    s = 1 - np.tanh(x) ** 2
    np.testing.assert_allclose(second, 2 * s - 2 * x * np.tanh(x) * s, rtol=1e-12)


def test_unwatched_and_integer_inputs_get_none() -> None:
    @tl.function
    def f(x: Any, y: Any, n: Any) -> Any:
        return x * y * n, n + 1

    x, y, n = tl.asarray([2.0]), tl.asarray([3.0]), tl.asarray([4])
    with tl.GradientTape(persistent=True) as tape:
        tape.watch(x)
        value, count = f(x, y, n)
    assert tape.gradient(value, y) is None
    with pytest.warns(UserWarning, match="the target is of dtype int64"):
        assert tape.gradient(count, x) is None
    with pytest.warns(UserWarning, match="a source is of dtype int64"):
        assert tape.gradient(value, n) is None
    np.testing.assert_array_equal(tape.gradient(value, x).numpy(), [12.0])


def test_nothing_is_kept_for_inputs_that_no_tape_watches() -> None:
    @tl.function
    def f(x: Any, w: Any) -> Any:
        return tl.exp(tl.exp(w)) * 2 + x

    x, w = tl.asarray([1.0]), tl.asarray([0.1])
    with tl.GradientTape() as tape:
        tape.watch(x)
        y = f(x, w)
    (concrete,) = f.concrete_functions
    pair = concrete.differentiable.pair((0,))
    assert pair.kept == ()
    assert pair.saved_outputs == ()
    np.testing.assert_array_equal(tape.gradient(y, x).numpy(), [1.0])


def test_outputs_without_a_cotangent_count_as_zeros() -> None:
    @tl.function
    def f(x: Any) -> Any:
        return x * 2, x * x, x

    x = tl.asarray([3.0])
    with tl.GradientTape(persistent=True) as tape:
        tape.watch(x)
        a, b, c = f(x)
    assert tape.gradient(a, x).item() == 2.0
    assert tape.gradient(b, x).item() == 6.0
    assert tape.gradient(c, x).item() == 1.0
    assert tape.gradient([a, b, c], x).item() == 9.0
    got = tape.gradient([a, b], x, output_gradients=[tl.asarray([10.0]), None])
    assert got.item() == 26.0


def test_variables_and_captures_get_gradients() -> None:
    v = tl.Variable([2.0, 3.0])
    outside = tl.asarray([5.0, 7.0])

    @tl.function
    def f(x: Any) -> Any:
        return x * v * outside + v

    x = tl.asarray([1.0, 2.0])
    with tl.GradientTape() as tape:
        tape.watch(outside)
        y = f(x)
    assert tape.watched_variables() == (v,)
    dv, d_outside = tape.gradient(y, [v, outside])
    np.testing.assert_array_equal(dv.numpy(), [6.0, 15.0])
    np.testing.assert_array_equal(d_outside.numpy(), [2.0, 6.0])


def test_gradient_and_update_in_one_call(rng: np.random.Generator) -> None:
    start = rng.standard_normal(3)
    v, plain = tl.Variable(start), start.copy()

    @tl.function
    def step(x: Any) -> Any:
        with tl.GradientTape() as tape:
            loss = tl.tanh(v * x) * v
        v.assign_sub(0.1 * tape.gradient(loss, v))
        return loss

    for _ in range(4):
        x = rng.standard_normal(3)
        step(tl.asarray(x))
        t = np.tanh(plain * x)
        plain = plain - 0.1 * (t + plain * x * (1 - t * t))
    np.testing.assert_allclose(v.numpy(), plain, rtol=1e-12)
    assert step.trace_count == 1


def test_a_gradient_through_a_call_that_assigns(rng: np.random.Generator) -> None:
    v = tl.Variable(2.0)

    @tl.function
    def f(x: Any) -> Any:
        v.assign(v * x)
        return v * x

    x = tl.asarray(3.0)
    with tl.GradientTape() as tape:
        tape.watch(x)
        y = f(x)
    assert y.item() == 18.0
    assert tape.gradient(y, x).item() == 12.0


def test_float32_stays_float32() -> None:
    f = tl.function(energy)
    x, w = tl.asarray(np.ones(3, "f4")), tl.asarray(np.ones(3, "f4"))
    with tl.GradientTape() as tape:
        tape.watch(x)
        y = f(x, w)
    assert y.dtype == tl.float32
    assert tape.gradient(y, x).dtype == tl.float32


def test_a_gradient_inside_a_trace_sees_the_captured_tensor_of_each_call() -> None:
    outside = tl.asarray([2.0])

    @tl.function
    def f(x: Any) -> Any:
        with tl.GradientTape() as tape:
            tape.watch(x)
            y = x * outside * tl.maximum(x, 0.0)
        return tape.gradient(y, x)

    x = tl.asarray([3.0])
    assert f(x).item() == 12.0
    outside += 1.0
    assert f(x).item() == 18.0
    (concrete,) = f.concrete_functions
    assert concrete.captures == (outside,)


def test_one_result_in_two_places_is_computed_into_one_array() -> None:
    def run(x: Any) -> Any:
        x[1] = 5.0
        return x

    f, x = tl.function(run), tl.zeros(3)
    y = f(x)
    assert np.shares_memory(x.numpy(), y.numpy())
    x[0] = 1.0
    np.testing.assert_array_equal(x.numpy(), [1.0, 5.0, 0.0])
    np.testing.assert_array_equal(y.numpy(), [0.0, 5.0, 0.0])

    @tl.function
    def both(x: Any) -> Any:
        return x * 2.0, x * 2.0

    for _ in range(3):  # by Python first, then natively
        first, second = both(x)
        np.testing.assert_array_equal(first.numpy(), second.numpy())
        np.testing.assert_array_equal(second.numpy(), [2.0, 10.0, 0.0])
