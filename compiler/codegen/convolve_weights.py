"""The gradient of a convolution's kernel: images against results, without a matrix of windows.

A block is some elements of a window that lie side by side by some vectors of outputs, held in
registers while all places of an image go by. What images give is added up in their order, so each
sum is one chain per image, and threads, which take blocks, change no bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from tapeline.compiler.codegen.convolve import Geometry, accumulators, at_place, geometry_of
from tapeline.compiler.codegen.loops import ZERO, FunctionBuilder, Index, int64
from tapeline.compiler.codegen.nest import Kernel
from tapeline.compiler.codegen.routine import single_launch
from tapeline.compiler.codegen.target import Target
from tapeline.compiler.codegen.values import Value, code_of, size_of
from tapeline.runtime.spec import Shape, TensorSpec

_PANEL_VECTORS = 2


@dataclass(frozen=True, slots=True)
class ConvolveWeights:
    """`result[w, o]` is the sum over all places of `image[n, p + w] * values[n, p, o]`."""

    geometry: Geometry
    batch: int

    def emit(self, target: Target, name: str) -> Kernel:
        """The kernel; a chunk is a range of blocks."""
        f = FunctionBuilder(target)
        emitter = _WeightsEmitter(f, self.geometry)
        emitter.write()
        function = f.finish(name, ("convolve_weights", target, self.geometry))
        geometry = self.geometry
        work = self.batch * geometry.places * geometry.outputs * prod(geometry.sizes)
        return single_launch(
            "convolution of weights", function, {"batch": self.batch},
            ["image", "values", "result"],
            extent=emitter.blocks, work=work * geometry.channels // 4,
        )  # fmt: skip


class _WeightsEmitter:
    def __init__(self, f: FunctionBuilder, geometry: Geometry) -> None:
        self.f, self.g = f, geometry
        self.code = code_of(geometry.dtype)
        self.size = size_of(self.code)
        self.lanes = f.target.lanes(self.size)
        vectors = -(-geometry.outputs // self.lanes)
        self.panel = min(vectors, _PANEL_VECTORS)
        self.panels = -(-vectors // self.panel)
        most = accumulators(f.target) // self.panel
        self.parts = -(-geometry.run // most)
        self.rows = -(-geometry.run // self.parts)
        self.segments = prod(extent for extent, _ in geometry.segment_axes)
        self.blocks = self.segments * self.parts * self.panels
        self.image, self.values, self.result = (
            f.pointer_slot(name) for name in ("image", "values", "result")
        )

    def write(self) -> None:
        """Images outside, blocks inside: an image and its results stay in cache."""
        f, g = self.f, self.g

        def one(n: Value, _: list[Value]) -> list[Value]:
            image = f.element(self.image, self.code, Index(f.mul(n, int64(g.image))))
            places = int64(g.places * g.outputs)
            values = f.element(self.values, self.code, Index(f.mul(n, places)))
            first = f.compare("eq", n, ZERO)

            def block(number: Value, _: list[Value]) -> list[Value]:
                self._block(number, image, values, first)
                return []

            return f.loop(f.low, f.high, 1, [], block)

        f.loop(ZERO, f.slot("batch"), 1, [], one)

    def _split(self, number: Value, count: int) -> tuple[Value, Value]:
        """A number as (quotient, remainder)."""
        f = self.f
        return (
            f.value(f"udiv i64 {number.name}, {count}", "i8", 1),
            f.value(f"urem i64 {number.name}, {count}", "i8", 1),
        )

    def _block(self, number: Value, image: str, values: str, first: Value) -> None:
        f, g = self.f, self.g
        rest, panel = self._split(number, self.panels)
        segment, part = self._split(rest, self.parts)
        extents = tuple(extent for extent, _ in g.segment_axes)
        steps = [step for _, step in g.segment_axes]
        where = at_place(f, segment, extents, steps) if extents else ZERO
        row = f.mul(part, int64(self.rows))
        begin = f.intrinsic("smin", row, int64(g.run - self.rows))
        column = f.mul(panel, int64(self.panel * self.lanes))
        masks = self._masks(column)
        source = f.element(image, self.code, Index(f.add(where, begin)))
        values = f.element(values, self.code, Index(column))
        zeros = [f.fixed(0, self.code, self.lanes)] * (self.rows * self.panel)
        sums = self._places(source, values, zeros, masks)
        total = f.add(f.mul(segment, int64(g.run)), begin)
        target = f.add(f.mul(total, int64(g.outputs)), column)
        self._add(sums, target, f.sub(row, begin), masks, first)

    def _masks(self, column: Value) -> list[Value | None]:
        """For each vector of a panel the columns that it has; None where that is always all."""
        f, g = self.f, self.g
        if g.outputs % (self.panel * self.lanes) == 0:
            return [None] * self.panel
        left = f.sub(int64(g.outputs), column)
        masks: list[Value | None] = []
        for v in range(self.panel):
            count = f.intrinsic("smax", f.sub(left, int64(v * self.lanes)), ZERO)
            masks.append(f.mask_first(count, self.lanes))
        return masks

    def _places(
        self, image: str, values: str, sums: list[Value], masks: list[Value | None]
    ) -> list[Value]:
        """Adds all places of an image."""
        f, g = self.f, self.g
        moves = [stride * step for stride, step in zip(g.strides, g.steps, strict=True)]

        def along(axis: int, image: str, values: str, carry: list[Value]) -> list[Value]:
            if axis == len(g.counts):
                return self._place(image, values, carry, masks)
            per_step = prod(g.counts[axis + 1 :]) * g.outputs * self.size

            def one(i: Value, inner: list[Value]) -> list[Value]:
                here = f.pointer_offset(image, f.mul(i, int64(moves[axis] * self.size)))
                there = f.pointer_offset(values, f.mul(i, int64(per_step)))
                return along(axis + 1, here, there, inner)

            return f.loop(ZERO, int64(g.counts[axis]), 1, carry, one)

        return along(0, image, values, sums)

    def _place(
        self, image: str, values: str, sums: list[Value], masks: list[Value | None]
    ) -> list[Value]:
        f = self.f
        vectors = [
            f.load(f.pointer_offset(values, v * self.lanes * self.size), self.code, self.lanes,
                   mask=mask)
            for v, mask in enumerate(masks)
        ]  # fmt: skip
        added = []
        for row in range(self.rows):
            x = f.splat(f.load(f.pointer_offset(image, row * self.size), self.code), self.lanes)
            for v, vector in enumerate(vectors):
                added.append(f.fma(x, vector, sums[row * self.panel + v]))
        return added

    def _add(
        self, sums: list[Value], target: Value, skipped: Value, masks: list[Value | None],
        first: Value,
    ) -> None:  # fmt: skip
        """Adds sums to the result, or stores them for the first image. The last block of a run is
        moved back to end with it, and skips the rows that another one has."""
        f, g = self.f, self.g
        start = f.element(self.result, self.code, Index(target))
        for row in range(self.rows):
            at = f.pointer_offset(start, row * g.outputs * self.size)

            def store(row: int = row, at: str = at) -> None:
                for v, mask in enumerate(masks):
                    place = f.pointer_offset(at, v * self.lanes * self.size)
                    before = f.load(place, self.code, self.lanes, mask=mask)
                    x = sums[row * self.panel + v]
                    f.store(f.select(first, x, f.add(before, x)), place, mask=mask)

            if g.run % self.rows:
                f.when(f.compare("ge", int64(row), skipped), store)
            else:
                store()


def weights_routine(
    specs: Sequence[TensorSpec], strides: Shape, dilations: Shape
) -> ConvolveWeights | None:
    """The routine for images, results and the kernel's gradient."""
    image, values, kernel = specs
    geometry = geometry_of(image, kernel.static_shape[:-2], strides, dilations, values)
    batch = image.static_shape[0]
    if not (geometry.places and geometry.outputs and geometry.channels and batch):
        return None
    return ConvolveWeights(geometry, batch)
