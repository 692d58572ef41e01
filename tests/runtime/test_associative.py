"""Prefixes of an associative operation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapeline as tl
from tapeline.runtime.errors import ArgumentError, ShapeError


@pytest.mark.parametrize("length", range(1, 18))
def test_sums_of_any_length(length: int, rng: np.random.Generator) -> None:
    x = rng.normal(size=(length, 3))
    for f in (tl.associative_scan, tl.function(tl.associative_scan)):
        np.testing.assert_allclose(f(tl.add, x).numpy(), np.cumsum(x, 0), rtol=1e-12, atol=1e-12)
        backwards = np.cumsum(x[::-1], 0)[::-1]
        np.testing.assert_allclose(f(tl.add, x, reverse=True).numpy(), backwards, atol=1e-12)
        along = np.cumsum(x, 1)
        np.testing.assert_allclose(f(tl.add, x, axis=-1).numpy(), along, atol=1e-12)


def linear(a: Any, b: Any) -> Any:
    """The composition of two maps y -> p * y + q: not commutative."""
    return {"p": a["p"] * b["p"], "q": b["p"] * a["q"] + b["q"]}


def test_recurrence_of_a_structure_with_gradients(rng: np.random.Generator) -> None:
    p, q = rng.normal(size=11), rng.normal(size=11)
    found = tl.associative_scan(linear, {"p": tl.asarray(p), "q": tl.asarray(q)})
    y, expected = 0.0, []
    for factor, term in zip(p, q, strict=True):
        y = factor * y + term
        expected.append(y)
    np.testing.assert_allclose(found["q"].numpy(), expected, rtol=1e-12)

    def by_scan(p: Any, q: Any) -> Any:
        return tl.scan(lambda y, row: ((r := row[0] * y + row[1]), r), 0.0, (p, q))[1][3:].sum()

    def by_prefixes(p: Any, q: Any) -> Any:
        return tl.associative_scan(linear, {"p": p, "q": q})["q"][3:].sum()

    given = tl.asarray(p), tl.asarray(q)
    right = tl.grad(by_scan, (0, 1))(*given)
    for f in (by_prefixes, tl.function(by_prefixes)):
        for part, other in zip(tl.grad(f, (0, 1))(*given), right, strict=True):
            np.testing.assert_allclose(part.numpy(), other.numpy(), rtol=1e-10, atol=1e-12)


def test_bad_arguments_are_named() -> None:
    with pytest.raises(ShapeError, match="one length of at least 1"):
        tl.associative_scan(lambda a, b: a, (tl.ones(3), tl.ones(4)))
    with pytest.raises(ShapeError, match="one length of at least 1"):
        tl.associative_scan(tl.add, tl.ones((0, 2)))
    with pytest.raises(ArgumentError, match="holds no tensor"):
        tl.associative_scan(tl.add, [])
    with pytest.raises(ShapeError, match=r"f gives shape \(\) for arguments of shape \(2,\)"):
        tl.associative_scan(lambda a, b: tl.sum(a + b), tl.ones(4))
