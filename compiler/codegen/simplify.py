"""Nests made simpler before anything is emitted: no reductions over nothing or a single point."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tapeline.compiler.codegen.nest import Nest, Step
from tapeline.compiler.codegen.passplan import live_values
from tapeline.compiler.codegen.reduce import Reducer
from tapeline.compiler.codegen.values import code_of

REDUCING = ("sum", "prod", "max", "min", "any", "all", "argmax", "argmin")


def simplify(nest: Nest) -> tuple[Nest, tuple[int, ...]]:
    """The nest without reductions where the reduced axes hold at most one point, and the numbers
    that its operands had."""
    nest = pruned(nest)
    extents = [nest.shape[axis] for axis in nest.axes]
    numbers = tuple(range(len(nest.operands)))
    if 0 in extents:
        return _over_nothing(nest)
    if nest.axes and all(extent == 1 for extent in extents):
        steps = tuple(_single(step) if step.kind in REDUCING else step for step in nest.steps)
        return replace(nest, axes=(), steps=steps), numbers
    return nest, numbers


def pruned(nest: Nest) -> Nest:
    """The nest without steps that no result needs, and with unused inputs standing still.

    Where nothing is reduced, dimensions along which no result varies are gone through once.
    """
    live = live_values(nest)
    numbers = {value: value for value in range(nest.n_inputs)}
    steps: list[Step] = []
    for value, step in enumerate(nest.steps, nest.n_inputs):
        if value in live:
            numbers[value] = nest.n_inputs + len(steps)
            steps.append(replace(step, args=tuple(numbers[arg] for arg in step.args)))
    still = tuple(0 for _ in nest.shape)
    operands = tuple(
        replace(operand, strides=still) if k < nest.n_inputs and k not in live else operand
        for k, operand in enumerate(nest.operands)
    )
    reduces = any(step.kind in REDUCING for step in steps)
    repeated = () if reduces else nest.axes
    outputs = nest.operands[nest.n_inputs :]
    shape = tuple(
        1 if d in repeated and not any(o.strides[d] for o in outputs) else extent
        for d, extent in enumerate(nest.shape)
    )
    return replace(
        nest,
        shape=shape,
        axes=nest.axes if reduces else (),
        operands=operands,
        steps=tuple(steps),
        results=tuple(numbers[value] for value in nest.results),
    )


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
