"""What is special about finding elements."""

from __future__ import annotations

import numpy as np
import pytest

import tapeline as tl


def test_searchsorted_follows_a_sorter() -> None:
    x = tl.asarray([5.0, 1.0, 3.0])
    places = tl.searchsorted(x, [0.0, 3.0, 9.0], sorter=tl.argsort(x), side="right")
    np.testing.assert_array_equal(places.numpy(), [0, 2, 3])


def test_searchsorted_rejects_a_matrix_and_an_unknown_side() -> None:
    with pytest.raises(ValueError, match="x1 must be 1-d"):
        tl.searchsorted([[1.0]], [1.0])
    with pytest.raises(ValueError, match="side must be"):
        tl.searchsorted([1.0], [1.0], side="middle")  # type: ignore[arg-type]


def test_nonzero_gives_one_index_tensor_per_dimension() -> None:
    values = np.arange(24).reshape(2, 3, 4) % 3
    for found, want in zip(tl.nonzero(values), np.nonzero(values), strict=True):
        np.testing.assert_array_equal(found.numpy(), want)
    assert [part.shape for part in tl.asarray(values).nonzero()] == [(16,)] * 3


def test_nonzero_rejects_a_0d_tensor() -> None:
    with pytest.raises(ValueError, match="0-d"):
        tl.nonzero(3)
