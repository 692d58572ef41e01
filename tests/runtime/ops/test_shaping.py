"""Shapes: reshape, dimensions of extent 1, broadcasting; and the order of dimensions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapeline as tl
from tapeline.runtime.errors import ArgumentError, ArgumentTypeError, ShapeError


def test_reshape_works_out_one_extent() -> None:
    x = tl.asarray(np.arange(6))
    assert tl.reshape(x, (2, -1)).shape == (2, 3)
    assert tl.reshape(x, -1).shape == (6,)
    assert x.reshape(3, 2).shape == x.reshape((3, 2)).shape == (3, 2)


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ((2, 2), r"shape \(2, 2\) has room for 4 elements, the tensor has 6"),
        ((4, -1), r"6 elements do not fill shape \(4, -1\)"),
        ((-1, -1), "at most one -1"),
        ((-2, 3), "must hold ints >= 0"),
    ],
)
def test_reshape_rejects_shapes_that_do_not_fit(shape: Any, message: str) -> None:
    with pytest.raises(ShapeError, match=message):
        tl.reshape(tl.zeros(6), shape)


def test_reshape_rejects_extents_that_are_no_ints() -> None:
    with pytest.raises(ArgumentTypeError, match=r"reshape: expected an int, got 2\.0"):
        tl.reshape(tl.zeros(6), (2.0, 3))  # type: ignore[arg-type]


def test_expand_dims_and_squeeze_are_inverse() -> None:
    x = tl.zeros((2, 3))
    for axis in (0, 1, 2, -1, (0, 2), (-1, 0)):
        wide = tl.expand_dims(x, axis)
        assert wide.shape == np.expand_dims(np.zeros((2, 3)), axis).shape
        assert tl.squeeze(wide, axis).shape == (2, 3)
    assert tl.squeeze(tl.zeros((1, 2, 1))).shape == (2,)


def test_squeeze_rejects_longer_axes() -> None:
    with pytest.raises(ShapeError, match=r"squeeze: axis 1 of shape \(1, 2\) has extent 2"):
        tl.squeeze(tl.zeros((1, 2)), axis=1)


def test_broadcast_to_rejects_what_does_not_fit() -> None:
    with pytest.raises(ShapeError, match=r"broadcast_to: shape \(2,\) does not broadcast"):
        tl.broadcast_to(tl.zeros(2), (2, 3))


def test_broadcast_tensors_can_be_written_without_touching_each_other() -> None:
    x = tl.asarray([1.0, 2.0])
    y = tl.broadcast_to(x, (2, 2))
    y[0, 0] = 9.0
    np.testing.assert_array_equal(y.numpy(), [[9, 2], [1, 2]])
    np.testing.assert_array_equal(x.numpy(), [1, 2])


@pytest.mark.parametrize(
    ("source", "target"), [(0, 2), (-1, 0), ((0, 1), (2, 0)), ((2, 0), (0, 1))]
)
def test_moveaxis_is_numpys(source: Any, target: Any, rng: np.random.Generator) -> None:
    x = rng.normal(size=(2, 3, 4))
    got = tl.moveaxis(tl.asarray(x), source, target)
    np.testing.assert_array_equal(got.numpy(), np.moveaxis(x, source, target))


def test_moveaxis_rejects_uneven_places() -> None:
    with pytest.raises(ArgumentError, match="must name the same number of dimensions"):
        tl.moveaxis(tl.zeros((2, 3)), (0, 1), 0)


def test_permute_dims_names_each_dimension_once() -> None:
    with pytest.raises(ShapeError, match=r"permute_dims: axes \(0, 0\) must name each of the 2"):
        tl.permute_dims(tl.zeros((2, 3)), (0, 0))


def test_transposing_methods_are_numpys(rng: np.random.Generator) -> None:
    x = rng.normal(size=(2, 3, 4))
    t = tl.asarray(x)
    np.testing.assert_array_equal(t.T.numpy(), x.T)
    np.testing.assert_array_equal(t.mT.numpy(), np.swapaxes(x, -1, -2))
    np.testing.assert_array_equal(t.transpose(1, 0, 2).numpy(), x.transpose(1, 0, 2))
    np.testing.assert_array_equal(t.transpose((2, 0, 1)).numpy(), x.transpose(2, 0, 1))
    np.testing.assert_array_equal(t.swapaxes(0, 2).numpy(), x.swapaxes(0, 2))
    with pytest.raises(ShapeError, match="matrix_transpose: a tensor of at least 2 dimensions"):
        _ = tl.zeros(3).mT


def test_flip_reverses_all_axes_or_those_named(rng: np.random.Generator) -> None:
    x = rng.normal(size=(2, 3))
    for axis in (None, 0, -1, (0, 1)):
        np.testing.assert_array_equal(tl.flip(tl.asarray(x), axis).numpy(), np.flip(x, axis))


def test_an_axis_that_is_not_there_is_a_value_error_and_an_index_error() -> None:
    for kind in (ValueError, IndexError):
        with pytest.raises(kind, match=r"expand_dims: axis 3 is out of range"):
            tl.expand_dims(tl.zeros((2, 2)), axis=3)
