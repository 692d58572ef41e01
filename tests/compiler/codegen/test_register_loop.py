"""Loops over small arrays run in registers, and mean what their steps mean one by one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapeline as tl
from tapeline.compiler.codegen.program import ControlStep
from tapeline.compiler.codegen.target import host_target


def runs_in_registers(function: Callable[..., Any], *args: Any) -> bool:
    """Whether the one loop of a function does."""
    concrete = tl.function(function).get_concrete_function(*args)
    steps = concrete.differentiable.compiled.executable().module.program.steps
    return [step.bodies for step in steps if isinstance(step, ControlStep)] == [()]


def check(function: Callable[..., Any], *args: Any, rtol: float = 0.0) -> None:
    """The loop runs in registers, where these are as many as with AVX-512, and compiled and eager
    results agree."""
    assert runs_in_registers(function, *args) or not host_target().avx512
    expected, found = function(*args), tl.function(function)(*args)
    if not isinstance(expected, tuple):
        expected, found = (expected,), (found,)
    for a, b in zip(expected, found, strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_allclose(b.numpy(), a.numpy(), rtol=rtol, atol=rtol)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.int64, np.uint8])
@pytest.mark.parametrize("size", [9, 16, 33, 100])
def test_views_and_joins_of_each_dtype(size: int, dtype: Any) -> None:
    def run(x: Any) -> Any:
        for _ in tl.range(20):
            moved = tl.concat([x[1:], x[:1]])
            x = tl.flip(moved) + tl.pad(x[2:-1], ((1, 2),))
        return x

    check(run, tl.asarray(np.arange(size).astype(dtype) % 3))


def test_broadcasts_transposes_and_reductions_along_axes() -> None:
    def run(x: Any, row: Any) -> Any:
        for _ in tl.range(25):
            mean = tl.mean(x, axis=1, keepdims=True)
            top = tl.max(x, axis=0)
            x = (x - mean) * 0.5 + tl.transpose(tl.reshape(x, (6, 4))) * 0.25 + row - top * 0.125
        return x, tl.sum(x)

    rng = np.random.default_rng(3)
    x, row = rng.standard_normal((4, 6)), rng.standard_normal(6)
    check(run, tl.asarray(x), tl.asarray(row), rtol=1e-14)


@pytest.mark.parametrize("kind", ["sum", "prod", "max", "min", "any", "all"])
@pytest.mark.parametrize("size", [9, 16, 21])
def test_reduction_to_a_number(kind: str, size: int) -> None:
    def run(x: Any) -> Any:
        total = tl.zeros((), dtype=tl.float64)
        for _ in tl.range(20):
            found = getattr(tl, kind)(x > 1 if kind in ("any", "all") else x)
            total = total + tl.astype(found, tl.float64)
            x = tl.concat([x[1:], x[:1]]) * 0.5 + 0.75
        return total, x

    check(run, tl.asarray(np.linspace(0.5, 1.5, size)), rtol=1e-13)


def test_branch_and_inner_loop_and_test_on_the_state() -> None:
    def run(x: Any) -> Any:
        n = tl.zeros((), dtype=tl.int64)
        while tl.max(x) < 100:
            if tl.sum(x) % 2 > 1:
                x = x + 1.5
            else:
                x = tl.flip(x)
                for _ in tl.range(3):
                    x = x + tl.abs(x[::-1]) * 0.25
            n = n + 1
        return x, n

    check(run, tl.asarray(np.linspace(-1, 2, 12)), rtol=1e-13)


def test_no_turn_leaves_the_state_as_it_was() -> None:
    def run(x: Any) -> Any:
        while tl.max(x) < 0:
            x = x + 1
        return x

    check(run, tl.asarray(np.arange(11.0)))


def test_zero_wins_over_infinity_in_gradients() -> None:
    def run(x: Any) -> Any:
        with tl.GradientTape() as tape:
            tape.watch(x)
            y = x
            for _ in tl.range(18):
                y = tl.where(x > 0, tl.sqrt(tl.abs(y)) + x, y * 0.5)
            total = tl.sum(y)
        return tape.gradient(total, x)

    x = tl.asarray(np.array([0.0, 1.0, -2.0, 0.5, 3.0, 0.0, 2.0, -1.0, 0.25, 4.0]))
    with np.errstate(invalid="ignore"):
        expected = run(x)
    assert np.isfinite(expected.numpy()).all()
    np.testing.assert_allclose(tl.function(run)(x).numpy(), expected.numpy(), rtol=1e-13)


def test_rows_in_and_out_forward_and_backward() -> None:
    def run(x: Any, rows: Any) -> Any:
        def turn(state: Any, row: Any) -> Any:
            following = tl.sin(state) * row + tl.concat([state[1:], state[:1]]) * 0.5
            return following, following * 2

        end, made = tl.scan(turn, x, rows, reverse=True)
        return end, made

    def slope(x: Any, rows: Any) -> Any:
        with tl.GradientTape() as tape:
            tape.watch(x)
            end, made = run(x, rows)
            total = tl.sum(end * end) + tl.sum(made)
        return tape.gradient(total, x)

    rng = np.random.default_rng(4)
    x, rows = tl.asarray(rng.standard_normal(13)), tl.asarray(rng.standard_normal((30, 13)))
    check(run, x, rows, rtol=1e-13)
    found = tl.function(slope)(x, rows).numpy()
    step = np.zeros(13)
    for k in range(13):
        step[:] = 0
        step[k] = 1e-6

        def total(at: Any) -> float:
            end, made = run(tl.asarray(at), rows)
            return float((end.numpy() ** 2).sum() + made.numpy().sum())

        near = (total(x.numpy() + step) - total(x.numpy() - step)) / 2e-6
        assert found[k] == pytest.approx(near, rel=1e-6, abs=1e-7)


def test_large_state_and_indexing_by_what_is_computed_do_not() -> None:
    def grow(x: Any) -> Any:
        for _ in tl.range(20):
            x = tl.concat([x[1:], x[:1]]) * 0.5
        return x

    def look(x: Any) -> Any:
        for i in tl.range(20):
            x = x + x[i % 9]
        return x

    assert not runs_in_registers(grow, tl.asarray(np.ones(1000)))
    assert not runs_in_registers(look, tl.asarray(np.ones(9)))
