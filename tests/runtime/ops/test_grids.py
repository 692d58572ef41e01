"""eye, tril, triu and meshgrid."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapeline as tl


@pytest.mark.parametrize("k", [-2, 0, 1])
def test_triangles_and_diagonals_are_those_of_numpy(k: int) -> None:
    x = np.arange(24.0).reshape(2, 3, 4)
    np.testing.assert_array_equal(tl.tril(x, k=k).numpy(), np.tril(x, k))
    np.testing.assert_array_equal(tl.triu(x, k=k).numpy(), np.triu(x, k))
    np.testing.assert_array_equal(tl.eye(3, 4, k=k).numpy(), np.eye(3, 4, k=k))


@pytest.mark.parametrize("indexing", ["xy", "ij"])
@pytest.mark.parametrize("sizes", [(3,), (3, 2), (2, 3, 4)], ids=str)
def test_meshgrid_gives_what_numpy_gives(sizes: tuple[int, ...], indexing: Any) -> None:
    arrays = [np.arange(float(n)) for n in sizes]
    want = np.meshgrid(*arrays, indexing=indexing)
    for a, b in zip(tl.meshgrid(*arrays, indexing=indexing), want, strict=True):
        np.testing.assert_array_equal(a.numpy(), b)


def test_gradients_flow_through_meshgrid_and_triangles() -> None:
    x = tl.asarray([1.0, 2.0])
    with tl.GradientTape() as tape:
        tape.watch(x)
        grid, _ = tl.meshgrid(x, [1.0, 2.0, 3.0])
        y = tl.tril(grid)
    assert tape.gradient(y, x).tolist() == [3.0, 2.0]
