"""Distances and directions of vectors."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.spatial.distance
from tests.composites import assert_differentiable_and_compiled

import tapeline as tl

METRICS = {1: "cityblock", 2: "euclidean", np.inf: "chebyshev"}


@pytest.mark.parametrize("ord", METRICS)
def test_distances_are_those_of_scipy(ord: float, rng: np.random.Generator) -> None:
    a, b = rng.normal(size=(4, 3)), rng.normal(size=(5, 3))
    got = assert_differentiable_and_compiled(lambda x, y: tl.nn.cdist(x, y, ord=ord), a, b)
    want = scipy.spatial.distance.cdist(a, b, METRICS[ord])
    np.testing.assert_allclose(got, want, rtol=1e-14)


def test_distances_have_batches_that_broadcast(rng: np.random.Generator) -> None:
    a, b = rng.normal(size=(2, 1, 4, 3)), rng.normal(size=(3, 5, 3))
    got = tl.nn.cdist(a, b).numpy()
    want = np.linalg.norm(a[..., :, None, :] - b[..., None, :, :], axis=-1)
    np.testing.assert_allclose(got, want, rtol=1e-14)


def test_gradient_at_distance_0_is_0() -> None:
    x = tl.asarray([[1.0, 2.0], [3.0, 4.0]])
    slope = tl.grad(lambda y: tl.sum(tl.nn.cdist(y, x)))(x).numpy()
    unit = np.sqrt(0.5)
    np.testing.assert_allclose(slope, [[-unit, -unit], [unit, unit]], rtol=1e-14)


def test_cosines_and_directions_are_what_they_are_called(rng: np.random.Generator) -> None:
    a, b = rng.normal(size=(4, 3)), rng.normal(size=3)
    got = assert_differentiable_and_compiled(tl.nn.cosine_similarity, a, b)
    want = a @ b / np.linalg.norm(a, axis=1) / np.linalg.norm(b)
    np.testing.assert_allclose(got, want, rtol=1e-14)
    unit = assert_differentiable_and_compiled(lambda x: tl.nn.normalize(x, axis=0, ord=1), a)
    np.testing.assert_allclose(np.abs(unit).sum(0), 1.0, rtol=1e-14)
    np.testing.assert_array_equal(tl.nn.normalize([[0.0, 0.0]]).numpy(), [[0.0, 0.0]])


def test_distances_say_what_does_not_fit() -> None:
    with pytest.raises(ValueError, match="cdist: x1 has shape"):
        tl.nn.cdist(tl.ones((2, 3)), tl.ones((2, 4)))
    with pytest.raises(ValueError, match="cdist: ord must be above 0"):
        tl.nn.cdist(tl.ones((2, 3)), tl.ones((2, 3)), ord=0)
