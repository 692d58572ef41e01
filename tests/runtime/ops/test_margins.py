"""Losses with margins and of distributions, against their definitions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.stats
from tests.composites import assert_differentiable_and_compiled

import tapeline as tl

PREDICTION = np.array([[0.3, -1.2, 2.5], [4.0, -0.7, 0.1]])
SIGNS = np.array([[1.0, -1.0, 1.0], [-1.0, -1.0, 1.0]])
COUNTS = np.array([[0.0, 2.0, 7.0], [1.0, 3.0, 40.0]])
SHARES = np.array([[0.1, 0.9, 0.2], [0.5, 0.25, 0.6]])


def test_hinge_is_what_is_missing_to_1() -> None:
    got = assert_differentiable_and_compiled(
        lambda p: tl.nn.hinge(p, SIGNS, reduction="none"), PREDICTION
    )
    np.testing.assert_allclose(got, np.maximum(1 - SIGNS * PREDICTION, 0), rtol=1e-14)


def test_triplets_compare_distances(rng: np.random.Generator) -> None:
    a, p, n = rng.normal(size=(3, 5, 4))
    got = assert_differentiable_and_compiled(
        lambda a, p, n: tl.nn.triplet_margin(a, p, n, margin=0.8, reduction="none"), a, p, n
    )
    near, far = np.linalg.norm(a - p, axis=1), np.linalg.norm(a - n, axis=1)
    np.testing.assert_allclose(got, np.maximum(near - far + 0.8, 0), rtol=1e-13)


def test_cross_entropy_of_probabilities_is_that_of_logits() -> None:
    p = 1 / (1 + np.exp(-PREDICTION))
    got = assert_differentiable_and_compiled(tl.nn.binary_cross_entropy, p, SHARES)
    want = tl.nn.binary_cross_entropy_with_logits(PREDICTION, SHARES).item()
    np.testing.assert_allclose(got, want, rtol=1e-13)
    sure: Any = tl.nn.binary_cross_entropy([0.0, 1.0, 1.0], [0.0, 1.0, 0.5], reduction="none")
    np.testing.assert_array_equal(sure.numpy(), [0.0, 0.0, np.inf])


def test_likelihoods_are_those_of_scipy() -> None:
    got = assert_differentiable_and_compiled(
        lambda r: tl.nn.poisson_nll(r, COUNTS, full=True, reduction="none"), PREDICTION
    )
    want = -scipy.stats.poisson.logpmf(COUNTS, np.exp(PREDICTION))
    np.testing.assert_allclose(got, want, rtol=1e-13)
    got = assert_differentiable_and_compiled(
        lambda m, t, v: tl.nn.gaussian_nll(m, t, v, full=True, reduction="none"),
        PREDICTION, COUNTS, SHARES,
    )  # fmt: skip
    want = -scipy.stats.norm.logpdf(COUNTS, PREDICTION, np.sqrt(SHARES))
    np.testing.assert_allclose(got, want, rtol=1e-13)


@pytest.mark.parametrize("name", ["hinge", "binary_cross_entropy", "poisson_nll"])
def test_losses_reject_shapes_and_reductions(name: str) -> None:
    loss = getattr(tl.nn, name)
    with pytest.raises(ValueError, match=f"{name}: the prediction has shape"):
        loss([1.0, 2.0], [1.0])
    with pytest.raises(ValueError, match=f"{name}: reduction must be one of"):
        loss([1.0], [1.0], reduction="max")
