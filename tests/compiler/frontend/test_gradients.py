"""Gradients between tensors of one trace."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapeline as tl
from tapeline.runtime.errors import ArgumentError, ShapeError, TapeError

X = np.array([0.5, -1.25, 2.0])


def test_gradients_of_any_order() -> None:
    @tl.function
    def derivative(x: Any, order: int) -> Any:
        y = tl.function(tl.cos)(x)
        for _ in range(order):
            (y,) = tl.gradients(y, [x])
        return y

    expected = [np.cos(X), -np.sin(X), -np.cos(X), np.sin(X)]
    for order, want in enumerate(expected):
        np.testing.assert_allclose(derivative(tl.asarray(X), order).numpy(), want, rtol=1e-13)


def test_intermediate_results_and_captures_are_sources() -> None:
    c = tl.asarray(3.0)

    @tl.function
    def f(x: Any) -> Any:
        middle = x * c
        y = middle * middle * c
        return tl.gradients(y, [x, middle, c])

    found = [g.item() for g in f(tl.asarray(2.0))]
    assert found == [2 * 2 * 27.0, 2 * 6 * 3.0, 3 * 4 * 9.0]


def test_variables_loops_and_choices() -> None:
    v = tl.Variable(1.5)

    @tl.function
    def f(x: Any) -> Any:
        for _ in tl.range(3):
            x = x * v
        y = x if x > 0 else -2.0 * x
        return tl.gradients(y, [v, x])

    slope, last = f(tl.asarray(2.0))
    np.testing.assert_allclose(slope.numpy(), 3 * 2.0 * 1.5**2)
    assert last.item() == 1.0
    slope, _ = f(tl.asarray(-2.0))
    np.testing.assert_allclose(slope.numpy(), 2 * 3 * 2.0 * 1.5**2)


def test_given_cotangents_several_targets_and_ops_of_several_results() -> None:
    @tl.function
    def f(x: Any) -> Any:
        parts = tl.split(x, 3)
        q, r = tl.linalg.qr(tl.eye(2) * x[0])
        pair = [parts[0] * x[1], tl.sum(q * r)]
        return tl.gradients(pair, x, [tl.asarray([10.0]), None])[0]

    got = f(tl.asarray([2.0, 3.0, 4.0])).numpy()
    np.testing.assert_allclose(got, [10 * 3.0 + 2.0, 10 * 2.0, 0.0], atol=1e-12)


def test_what_is_not_connected_and_what_is_stopped() -> None:
    @tl.function
    def f(x: Any, z: Any) -> Any:
        y = x * x
        stopped = tl.gradients(y * x, x, stop_gradients=y)[0]
        zero = tl.gradients(y, [z], unconnected_gradients="zero")[0]
        assert tl.gradients(y, [z, tl.floor(x)]) == [None, None]
        return stopped, zero

    stopped, zero = f(tl.asarray(3.0), tl.asarray([1.0, 2.0]))
    assert stopped.item() == 9.0
    assert zero.numpy().tolist() == [0.0, 0.0]


def test_the_results_can_be_differentiated_from_outside() -> None:
    slope = tl.function(lambda x: tl.gradients(x * x * x, x)[0])
    assert tl.grad(slope)(tl.asarray(2.0)).item() == 12.0
    assert tl.grad(tl.grad(slope))(tl.asarray(2.0)).item() == 6.0


def test_errors_say_what_to_do() -> None:
    x = tl.asarray(1.0)
    with pytest.raises(TapeError, match=r"eagerly use tl\.GradientTape"):
        tl.gradients(x * x, x)
    with pytest.raises(ArgumentError, match="'none' or 'zero'"):
        tl.function(lambda x: tl.gradients(x, x, None, "zeros"))(x)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="2 grad_ys for 1 ys"):
        tl.function(lambda x: tl.gradients([x], x, [1.0, 2.0]))(x)
    with pytest.raises(ShapeError, match=r"shape \(2,\) for a target of shape \(\)"):
        tl.function(lambda x: tl.gradients(x, x, tl.asarray([1.0, 2.0])))(x)
