"""softmax and its kin: extremes, dtypes, emptiness."""

from __future__ import annotations

import numpy as np
import pytest

import tapeline as tl
from tapeline.runtime.errors import ShapeError


def test_large_values_do_not_overflow() -> None:
    x = tl.asarray([1000.0, 1000.0, -1000.0])
    np.testing.assert_allclose(tl.softmax(x).numpy(), [0.5, 0.5, 0.0])
    np.testing.assert_allclose(
        tl.log_softmax(x).numpy(), [-np.log(2), -np.log(2), -2000 - np.log(2)]
    )
    assert tl.logsumexp(x).item() == pytest.approx(1000 + np.log(2))


def test_logsumexp_of_infinities_is_right_without_a_warning() -> None:
    x = tl.asarray([[-np.inf, -np.inf], [np.inf, 1.0], [-np.inf, 3.0]])
    np.testing.assert_array_equal(tl.logsumexp(x, axis=1).numpy(), [-np.inf, np.inf, 3.0])


def test_ints_are_taken_as_floats() -> None:
    assert tl.softmax([1, 1]).dtype == np.float64
    assert tl.logsumexp(tl.asarray(np.array([1], np.int16))).dtype == np.float32


def test_empty_rows_are_allowed() -> None:
    assert tl.softmax(tl.zeros((2, 0))).shape == (2, 0)
    assert tl.log_softmax(tl.zeros((0, 2))).shape == (0, 2)
    np.testing.assert_array_equal(tl.logsumexp(tl.zeros((2, 0)), axis=1).numpy(), [-np.inf] * 2)


def test_softmax_needs_an_axis() -> None:
    with pytest.raises(ShapeError, match="softmax: axis -1 is out of range for a tensor of 0"):
        tl.softmax(1.0)


def test_rows_sum_to_one_along_any_axis(rng: np.random.Generator) -> None:
    x = tl.asarray(rng.normal(size=(3, 4, 5)))
    for axis in (0, 1, -1):
        np.testing.assert_allclose(tl.sum(tl.softmax(x, axis=axis), axis=axis).numpy(), 1.0)
