"""Loops over whole arrays whose elements are independent run element by element, in registers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapeline as tl


def escape_times(cr: Any, ci: Any) -> Any:
    """How many turns each point of the plane stays near."""

    def turn(i: Any, zr: Any, zi: Any, n: Any) -> Any:
        r, s = zr * zr, zi * zi
        alive = r + s <= 4
        following = tl.where(alive, 2 * zr * zi + ci, zi)
        return i + 1, tl.where(alive, r - s + cr, zr), following, n + alive.astype(tl.int32)

    zero = tl.zeros_like(cr)
    start = (0, zero, zero, tl.zeros(cr.shape, tl.int32))
    return tl.while_loop(lambda i, *_: i < 30, turn, start)[3]


def kinds(function: Any, *args: Any) -> list[str]:
    """What the steps of a compiled function are."""
    return [kernel.kind for kernel in tl.function(function).get_concrete_function(*args).kernels()]


def test_loop_of_independent_elements_is_one_nest() -> None:
    x = np.linspace(-2, 0.6, 37, dtype=np.float32)
    cr = tl.asarray(np.ascontiguousarray(np.broadcast_to(x, (5, 37))))
    ci = tl.asarray(np.linspace(-1.3, 1.3, 5 * 37, dtype=np.float32).reshape(5, 37))
    assert kinds(escape_times, cr, ci) == ["loop"]
    found = tl.function(escape_times)(cr, ci)
    np.testing.assert_array_equal(found.numpy(), escape_times(cr, ci).numpy())


@pytest.mark.parametrize("size", [13, 64, 201])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_loop_that_ends_early_where_all_points_are_gone(size: int, dtype: Any) -> None:
    def run(c: Any) -> Any:
        z, count = tl.zeros_like(c), tl.zeros(c.shape, tl.int32)
        for _ in tl.range(60):
            near = z * z <= 4
            z = tl.where(near, z * z + c, z)
            count += near.astype(tl.int32)
        return z, count

    c = tl.asarray(np.linspace(-2.5, 1, size).astype(dtype))
    assert kinds(run, c) == ["loop"]
    for a, b in zip(run(c), tl.function(run)(c), strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())


def test_mask_that_comes_back_with_the_counter_does_not_end_the_loop() -> None:
    def run(x: Any) -> Any:
        for i in tl.range(40):
            x = tl.where(i % 7 == 3, x + 1, x)
        return x

    x = tl.asarray(np.arange(70.0))
    assert kinds(run, x) == ["loop"]
    np.testing.assert_array_equal(tl.function(run)(x).numpy(), x.numpy() + 6)


def test_state_that_changes_without_the_mask_does_not_end_the_loop() -> None:
    def run(x: Any, y: Any) -> Any:
        for _ in tl.range(30):
            low = x < 5
            x, y = tl.where(low, x + 1, x), y * 1.5
        return x, y

    given = tl.asarray(np.arange(40.0)), tl.asarray(np.ones(40))
    assert kinds(run, *given) == ["loop"]
    x, y = tl.function(run)(*given)
    np.testing.assert_array_equal(x.numpy(), np.maximum(np.arange(40.0), 5))
    np.testing.assert_array_equal(y.numpy(), np.full(40, 1.5**30))


def test_bound_that_is_an_input_and_a_limit() -> None:
    def run(n: Any, x: Any) -> Any:
        state = (0, x)
        a = tl.while_loop(lambda i, x: i < n, lambda i, x: (i + 1, x * 1.5 + i), state)[1]
        b = tl.while_loop(
            lambda i, x: i < n, lambda i, x: (i + 1, x - i), state, maximum_iterations=3
        )[1]
        return a, b

    x = tl.asarray(np.arange(19.0))
    for n in (0, 2, 5):
        for a, b in zip(run(tl.asarray(n), x), tl.function(run)(tl.asarray(n), x), strict=True):
            np.testing.assert_array_equal(a.numpy(), b.numpy())
    assert kinds(run, tl.asarray(2), x) == ["loop", "loop"]


def test_number_that_somebody_takes_keeps_the_loop_a_loop() -> None:
    def run(x: Any) -> Any:
        return tl.while_loop(lambda i, x: i < 4, lambda i, x: (i + 2, x * 2), (1, x))

    x = tl.asarray(np.arange(50.0))
    assert kinds(run, x) == ["control"]
    i, y = tl.function(run)(x)
    assert int(i) == 5
    np.testing.assert_array_equal(y.numpy(), x.numpy() * 4)
