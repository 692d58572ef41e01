"""Minimizing functions whose minimum is known."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapeline as tl
from tapeline.runtime.errors import ArgumentError


def rosenbrock(x: tl.Tensor) -> tl.Tensor:
    return tl.sum((1.0 - x[:-1]) ** 2 + 100.0 * (x[1:] - x[:-1] ** 2) ** 2)


@pytest.mark.parametrize("is_compiled", [False, True])
def test_curved_valley_is_followed_to_its_end(is_compiled: bool) -> None:
    function = tl.function(rosenbrock) if is_compiled else rosenbrock
    found = tl.optimizers.minimize(function, np.array([0.0, -0.5, 0.3, 0.1]), max_steps=400)
    assert found.converged
    np.testing.assert_allclose(found.x.numpy(), np.ones(4), rtol=1e-6)
    assert found.value < 1e-14
    assert found.gradient_size <= 1e-8


def test_least_squares_are_those_of_numpy() -> None:
    rng = np.random.default_rng(4)
    a, b = rng.normal(size=(30, 5)), rng.normal(size=30)

    def loss(parameters: Any) -> tl.Tensor:
        weights, offset = parameters["weights"], parameters["offset"]
        return tl.sum((a @ weights + offset - b) ** 2)

    found = tl.optimizers.minimize(loss, {"weights": np.zeros(5), "offset": 0.0})
    want = np.linalg.lstsq(np.column_stack([a, np.ones(30)]), b)[0]
    assert found.converged
    np.testing.assert_allclose(found.x["weights"].numpy(), want[:5], rtol=1e-7)
    np.testing.assert_allclose(found.x["offset"].item(), want[5], rtol=1e-7)


def test_ends_are_reported() -> None:
    assert tl.optimizers.minimize(lambda x: tl.sum(x * x), tl.zeros(3)).steps == 0
    short = tl.optimizers.minimize(rosenbrock, np.array([-1.2, 1.0]), max_steps=3)
    assert (short.steps, short.converged) == (3, False)
    single = tl.optimizers.minimize(
        lambda x: tl.sum((x - 2.0) ** 2), np.zeros(2, np.float32), tolerance=1e-5
    )
    assert single.x.dtype == np.float32
    assert single.converged
    with pytest.raises(ArgumentError, match="the function is nan at the start"):
        tl.optimizers.minimize(lambda x: tl.sum(x) * np.nan, np.ones(1))
