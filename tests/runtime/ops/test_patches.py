"""Patches, blocks of pixels and sampled images."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.ndimage
from tests.composites import assert_differentiable_and_compiled

import tapeline as tl


def test_unfold_gives_all_windows(rng: np.random.Generator) -> None:
    x = rng.normal(size=(2, 6, 5, 3))
    got = assert_differentiable_and_compiled(
        lambda t: tl.nn.unfold(t, (2, 3), stride=(2, 1), dilation=(1, 2), padding=1), x
    )
    wide = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    assert got.shape == (2, 4, 3, 18)
    for i in range(4):
        for j in range(3):
            window = wide[:, 2 * i : 2 * i + 2, j : j + 5 : 2]
            np.testing.assert_array_equal(got[:, i, j], window.reshape(2, -1))


def test_unfold_and_a_product_are_a_convolution(rng: np.random.Generator) -> None:
    x, w = rng.normal(size=(2, 5, 6, 3)), rng.normal(size=(3, 2, 3, 4))
    got = tl.nn.unfold(x, (3, 2)) @ w.reshape(-1, 4)
    np.testing.assert_allclose(got.numpy(), tl.nn.conv2d(x, w).numpy(), rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("stride", [1, 2])
def test_fold_is_the_transpose_of_unfold(stride: int, rng: np.random.Generator) -> None:
    x = rng.normal(size=(2, 6, 4, 3))
    patches = rng.normal(size=tl.nn.unfold(x, 2, stride=stride).shape)
    back = assert_differentiable_and_compiled(
        lambda p: tl.nn.fold(p, (6, 4), 2, stride=stride), patches
    )
    product = float(tl.sum(tl.nn.unfold(x, 2, stride=stride) * patches))
    np.testing.assert_allclose(product, np.sum(x * back), rtol=1e-12)


def test_pixels_become_blocks_and_come_back(rng: np.random.Generator) -> None:
    x = rng.normal(size=(2, 3, 4, 18))
    large = assert_differentiable_and_compiled(lambda t: tl.nn.pixel_shuffle(t, 3), x)
    assert large.shape == (2, 9, 12, 2)
    np.testing.assert_array_equal(large[:, 3:6, 6:9, 1].reshape(2, 9), x[:, 1, 2, 9:])
    back = assert_differentiable_and_compiled(lambda t: tl.nn.pixel_unshuffle(t, 3), large)
    np.testing.assert_array_equal(back, x)


@pytest.mark.parametrize("outside", ["zeros", "border"])
@pytest.mark.parametrize("method", ["linear", "nearest"])
@pytest.mark.parametrize("align", [False, True])
def test_samples_are_those_of_scipy(
    outside: str, method: str, align: bool, rng: np.random.Generator
) -> None:
    images, grid = rng.normal(size=(2, 5, 4, 3)), rng.uniform(-1.3, 1.3, (2, 6, 3, 2))
    program = lambda x, g: tl.nn.grid_sample(  # noqa: E731  # one use
        x, g, method=method, outside=outside, align_corners=align
    )
    got = assert_differentiable_and_compiled(program, images, grid)
    size = np.array([4, 5])
    place = (grid + 1) * (size - 1) / 2 if align else (grid + 1) * size / 2 - 0.5
    place = np.clip(place, 0, size - 1) if outside == "border" else place
    for n in range(2):
        where = [place[n, ..., 1], place[n, ..., 0]]
        for channel in range(3):
            wide: Any = np.pad(images[n, :, :, channel], 2)
            want = scipy.ndimage.map_coordinates(
                wide, [axis + 2 for axis in where], order=int(method == "linear")
            )
            np.testing.assert_allclose(got[n, ..., channel], want, rtol=1e-12, atol=1e-12)


def test_images_that_do_not_fit_are_rejected() -> None:
    with pytest.raises(ValueError, match=r"pixel_shuffle: x has shape .* no blocks of 2 x 2"):
        tl.nn.pixel_shuffle(tl.ones((1, 2, 2, 6)), 2)
    with pytest.raises(ValueError, match=r"pixel_unshuffle: .* must be multiples of 2"):
        tl.nn.pixel_unshuffle(tl.ones((1, 3, 2, 1)), 2)
    with pytest.raises(ValueError, match="factor must be an int"):
        tl.nn.pixel_shuffle(tl.ones((1, 2, 2, 4)), 0)
    with pytest.raises(ValueError, match="fold: patches has shape"):
        tl.nn.fold(tl.ones((1, 2, 2, 4)), (4, 3), 2)
    with pytest.raises(ValueError, match="grid_sample: method must be one of"):
        tl.nn.grid_sample(tl.ones((1, 2, 2, 1)), tl.zeros((1, 3, 2)), method="cubic")
    with pytest.raises(ValueError, match="grid_sample: x has shape"):
        tl.nn.grid_sample(tl.ones((1, 2, 2)), tl.zeros((1, 3, 2)))
