"""Convolution and pooling against loops, compiled and with gradients."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from tests.composites import assert_differentiable_and_compiled

import tapeline as tl
from tapeline.runtime.errors import ArgumentError, ShapeError

RNG = np.random.default_rng(8)
CONVS = {1: tl.nn.conv1d, 2: tl.nn.conv2d, 3: tl.nn.conv3d}


def each(value: Any, count: int) -> tuple[Any, ...]:
    return tuple([value] * count) if isinstance(value, int) else tuple(value)


def pads_of(x: Any, sizes: Any, stride: Any, dilation: Any, padding: Any) -> list[tuple[int, int]]:
    """The padding of each inner axis, from its definition."""
    found = []
    for axis, size in enumerate(sizes):
        if padding == "same":
            outputs = int(np.ceil(x.shape[axis + 1] / stride[axis]))
            total = (outputs - 1) * stride[axis] + (size - 1) * dilation[axis] + 1
            total = max(total - x.shape[axis + 1], 0)
            found.append((total // 2, total - total // 2))
        elif padding == "valid":
            found.append((0, 0))
        else:
            item = padding if isinstance(padding, int) else padding[axis]
            found.append((item, item) if isinstance(item, int) else item)
    return found


def windows_by_loops(
    x: Any, sizes: Any, stride: Any, padding: Any, dilation: Any, value: float = 0.0
) -> Any:
    """All windows, shape (batch, places..., sizes..., channels)."""
    pads = [(0, 0), *pads_of(x, sizes, stride, dilation, padding), (0, 0)]
    x = np.pad(x, pads, constant_values=value)
    counts = [
        (x.shape[a + 1] - (n - 1) * dilation[a] - 1) // stride[a] + 1 for a, n in enumerate(sizes)
    ]
    out = np.empty((x.shape[0], *counts, *sizes, x.shape[-1]), x.dtype)
    for place in product(*map(range, counts)):
        key = tuple(
            slice(p * s, p * s + (n - 1) * d + 1, d)
            for p, s, n, d in zip(place, stride, sizes, dilation, strict=True)
        )
        index: Any = (slice(None), *place)
        out[index] = x[(slice(None), *key)]
    return out


def conv_by_loops(
    x: Any, w: Any, stride: Any = 1, padding: Any = "valid", dilation: Any = 1, groups: int = 1
) -> Any:
    count = w.ndim - 2
    stride, dilation = each(stride, count), each(dilation, count)
    windows = windows_by_loops(x, w.shape[:-2], stride, padding, dilation)
    outputs = []
    for x_part, w_part in zip(np.split(windows, groups, -1), np.split(w, groups, -1), strict=True):
        axes = list(range(count + 1, 2 * count + 2)), list(range(count + 1))
        outputs.append(np.tensordot(x_part, w_part, axes))
    return np.concatenate(outputs, -1)


CASES: list[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    ((2, 7, 3), (3, 3, 2), {}),
    ((1, 7, 2), (2, 2, 2), {"stride": 2, "padding": 1, "dilation": 3}),
    ((2, 5, 4, 2), (3, 2, 2, 3), {}),
    ((2, 5, 4, 2), (3, 2, 2, 3), {"padding": "same"}),
    ((1, 6, 5, 2), (3, 3, 2, 2), {"padding": "same", "stride": 2}),
    ((1, 6, 5, 2), (2, 2, 2, 2), {"stride": (2, 1), "padding": ((1, 0), (0, 2))}),
    ((1, 6, 5, 4), (2, 2, 2, 6), {"groups": 2, "dilation": (2, 1)}),
    ((1, 4, 4, 3), (2, 2, 1, 3), {"groups": 3, "padding": (1, 0)}),
    ((2, 3, 3, 2), (1, 1, 2, 4), {}),
    ((1, 3, 4, 3, 2), (2, 2, 2, 2, 2), {"padding": "same"}),
    ((1, 5, 3, 3, 1), (2, 1, 2, 1, 2), {"stride": (2, 1, 1), "dilation": (1, 1, 2)}),
]


@pytest.mark.parametrize(("x_shape", "w_shape", "options"), CASES)
def test_convolution_is_what_loops_give(x_shape: Any, w_shape: Any, options: Any) -> None:
    x, w = RNG.normal(size=x_shape), RNG.normal(size=w_shape)
    conv = CONVS[len(w_shape) - 2]
    got = assert_differentiable_and_compiled(lambda x, w: conv(x, w, **options), x, w)
    np.testing.assert_allclose(got, conv_by_loops(x, w, **options), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("x_shape", "w_shape", "options"), CASES)
def test_transposed_convolution_is_the_transpose(x_shape: Any, w_shape: Any, options: Any) -> None:
    x, w = RNG.normal(size=x_shape), RNG.normal(size=w_shape)
    conv = CONVS[len(w_shape) - 2]
    y = RNG.normal(size=conv(x, w, **options).shape)
    options = {**options, "output_shape": x_shape[1:-1]}
    back = assert_differentiable_and_compiled(
        lambda y, w: tl.nn.conv_transpose(y, w, **options), y, w
    )
    del options["output_shape"]
    np.testing.assert_allclose((back * x).sum(), (y * conv(x, w, **options).numpy()).sum())


def test_transposed_convolution_chooses_its_shape() -> None:
    x, w = RNG.normal(size=(1, 3, 4, 2)), RNG.normal(size=(3, 3, 5, 2))
    assert tl.nn.conv_transpose(x, w, stride=2).shape == (1, 7, 9, 5)
    assert tl.nn.conv_transpose(x, w, stride=2, padding="same").shape == (1, 6, 8, 5)
    assert tl.nn.conv_transpose(x, w, np.ones(5), padding=1).shape == (1, 3, 4, 5)
    with pytest.raises(ShapeError, match="choose another output_shape"):
        tl.nn.conv_transpose(x, w, stride=2, output_shape=(9, 9))


def test_bias_and_dtypes() -> None:
    x, w = RNG.normal(size=(1, 4, 4, 2)), RNG.normal(size=(2, 2, 2, 3))
    bias = RNG.normal(size=3)
    got = tl.nn.conv2d(x, w, bias).numpy()
    np.testing.assert_allclose(got, conv_by_loops(x, w) + bias, rtol=1e-12)
    single = tl.nn.conv2d(x.astype("float32"), w.astype("float32"))
    assert single.dtype == np.float32
    np.testing.assert_allclose(single.numpy(), conv_by_loops(x, w), rtol=1e-4, atol=1e-5)
    assert tl.nn.conv2d(np.zeros((0, 4, 4, 2)), w).shape == (0, 3, 3, 3)


def test_convolution_names_what_does_not_fit() -> None:
    x, w = np.ones((1, 4, 4, 2)), np.ones((2, 2, 2, 3))
    with pytest.raises(ShapeError, match="conv1d: x has shape"):
        tl.nn.conv1d(x, w)
    with pytest.raises(ShapeError, match=r"channels must be inputs \* groups"):
        tl.nn.conv2d(x, np.ones((2, 2, 3, 3)))
    with pytest.raises(ShapeError, match="does not fit into"):
        tl.nn.conv2d(x, np.ones((5, 2, 2, 3)))
    with pytest.raises(ArgumentError, match="padding must be 'valid', 'same' or ints"):
        tl.nn.conv2d(x, w, padding="full")
    with pytest.raises(ArgumentError, match="stride must be an int above 0 or 2 of them"):
        tl.nn.conv2d(x, w, stride=(1, 2, 3))


POOLS: list[tuple[tuple[int, ...], Any, dict[str, Any]]] = [
    ((2, 6, 3), 2, {}),
    ((1, 6, 5, 2), (2, 3), {"stride": (1, 2)}),
    ((1, 5, 5, 2), 3, {"stride": 2, "padding": "same"}),
    ((1, 4, 5, 2), 2, {"padding": ((1, 0), (0, 1))}),
    ((1, 4, 4, 2, 1), 2, {}),
]


@pytest.mark.parametrize(("shape", "window", "options"), POOLS)
def test_pooling_is_what_loops_give(shape: Any, window: Any, options: Any) -> None:
    x = RNG.permutation(np.arange(float(np.prod(shape)))).reshape(shape)
    count = len(shape) - 2
    sizes = each(window, count)
    stride = each(options.get("stride", sizes), count)
    padding = options.get("padding", "valid")
    inner = tuple(range(count + 1, 2 * count + 1))
    cases: list[tuple[float, Any, Any]] = [
        (-np.inf, tl.nn.max_pool, lambda w: w.max(inner)),
        (np.nan, tl.nn.avg_pool, lambda w: np.nanmean(w, inner)),
        (0.0, lambda *a, **o: tl.nn.avg_pool(*a, count_padding=True, **o), lambda w: w.mean(inner)),
    ]
    for value, function, want in cases:
        windows = windows_by_loops(x, sizes, stride, padding, (1,) * count, value)
        got = assert_differentiable_and_compiled(lambda x, f=function: f(x, window, **options), x)
        np.testing.assert_allclose(got, want(windows), rtol=1e-12)


def test_equal_elements_share_the_gradient_of_max_pool() -> None:
    x = tl.ones((1, 4, 1))
    found = tl.grad(lambda x: tl.sum(tl.nn.max_pool(x, 2)))(x)
    np.testing.assert_array_equal(found.numpy(), np.full((1, 4, 1), 0.5))


@pytest.mark.parametrize("bins", [1, 2, (3, 2), (5, 4), (7, 3)])
def test_adaptive_pooling_averages_bins(bins: Any) -> None:
    x = RNG.normal(size=(2, 5, 4, 3))
    rows, columns = each(bins, 2)
    want = np.empty((2, rows, columns, 3))
    for i, j in product(range(rows), range(columns)):
        top, bottom = int(np.floor(i * 5 / rows)), int(np.ceil((i + 1) * 5 / rows))
        left, right = int(np.floor(j * 4 / columns)), int(np.ceil((j + 1) * 4 / columns))
        want[:, i, j] = x[:, top:bottom, left:right].mean((1, 2))
    got = assert_differentiable_and_compiled(lambda x: tl.nn.adaptive_avg_pool(x, bins), x)
    np.testing.assert_allclose(got, want, rtol=1e-12)
    with pytest.raises(ShapeError, match="adaptive_avg_pool: x has shape"):
        tl.nn.adaptive_avg_pool(np.ones((2, 3)), 1)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("is_weight_mapped", [False, True])
def test_examples_of_vmap_are_convolved_and_pooled_each(is_weight_mapped: bool) -> None:
    x, w = RNG.normal(size=(3, 2, 5, 4, 2)), RNG.normal(size=(3, 2, 2, 2, 3))

    def net(x: tl.Tensor, w: tl.Tensor) -> tl.Tensor:
        h = tl.nn.conv2d(x, w, stride=(2, 1), padding="same")
        return tl.nn.avg_pool(tl.nn.max_pool(h, 2, stride=1), (1, 2), stride=1)

    def slopes(x: tl.Tensor, w: tl.Tensor) -> tl.Tensor:
        found: tl.Tensor = tl.grad(lambda x: tl.sum(net(x, w) ** 2))(x)
        return found

    weights = w if is_weight_mapped else w[0]
    for function in (net, slopes):
        mapped = tl.vmap(function, in_axes=(0, 0 if is_weight_mapped else None))
        got = mapped(tl.asarray(x), tl.asarray(weights)).numpy()
        for i in range(3):
            want = function(tl.asarray(x[i]), tl.asarray(w[i if is_weight_mapped else 0]))
            np.testing.assert_allclose(got[i], want.numpy(), rtol=1e-12, atol=1e-12)
