"""Functions with a gradient of the user's, eager, compiled and across the border."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapeline as tl
from tapeline.runtime.dispatch import STATE
from tapeline.runtime.errors import ArgumentError, ArgumentTypeError, ShapeError

Wrapper = Callable[[Callable[..., Any]], Callable[..., Any]]


def eager(f: Callable[..., Any]) -> Callable[..., Any]:
    return f


MODES = pytest.mark.parametrize("mode", [eager, tl.function], ids=["eager", "compiled"])


@tl.custom_gradient
def log1pexp(x: Any) -> Any:
    """log(1 + exp(x)) with a gradient that does not overflow."""
    e = tl.exp(x)
    return tl.log(1 + e), lambda dy: dy * (1 - 1 / (1 + e))


@tl.custom_gradient
def odd_cube(x: Any) -> Any:
    """x ** 3 whose gradient is said to be 5 * x * result."""
    y = x * x * x
    return y, lambda dy: dy * 5.0 * x * y


@MODES
def test_gradient_is_the_one_stated(mode: Wrapper) -> None:
    x = tl.asarray([0.0, 100.0])
    f = mode(lambda x: tl.sum(log1pexp(x)))
    np.testing.assert_allclose(tl.grad(f)(x).numpy(), [0.5, 1.0])
    with tl.GradientTape() as tape:
        tape.watch(x)
        y = f(x)
    np.testing.assert_allclose(tape.gradient(y, x).numpy(), [0.5, 1.0])
    np.testing.assert_allclose(mode(tl.grad(f))(x).numpy(), [0.5, 1.0])


@MODES
def test_stated_gradient_is_differentiated_through_inputs_and_outputs(mode: Wrapper) -> None:
    f: Any = mode(odd_cube)
    x, found = tl.asarray(2.0), []
    for _ in range(3):
        f = mode(tl.grad(f))
        found.append(f(x).item())
    # the output inside of the rule has its own derivative, 3 x**2: f' = 5 x**4
    assert found == [80.0, 160.0, 240.0]


@MODES
def test_chain_rule_runs_through_a_stated_gradient(mode: Wrapper) -> None:
    gradient = mode(tl.grad(lambda x: odd_cube(x * x) * 2.0))
    assert gradient(tl.asarray(1.5)).item() == pytest.approx(2.0 * 5 * 2.25**4 * 3.0)


@MODES
def test_rule_gets_a_cotangent_per_result_and_returns_one_gradient_per_leaf(mode: Wrapper) -> None:
    @tl.custom_gradient
    def f(pair: Any, z: Any) -> Any:
        def grad_fn(da: Any, db: Any) -> Any:
            return {"x": da * 10.0, "y": None}, db * 100.0

        return {"a": pair["x"] + pair["y"], "b": [z * 1.0]}, grad_fn

    def run(x: Any, y: Any, z: Any) -> Any:
        with tl.GradientTape() as tape:
            tape.watch([x, y, z])
            found = f({"x": x, "y": y}, z)
            total = found["a"] * 2.0 + found["b"][0] * 3.0
        return tape.gradient(total, [x, y, z], unconnected_gradients="zero")

    found = mode(run)(*(tl.asarray(v) for v in (1.0, 2.0, 3.0)))
    assert [t.item() for t in found] == [20.0, 0.0, 300.0]


@MODES
def test_result_without_a_cotangent_counts_as_zeros(mode: Wrapper) -> None:
    @tl.custom_gradient
    def f(x: Any) -> Any:
        return (x * 2.0, x * 3.0, x.astype(tl.int64)), lambda a, b, c: a + 7.0 * b

    assert mode(tl.grad(lambda x: f(x)[0]))(tl.asarray(1.0)).item() == 1.0
    assert mode(tl.grad(lambda x: f(x)[1]))(tl.asarray(1.0)).item() == 7.0


@MODES
def test_variables_get_their_gradients_second(mode: Wrapper) -> None:
    v, w = tl.Variable(3.0), tl.Variable(5.0)
    seen = []

    @tl.custom_gradient
    def f(x: Any) -> Any:
        def grad_fn(dy: Any, variables: Any = None) -> Any:
            seen.append(variables)
            return dy * w * v, [dy * x * 10.0, dy * x * 100.0]

        return x * w * v, grad_fn

    compiled = mode(f)
    x = tl.asarray(2.0)
    with tl.GradientTape(persistent=True) as outer:
        outer.watch(x)
        with tl.GradientTape() as tape:
            tape.watch(x)
            y = compiled(x)
        found = tape.gradient(y, [x, v, w])
    assert y.item() == 30.0
    assert [t.item() for t in found] == [15.0, 20.0, 200.0]
    assert [one is other for one, other in zip(seen[0], (v, w), strict=True)] == [True, True]
    assert [t.item() for t in outer.gradient(found[0], [v, w])] == [5.0, 3.0]
    assert outer.gradient(found[1], x).item() == 10.0


def test_variables_need_a_rule_that_takes_them() -> None:
    v = tl.Variable(3.0)

    @tl.custom_gradient
    def f(x: Any) -> Any:
        return x * v, lambda dy: dy

    with pytest.raises(TypeError, match="must accept a 'variables' keyword"), tl.GradientTape():
        f(tl.asarray(1.0))
    assert STATE.open == ()


def test_variable_as_argument_has_its_gradient_in_place() -> None:
    v = tl.Variable(3.0)

    @tl.custom_gradient
    def f(x: Any, y: Any) -> Any:
        return x * y, lambda dy: (dy * 10.0, dy * 20.0)

    with tl.GradientTape() as tape:
        y = f(v, 2.0)
    assert tape.gradient(y, v).item() == 10.0


@MODES
@pytest.mark.parametrize("returned", [(1.0,), (1.0, 1.0, 1.0), ()])
def test_wrong_number_of_gradients_is_an_error_where_they_are_asked_for(
    mode: Wrapper, returned: Any
) -> None:
    @tl.custom_gradient
    def f(x: Any, y: Any) -> Any:
        return x * y, lambda dy: [dy * part for part in returned]

    compiled = mode(f)
    x = tl.asarray(1.0)
    assert compiled(x, x).item() == 1.0
    with pytest.raises(ValueError, match="expected to return 2 gradients"):
        tl.gradients_function(compiled)(x, x)


def test_gradient_of_another_shape_is_an_error() -> None:
    @tl.custom_gradient
    def f(x: Any) -> Any:
        return tl.sum(x), lambda dy: dy

    with pytest.raises(ShapeError, match=r"gradient of shape \(\) for input 0 of shape \(2,\)"):
        tl.grad(f)(tl.asarray([1.0, 2.0]))


def test_function_without_a_rule_is_an_error() -> None:
    with pytest.raises(ArgumentTypeError, match=r"must return a pair \(result, grad_fn\)"):
        tl.custom_gradient(lambda x: x)(1.0)
    with pytest.raises(ArgumentTypeError, match="expected a function"):
        tl.custom_gradient(3)  # type: ignore[call-overload]


@MODES
def test_error_of_a_rule_reaches_the_caller(mode: Wrapper) -> None:
    @tl.custom_gradient
    def f(x: Any) -> Any:
        def grad_fn(dy: Any) -> Any:
            raise ZeroDivisionError("mine")

        return x * 1.0, grad_fn

    compiled = mode(f)
    assert compiled(tl.asarray(2.0)).item() == 2.0
    with pytest.raises(ZeroDivisionError, match="mine"):
        tl.grad(compiled)(tl.asarray(2.0))


@MODES
def test_methods_and_keyword_arguments(mode: Wrapper) -> None:
    class Layer:
        scale = 3.0

        @tl.custom_gradient
        def __call__(self, x: Any, *, power: int = 1) -> Any:
            return x**power * self.scale, lambda dy: dy * self.scale * power * 100.0

    layer = Layer()
    assert layer(tl.asarray(2.0), power=3).item() == 24.0
    assert mode(tl.grad(lambda x: layer(x, power=2)))(tl.asarray(1.0)).item() == 600.0
    assert mode(tl.grad(layer))(tl.asarray(1.0)).item() == 300.0


@MODES
def test_stated_gradients_nest(mode: Wrapper) -> None:
    @tl.custom_gradient
    def outer(x: Any) -> Any:
        y = odd_cube(x)
        inner = tl.gradients_function(odd_cube)(x)[0]
        return y, lambda dy: dy * inner

    assert mode(outer)(tl.asarray(2.0)).item() == 8.0
    assert mode(tl.grad(outer))(tl.asarray(2.0)).item() == 80.0


@MODES
def test_stated_gradient_in_a_loop(mode: Wrapper) -> None:
    def f(x: Any) -> Any:
        return tl.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, double(y)), (0, x))[1]

    @tl.custom_gradient
    def double(x: Any) -> Any:
        return x * 2.0, lambda dy: dy * 10.0

    assert mode(f)(tl.asarray(1.0)).item() == 8.0
    assert mode(tl.grad(f))(tl.asarray(1.0)).item() == 1000.0
    assert tl.grad(mode(f))(tl.asarray(1.0)).item() == 1000.0


def test_stated_gradient_leaves_nothing_in_a_graph_without_gradients() -> None:
    compiled = tl.function(lambda x: odd_cube(x))
    x = tl.asarray(2.0)
    assert compiled(x).item() == 8.0
    ops = compiled.get_concrete_function(x).optimized_graph.ops
    assert not [op for op in ops if op.name == "odd_cube"]


def test_jvp_of_a_stated_gradient() -> None:
    assert tl.jvp(odd_cube, [2.0], [1.0])[1].item() == 80.0


def test_inner_results_die_with_the_outer_ones() -> None:
    import gc
    import weakref

    class Marked:
        pass

    mark = Marked()
    alive = weakref.ref(mark)

    def run(mark: Any) -> Any:
        @tl.custom_gradient
        def f(x: Any) -> Any:
            y = tl.exp(x)
            return y, lambda dy: (mark, dy * y)[1]

        x = tl.asarray(1.0)
        tape = tl.GradientTape(persistent=True)
        with tape:
            tape.watch(x)
            y = f(x)
        return tape, x, y

    gc.collect()
    gc.disable()
    try:
        kept = run(mark)
        del mark, kept
        assert alive() is None
    finally:
        gc.enable()


@MODES
def test_pass_through_has_the_gradient_of_the_identity(mode: Wrapper) -> None:
    v = tl.Variable(2.0)
    f = tl.grad_pass_through(lambda x: tl.floor(x) * v)
    assert mode(tl.grad(f))(tl.asarray(2.7)).item() == 1.0
    with tl.GradientTape() as tape:
        y = mode(f)(v)
    assert y.item() == 4.0
    assert tape.gradient(y, v).item() == 1.0


def test_watcher_lists_what_is_read_in_order_of_creation() -> None:
    first, second, third = (tl.Variable(1.0) for _ in range(3))
    fixed = tl.Variable(1.0, trainable=False)
    with tl.VariableWatcher() as watcher:
        third + first + fixed
    second * 2.0
    assert [v is w for v, w in zip(watcher.watched_variables(), (first, third), strict=True)]
    assert len(watcher.watched_variables()) == 2


@MODES
def test_block_that_is_not_recorded(mode: Wrapper) -> None:
    def f(x: Any) -> Any:
        with tl.stop_recording():
            y = x * x
        return x * y

    assert mode(tl.grad(f))(tl.asarray(3.0)).item() == 9.0
    with pytest.raises(ArgumentError):
        tl.gradients_function(lambda x: None)(1.0)


def test_watcher_counts_updates() -> None:
    v, w = tl.Variable(1.0), tl.Variable(2.0)
    with tl.VariableWatcher() as outer:
        v.assign_add(1.0)
        with tl.VariableWatcher() as inner:
            w.assign_sub(1.0)
    assert [x is y for x, y in zip(outer.watched_variables(), (v, w), strict=True)] == [True] * 2
    assert [x is w for x in inner.watched_variables()] == [True]


def test_a_rule_may_take_none_for_results_that_nothing_depends_on() -> None:
    seen: list[Any] = []

    @tl.custom_gradient(accepts_none=True)
    def two(x: Any) -> Any:
        def grad_fn(dy: Any, dz: Any) -> Any:
            seen.append((dy is None, dz is None))
            return (0.0 if dy is None else dy * 2.0) + (0.0 if dz is None else dz * 3.0)

        return (x * 2.0, x * 3.0), grad_fn

    x = tl.asarray([1.0, 2.0])
    assert tl.grad(lambda x: tl.sum(two(x)[1]))(x).tolist() == [3.0, 3.0]
    assert tl.grad(lambda x: tl.sum(two(x)[0]))(x).tolist() == [2.0, 2.0]
    assert tl.grad(lambda x: tl.sum(two(x)[0] + two(x)[1]))(x).tolist() == [5.0, 5.0]
    assert seen[:2] == [(True, False), (False, True)]
    assert tl.function(tl.grad(lambda x: tl.sum(two(x)[1])))(x).tolist() == [3.0, 3.0]


def test_without_it_zeros_come() -> None:
    seen: list[Any] = []

    @tl.custom_gradient
    def two(x: Any) -> Any:
        def grad_fn(dy: Any, dz: Any) -> Any:
            seen.append(dy.tolist())
            return dy * 2.0 + dz * 3.0

        return (x * 2.0, x * 3.0), grad_fn

    assert tl.grad(lambda x: two(x)[1])(1.0).item() == 3.0
    assert seen == [0.0]
