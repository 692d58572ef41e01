"""Sorting: order, stability, gradients."""

from __future__ import annotations

from typing import Any

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


@pytest.mark.parametrize("mode", ["eager", "compiled"])
def test_top_k_is_the_head_of_the_order(mode: str, rng: np.random.Generator) -> None:
    def program(x: tl.Tensor) -> tuple[tl.Tensor, tl.Tensor]:
        found = tl.top_k(x, 3, axis=1)
        return found.values, found.indices

    run = tl.function(program) if mode == "compiled" else program
    x = rng.integers(0, 6, (4, 7, 2)).astype(float)
    values, indices = run(tl.asarray(x))
    want = np.argsort(-x, axis=1, kind="stable")[:, :3]
    np.testing.assert_array_equal(indices.numpy(), want)
    np.testing.assert_array_equal(values.numpy(), np.take_along_axis(x, want, 1))


def test_top_k_has_the_gradient_of_what_it_picks() -> None:
    slope = tl.grad(lambda x: tl.sum(tl.top_k(x, 2).values ** 2))(tl.asarray([3.0, 9.0, 1.0, 5.0]))
    np.testing.assert_array_equal(slope.numpy(), [0.0, 18.0, 0.0, 10.0])


@pytest.mark.parametrize("k", [-1, 5, 1.5])
def test_top_k_rejects_what_is_no_count(k: Any) -> None:
    with pytest.raises(ValueError, match="top_k: k must be an int from 0 to 4"):
        tl.top_k([3.0, 9.0, 1.0, 5.0], k)
