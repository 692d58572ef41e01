"""Convolution, its gradients, and windows put back, against sums written out in NumPy."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
from tests.compiler.codegen import harness

import tapeline as tl
from tapeline.compiler.codegen.convolve import convolve_routine
from tapeline.compiler.codegen.convolve_weights import weights_routine
from tapeline.compiler.codegen.pooling import fold_routine, peaks_routine
from tapeline.compiler.codegen.target import Target
from tapeline.runtime.spec import spec_of

Array = np.ndarray[Any, Any]
each_target = pytest.mark.parametrize("target", harness.TARGETS, ids=lambda t: t.cpu)
ROUNDING = {"f4": 2e-5, "f8": 1e-13}


class Shape(NamedTuple):
    batch: int
    extents: tuple[int, ...]
    channels: int
    sizes: tuple[int, ...]
    outputs: int
    strides: tuple[int, ...]
    dilations: tuple[int, ...]


SHAPES = [
    Shape(3, (9, 11), 2, (3, 3), 5, (1, 1), (1, 1)),
    Shape(2, (8, 70), 1, (2, 5), 6, (1, 1), (1, 1)),
    Shape(2, (7, 9), 19, (3, 2), 40, (2, 3), (1, 1)),
    Shape(1, (12, 13), 3, (3, 3), 33, (1, 2), (2, 3)),
    Shape(4, (30,), 5, (7,), 16, (2,), (1,)),
    Shape(2, (4, 5, 6), 3, (2, 3, 2), 4, (1, 2, 1), (1, 1, 2)),
]
each_shape = pytest.mark.parametrize("shape", SHAPES, ids=lambda s: "x".join(map(str, s.extents)))


def counts_of(s: Shape) -> tuple[int, ...]:
    return tuple(
        (extent - (size - 1) * dilation - 1) // stride + 1
        for extent, size, stride, dilation in zip(
            s.extents, s.sizes, s.strides, s.dilations, strict=True
        )
    )


def windows(x: Array, s: Shape) -> Array:
    """All windows: (batch, counts..., sizes..., channels)."""
    out = np.zeros((x.shape[0], *counts_of(s), *s.sizes, x.shape[-1]), x.dtype)
    for place in np.ndindex(*counts_of(s)):
        for inside in np.ndindex(*s.sizes):
            at = tuple(
                p * stride + i * dilation
                for p, stride, i, dilation in zip(
                    place, s.strides, inside, s.dilations, strict=True
                )
            )
            out[(slice(None), *place, *inside)] = x[(slice(None), *at)]
    return out


def draw(s: Shape, code: str) -> tuple[Array, Array, Array]:
    """Images, a kernel and cotangents."""
    rng = np.random.default_rng(s.channels)
    shapes = (
        (s.batch, *s.extents, s.channels), (*s.sizes, s.channels, s.outputs),
        (s.batch, *counts_of(s), s.outputs),
    )  # fmt: skip
    image, kernel, cotangent = (
        harness.guarded(rng.standard_normal(x).astype(code)) for x in shapes
    )
    return image, kernel, cotangent


def launch(routine: Any, arrays: list[Array], result: Array, target: Target) -> list[Array]:
    """The result in one piece and in chunks, each in memory that nobody may run out of."""
    runner = harness.Runner(routine.emit(target, "routine"), target)
    found = []
    for split in (None, harness.odd_chunks):
        out = harness.guarded(np.full_like(result, 7))
        runner.run([*arrays, out], split)
        found.append(out)
    return found


def specs(*arrays: Array) -> list[Any]:
    return [spec_of(x.shape, x.dtype) for x in arrays]


@each_target
@each_shape
@pytest.mark.parametrize("code", ["f4", "f8"])
def test_convolution_sums_over_windows(shape: Shape, code: str, target: Target) -> None:
    image, kernel, result = draw(shape, code)
    flat = windows(image, shape).reshape(*result.shape[:-1], -1)
    expected = flat @ kernel.reshape(-1, shape.outputs)
    routine = convolve_routine(specs(image, kernel, result), shape.strides, shape.dilations)
    whole, parts = launch(routine, [image, kernel], result, target)
    np.testing.assert_allclose(whole, expected, rtol=0, atol=ROUNDING[code] * 10)
    np.testing.assert_array_equal(whole, parts)


@each_target
@each_shape
@pytest.mark.parametrize("code", ["f4", "f8"])
def test_gradient_of_the_kernel_sums_over_places(shape: Shape, code: str, target: Target) -> None:
    image, kernel, cotangent = draw(shape, code)
    inner = int(np.prod(kernel.shape[:-1]))
    flat = windows(image, shape).reshape(-1, inner)
    expected = (flat.T @ cotangent.reshape(-1, shape.outputs)).reshape(kernel.shape)
    routine = weights_routine(specs(image, cotangent, kernel), shape.strides, shape.dilations)
    whole, parts = launch(routine, [image, cotangent], kernel, target)
    np.testing.assert_allclose(whole, expected, rtol=0, atol=ROUNDING[code] * 40)
    np.testing.assert_array_equal(whole, parts)


@each_target
@each_shape
@pytest.mark.parametrize("code", ["f4", "c16"])
def test_elements_of_windows_are_added_up(shape: Shape, code: str, target: Target) -> None:
    image = draw(shape, "f8")[0].astype(code)
    elements = harness.guarded(windows(image * 0, shape))
    rng = np.random.default_rng(1)
    elements[...] = rng.integers(-9, 9, elements.shape)
    expected = np.zeros_like(image)
    for place in np.ndindex(*counts_of(shape)):
        for inside in np.ndindex(*shape.sizes):
            pairs = zip(place, shape.strides, inside, shape.dilations, strict=True)
            at = tuple(p * stride + i * dilation for p, stride, i, dilation in pairs)
            expected[(slice(None), *at)] += elements[(slice(None), *place, *inside)]
    attrs = (1, shape.sizes, shape.strides, shape.dilations, image.shape)
    routine = fold_routine(specs(elements, image), *attrs)
    for got in launch(routine, [elements], image, target):
        np.testing.assert_array_equal(got, expected)


@each_target
@pytest.mark.parametrize(
    "shape",
    [
        Shape(2, (8, 6), 5, (2, 2), 0, (2, 2), (1, 1)),
        Shape(2, (7, 9), 33, (3, 2), 0, (2, 1), (1, 2)),
    ],
)
def test_largest_elements_share_what_their_window_gets(shape: Shape, target: Target) -> None:
    rng = np.random.default_rng(2)
    image = rng.integers(0, 3, (shape.batch, *shape.extents, shape.channels)).astype("f4")
    image[0, 0, 0] = np.nan
    every = windows(image, shape)
    axes = tuple(range(3, 5))
    peaks = every.max(axes)
    values = rng.integers(1, 9, peaks.shape).astype("f4") * 12
    spread = peaks[:, :, :, None, None]
    equal = (every == spread) | (np.isnan(every) & np.isnan(spread))
    shares = equal * (values / equal.sum(axes))[:, :, :, None, None]
    expected = np.zeros_like(image)
    for place in np.ndindex(*counts_of(shape)):
        for inside in np.ndindex(*shape.sizes):
            pairs = zip(place, shape.strides, inside, shape.dilations, strict=True)
            at = tuple(p * stride + i * dilation for p, stride, i, dilation in pairs)
            expected[(slice(None), *at)] += shares[(slice(None), *place, *inside)]
    arrays = [harness.guarded(x.astype("f4")) for x in (values, image, peaks)]
    attrs = (1, shape.sizes, shape.strides, shape.dilations)
    routine = peaks_routine(specs(*arrays, image), *attrs)
    for got in launch(routine, arrays, image, target):
        np.testing.assert_allclose(got, expected, rtol=1e-6)


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("channels", [2, 8])
@pytest.mark.parametrize(("stride", "padding", "dilation"), [(1, "same", 2), (2, 3, 1), (1, 3, 1)])
def test_compiled_gradients_of_convolutions_are_the_eager_ones(
    stride: int, padding: Any, dilation: int, channels: int, groups: int
) -> None:
    rng = np.random.default_rng(3)
    x = tl.asarray(rng.standard_normal((2, 7, 6, channels)))
    w = tl.asarray(rng.standard_normal((3, 2, channels // groups, 6)))

    def gradients(x: tl.Tensor, w: tl.Tensor) -> Any:
        with tl.GradientTape() as tape:
            tape.watch(x)
            tape.watch(w)
            y = tl.nn.conv2d(x, w, stride=stride, padding=padding, dilation=dilation, groups=groups)
            loss = tl.sum(y * tl.sin(y))
        return (y, *tape.gradient(loss, [x, w]))

    for got, want in zip(tl.function(gradients)(x, w), gradients(x, w), strict=True):
        np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-11, atol=1e-11)
