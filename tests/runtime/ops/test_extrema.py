"""Largest and smallest elements: ties, NaN, emptiness, positions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapeline as tl
from tapeline.runtime.errors import ArgumentTypeError, DTypeError, ShapeError


def _gradient_of_max(values: list[Any]) -> list[Any]:
    x = tl.asarray(values)
    with tl.GradientTape() as tape:
        tape.watch(x)
        y = tl.max(x, axis=-1)
    gradient: list[Any] = tape.gradient(y, x).tolist()
    return gradient


def test_gradient_of_max_is_shared_by_ties() -> None:
    assert _gradient_of_max([[1.0, 3.0, 3.0], [2.0, 0.0, 1.0]]) == [[0, 0.5, 0.5], [1, 0, 0]]


def test_gradient_of_max_goes_to_nan() -> None:
    assert _gradient_of_max([1.0, np.nan, 3.0]) == [0.0, 1.0, 0.0]


def test_max_and_min_pass_nan_on() -> None:
    x = tl.asarray([[1.0, np.nan], [2.0, 3.0]])
    np.testing.assert_array_equal(tl.max(x, axis=1).numpy(), [np.nan, 3.0])
    np.testing.assert_array_equal(tl.min(x, axis=1).numpy(), [np.nan, 2.0])


def test_max_of_ints_and_bools_keeps_the_dtype() -> None:
    assert tl.max(tl.asarray(np.array([3, 1], np.int8))).dtype == np.int8
    assert tl.max(tl.asarray([False, True])).item() is True


@pytest.mark.parametrize("name", ["max", "min", "argmax", "argmin"])
def test_extremum_of_nothing_is_an_error(name: str) -> None:
    function = getattr(tl, name)
    with pytest.raises(ShapeError, match=rf"{name}: no elements.*axis 1 of shape \(2, 0\)"):
        function(tl.zeros((2, 0)), axis=1)
    assert function(tl.zeros((0, 2)), axis=1).shape == (0,)


@pytest.mark.parametrize("name", ["max", "min", "argmax", "argmin"])
def test_extremum_of_complex_numbers_is_an_error(name: str) -> None:
    with pytest.raises(DTypeError, match=rf"{name}: dtype complex128 is not supported"):
        getattr(tl, name)(tl.asarray([1j]))


def test_argmax_takes_the_first_of_ties_and_counts_nan_as_largest() -> None:
    assert tl.argmax(tl.asarray([1, 3, 3])).item() == 1
    assert tl.argmax(tl.asarray([1.0, np.nan, 3.0])).item() == 1
    assert tl.argmin(tl.asarray([1.0, np.nan, 0.0])).item() == 1


def test_argmax_without_axis_counts_in_row_major_order() -> None:
    x = tl.asarray([[1, 2], [5, 4]])
    assert tl.argmax(x).item() == 2
    np.testing.assert_array_equal(tl.argmax(x, keepdims=True).numpy(), [[2]])


def test_argmax_rejects_several_axes() -> None:
    with pytest.raises(ArgumentTypeError, match=r"argmax: axis must be one int or None, got \(0"):
        tl.argmax(tl.ones((2, 2)), axis=(0, 1))  # type: ignore[arg-type]
