"""Nests made simpler before anything is emitted: no reductions over nothing or a single point."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tapeline.compiler.codegen.nest import Nest, Step
from tapeline.compiler.codegen.reduce import Reducer
from tapeline.compiler.codegen.values import code_of

REDUCING = ("sum", "prod", "max", "min", "any", "all", "argmax", "argmin")


def simplify(nest: Nest) -> tuple[Nest, tuple[int, ...]]:
    """The nest without reductions where the reduced axes hold at most one point, and the numbers
    that its operands had."""
    extents = [nest.shape[axis] for axis in nest.axes]
    numbers = tuple(range(len(nest.operands)))
    if 0 in extents:
        return _over_nothing(nest)
    if nest.axes and all(extent == 1 for extent in extents):
        steps = tuple(_single(step) if step.kind in REDUCING else step for step in nest.steps)
        return replace(nest, axes=(), steps=steps), numbers
    return nest, numbers


def _single(step: Step) -> Step:
    """The map that reduces one element."""
    key: Any = ("single", step.kind)

    def emit(b: Any, x: Any) -> Any:
        if step.kind in ("argmax", "argmin"):
            return b.constant(0, step.dtype)
        if step.kind == "sum" and step.dtype.kind == "f":
            return b.add(x, b.const(0.0, x))
        return b.cast(x, step.dtype)

    return Step("map", step.dtype, step.args, emit, key)


def _empty(step: Step) -> Step:
    """The map that stands for the reduction of no elements."""
    identity = Reducer(step.kind, code_of(step.dtype)).identity
    key: Any = ("nothing", step.kind)
    return Step("map", step.dtype, (), lambda b: b.constant(identity, step.dtype), key)


def _over_nothing(nest: Nest) -> tuple[Nest, tuple[int, ...]]:
    """The nest for reduced axes without points: only what does not vary along them is stored."""
    kept = [d for d in range(len(nest.shape)) if d not in nest.axes]
    outputs = [
        k
        for k, operand in enumerate(nest.operands[nest.n_inputs :])
        if not any(operand.strides[d] for d in nest.axes)
    ]
    numbers = [*range(nest.n_inputs), *(nest.n_inputs + k for k in outputs)]
    operands = tuple(
        replace(nest.operands[k], strides=tuple(nest.operands[k].strides[d] for d in kept))
        for k in numbers
    )
    steps = []
    for step in nest.steps:
        if step.kind in REDUCING:
            steps.append(_empty(step))
        elif step.kind == "index":
            axis = kept.index(step.axis) if step.axis in kept else 0
            steps.append(replace(step, axis=axis))
        else:
            steps.append(step)
    in_place = tuple(
        (source, numbers.index(operand)) for source, operand in nest.in_place if operand in numbers
    )
    simple = Nest(
        tuple(nest.shape[d] for d in kept),
        (),
        operands,
        nest.n_inputs,
        tuple(steps),
        tuple(nest.results[k] for k in outputs),
        in_place,
    )
    return simple, tuple(numbers)
