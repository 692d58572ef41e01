"""Linear layers, embeddings, softmax under a mask and attention, compiled and with gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.composites import assert_differentiable_and_compiled

import tapeline as tl
from tapeline.runtime.errors import DTypeError, ShapeError

RNG = np.random.default_rng(6)
X = RNG.normal(size=(2, 4))
MASK = np.array([[True, False, True, True], [False, False, False, False]])
QUERY = RNG.normal(size=(2, 3, 4))
KEY = RNG.normal(size=(2, 5, 4))
VALUE = RNG.normal(size=(2, 5, 2))


def masked_softmax(x: Any, mask: Any) -> Any:
    powers = np.where(mask, np.exp(x), 0.0)
    total = powers.sum(-1, keepdims=True)
    return powers / np.where(total == 0, 1.0, total)


def test_linear_and_embedding() -> None:
    weight, bias = RNG.normal(size=(4, 3)), RNG.normal(size=3)
    got = assert_differentiable_and_compiled(tl.nn.linear, X, weight, bias)
    np.testing.assert_allclose(got, X @ weight + bias, rtol=1e-13)
    indices = np.array([[1, 0], [1, 1]])
    got = assert_differentiable_and_compiled(lambda t: tl.nn.embedding(t, indices), X)
    np.testing.assert_array_equal(got, X[indices])


def test_softmax_under_a_mask_gives_0_there() -> None:
    got = assert_differentiable_and_compiled(lambda x: tl.nn.softmax(x, where=MASK), X)
    np.testing.assert_allclose(got, masked_softmax(X, MASK), rtol=1e-13)
    some = MASK[:1]
    logs = tl.nn.log_softmax(X[:1], where=some).numpy()
    np.testing.assert_allclose(logs[some], np.log(masked_softmax(X[:1], some)[some]), rtol=1e-12)
    assert np.isneginf(logs[~some]).all()
    np.testing.assert_array_equal(tl.nn.softmax(X).numpy(), tl.softmax(X).numpy())
    with pytest.raises(DTypeError, match="softmax: the mask has dtype float64"):
        tl.nn.softmax(X, where=X)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("kind", ["none", "bool", "float"])
def test_attention_is_a_mean_of_the_values(kind: str, causal: bool) -> None:
    allowed = np.ones((3, 5), np.bool_)
    mask: Any = None
    added: Any = 0.0
    if kind == "bool":
        mask = allowed = RNG.integers(0, 2, (3, 5)).astype(np.bool_)
    elif kind == "float":
        mask = added = RNG.normal(size=(3, 5))
    if causal:
        allowed = allowed & np.tri(3, 5, dtype=np.bool_)
    got = assert_differentiable_and_compiled(
        lambda q, k, v: tl.nn.scaled_dot_product_attention(q, k, v, mask=mask, causal=causal),
        QUERY, KEY, VALUE,
    )  # fmt: skip
    scores = QUERY @ KEY.swapaxes(1, 2) / 2.0 + added
    np.testing.assert_allclose(got, masked_softmax(scores, allowed) @ VALUE, rtol=1e-12)


def test_attention_names_shapes_that_do_not_fit() -> None:
    with pytest.raises(ShapeError, match=r"query has shape \(2, 3, 4\), key \(2, 5, 2\)"):
        tl.nn.scaled_dot_product_attention(QUERY, VALUE, VALUE)
