"""The CTC loss against the sum over all ways to say a sequence, written out."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

import tapeline as tl
from tapeline.runtime.errors import ArgumentError, ShapeError

CASES = [([1], 2), ([1, 1], 3), ([1, 2], 4), ([2, 1, 2], 4), ([], 3), ([1, 1], 2)]


def said(path: tuple[int, ...], blank: int) -> list[int]:
    """What a path stands for."""
    runs = [path[k] for k in range(len(path)) if not k or path[k] != path[k - 1]]
    return [c for c in runs if c != blank]


def by_enumeration(logits: Any, labels: list[int], blank: int) -> float:
    """Minus the log of the sum over all paths."""
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    chances = weights / weights.sum(-1, keepdims=True)
    steps, classes = chances.shape
    total = sum(
        np.prod([chances[t, c] for t, c in enumerate(path)])
        for path in product(range(classes), repeat=steps)
        if said(path, blank) == labels
    )
    return float(-np.log(total)) if total else np.inf


def batch_of(blank: int = 0) -> tuple[Any, Any, Any, Any]:
    """All cases as one batch of different lengths."""
    rng = np.random.default_rng(3)
    logits = rng.normal(size=(len(CASES), 4, 4))
    labels = np.full((len(CASES), 3), 99)
    for k, (wanted, _) in enumerate(CASES):
        labels[k, : len(wanted)] = [(c + blank) % 4 for c in wanted]
    steps = np.array([n for _, n in CASES])
    return logits, labels, steps, np.array([len(wanted) for wanted, _ in CASES])


@pytest.mark.parametrize("blank", [0, 3])
def test_loss_sums_over_all_ways_to_say_the_labels(blank: int) -> None:
    logits, labels, steps, lengths = batch_of(blank)
    want = [
        by_enumeration(logits[k, :n], labels[k, : lengths[k]].tolist(), blank)
        for k, n in enumerate(steps)
    ]
    assert np.isinf(want[-1])
    assert np.isfinite(want[:-1]).all()

    def losses(x: Any) -> Any:
        return tl.nn.ctc_loss(x, labels, steps, lengths, blank=blank, reduction="none")

    for run in (losses, tl.function(losses)):
        np.testing.assert_allclose(run(tl.asarray(logits)).numpy(), want, rtol=1e-12)


def test_gradient_agrees_with_differences() -> None:
    logits, labels, steps, lengths = (x[:-1] for x in batch_of())

    def loss(x: Any) -> Any:
        return tl.nn.ctc_loss(x, labels, steps, lengths, reduction="sum")

    found = []
    for run in (tl.grad(loss), tl.function(tl.grad(loss))):
        found.append(run(tl.asarray(logits)).numpy())
    np.testing.assert_allclose(found[0], found[1], atol=1e-12)
    for place in np.ndindex(*logits.shape):
        step = np.zeros_like(logits)
        step[place] = 1e-6
        slope = (loss(logits + step) - loss(logits - step)) / 2e-6
        assert abs(slope.item() - found[0][place]) < 1e-8


def test_impossible_labels_have_a_gradient_of_zero() -> None:
    x = tl.zeros((1, 1, 3))
    with tl.GradientTape() as tape:
        tape.watch(x)
        loss = tl.nn.ctc_loss(x, [[1, 2]])
    assert loss.item() == np.inf
    np.testing.assert_array_equal(tape.gradient(loss, x).numpy(), np.zeros((1, 1, 3)))


def test_many_steps_of_float32_do_not_overflow() -> None:
    rng = np.random.default_rng(4)
    logits = rng.normal(size=(2, 200, 20)).astype("float32") * 10
    labels = rng.integers(1, 20, (2, 30))
    narrow = tl.nn.ctc_loss(logits, labels)
    wide = tl.nn.ctc_loss(logits.astype("float64"), labels)
    assert narrow.dtype == np.float32
    np.testing.assert_allclose(narrow.item(), wide.item(), rtol=1e-5)


def test_bad_arguments_are_named() -> None:
    with pytest.raises(ShapeError, match="ctc_loss: logits have shape"):
        tl.nn.ctc_loss(tl.zeros((2, 3)), [[1]])
    with pytest.raises(ShapeError, match="label_lengths must be ints of shape"):
        tl.nn.ctc_loss(tl.zeros((1, 2, 3)), [[1]], None, [1, 2])
    with pytest.raises(ArgumentError, match="blank must be one of 3 classes, got 3"):
        tl.nn.ctc_loss(tl.zeros((1, 2, 3)), [[1]], blank=3)
    with pytest.raises(ArgumentError, match="reduction must be"):
        tl.nn.ctc_loss(tl.zeros((1, 2, 3)), [[1]], reduction="max")
