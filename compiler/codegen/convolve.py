"""Convolution of dense arrays, channels last, without a matrix of windows.

A tile is some places along the innermost axis by some vectors of outputs, held in registers while
the elements of a window go by: each is spread over the lanes and multiplied by a row of the kernel.
One element of the result is one chain of multiply-adds in order of the window's elements, so tiles
and threads change no bit. Extents of images are part of the text; how many images is not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from tapeline.compiler.codegen.loops import ZERO, FunctionBuilder, Index, int64
from tapeline.compiler.codegen.nest import Kernel
from tapeline.compiler.codegen.routine import single_launch
from tapeline.compiler.codegen.target import Target
from tapeline.compiler.codegen.values import Value, code_of, size_of
from tapeline.runtime.spec import DType, Shape, TensorSpec

_PANEL_VECTORS = 2


def accumulators(target: Target) -> int:
    """How many sums the registers hold beside what they are made of."""
    return 24 if target.avx512 else 12


@dataclass(frozen=True, slots=True)
class Geometry:
    """Windows over images: the extents of an image, of the kernel and of the results."""

    dtype: DType
    extents: Shape
    channels: int
    sizes: Shape
    strides: Shape
    dilations: Shape
    counts: Shape
    outputs: int

    @property
    def steps(self) -> tuple[int, ...]:
        """Elements from one place to the next along each axis of an image."""
        return tuple(
            self.channels * prod(self.extents[axis + 1 :]) for axis in range(len(self.extents))
        )

    @property
    def image(self) -> int:
        """Elements of an image."""
        return prod(self.extents) * self.channels

    @property
    def places(self) -> int:
        """Windows of an image."""
        return prod(self.counts)

    @property
    def run(self) -> int:
        """Elements of a window that lie side by side, in the image and in the kernel."""
        return self.channels * (self.sizes[-1] if self.dilations[-1] == 1 else 1)

    @property
    def segment_axes(self) -> tuple[tuple[int, int], ...]:
        """The axes of a window that lead from run to run: extent, and elements from one to the
        next."""
        pairs = [
            (size, dilation * step)
            for size, dilation, step in zip(self.sizes, self.dilations, self.steps, strict=True)
        ]
        return tuple(pairs if self.dilations[-1] != 1 else pairs[:-1])


def geometry_of(
    image: TensorSpec, sizes: Shape, strides: Shape, dilations: Shape, result: TensorSpec
) -> Geometry:
    """The geometry of images and results (batch, ..., channels)."""
    shape, given = image.static_shape, result.static_shape
    return Geometry(
        image.dtype, shape[1:-1], shape[-1], sizes, strides, dilations, given[1:-1], given[-1]
    )


def at_place(f: FunctionBuilder, number: Value, extents: Shape, steps: Sequence[int]) -> Value:
    """The sum of steps to place `number` of a grid in row-major order."""
    total, rest = ZERO, number
    for axis in range(len(extents) - 1, -1, -1):
        index = rest
        if axis:
            extent = extents[axis]
            index = f.value(f"urem i64 {rest.name}, {extent}", "i8", 1)
            rest = f.value(f"udiv i64 {rest.name}, {extent}", "i8", 1)
        total = f.add(total, f.mul(index, int64(steps[axis])))
    return total


@dataclass(frozen=True, slots=True)
class Convolve:
    """`result[n, p, o]` is the sum over the window at p of `image[n, ...] * kernel[..., o]`."""

    geometry: Geometry
    batch: int

    def emit(self, target: Target, name: str) -> Kernel:
        """The kernel; a chunk is a range of rows of the results."""
        f = FunctionBuilder(target)
        _ConvolveEmitter(f, self.geometry).write()
        function = f.finish(name, ("convolve", target, self.geometry))
        geometry = self.geometry
        rows = self.batch * prod(geometry.counts[:-1])
        work = rows * geometry.counts[-1] * geometry.outputs * prod(geometry.sizes)
        return single_launch(
            "convolution", function, {}, ["image", "kernel", "result"],
            extent=rows, work=work * geometry.channels // 4,
        )  # fmt: skip


class _ConvolveEmitter:
    def __init__(self, f: FunctionBuilder, geometry: Geometry) -> None:
        self.f, self.g = f, geometry
        self.code = code_of(geometry.dtype)
        self.lanes = f.target.lanes(size_of(self.code))
        vectors = -(-geometry.outputs // self.lanes)
        self.panel = min(vectors, _PANEL_VECTORS)
        width = geometry.counts[-1]
        most = accumulators(f.target) // self.panel
        self.tile = -(-width // -(-width // most))
        self.image, self.kernel, self.result = (
            f.pointer_slot(name) for name in ("image", "kernel", "result")
        )

    def write(self) -> None:
        """The loops over rows, tiles and panels."""
        f, g = self.f, self.g
        outer = (0, *g.counts[:-1])
        steps = (g.image, *[s * step for s, step in zip(g.strides, g.steps, strict=True)][:-1])
        width = g.counts[-1]

        def row(number: Value, _: list[Value]) -> list[Value]:
            start = at_place(f, number, outer, steps)
            first = f.mul(number, int64(width))

            def tile(at: Value, _: list[Value]) -> list[Value]:
                place = f.intrinsic("smin", at, int64(width - self.tile))
                source = f.add(start, f.mul(place, int64(g.strides[-1] * g.channels)))
                target = f.mul(f.add(first, place), int64(g.outputs))
                self._panels(source, target)
                return []

            return f.loop(ZERO, int64(width), self.tile, [], tile)

        f.loop(f.low, f.high, 1, [], row)

    def _panels(self, source: Value, target: Value) -> None:
        columns = self.panel * self.lanes
        whole = self.g.outputs // columns * columns

        def panel(column: Value, _: list[Value]) -> list[Value]:
            self._tile(source, target, column, columns)
            return []

        if whole:
            self.f.loop(ZERO, int64(whole), columns, [], panel)
        if whole < self.g.outputs:
            self._tile(source, target, int64(whole), self.g.outputs - whole)

    def _masks(self, columns: int) -> list[Value | None]:
        """For each vector of a panel the columns that it has; None for all."""
        masks: list[Value | None] = []
        for first in range(0, columns, self.lanes):
            left = columns - first
            few = self.f.vector_constant([lane < left for lane in range(self.lanes)], "b1")
            masks.append(few if left < self.lanes else None)
        return masks

    def _tile(self, source: Value, target: Value, column: Value, columns: int) -> None:
        f, g, lanes = self.f, self.g, self.lanes
        masks = self._masks(columns)
        zeros = [f.fixed(0, self.code, lanes)] * (self.tile * len(masks))
        first = f.element(self.image, self.code, Index(source))
        weights = f.element(self.kernel, self.code, Index(column))
        sums = self._segments(first, weights, list(g.segment_axes), zeros, masks)
        out = f.element(self.result, self.code, Index(f.add(target, column)))
        size = size_of(self.code)
        for place in range(self.tile):
            for v, mask in enumerate(masks):
                at = f.pointer_offset(out, (place * g.outputs + v * lanes) * size)
                f.store(sums[place * len(masks) + v], at, mask=mask)

    def _segments(
        self, image: str, kernel: str, axes: list[tuple[int, int]], sums: list[Value],
        masks: list[Value | None],
    ) -> list[Value]:  # fmt: skip
        """Adds the rest of a window, whose remaining axes are these."""
        f, g, size = self.f, self.g, size_of(self.code)
        if not axes:
            return self._run(image, kernel, sums, masks)
        (extent, step), rest = axes[0], axes[1:]
        rows = g.run * prod(count for count, _ in rest) * g.outputs

        def one(i: Value, carry: list[Value]) -> list[Value]:
            moved = f.pointer_offset(image, f.mul(i, int64(step * size)))
            weights = f.pointer_offset(kernel, f.mul(i, int64(rows * size)))
            return self._segments(moved, weights, rest, carry, masks)

        return f.loop(ZERO, int64(extent), 1, sums, one)

    def _run(
        self, image: str, kernel: str, sums: list[Value], masks: list[Value | None]
    ) -> list[Value]:
        """Adds elements of a window that lie side by side."""
        f, g, size = self.f, self.g, size_of(self.code)
        apart = g.strides[-1] * g.channels * size

        def one(i: Value, carry: list[Value]) -> list[Value]:
            row = f.pointer_offset(kernel, f.mul(i, int64(g.outputs * size)))
            vectors = [
                f.load(f.pointer_offset(row, v * self.lanes * size), self.code, self.lanes,
                       mask=mask)
                for v, mask in enumerate(masks)
            ]  # fmt: skip
            here = f.element(image, self.code, Index(i))
            added = []
            for place in range(self.tile):
                x = f.splat(f.load(f.pointer_offset(here, place * apart), self.code), self.lanes)
                for v, vector in enumerate(vectors):
                    added.append(f.fma(x, vector, carry[place * len(vectors) + v]))
            return added

        return f.loop(ZERO, int64(g.run), 1, sums, one)


def convolve_routine(
    specs: Sequence[TensorSpec], strides: Shape, dilations: Shape
) -> Convolve | None:
    """The routine for images, a kernel and results."""
    image, kernel, result = specs
    geometry = geometry_of(image, kernel.static_shape[:-2], strides, dilations, result)
    if not (geometry.places and geometry.outputs and geometry.channels):
        return None
    return Convolve(geometry, image.static_shape[0])
