"""Sums, products, any and all: dtypes, axes and gradients beyond the generated tests."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapeline as tl
from tapeline.runtime.errors import ArgumentError, ShapeError


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "int64", "uint32", "float32"])
@pytest.mark.parametrize("name", ["sum", "prod"])
def test_accumulating_reductions_take_numpys_dtype(name: str, dtype: str) -> None:
    x = np.array([[1, 0], [1, 1]], dtype)
    got = getattr(tl, name)(tl.asarray(x), axis=0)
    want = getattr(np, name)(x, axis=0)
    assert got.dtype == want.dtype
    np.testing.assert_array_equal(got.numpy(), want)


def test_sum_adds_in_the_dtype_asked_for() -> None:
    x = tl.asarray(np.array([200, 100], np.uint8))
    assert tl.sum(x, dtype=tl.uint8).dtype == np.uint8
    assert tl.sum(x, dtype=tl.uint8).item() == 44
    assert tl.sum(x, dtype=tl.float32).item() == 300.0


@pytest.mark.parametrize("axis", [None, 0, -1, (0, 2), (-1, 0), [1], ()])
@pytest.mark.parametrize("keepdims", [False, True])
def test_axes_are_those_of_numpy(axis: Any, keepdims: bool, rng: np.random.Generator) -> None:
    x = rng.normal(size=(2, 3, 4))
    numpy_axis = tuple(axis) if isinstance(axis, list) else axis
    got = tl.sum(tl.asarray(x), axis, keepdims=keepdims)
    np.testing.assert_allclose(got.numpy(), np.sum(x, axis=numpy_axis, keepdims=keepdims))


def test_axis_named_twice_is_rejected() -> None:
    with pytest.raises(ArgumentError, match=r"sum: axis \(0, -2\) names the same axis twice"):
        tl.sum(tl.ones((2, 3)), axis=(0, -2))


def test_axis_out_of_range_is_rejected() -> None:
    with pytest.raises(ShapeError, match="sum: axis 2 is out of range for a tensor of 2 dim"):
        tl.sum(tl.ones((2, 3)), axis=2)


@pytest.mark.parametrize("zeros", [0, 1, 2])
def test_prod_has_the_right_gradients_with_zeros(zeros: int) -> None:
    values = np.array([2.0, 3.0, 4.0, 5.0])
    values[:zeros] = 0.0
    x = tl.asarray(values)
    with tl.GradientTape() as outer:
        outer.watch(x)
        with tl.GradientTape() as inner:
            inner.watch(x)
            y = tl.prod(x)
        first = inner.gradient(y, x)
        total = tl.sum(first * tl.asarray([1.0, 10.0, 100.0, 1000.0]))
    second = outer.gradient(total, x)
    others = [np.prod(np.delete(values, i)) for i in range(4)]
    np.testing.assert_allclose(first.numpy(), others)
    weights = 10.0 ** np.arange(4)
    want = [
        sum(weights[i] * np.prod(np.delete(values, [i, k])) for i in range(4) if i != k)
        for k in range(4)
    ]
    np.testing.assert_allclose(second.numpy(), want)


def test_any_and_all_count_nan_as_true() -> None:
    x = tl.asarray([0.0, np.nan])
    assert tl.any(x).item() is True
    assert tl.all(x).item() is False
    assert tl.all(tl.asarray([np.nan])).item() is True


def test_count_nonzero_counts() -> None:
    x = tl.asarray([[1, 0, 2], [0, 0, 3]])
    np.testing.assert_array_equal(tl.count_nonzero(x, axis=0).numpy(), [1, 0, 2])
    assert tl.count_nonzero(x).item() == 3


def test_methods_and_numpy_functions_give_the_same() -> None:
    x = tl.asarray([[1.0, 2.0], [3.0, 4.0]])
    for got in (x.sum(axis=0), np.sum(x, axis=0), tl.sum(x, axis=0)):
        assert type(got) is tl.Tensor
        np.testing.assert_array_equal(got.numpy(), [4.0, 6.0])
