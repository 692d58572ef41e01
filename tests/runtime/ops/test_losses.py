"""Cross entropies: both kinds of labels agree, bad labels are named."""

from __future__ import annotations

import numpy as np
import pytest

import tapeline as tl
from tapeline.runtime.errors import DTypeError, IndexOutOfRangeError, ShapeError


def test_both_kinds_of_labels_give_the_same_loss_and_gradient(rng: np.random.Generator) -> None:
    logits = tl.asarray(rng.normal(size=(4, 3)))
    labels = tl.asarray([0, 2, 1, 1])
    with tl.GradientTape(persistent=True) as tape:
        tape.watch(logits)
        sparse = tl.sparse_softmax_cross_entropy(logits, labels)
        dense = tl.softmax_cross_entropy(logits, tl.one_hot(labels, 3))
    np.testing.assert_allclose(sparse.numpy(), dense.numpy())
    np.testing.assert_allclose(
        tape.gradient(sparse, logits).numpy(), tape.gradient(dense, logits).numpy(), atol=1e-15
    )


def test_labels_that_do_not_sum_to_one_have_the_right_gradient() -> None:
    logits = tl.asarray([[1.0, -1.0]])
    labels = tl.asarray([[2.0, 1.0]])
    with tl.GradientTape() as tape:
        tape.watch(logits)
        loss = tl.softmax_cross_entropy(logits, labels)
    p = np.exp([1.0, -1.0]) / np.sum(np.exp([1.0, -1.0]))
    np.testing.assert_allclose(tape.gradient(loss, logits).numpy(), [3 * p - [2.0, 1.0]])


def test_loss_of_a_certain_answer_does_not_overflow() -> None:
    logits = tl.asarray([[1000.0, 0.0], [0.0, 1000.0]])
    losses = tl.sparse_softmax_cross_entropy(logits, [0, 0])
    np.testing.assert_array_equal(losses.numpy(), [0.0, 1000.0])


def test_dense_labels_broadcast_and_promote() -> None:
    logits = tl.zeros((3, 2), dtype=tl.float32)
    loss = tl.softmax_cross_entropy(logits, [0.5, 0.5])
    assert loss.shape == (3,)
    assert loss.dtype == np.float64


@pytest.mark.parametrize("label", [-1, 3])
def test_label_out_of_range_is_named(label: int) -> None:
    with pytest.raises(IndexOutOfRangeError, match=f"label {label} is out of range for 3 classes"):
        tl.sparse_softmax_cross_entropy(tl.zeros((2, 3)), [0, label])


def test_labels_of_another_shape_or_kind_are_rejected() -> None:
    with pytest.raises(ShapeError, match=r"logits have shape \(2, 3\), labels \(3,\)"):
        tl.sparse_softmax_cross_entropy(tl.zeros((2, 3)), [0, 1, 2])
    with pytest.raises(DTypeError, match="labels must be of an int dtype, got float64"):
        tl.sparse_softmax_cross_entropy(tl.zeros((2, 3)), [0.0, 1.0])


def test_one_hot_of_a_label_outside_is_zeros() -> None:
    np.testing.assert_array_equal(tl.one_hot([1, 5, -1], 2).numpy(), [[0, 1], [0, 0], [0, 0]])
    assert tl.one_hot([0], 2, dtype=tl.int8).dtype == np.int8
