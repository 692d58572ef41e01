"""One loop nest while it is put together: operands read and stored, and steps between them.

A value of the graph is one number of the nest, or one for each of its parts: complex numbers are
pairs, and floats of 16 bits are words that steps decode and encode.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, TypeAlias

import numpy as np

from tapeline.compiler.codegen.halves import decoded, encoded, is_half
from tapeline.compiler.codegen.nest import Nest, Operand, Step, StepKind
from tapeline.compiler.codegen.program import Placed
from tapeline.compiler.codegen.views import Layout
from tapeline.compiler.codegen.words import in_words, parts_of
from tapeline.runtime.op import ScalarEmitter
from tapeline.runtime.spec import DType, Shape, TensorSpec

_BOOL, _UINT16, _FLOAT32 = np.dtype(bool), np.dtype(np.uint16), np.dtype(np.float32)
Parts: TypeAlias = tuple[int, ...]
"""The values of a nest that stand for one value of the graph: two for a complex one."""


def _copy(_: ScalarEmitter[Any], value: Any) -> Any:
    return value


def cast_step(dtype: DType, value: int) -> Step:
    """A step that converts a value."""
    return Step("map", dtype, (value,), lambda b, x: b.cast(x, dtype), ("cast", dtype.str))


def copy_step(dtype: DType, value: int) -> Step:
    """A step that yields a value as it is."""
    return Step("map", dtype, (value,), _copy, ("identity",))


def constant_step(value: complex, dtype: DType) -> Step:
    """A step that yields a constant."""
    key = ("constant", dtype.str, repr(value))
    return Step("map", dtype, (), lambda b: b.constant(value, dtype), key)


class NestBuilder:
    """Collects the operands and steps of one nest; values are numbered when it is done."""

    def __init__(self, space: Shape, axes: tuple[int, ...]) -> None:
        self.space = space
        self.axes = axes
        self.sources: list[Operand] = []
        self.source_buffers: list[int] = []
        self.steps: list[Step] = []
        self.stores: list[tuple[int, Operand, int]] = []
        self._known: dict[Any, int] = {}

    # Values are held as -1 - k for source k and k for step k until the number of sources is known.

    def read(self, placed: Placed, axes_of: Sequence[int]) -> int:
        """The value at `placed`, whose dimension d runs along axis `axes_of[d]` (-1: one
        element)."""
        strides = [0] * len(self.space)
        for d, axis in enumerate(axes_of):
            if axis >= 0 and placed.spec.static_shape[d] != 1:
                strides[axis] = placed.layout.strides[d]
        operand = Operand(placed.spec.dtype, tuple(strides), placed.layout.offset)
        key = (placed.buffer, operand)
        found = self._known.get(key)
        if found is None:
            self.sources.append(operand)
            self.source_buffers.append(placed.buffer)
            found = self._known[key] = -len(self.sources)
        return found

    def step(self, step: Step) -> int:
        """A further step; equal constants are shared."""
        if not step.args and step.kind == "map":
            found = self._known.get(step.key)
            if found is not None:
                return found
            self._known[step.key] = len(self.steps)
        self.steps.append(step)
        return len(self.steps) - 1

    def store(self, value: int, placed: Placed, axes_of: Sequence[int]) -> None:
        """Stores a value at `placed`."""
        strides = [0] * len(self.space)
        for d, axis in enumerate(axes_of):
            if axis >= 0:
                strides[axis] = placed.layout.strides[d]
        operand = Operand(placed.spec.dtype, tuple(strides), placed.layout.offset)
        self.stores.append((value, operand, placed.buffer))

    def build(self) -> tuple[Nest, tuple[int, ...]]:
        """The nest, and the buffer of each operand."""
        n = len(self.sources)

        def number(value: int) -> int:
            return -1 - value if value < 0 else n + value

        steps = tuple(
            Step(s.kind, s.dtype, tuple(map(number, s.args)), s.emit, s.key, s.axis)
            for s in self.steps
        )
        operands = (*self.sources, *(operand for _, operand, _ in self.stores))
        buffers = (*self.source_buffers, *(buffer for _, _, buffer in self.stores))
        results = tuple(number(value) for value, _, _ in self.stores)
        return Nest(self.space, self.axes, operands, n, steps, results), buffers


def placed_words(placed: Placed) -> Placed:
    """Complex elements as pairs of floats, along one more dimension; floats of 16 bits as ints."""
    spec, layout = placed.spec, placed.layout
    if spec.dtype.kind != "c":
        return Placed(placed.buffer, layout, TensorSpec(spec.static_shape, _UINT16))
    size = spec.dtype.itemsize // 2
    parts = TensorSpec((*spec.static_shape, 2), np.dtype(f"f{size}"))
    return Placed(placed.buffer, Layout(layout.offset, (*layout.strides, size)), parts)


def _places_of_parts(placed: Placed) -> tuple[Placed, ...]:
    """Where each part of the elements lies."""
    spec, layout = placed.spec, placed.layout
    if is_half(spec.dtype):
        return (placed_words(placed),)
    return tuple([
        Placed(
            placed.buffer,
            Layout(layout.offset + k * part.itemsize, layout.strides),
            TensorSpec(spec.static_shape, part),
        )
        for k, part in enumerate(parts_of(spec.dtype))
    ])  # fmt: skip


def read_parts(nest: NestBuilder, placed: Placed, axes_of: Sequence[int]) -> Parts:
    """The parts of the value at `placed`, as `NestBuilder.read`."""
    values = tuple([nest.read(part, axes_of) for part in _places_of_parts(placed)])
    dtype = placed.spec.dtype
    if not is_half(dtype):
        return values
    return (nest.step(Step("map", _FLOAT32, values, lambda b, x: decoded(b, x, dtype),
                           ("decoded", dtype.name))),)  # fmt: skip


def store_parts(nest: NestBuilder, value: Parts, placed: Placed, axes_of: Sequence[int]) -> None:
    """Stores all parts of a value."""
    dtype = placed.spec.dtype
    if is_half(dtype):
        value = (nest.step(Step("map", _UINT16, value, lambda b, x: encoded(b, x, dtype),
                                ("encoded", dtype.name))),)  # fmt: skip
    for part, place in zip(value, _places_of_parts(placed), strict=True):
        nest.store(part, place, axes_of)


def constant_parts(nest: NestBuilder, value: Any, dtype: DType) -> Parts:
    """The parts of a constant."""
    if dtype.kind != "c":
        return (nest.step(constant_step(value, parts_of(dtype)[0])),)
    number, (part, _) = complex(value), parts_of(dtype)
    return tuple([nest.step(constant_step(x, part)) for x in (number.real, number.imag)])


def word_steps(
    nest: NestBuilder,
    emit: Callable[..., Any],
    given: tuple[DType, ...],
    dtype: DType,
    args: Sequence[Parts],
    key: Hashable,
) -> Parts:
    """Steps for each part of what a body gives for values whose parts are `args`."""
    compute = in_words(emit, given, dtype)
    whole = (key, *[one.name for one in (*given, dtype)])
    flat = tuple([value for parts in args for value in parts])

    def part_of(number: int) -> Callable[..., Any]:
        return lambda b, *values: b.once(whole, values, compute)[number]

    return tuple([
        nest.step(Step("map", part, flat, part_of(number), (*whole, number)))
        for number, part in enumerate(parts_of(dtype))
    ])  # fmt: skip


def reduce_parts(
    nest: NestBuilder, kind: StepKind, argument: Parts, given: DType, dtype: DType, trivial: bool
) -> Parts:
    """Steps that reduce a value of dtype `given` to one of `dtype`; along extents of one where that
    is `trivial`."""
    if kind in ("any", "all"):
        if given != _BOOL:
            key = ("nonzero", given.name)
            argument = word_steps(nest, _is_nonzero, (given,), _BOOL, (argument,), key)
    elif kind not in ("argmax", "argmin") and given != dtype:
        cast: Callable[..., Any] = lambda b, x: b.cast(x, dtype)  # noqa: E731 - one expression
        argument = word_steps(nest, cast, (given,), dtype, (argument,), ("cast", dtype.name))
    if kind in ("argmax", "argmin"):
        return (nest.step(constant_step(0, dtype) if trivial else Step(kind, dtype, argument,
                                                                      None, (kind,))),)  # fmt: skip
    parts = parts_of(dtype)
    if trivial:
        return tuple([
            nest.step(copy_step(part, x))
            for part, x in zip(parts, argument, strict=True)
        ])  # fmt: skip
    totals = tuple([
        nest.step(Step(kind, part, (x,), None, (kind,)))
        for part, x in zip(parts, argument, strict=True)
    ])  # fmt: skip
    if not is_half(dtype):
        return totals
    return word_steps(nest, _copy, (dtype,), dtype, (totals,), ("identity",))


def _is_nonzero(b: ScalarEmitter[Any], value: Any) -> Any:
    return b.compare("ne", value, b.const(0, value))
