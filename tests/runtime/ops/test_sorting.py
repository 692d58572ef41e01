"""Sorting: order, stability, gradients."""

from __future__ import annotations

import numpy as np
import pytest

import tapeline as tl
from tapeline.runtime.errors import DTypeError


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_sort_and_argsort_agree(axis: int, rng: np.random.Generator) -> None:
    x = rng.integers(0, 4, (5, 6))
    for descending in (False, True):
        ordered = tl.sort(tl.asarray(x), axis, descending=descending)
        order = tl.argsort(tl.asarray(x), axis, descending=descending)
        np.testing.assert_array_equal(ordered.numpy(), np.take_along_axis(x, order.numpy(), axis))
        steps = np.diff(ordered.numpy(), axis=axis)
        assert np.all(steps <= 0 if descending else steps >= 0)


def test_equal_elements_keep_their_order() -> None:
    x = tl.asarray([2, 1, 2, 1])
    np.testing.assert_array_equal(tl.argsort(x).numpy(), [1, 3, 0, 2])
    np.testing.assert_array_equal(tl.argsort(x, descending=True).numpy(), [0, 2, 1, 3])


def test_gradient_goes_back_to_where_elements_came_from() -> None:
    x = tl.asarray([3.0, 1.0, 2.0])
    with tl.GradientTape() as tape:
        tape.watch(x)
        y = tl.sort(x)
    got = tape.gradient(y, x, output_gradients=tl.asarray([10.0, 20.0, 30.0]))
    np.testing.assert_array_equal(got.numpy(), [30, 10, 20])


def test_complex_numbers_have_no_order() -> None:
    with pytest.raises(DTypeError, match="sort: dtype complex128 is not supported"):
        tl.sort(tl.asarray([1j]))
