"""Shrinkage towards 0."""

from __future__ import annotations

import numpy as np
import pytest
from tests.composites import assert_differentiable_and_compiled

import tapeline as tl

X = np.array([-2.0, -0.7, -0.3, 0.0, 0.2, 1.5])


def test_elements_shrink_by_the_threshold_or_vanish() -> None:
    soft = assert_differentiable_and_compiled(lambda x: tl.nn.softshrink(x, 0.4), X[X != 0])
    want = np.sign(X) * np.maximum(np.abs(X) - 0.4, 0)
    np.testing.assert_allclose(soft, want[X != 0], rtol=1e-15)
    hard = assert_differentiable_and_compiled(lambda x: tl.nn.hardshrink(x, 0.4), X)
    np.testing.assert_array_equal(hard, np.where(np.abs(X) > 0.4, X, 0))


@pytest.mark.parametrize("name", ["softshrink", "hardshrink"])
def test_a_threshold_below_0_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name}: threshold must be at least 0"):
        getattr(tl.nn, name)(X, -1.0)
