"""Resizing against NumPy's interpolation, compiled and with gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.composites import assert_differentiable_and_compiled

import tapeline as tl
from tapeline.runtime.errors import ArgumentError, ShapeError

X = np.random.default_rng(9).normal(size=(2, 5, 4, 2))


def along(x: Any, axis: int, wanted: int, method: str) -> Any:
    """One axis brought to an extent, row by row."""
    extent = x.shape[axis]
    places = (np.arange(wanted) + 0.5) * extent / wanted - 0.5

    def row(values: Any) -> Any:
        if method == "linear":
            return np.interp(places, np.arange(extent), values)
        return values[np.floor(places + 0.5).astype(int)]

    return np.apply_along_axis(row, axis, x)


@pytest.mark.parametrize("method", ["nearest", "linear"])
@pytest.mark.parametrize("extents", [(5, 4), (10, 8), (3, 7), (1, 1), (4, 2)])
def test_resizing_is_interpolation_along_each_axis(method: str, extents: tuple[int, int]) -> None:
    want = along(along(X, 1, extents[0], method), 2, extents[1], method)
    got = assert_differentiable_and_compiled(lambda x: tl.nn.resize(x, extents, method), X)
    np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-12)


def test_bad_arguments_are_named() -> None:
    with pytest.raises(ArgumentError, match="resize: method must be one of"):
        tl.nn.resize(X, 3, "cubic")
    with pytest.raises(ShapeError, match="resize: x has shape"):
        tl.nn.resize(X[0, 0], 3)
    with pytest.raises(ArgumentError, match="resize: extents must be an int above 0"):
        tl.nn.resize(X, 0)
