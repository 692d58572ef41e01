"""Recomputing for the gradient instead of keeping."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapeline as tl
from tapeline.runtime.errors import ArgumentError, TracingError

Wrapper = Callable[[Callable[..., Any]], Callable[..., Any]]


def eager(f: Callable[..., Any]) -> Callable[..., Any]:
    return f


MODES = pytest.mark.parametrize("mode", [eager, tl.function], ids=["eager", "compiled"])


@MODES
def test_checkpoint_changes_no_derivative(mode: Wrapper) -> None:
    v, w = tl.Variable(2.0), tl.asarray(5.0)
    block = tl.checkpoint(lambda x, *, power: {"y": tl.sin(x) ** power * v * w})

    def f(x: Any) -> Any:
        return block(block(x, power=1)["y"], power=2)["y"]

    def plain(x: Any) -> Any:
        y = tl.sin(x) * v * w
        return tl.sin(y) ** 2 * v * w

    def derivatives(f: Any, x: Any) -> Any:
        with tl.GradientTape(persistent=True) as outer:
            outer.watch([x, w])
            with tl.GradientTape() as tape:
                tape.watch([x, w])
                y = f(x)
            first = tape.gradient(y, [x, v, w])
        second = [outer.gradient(g, s) for g in first for s in (x, v, w)]
        return [t.numpy() for t in (y, *first, *second)]

    x = tl.asarray(0.7)
    np.testing.assert_allclose(derivatives(mode(f), x), derivatives(plain, x), rtol=1e-11)


def test_checkpoint_keeps_arguments_only() -> None:
    x = tl.asarray(np.ones(1000))

    def kept(f: Any) -> int:
        with tl.GradientTape() as tape:
            tape.watch(x)
            y = x
            for _ in range(8):
                y = f(y)
        return sum(entry.saved_bytes for entry in tape.export())

    def block(x: Any) -> Any:
        for _ in range(10):
            x = tl.tanh(tl.exp(-x) * x)
        return x

    assert kept(block) > 100 * 8000
    assert kept(tl.checkpoint(block)) == 0


def test_checkpoint_remembers_the_values_of_its_arguments() -> None:
    x = tl.asarray([1.0, 2.0])
    block = tl.checkpoint(lambda x: x * x * x)
    with tl.GradientTape() as tape:
        tape.watch(x)
        y = block(x)
        x += 10.0
    assert tape.gradient(y, x).numpy().tolist() == [3.0, 12.0]


def test_checkpoint_of_a_function_that_changes_is_an_error() -> None:
    turns = iter([1, 2])
    block = tl.checkpoint(lambda x: [x * 2.0] * next(turns))
    with pytest.raises(ArgumentError):
        tl.grad(lambda x: block(x)[0])(1.0)


def chain(size: int, block: Callable[..., Any] = tl.checkpoint) -> Callable[[Any, Any], Any]:
    """16 layers in blocks of this size."""

    def layers(x: Any, w: Any) -> Any:
        for _ in range(size):
            x = tl.tanh(x @ w)
        return x

    def run(x: Any, w: Any) -> Any:
        part = block(layers)
        for _ in range(16 // size):
            x = part(x, w)
        return tl.sum(x)

    return run


def arena_of(f: Any, *args: Any) -> int:
    """How much memory the intermediate results of a compiled function take."""
    return int(f.get_concrete_function(*args).memory_plan().nbytes)


def test_checkpoint_saves_memory_where_the_gradient_is_compiled_too(
    rng: np.random.Generator,
) -> None:
    x, w = tl.asarray(rng.normal(size=(64, 64))), tl.asarray(rng.normal(size=(64, 64)) / 8)
    plain = tl.function(tl.grad(chain(4, lambda f: f)))
    saving = tl.function(tl.grad(chain(4)))
    np.testing.assert_allclose(saving(x, w).numpy(), plain(x, w).numpy(), rtol=1e-10)
    assert arena_of(saving, x, w) < 0.7 * arena_of(plain, x, w)


def test_checkpoint_in_a_compiled_call_keeps_its_arguments(rng: np.random.Generator) -> None:
    x, w = tl.asarray(rng.normal(size=(8, 8))), tl.asarray(rng.normal(size=(8, 8)))
    f = tl.function(chain(4))
    found = tl.grad(f, (0, 1))(x, w)
    for a, b in zip(found, tl.grad(chain(4, lambda f: f), (0, 1))(x, w), strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-10)
    pair = f.concrete_functions[0].differentiable.pair((0, 1))
    kept = [pair.forward.spec(pair.forward.outputs[k]).nbytes for k in pair.saved_outputs]
    assert sum(kept) == 3 * x.nbytes


def test_checkpoint_refuses_effects_in_a_trace() -> None:
    v = tl.Variable(0.0)
    block = tl.checkpoint(lambda x: v.assign_add(x).read_value() * x)
    with pytest.raises(TracingError, match="assigns Variables"):
        tl.function(lambda x: block(x))(1.0)


@pytest.mark.parametrize("mode", [lambda f: f, tl.function], ids=["eager", "compiled"])
def test_it_runs_again_with_the_variables_that_it_had(mode: Any) -> None:
    def loss(x: Any, w: Any) -> Any:
        y, factor = tl.sin(x), tl.identity(w)
        y = tl.checkpoint(lambda c: c * y * factor)(x)
        factor += 5.0
        return y * y * factor

    x, w = tl.asarray(0.7), tl.asarray(0.4)
    plain = tl.grad(lambda x, w: (x * tl.sin(x) * w) ** 2 * (w + 5.0), (0, 1))(x, w)
    found = mode(tl.grad(loss, (0, 1)))(x, w)
    np.testing.assert_allclose([g.item() for g in found], [g.item() for g in plain], rtol=1e-12)
