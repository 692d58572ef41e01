"""Differences of neighbours are those of NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import tapeline as tl


@pytest.mark.parametrize("n", [0, 1, 2, 5])
@pytest.mark.parametrize("axis", [0, 1])
def test_diff_is_that_of_numpy(n: int, axis: int) -> None:
    x = np.arange(12.0).reshape(3, 4) ** 2
    np.testing.assert_array_equal(tl.diff(x, n=n, axis=axis).numpy(), np.diff(x, n, axis))


def test_diff_joins_what_is_given_before_and_after() -> None:
    x = np.asarray([[1, 4, 9]])
    got = tl.diff(x, prepend=0, append=np.asarray([[16, 25]]))
    np.testing.assert_array_equal(got.numpy(), [[1, 3, 5, 7, 9]])


def test_diff_of_bools_tells_where_they_change() -> None:
    np.testing.assert_array_equal(tl.diff([True, True, False]).numpy(), [False, True])


def test_diff_rejects_a_0d_tensor_and_a_negative_count() -> None:
    with pytest.raises(ValueError, match="0-d"):
        tl.diff(1.0)
    with pytest.raises(ValueError, match="n is -1"):
        tl.diff([1.0], n=-1)
