"""Joining, cutting, repeating, shifting and padding."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapeline as tl
from tapeline.runtime.errors import ArgumentError, ShapeError


def test_concat_promotes_to_one_dtype() -> None:
    joined = tl.concat([tl.ones(2, dtype=tl.float32), tl.ones(1, dtype=tl.int64)])
    assert joined.dtype == np.float64
    assert tl.stack([tl.asarray(1), tl.asarray(2.5)]).dtype == np.float64


def test_concat_without_axis_joins_all_elements() -> None:
    joined = tl.concat([[[1, 2]], [[3], [4]]], axis=None)
    np.testing.assert_array_equal(joined.numpy(), [1, 2, 3, 4])


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ([[1, 2], [[3]]], r"one number of dimensions, got \(2,\), \(1, 1\)"),
        ([[[1, 2]], [[3]]], r"shapes \(1, 2\) and \(1, 1\) differ outside of axis 0"),
        ([1, 2], "0-d tensors cannot be joined; use tl.stack"),
    ],
)
def test_concat_rejects_shapes_that_do_not_fit(arrays: Any, message: str) -> None:
    with pytest.raises(ShapeError, match=message):
        tl.concat(arrays)


def test_joining_nothing_is_an_error() -> None:
    with pytest.raises(ArgumentError, match="concat: at least one tensor is needed"):
        tl.concat([])
    with pytest.raises(ShapeError, match=r"stack: all shapes must be equal, got \(1,\) and \(2,\)"):
        tl.stack([[1], [1, 2]])


def test_gradient_reaches_each_joined_tensor_once() -> None:
    x, y = tl.asarray([1.0, 2.0]), tl.asarray([3.0])
    with tl.GradientTape() as tape:
        tape.watch(x)
        joined = tl.concat([x, y, x])
    gradients = tape.gradient(joined, [x, y], output_gradients=tl.asarray([1.0, 2, 3, 4, 5]))
    np.testing.assert_array_equal(gradients[0].numpy(), [5, 7])
    assert gradients[1] is None


def test_nested_lists_of_tensors_become_tensors_with_gradients() -> None:
    x = tl.asarray(2.0)
    with tl.GradientTape() as tape:
        tape.watch(x)
        total = tl.sum(tl.asarray([[x, 1.0], [x * x, x]]))
    assert tape.gradient(total, x).item() == 6.0


@pytest.mark.parametrize("parts", [1, 3, [2], [0, 4], [1, 1, 5], [-2], [9], []])
def test_split_is_numpys(parts: Any) -> None:
    x = np.arange(12).reshape(2, 6)
    got = tl.split(tl.asarray(x), parts, axis=1)
    want = np.split(x, parts, axis=1)
    assert len(got) == len(want)
    for a, b in zip(got, want, strict=True):
        np.testing.assert_array_equal(a.numpy(), b)


def test_split_rejects_uneven_parts() -> None:
    with pytest.raises(ArgumentError, match="axis 0 of extent 5 does not divide into 2 equal"):
        tl.split(tl.zeros(5), 2)


def test_unstack_undoes_stack(rng: np.random.Generator) -> None:
    rows = [tl.asarray(rng.normal(size=(2, 3))) for _ in range(4)]
    for a, b in zip(tl.unstack(tl.stack(rows, axis=1), axis=1), rows, strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())


@pytest.mark.parametrize("counts", [2, (2,), (2, 1), (3, 2, 2), 0, ()])
def test_tile_is_numpys(counts: Any) -> None:
    x = np.arange(6).reshape(2, 3)
    np.testing.assert_array_equal(tl.tile(tl.asarray(x), counts).numpy(), np.tile(x, counts))


@pytest.mark.parametrize(("counts", "axis"), [(2, None), (3, 0), (0, 1), ([1, 0, 2], 1), ([2], 0)])
def test_repeat_is_numpys(counts: Any, axis: int | None) -> None:
    x = np.arange(6).reshape(2, 3)
    got = tl.repeat(tl.asarray(x), counts, axis)
    np.testing.assert_array_equal(got.numpy(), np.repeat(x, counts, axis))


def test_repeat_rejects_counts_that_do_not_fit() -> None:
    with pytest.raises(ArgumentError, match="one for all or one for each of the 3 elements"):
        tl.repeat(tl.zeros(3), [1, 2])
    with pytest.raises(ArgumentError, match="repeats must be ints >= 0"):
        tl.repeat(tl.zeros(3), -1)


@pytest.mark.parametrize(
    ("shift", "axis"), [(1, None), (-2, 1), (7, 0), ((1, 2), (0, 1)), (1, (0, 1)), ((1, 1), 0)]
)
def test_roll_is_numpys(shift: Any, axis: Any) -> None:
    x = np.arange(6).reshape(2, 3)
    got = tl.roll(tl.asarray(x), shift, axis)
    np.testing.assert_array_equal(got.numpy(), np.roll(x, shift, axis))


@pytest.mark.parametrize("width", [1, (1, 2), ((1, 0), (0, 2)), ((0, 0), (0, 0))])
def test_pad_is_numpys(width: Any) -> None:
    x = np.arange(6).reshape(2, 3)
    got = tl.pad(tl.asarray(x), width, constant_values=7)
    np.testing.assert_array_equal(got.numpy(), np.pad(x, width, constant_values=7))


@pytest.mark.parametrize("width", [-1, ((1, 1), (1, 1), (1, 1)), 0.5])
def test_pad_rejects_other_widths(width: Any) -> None:
    with pytest.raises(ArgumentError, match="pad: pad_width must be ints >= 0, one pair for each"):
        tl.pad(tl.zeros((2, 3)), width)
