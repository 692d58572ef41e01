"""Gradients asked for inside of `vmap`, of loops that a trace makes: as without `vmap`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapeline as tl

Loss = Callable[..., Any]


def rows_loop(w: Any, x: Any) -> Any:
    """A scan over rows, with a weight from around it."""

    def turn(c: Any, row: Any) -> tuple[Any, Any]:
        c = tl.tanh(c * row * w + row)
        return c, c * w

    last, kept = tl.scan(turn, tl.sum(w) * 0.1, x)
    return last + tl.sum(kept * kept)


def backward_loop(w: Any, x: Any) -> Any:
    _, kept = tl.scan(lambda c, row: (c * w + row, c), tl.asarray(1.0), x, reverse=True)
    return tl.sum(kept * x)


def bounded_loop(w: Any, x: Any) -> Any:
    def turn(k: Any, y: Any) -> tuple[Any, Any]:
        return k + 1, tl.sin(y * w) + x

    return tl.sum(tl.while_loop(lambda k, y: k < 3, turn, (0, x), maximum_iterations=5)[1])


def mapped_rows(w: Any, x: Any) -> Any:
    return tl.sum(tl.map_fn(lambda row: tl.exp(row * w) * row, x))


def python_loop(w: Any, x: Any) -> Any:
    y = x
    for _ in tl.range(4):
        y = tl.sin(y * w) + x
    return tl.sum(y)


LOSSES = [rows_loop, backward_loop, bounded_loop, mapped_rows, python_loop]
X = np.random.default_rng(5).normal(size=(4, 3))
W = np.array([0.3, -0.7, 1.2, 0.9])


def one_by_one(f: Loss, ws: Any, xs: Any) -> list[np.ndarray[Any, Any]]:
    """What the function gives for each example."""
    found = [f(w, x) for w, x in zip(ws, xs, strict=True)]
    columns = zip(*[one if isinstance(one, tuple) else (one,) for one in found], strict=True)
    return [np.stack([part.numpy() for part in column]) for column in columns]


def agree(found: Any, want: list[np.ndarray[Any, Any]]) -> None:
    parts = found if isinstance(found, tuple) else (found,)
    for part, wanted in zip(parts, want, strict=True):
        np.testing.assert_allclose(part.numpy(), wanted, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("loss", LOSSES, ids=lambda f: f.__name__)
def test_gradient_per_example_of_a_loop(loss: Loss) -> None:
    w, x = tl.asarray(W), tl.asarray(X)
    gradient = tl.grad(loss, (0, 1))
    agree(tl.function(tl.vmap(gradient))(w, x), one_by_one(gradient, w, x))
    shared = tl.function(tl.vmap(gradient, in_axes=(None, 0)))(w[0], x)
    agree(shared, one_by_one(gradient, [w[0]] * 4, x))


@pytest.mark.parametrize("loss", LOSSES, ids=lambda f: f.__name__)
def test_second_derivatives_per_example_of_a_loop(loss: Loss) -> None:
    w, x = tl.asarray(W), tl.asarray(X)

    def mixed(w: Any, x: Any) -> Any:
        return tl.jacobian(lambda w: tl.grad(loss, 1)(w, x))(w)

    agree(tl.function(tl.vmap(mixed))(w, x), one_by_one(mixed, w, x))
    curvature = tl.grad(tl.grad(loss))
    agree(tl.function(tl.vmap(curvature))(w, x), one_by_one(curvature, w, x))


def test_gradient_around_of_gradients_per_example() -> None:
    w, x = tl.asarray(W), tl.asarray(X)

    def penalty(w: Any) -> Any:
        slopes = tl.vmap(tl.grad(rows_loop))(w, x)
        return tl.sum(slopes * slopes)

    want = tl.grad(penalty)(w).numpy()
    np.testing.assert_allclose(tl.function(tl.grad(penalty))(w).numpy(), want, rtol=1e-9)
    np.testing.assert_allclose(tl.grad(tl.function(penalty))(w).numpy(), want, rtol=1e-9)


@pytest.mark.parametrize("starts", ["itself", "twice"])
def test_what_a_loop_is_given_at_two_places_has_a_gradient_at_each(starts: str) -> None:
    def power(v: Any) -> Any:
        if starts == "twice":
            return tl.while_loop(lambda y, z: y < 3.0, lambda y, z: (y * z + 1.0, z), (v, v))[0]
        return tl.while_loop(lambda y: y < 3.0, lambda y: (y * v + 1.0,), (v,))[0]

    def total(v: Any) -> Any:
        return tl.sum(tl.vmap(tl.grad(power))(v))

    v = tl.asarray([0.8, 1.1, 0.9])
    want = [tl.grad(tl.grad(power))(x).item() for x in v]
    for way in (tl.grad(total), tl.function(tl.grad(total)), tl.grad(tl.function(total))):
        np.testing.assert_allclose(way(v).numpy(), want, rtol=1e-12)


def test_what_a_mapped_loop_reads_from_outside_is_no_part_of_an_example() -> None:
    def total(x: Any) -> Any:
        def one(v: Any) -> Any:
            turn = lambda i, c: (i + 1, c * v + x[1])  # noqa: E731  # one expression
            return tl.while_loop(lambda i, c: i < 2, turn, (0, v))[1]

        return tl.sum(tl.vmap(tl.grad(one))(x))

    x = tl.asarray([0.5, 0.9])
    for way in (tl.grad(total), tl.function(tl.grad(total)), tl.grad(tl.function(total))):
        np.testing.assert_allclose(way(x).numpy(), [3.0, 7.4], rtol=1e-12)


def test_gradient_of_a_loop_in_two_maps() -> None:
    w, x = tl.asarray(W), tl.asarray(X)
    each = tl.vmap(tl.vmap(tl.grad(rows_loop), in_axes=(None, 0)), in_axes=(0, None))
    np.testing.assert_allclose(tl.function(each)(w, x).numpy(), each(w, x).numpy(), rtol=1e-9)


def test_own_rules_and_checkpoints_in_a_loop() -> None:
    @tl.custom_gradient
    def tripled(y: Any) -> Any:
        return tl.sin(y), lambda ct: 3.0 * ct * tl.cos(y)

    body = tl.checkpoint(lambda c, row: tl.tanh(c * row) + row)

    def loss(w: Any, x: Any) -> Any:
        def turn(c: Any, row: Any) -> tuple[Any, Any]:
            return body(c, row) + tripled(row * w), c

        return tl.scan(turn, w, x)[0]

    w, x = tl.asarray(W), tl.asarray(X)
    gradient = tl.grad(loss, (0, 1))
    agree(tl.function(tl.vmap(gradient))(w, x), one_by_one(gradient, w, x))


def test_effects_of_a_loop_happen_once(capfd: pytest.CaptureFixture[str]) -> None:
    def loss(x: Any) -> Any:
        def turn(c: Any, row: Any) -> tuple[Any, Any]:
            tl.print("turn", c)
            return c * row, c

        return tl.scan(turn, tl.asarray(1.0), x)[0]

    found = tl.function(tl.vmap(tl.grad(loss)))(tl.asarray([[2.0, 3.0], [4.0, 5.0]]))
    assert found.tolist() == [[3.0, 2.0], [5.0, 4.0]]
    written = capfd.readouterr()
    assert (written.out + written.err).count("turn") == 4


def test_a_loop_runs_again_with_the_variables_that_it_had() -> None:
    def loss(x: Any) -> Any:
        y = tl.sin(x)
        y = tl.while_loop(lambda i, c: i < 2, lambda i, c: (i + 1, c * c + y), (0, y))[1]
        return tl.sum(y)

    x = tl.asarray([[0.5, 0.8], [0.55, 0.9]])
    want = np.stack([tl.grad(loss)(row).numpy() for row in x])
    found = tl.function(tl.vmap(tl.grad(loss)))(x).numpy()
    np.testing.assert_allclose(found, want, rtol=1e-12)
