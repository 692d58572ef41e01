"""Windows put back: elements of windows added up at their places, and what the largest element of
each window gets. Dense arrays; a chunk is a range of examples, within which the order is fixed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

import numpy as np

from tapeline.compiler.codegen.loops import ZERO, FunctionBuilder, Index, int64
from tapeline.compiler.codegen.nest import Kernel
from tapeline.compiler.codegen.routine import single_launch
from tapeline.compiler.codegen.target import Target
from tapeline.compiler.codegen.values import Value, code_of, size_of
from tapeline.runtime.spec import DType, Shape, TensorSpec

MOST_PLACES = 32
"""Windows of more elements are left to other means: their places are written out one by one."""


@dataclass(frozen=True, slots=True)
class Windows:
    """Windows over the axes of an example; elements of the axes after them lie side by side."""

    dtype: DType
    extents: Shape
    sizes: Shape
    strides: Shape
    dilations: Shape
    counts: Shape
    inner: int

    @property
    def steps(self) -> tuple[int, ...]:
        """Elements from one place to the next along each windowed axis."""
        axes = range(len(self.extents))
        return tuple(self.inner * prod(self.extents[axis + 1 :]) for axis in axes)

    def covers(self) -> bool:
        """Whether each element lies in one window."""
        return self.strides == self.sizes and all(
            count * size == extent and (dilation == 1 or size == 1)
            for count, size, extent, dilation in zip(
                self.counts, self.sizes, self.extents, self.dilations, strict=True
            )
        )


def windows_of(
    whole: TensorSpec, counts: Shape, start: int, sizes: Shape, strides: Shape, dilations: Shape
) -> tuple[Windows, int]:
    """The windows of an example, and how many examples there are."""
    shape, end = whole.static_shape, start + len(sizes)
    dtype, inner = whole.dtype, prod(shape[end:])
    if dtype.kind == "c":
        dtype, inner = np.dtype(f"f{dtype.itemsize // 2}"), 2 * inner
    found = Windows(dtype, shape[start:end], sizes, strides, dilations, counts, inner)
    return found, prod(shape[:start])


class _Emitter:
    """What both routines share."""

    def __init__(self, f: FunctionBuilder, windows: Windows) -> None:
        self.f, self.w = f, windows
        self.code = code_of(windows.dtype)
        self.size = size_of(self.code)
        self.lanes = f.target.lanes(self.size)

    def clear(self, target: str) -> None:
        """Zeros for an example."""
        f = self.f
        zero = f.fixed(0, self.code, self.lanes)

        def store(i: Index, mask: Value | None, _: int, carry: list[Value]) -> list[Value]:
            f.store(zero, f.element(target, self.code, i), mask=mask)
            return carry

        total = int64(prod(self.w.extents) * self.w.inner)
        f.vector_loop(ZERO, total, self.lanes, 2, [], store)

    def nested(
        self,
        extents: Shape,
        moves: Sequence[tuple[int, ...]],
        pointers: list[str],
        body: Callable[[list[str]], None],
    ) -> None:
        """Loops over a grid; each pointer moves by so many elements along each axis."""
        f = self.f
        if not extents:
            body(pointers)
            return

        def one(i: Value, _: list[Value]) -> list[Value]:
            moved = [
                f.pointer_offset(p, f.mul(i, int64(move[0] * self.size)))
                for p, move in zip(pointers, moves, strict=True)
            ]
            self.nested(extents[1:], [move[1:] for move in moves], moved, body)
            return []

        f.loop(ZERO, int64(extents[0]), 1, [], one)

    def example(self, pointer: str, number: Value, elements: int) -> str:
        """Where an example of so many elements begins."""
        return self.f.element(pointer, self.code, Index(self.f.mul(number, int64(elements))))


def dense_steps(extents: Shape, inner: int) -> tuple[int, ...]:
    """Elements from one to the next along each axis of a dense array with `inner` at each place."""
    return tuple(inner * prod(extents[axis + 1 :]) for axis in range(len(extents)))


@dataclass(frozen=True, slots=True)
class Fold:
    """`result[e, p + w, k]` is the sum of all `values[e, p, w, k]` that belong there."""

    windows: Windows
    examples: int

    def emit(self, target: Target, name: str) -> Kernel:
        """The kernel; a chunk is a range of examples."""
        f, w = FunctionBuilder(target), self.windows
        emitter = _Emitter(f, w)
        values, result = f.pointer_slot("values"), f.pointer_slot("result")
        whole, places = prod(w.extents) * w.inner, prod(w.counts) * prod(w.sizes) * w.inner
        joined = w.dilations[-1] == 1
        outer_sizes = w.sizes[:-1] if joined else w.sizes
        run = w.inner * (w.sizes[-1] if joined else 1)
        grid = (*w.counts, *outer_sizes)
        leaps = [stride * step for stride, step in zip(w.strides, w.steps, strict=True)]
        inside = [dilation * step for dilation, step in zip(w.dilations, w.steps, strict=True)]
        moves = [dense_steps(grid, run), (*leaps, *inside[: len(outer_sizes)])]

        def add(pointers: list[str]) -> None:
            source, place = pointers

            def some(k: Index, mask: Value | None, _: int, carry: list[Value]) -> list[Value]:
                at = f.element(place, emitter.code, k)
                x = f.load(f.element(source, emitter.code, k), emitter.code, emitter.lanes,
                           mask=mask)  # fmt: skip
                before = f.load(at, emitter.code, emitter.lanes, mask=mask)
                f.store(f.add(before, x), at, mask=mask)
                return carry

            f.vector_loop(ZERO, int64(run), emitter.lanes, 0, [], some)

        def example(number: Value, _: list[Value]) -> list[Value]:
            target_place = emitter.example(result, number, whole)
            emitter.clear(target_place)
            emitter.nested(
                grid, moves, [emitter.example(values, number, places), target_place], add
            )
            return []

        f.loop(f.low, f.high, 1, [], example)
        function = f.finish(name, ("fold", target, w))
        return single_launch(
            "windows added up", function, {}, ["values", "result"],
            extent=self.examples, work=self.examples * (places + whole),
        )  # fmt: skip


def fold_routine(
    specs: Sequence[TensorSpec],
    start: int,
    sizes: Shape,
    strides: Shape,
    dilations: Shape,
    _: Shape,
) -> Fold | None:
    """The routine for elements of windows and the array they are added up in."""
    values, whole = specs
    counts = values.static_shape[start : start + len(sizes)]
    windows, examples = windows_of(whole, counts, start, sizes, strides, dilations)
    return Fold(windows, examples) if whole.size else None


@dataclass(frozen=True, slots=True)
class Peaks:
    """The largest elements of each window share its value; elements of several windows add up.

    Operands: the values, the array, the largest elements, the result.
    """

    windows: Windows
    examples: int

    def emit(self, target: Target, name: str) -> Kernel:
        """The kernel; a chunk is a range of examples."""
        f, w = FunctionBuilder(target), self.windows
        emitter = _Emitter(f, w)
        names = ("values", "array", "largest", "result")
        pointers = [f.pointer_slot(one) for one in names]
        whole, places = prod(w.extents) * w.inner, prod(w.counts) * w.inner
        leaps = tuple(stride * step for stride, step in zip(w.strides, w.steps, strict=True))
        dense = dense_steps(w.counts, w.inner)
        inside = [dilation * step for dilation, step in zip(w.dilations, w.steps, strict=True)]
        offsets = [
            sum(i * step for i, step in zip(place, inside, strict=True))
            for place in product(*map(range, w.sizes))
        ]

        def window(here: list[str]) -> None:
            def some(k: Index, mask: Value | None, _: int, carry: list[Value]) -> list[Value]:
                self._share(emitter, here, offsets, k, mask)
                return carry

            f.vector_loop(ZERO, int64(w.inner), emitter.lanes, 0, [], some)

        def example(number: Value, _: list[Value]) -> list[Value]:
            starts = [
                emitter.example(pointer, number, elements)
                for pointer, elements in zip(pointers, (places, whole, places, whole), strict=True)
            ]
            if not w.covers():
                emitter.clear(starts[3])
            emitter.nested(w.counts, [dense, leaps, dense, leaps], starts, window)
            return []

        f.loop(f.low, f.high, 1, [], example)
        function = f.finish(name, ("peaks", target, w))
        return single_launch(
            "shares of peaks", function, {}, names,
            extent=self.examples, work=self.examples * (places * len(offsets) + whole),
        )  # fmt: skip

    def _share(
        self, emitter: _Emitter, here: list[str], offsets: list[int], k: Index, mask: Value | None
    ) -> None:
        """One vector of windows."""
        f, code, lanes = emitter.f, emitter.code, emitter.lanes
        values, array, largest, result = (f.element(pointer, code, k) for pointer in here)
        value, peak = (f.load(pointer, code, lanes, mask=mask) for pointer in (values, largest))
        zero, one = f.fixed(0, code, lanes), f.fixed(1, code, lanes)
        peak_is_nan = f.is_nan(peak)
        wins, count = [], zero
        for offset in offsets:
            x = f.load(f.pointer_offset(array, offset * emitter.size), code, lanes, mask=mask)
            wins.append(f.select(peak_is_nan, f.is_nan(x), f.compare("eq", x, peak)))
            count = f.add(count, f.select(wins[-1], one, zero))
        share = f.div(value, count)
        for offset, win in zip(offsets, wins, strict=True):
            place = f.pointer_offset(result, offset * emitter.size)
            given = f.select(win, share, zero)
            if not self.windows.covers():
                given = f.add(f.load(place, code, lanes, mask=mask), given)
            f.store(given, place, mask=mask)


def peaks_routine(
    specs: Sequence[TensorSpec], start: int, sizes: Shape, strides: Shape, dilations: Shape
) -> Peaks | None:
    """The routine for values, the array, the largest elements and the result."""
    values, array, _, _ = specs
    if prod(sizes) > MOST_PLACES or not array.size:
        return None
    counts = values.static_shape[start : start + len(sizes)]
    windows, examples = windows_of(array, counts, start, sizes, strides, dilations)
    return Peaks(windows, examples)
