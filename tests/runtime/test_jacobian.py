"""Jacobians from one tape."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapeline as tl
from tapeline.runtime.errors import ArgumentError, ShapeError, TapeError

Wrapper = Callable[[Callable[..., Any]], Callable[..., Any]]


def eager(f: Callable[..., Any]) -> Callable[..., Any]:
    return f


MODES = pytest.mark.parametrize("mode", [eager, tl.function], ids=["eager", "compiled"])


@MODES
def test_jacobian_by_a_structure_of_sources(mode: Wrapper, rng: np.random.Generator) -> None:
    w, x = rng.normal(size=(2, 3)), rng.normal(size=3)
    v = tl.Variable(w)

    def run(x: Any) -> Any:
        with tl.GradientTape() as tape:
            tape.watch(x)
            y = v @ (x * x)
        return tape.jacobian(y, {"x": x, "v": [v]})

    found = mode(run)(tl.asarray(x))
    np.testing.assert_allclose(found["x"].numpy(), w * 2 * x)
    want = np.einsum("ij,k->ijk", np.eye(2), x * x)
    np.testing.assert_allclose(found["v"][0].numpy(), want, atol=1e-15)


def test_jacobian_is_differentiable_again() -> None:
    x = tl.asarray([1.0, 2.0])
    with tl.GradientTape() as outer:
        outer.watch(x)
        with tl.GradientTape() as inner:
            inner.watch(x)
            y = x * x * x
        found = inner.jacobian(y, x)
    np.testing.assert_allclose(outer.gradient(found, x).numpy(), [6.0, 12.0])


def test_jacobian_inside_of_the_block_and_twice() -> None:
    x = tl.asarray([1.0, 2.0])
    with tl.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = x * x
        inside = tape.jacobian(y, x)
    np.testing.assert_array_equal(inside.numpy(), tape.jacobian(y, x).numpy())
    with tl.GradientTape() as tape:
        tape.watch(x)
        y = x * x
        tape.jacobian(y, x)
    with pytest.raises(TapeError):
        tape.jacobian(y, x)


def test_jacobian_by_what_is_not_connected() -> None:
    x, z = tl.asarray([1.0, 2.0]), tl.asarray(3.0)
    with tl.GradientTape(persistent=True) as tape:
        tape.watch([x, z])
        y = x * x
    assert tape.jacobian(y, z) is None
    assert tape.jacobian(y, [x, z])[1] is None
    assert tape.jacobian(y, z, unconnected_gradients="zero").numpy().tolist() == [0.0, 0.0]
    one = tl.ones((2, 1))
    assert tape.batch_jacobian(one, one).numpy().tolist() == [[[0.0]], [[0.0]]]
    assert tape.batch_jacobian(one, one, unconnected_gradients="none") is None
    with pytest.raises(ArgumentError, match="must be 'none' or 'zero'"):
        tape.jacobian(y, x, unconnected_gradients="nan")  # type: ignore[arg-type]


def test_jacobian_of_an_empty_target_is_empty() -> None:
    x = tl.zeros((0, 2))
    with tl.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = x * x
    assert tape.jacobian(y, x).shape == (0, 2, 0, 2)
    x = tl.zeros((1, 0))
    with tl.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = x * x
    jacobian = tape.batch_jacobian(y, x)
    assert jacobian is not None
    assert jacobian.shape == (1, 0, 0)


@MODES
def test_batch_jacobian_is_the_jacobian_of_each_row(
    mode: Wrapper, rng: np.random.Generator
) -> None:
    x, w = rng.normal(size=(4, 3)), rng.normal(size=(3, 2))

    def run(x: Any) -> Any:
        with tl.GradientTape() as tape:
            tape.watch(x)
            y = tl.tanh(x @ tl.asarray(w))
        return tape.batch_jacobian(y, x)

    found = mode(run)(tl.asarray(x)).numpy()
    slope = 1 - np.tanh(x @ w) ** 2
    np.testing.assert_allclose(found, np.einsum("nj,ij->nji", slope, w), rtol=1e-12)


@pytest.mark.parametrize(
    ("t", "s", "words"),
    [((2,), (2, 1), "two dimensions"), ((2, 1), (2,), "two dimensions"), ((2, 1), (3, 1), "first")],
)
def test_batch_jacobian_refuses_other_shapes(t: Any, s: Any, words: str) -> None:
    with tl.GradientTape() as tape:
        pass
    with pytest.raises(ShapeError, match=words):
        tape.batch_jacobian(tl.zeros(t), tl.zeros(s))


def test_jacobian_by_a_loop_needs_a_persistent_tape() -> None:
    x = tl.asarray([1.0, 2.0])
    with tl.GradientTape() as tape:
        tape.watch(x)
        y = x * x
    with pytest.raises(TapeError, match="persistent=True"):
        tape.jacobian(y, x, experimental_use_pfor=False)
    with pytest.raises(TapeError, match="persistent=True"):
        tape.jacobian(y, x, parallel_iterations=2)
