"""Taking by index tensors and adding up by index."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapeline as tl
from tapeline.runtime.errors import DTypeError, IndexOutOfRangeError, ShapeError
from tapeline.runtime.op import get_op


@pytest.mark.parametrize("axis", [None, 0, 1, -1])
@pytest.mark.parametrize("indices", [1, [0, -1], [[0, 1], [1, 1]], []])
def test_take_is_numpys(axis: int | None, indices: Any, rng: np.random.Generator) -> None:
    x = rng.normal(size=(2, 3, 2))
    got = tl.take(tl.asarray(x), indices, axis)
    np.testing.assert_array_equal(got.numpy(), np.take(x, np.array(indices, np.int64), axis))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "uint64", "int32"])
def test_indices_of_every_int_dtype_are_taken(dtype: str) -> None:
    x = tl.asarray([10.0, 20.0, 30.0])
    indices = tl.asarray(np.array([2, 0, 2], dtype))
    with tl.GradientTape() as tape:
        tape.watch(x)
        y = tl.take(x, indices)
    np.testing.assert_array_equal(y.numpy(), [30, 10, 30])
    np.testing.assert_array_equal(tape.gradient(y, x).numpy(), [1, 0, 2])


def test_take_rejects_bad_indices() -> None:
    with pytest.raises(IndexOutOfRangeError, match="index -4 is out of range for axis 0 with size"):
        tl.take(tl.zeros(3), [-4])
    with pytest.raises(IndexOutOfRangeError, match="index 0 is out of range for axis 0 with size"):
        tl.take(tl.zeros(0), [0])
    with pytest.raises(DTypeError, match="take: indices must be of an int dtype, got bool"):
        tl.take(tl.zeros(2), [True, False])


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128", "int64"])
@pytest.mark.parametrize("shape", [(), (3,), (2, 3)])
def test_elements_are_added_up_by_index(
    dtype: str, shape: tuple[int, ...], rng: np.random.Generator
) -> None:
    indices = rng.integers(-5, 5, (40,))
    values = rng.integers(-9, 9, (40, *shape)).astype(dtype)
    want = np.zeros((5, *shape), dtype)
    np.add.at(want, indices, values)
    got = get_op("take_grad").kernel(values, indices, 0, 5)
    assert got.dtype == want.dtype
    np.testing.assert_array_equal(got, want)


def test_take_along_axis_broadcasts_the_other_axes(rng: np.random.Generator) -> None:
    x = rng.normal(size=(3, 4))
    indices = np.array([[0, -1]])
    got = tl.take_along_axis(tl.asarray(x), indices, axis=1)
    np.testing.assert_array_equal(got.numpy(), np.take_along_axis(x, indices, 1))


def test_take_along_axis_rejects_bad_indices() -> None:
    with pytest.raises(ShapeError, match="x has 2 dimensions and indices have 1"):
        tl.take_along_axis(tl.zeros((2, 3)), [0])
    with pytest.raises(IndexOutOfRangeError, match="index 3 is out of range for axis 1 with size"):
        tl.take_along_axis(tl.zeros((2, 3)), [[3]], axis=1)


def test_segment_sum_adds_rows_of_one_number() -> None:
    data, ids = np.arange(12.0).reshape(4, 3), [2, 0, 2, -1]
    expected = np.zeros((4, 3))
    np.add.at(expected, ids, data)
    compiled = tl.function(lambda x: tl.segment_sum(x, ids, 4))
    for found in (tl.segment_sum(data, ids, 4), compiled(data)):
        np.testing.assert_array_equal(found.numpy(), expected)
    gradient = tl.grad(lambda x: tl.sum(compiled(x) ** 2))(tl.asarray(data))
    np.testing.assert_array_equal(gradient.numpy(), 2 * expected[ids])
    assert tl.segment_sum([True, True], [0, 0], 1).numpy().tolist() == [2]
    with pytest.raises(IndexOutOfRangeError):
        tl.segment_sum(data, [0, 1, 2, 4], 4)
    with pytest.raises(ShapeError, match="one number for each row"):
        tl.segment_sum(data, [0, 1], 4)
