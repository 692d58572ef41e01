"""Normalization against its definitions, compiled and with gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.composites import assert_differentiable_and_compiled

import tapeline as tl
from tapeline.runtime.errors import ArgumentError, ShapeError

RNG = np.random.default_rng(5)
X = RNG.normal(size=(2, 3, 4))
SCALE, OFFSET = RNG.normal(size=4), RNG.normal(size=4)


def standardized(x: Any, axes: Any) -> Any:
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + 1e-5)


@pytest.mark.parametrize("axis", [-1, (1, 2), (0,)])
def test_layer_norm(axis: Any) -> None:
    got = assert_differentiable_and_compiled(
        lambda x, s, o: tl.nn.layer_norm(x, s, o, axis=axis), X, SCALE, OFFSET
    )
    np.testing.assert_allclose(got, standardized(X, axis) * SCALE + OFFSET, rtol=1e-12)


def test_rms_norm() -> None:
    got = assert_differentiable_and_compiled(tl.nn.rms_norm, X, SCALE)
    want = X / np.sqrt((X**2).mean(-1, keepdims=True) + 1e-6) * SCALE
    np.testing.assert_allclose(got, want, rtol=1e-12)


def test_group_norm() -> None:
    got = assert_differentiable_and_compiled(
        lambda x, s, o: tl.nn.group_norm(x, 2, s, o), X, SCALE, OFFSET
    )
    want = standardized(X.reshape(2, 3, 2, 2), (1, 3)).reshape(X.shape) * SCALE + OFFSET
    np.testing.assert_allclose(got, want, rtol=1e-12)
    with pytest.raises(ShapeError, match="group_norm: shape"):
        tl.nn.group_norm(X, 3)


@pytest.mark.parametrize("is_compiled", [False, True])
def test_batch_norm_moves_its_running_statistics(is_compiled: bool) -> None:
    mean = tl.Variable(np.zeros(4), trainable=False)
    variance = tl.Variable(np.ones(4), trainable=False)

    def train(x: tl.Tensor) -> tl.Tensor:
        return tl.nn.batch_norm(x, mean, variance, SCALE, OFFSET, training=True, momentum=0.75)

    got = (tl.function(train) if is_compiled else train)(tl.asarray(X))
    np.testing.assert_allclose(got, standardized(X, (0, 1)) * SCALE + OFFSET, rtol=1e-12)
    np.testing.assert_allclose(mean.numpy(), X.mean((0, 1)) / 4, rtol=1e-12)
    np.testing.assert_allclose(variance.numpy(), 0.75 + X.var((0, 1)) / 4, rtol=1e-12)
    later = tl.nn.batch_norm(X, mean, variance)
    want = (X - mean.numpy()) / np.sqrt(variance.numpy() + 1e-5)
    np.testing.assert_allclose(later.numpy(), want, rtol=1e-12)


def test_gradients_of_batch_norm() -> None:
    assert_differentiable_and_compiled(
        lambda x, s, o: tl.nn.batch_norm(x, None, None, s, o, training=True), X, SCALE, OFFSET
    )
    with pytest.raises(ArgumentError, match="batch_norm: running_mean and running_variance"):
        tl.nn.batch_norm(X)
