"""Losses against their definitions, compiled and with gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.composites import assert_differentiable_and_compiled

import tapeline as tl
from tapeline.runtime.errors import ArgumentError, IndexOutOfRangeError, ShapeError

PREDICTION = np.array([[0.3, -1.2, 2.5], [4.0, -0.7, 0.1]])
TARGET = np.array([[0.1, 0.9, 0.2], [0.5, 0.25, 0.6]])
LABELS = np.array([2, 0])


def log_softmax(x: Any) -> Any:
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


def test_losses_of_numbers_are_what_their_definitions_say() -> None:
    error = PREDICTION - TARGET
    size = np.abs(error)
    huber = np.where(size <= 2.0, error**2 / 2, 2.0 * (size - 1.0))
    functions: list[tuple[Callable[..., tl.Tensor], Any]] = [
        (tl.nn.mse, error**2),
        (tl.nn.mae, size),
        (lambda p, t, **options: tl.nn.huber(p, t, delta=2.0, **options), huber),
    ]
    for function, want in functions:
        for reduction, whole in (("none", want), ("sum", want.sum()), ("mean", want.mean())):
            got = assert_differentiable_and_compiled(
                lambda p, t, f=function, r=reduction: f(p, t, reduction=r), PREDICTION, TARGET
            )
            np.testing.assert_allclose(got, whole, rtol=1e-13)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_cross_entropy_of_labels_and_of_probabilities_agree(smoothing: float) -> None:
    dense = np.eye(3)[LABELS] * (1 - smoothing) + smoothing / 3
    want = -(dense * log_softmax(PREDICTION)).sum(-1)
    got = assert_differentiable_and_compiled(
        lambda x: tl.nn.cross_entropy(x, LABELS, label_smoothing=smoothing, reduction="none"),
        PREDICTION,
    )
    np.testing.assert_allclose(got, want, rtol=1e-13)
    probabilities = tl.nn.cross_entropy(
        PREDICTION, np.eye(3)[LABELS], label_smoothing=smoothing, reduction="none"
    )
    np.testing.assert_allclose(probabilities.numpy(), want, rtol=1e-13)
    turned = tl.nn.cross_entropy(PREDICTION.T, LABELS, axis=0, label_smoothing=smoothing)
    np.testing.assert_allclose(turned.item(), want.mean(), rtol=1e-13)


def test_ignored_labels_do_not_count() -> None:
    got = assert_differentiable_and_compiled(
        lambda x: tl.nn.cross_entropy(x, np.array([-100, 0]), ignore_index=-100), PREDICTION
    )
    np.testing.assert_allclose(got, -log_softmax(PREDICTION)[1, 0], rtol=1e-13)
    nothing = tl.nn.cross_entropy(PREDICTION, np.array([-100, -100]), ignore_index=-100)
    assert nothing.item() == 0.0
    with pytest.raises(IndexOutOfRangeError, match="label 3 is out of range"):
        tl.nn.cross_entropy(PREDICTION, np.array([-100, 3]), ignore_index=-100)


def test_binary_cross_entropy_by_logits() -> None:
    p = 1 / (1 + np.exp(-PREDICTION))
    for weight in (None, np.array([2.0, 0.5, 1.0])):
        factor = 1.0 if weight is None else weight
        want = -(factor * TARGET * np.log(p) + (1 - TARGET) * np.log(1 - p))
        got = assert_differentiable_and_compiled(
            lambda x, y, w=weight: tl.nn.binary_cross_entropy_with_logits(
                x, y, positive_weight=w, reduction="none"
            ),
            PREDICTION, TARGET,
        )  # fmt: skip
        np.testing.assert_allclose(got, want, rtol=1e-12)


def test_divergence_is_0_where_the_target_is() -> None:
    target = np.array([[0.5, 0.5, 0.0], [0.2, 0.3, 0.5]])
    model = log_softmax(PREDICTION)
    logs = np.log(np.where(target > 0, target, 1.0))
    got = assert_differentiable_and_compiled(
        lambda x: tl.nn.kl_divergence(x, target, reduction="none"), model
    )
    np.testing.assert_allclose(got, (target * (logs - model)).sum(-1), rtol=1e-13)


def test_bad_arguments_are_named() -> None:
    with pytest.raises(ShapeError, match=r"mse: the prediction has shape \(2, 3\), the target"):
        tl.nn.mse(PREDICTION, TARGET[0])
    with pytest.raises(ArgumentError, match="mae: reduction must be one of"):
        tl.nn.mae(PREDICTION, TARGET, reduction="max")
    with pytest.raises(ArgumentError, match="label_smoothing must be from 0 to 1"):
        tl.nn.cross_entropy(PREDICTION, LABELS, label_smoothing=2.0)
    with pytest.raises(ArgumentError, match="ignore_index needs int labels"):
        tl.nn.cross_entropy(PREDICTION, TARGET, ignore_index=0)
    with pytest.raises(ArgumentError, match="delta must be above 0"):
        tl.nn.huber(PREDICTION, TARGET, delta=0.0)
