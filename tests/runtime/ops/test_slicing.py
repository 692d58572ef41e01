"""Canonical indices and diagonals."""

from __future__ import annotations

import numpy as np
import pytest

import tapeline as tl
from tapeline.runtime.errors import ArgumentError
from tapeline.runtime.ops.indexing import parse_key
from tapeline.runtime.ops.slicing import EMPTY, FULL, indexed_shape, numpy_index


def test_equal_keys_have_one_canonical_form() -> None:
    shape = (4, 5)
    for key in [..., slice(None), (slice(0, 4), ...), (slice(None), slice(0, 99, 1))]:
        assert parse_key(key, shape).basic == ()
    for key in [-1, 3, (3, ...), (np.int8(-1), slice(None))]:
        assert parse_key(key, shape).basic == (3,)
    for key in [(..., slice(2, 2)), (slice(None), slice(9, 1))]:
        assert parse_key(key, shape).basic == (FULL, EMPTY)
    assert parse_key((slice(None, None, -1), None), shape).basic == (
        ("slice", 3, None, -1),
        None,
    )


def test_shape_of_an_index_is_that_of_the_view(rng: np.random.Generator) -> None:
    x = np.zeros((4, 5, 3))
    for key in [(1, slice(None, 2)), (None, ..., -1), (slice(3, None, -2), slice(1, 1))]:
        index = parse_key(key, x.shape).basic
        assert indexed_shape(x.shape, index) == x[key].shape == x[numpy_index(index)].shape


@pytest.mark.parametrize("offset", [0, 1, -2, 9])
def test_diagonal_is_numpys(offset: int, rng: np.random.Generator) -> None:
    x = rng.normal(size=(2, 3, 4))
    for axis1, axis2 in [(0, 1), (2, 0), (-1, -2)]:
        got = tl.diagonal(tl.asarray(x), offset, axis1, axis2)
        np.testing.assert_array_equal(got.numpy(), np.diagonal(x, offset, axis1, axis2))


def test_diagonal_needs_two_different_axes() -> None:
    with pytest.raises(ArgumentError, match="diagonal: axis1 and axis2 are both -1"):
        tl.diagonal(tl.zeros((2, 2)), axis1=-1, axis2=-1)
