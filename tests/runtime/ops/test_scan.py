"""Cumulative sums and products."""

from __future__ import annotations

import numpy as np
import pytest

import tapeline as tl
from tapeline.runtime.errors import ArgumentError


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "float32"])
def test_cumulative_sum_has_numpys_dtype(dtype: str) -> None:
    x = np.array([[1, 0, 1], [1, 1, 0]], dtype)
    got = tl.cumulative_sum(tl.asarray(x), axis=1)
    want = np.cumsum(x, axis=1)
    assert got.dtype == want.dtype
    np.testing.assert_array_equal(got.numpy(), want)


def test_cumulative_sum_without_axis_runs_over_all_elements() -> None:
    np.testing.assert_array_equal(tl.cumsum([[1, 2], [3, 4]]).numpy(), [1, 3, 6, 10])


def test_initial_value_comes_first() -> None:
    x = tl.asarray([[1.0, 2.0], [3.0, 4.0]])
    sums = tl.cumulative_sum(x, axis=0, include_initial=True)
    products = tl.cumulative_prod(x, axis=1, include_initial=True)
    np.testing.assert_array_equal(sums.numpy(), [[0, 0], [1, 2], [4, 6]])
    np.testing.assert_array_equal(products.numpy(), [[1, 1, 2], [1, 3, 12]])


def test_initial_value_of_a_matrix_needs_an_axis() -> None:
    with pytest.raises(ArgumentError, match="cumulative_sum: include_initial needs an axis"):
        tl.cumulative_sum(tl.ones((2, 2)), include_initial=True)


@pytest.mark.parametrize("zeros", [[], [2], [0, 3]])
def test_cumulative_prod_has_the_right_gradient_with_zeros(zeros: list[int]) -> None:
    values = np.array([2.0, 3.0, 4.0, 5.0, 6.0])
    values[zeros] = 0.0
    weights = np.array([1.0, 10.0, 100.0, 1000.0, 10000.0])
    x = tl.asarray(values)
    with tl.GradientTape() as tape:
        tape.watch(x)
        y = tl.cumulative_prod(x)
    got = tape.gradient(y, x, output_gradients=tl.asarray(weights))
    want = [
        sum(weights[k] * np.prod(np.delete(values[: k + 1], i)) for k in range(i, 5))
        for i in range(5)
    ]
    np.testing.assert_allclose(got.numpy(), want)
