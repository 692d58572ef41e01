"""Nests taken apart where one launch could not be split into enough chunks.

`peel` moves the first reductions of a program into a nest of their own; `split` lets a reduction
run in parts, whose results a second nest reduces. Both depend on extents only.

Pure: nothing here emits.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tapeline.compiler.codegen.nest import Nest, Operand, Step
from tapeline.compiler.codegen.passplan import levels_of, live_values
from tapeline.compiler.codegen.schedule import ARG_KINDS, Ragged, Space, space_of

PART = 8192
"""About how many points one part of a reduction has."""


MOST_PARTS = 512
"""More parts than this would themselves be much to add up."""


@dataclass(frozen=True, slots=True)
class Stage:
    """One of several nests that carry out a nest.

    `sources[k]` is where operand k is: the number of an operand of the original nest, or -1 - t for
    temporary t.
    """

    nest: Nest
    sources: tuple[int, ...]
    ragged: Ragged | None = None


@dataclass(frozen=True, slots=True)
class Stages:
    """Nests to run one after the other, and the sizes in bytes of the temporaries between them."""

    stages: tuple[Stage, ...]
    temporaries: tuple[int, ...]


def is_reducing(step: Step) -> bool:
    """Whether a step reduces its argument."""
    return step.kind not in ("map", "index")


def canonical(nest: Nest) -> Nest | None:
    """The nest with its dimensions merged where they can be; None where positions forbid it."""
    if any(step.kind == "index" or step.kind in ARG_KINDS for step in nest.steps):
        return None
    space: Space = space_of(nest)
    operands = tuple(
        replace(operand, strides=space.streams[k].strides)
        for k, operand in enumerate(nest.operands)
    )
    return replace(nest, shape=space.extents, axes=space.dims(True), operands=operands)


def dense_strides(nest: Nest, itemsize: int, first: tuple[int, ...] = ()) -> tuple[int, ...]:
    """Byte strides of a dense array over the kept dimensions, those in `first` outermost."""
    kept = [d for d in range(len(nest.shape)) if d not in nest.axes and d not in first]
    strides, size = [0] * len(nest.shape), itemsize
    for d in [*reversed(kept), *reversed(first)]:
        strides[d] = size
        size *= nest.shape[d]
    return tuple(strides)


def kept_size(nest: Nest) -> int:
    """The number of kept points."""
    size = 1
    for d, extent in enumerate(nest.shape):
        if d not in nest.axes:
            size *= extent
    return size


def separate(nest: Nest) -> Stages | None:
    """A nest per set of dimensions along which results move, where nothing is reduced, so that each
    point of a result is computed once; None where all results move alike.

    Results over inputs come last.
    """
    groups: dict[tuple[int, ...], list[int]] = {}
    for k, operand in enumerate(nest.operands[nest.n_inputs :], nest.n_inputs):
        moving = tuple(d for d, n in enumerate(nest.shape) if n > 1 and operand.strides[d])
        groups.setdefault(moving, []).append(k)
    if len(groups) < 2:
        return None
    overwriting = {operand for _, operand in nest.in_place}
    stages = []
    for moving, outputs in sorted(groups.items(), key=lambda item: bool(overwriting & {*item[1]})):
        one = replace(
            nest,
            shape=tuple(n if d in moving else 1 for d, n in enumerate(nest.shape)),
            operands=(*nest.operands[: nest.n_inputs], *(nest.operands[k] for k in outputs)),
            results=tuple(nest.results[k - nest.n_inputs] for k in outputs),
            in_place=tuple(
                (i, nest.n_inputs + outputs.index(k)) for i, k in nest.in_place if k in outputs
            ),
        )
        stages.append(Stage(one, (*range(nest.n_inputs), *outputs)))
    return Stages(tuple(stages), ())


def first_reductions(nest: Nest) -> list[int]:
    """The reductions that depend on no other, of those that some result needs."""
    live, levels = live_values(nest), levels_of(nest)
    return [
        number
        for number, step in enumerate(nest.steps, nest.n_inputs)
        if is_reducing(step) and number in live and levels[number] == 1
    ]


def peel(nest: Nest) -> Stages:
    """The first reductions as a nest of their own, then the rest with their results as inputs."""
    reductions = first_reductions(nest)
    temporaries = []
    outputs = []
    for value in reductions:
        dtype = nest.steps[value - nest.n_inputs].dtype
        outputs.append(Operand(dtype, dense_strides(nest, dtype.itemsize)))
        temporaries.append(kept_size(nest) * dtype.itemsize)
    inputs = nest.operands[: nest.n_inputs]
    marks = tuple(-1 - t for t in range(len(reductions)))
    first = replace(nest, operands=(*inputs, *outputs), results=tuple(reductions), in_place=())
    rest = _without(nest, reductions, tuple(outputs))
    count = nest.n_inputs
    numbers = tuple(range(len(nest.operands)))
    return Stages(
        (
            Stage(first, (*numbers[:count], *marks)),
            Stage(rest, (*numbers[:count], *marks, *numbers[count:])),
        ),
        tuple(temporaries),
    )


def _without(nest: Nest, reductions: list[int], known: tuple[Operand, ...]) -> Nest:
    """The nest where some reductions are inputs, behind its own inputs."""
    count, more = nest.n_inputs, len(reductions)
    numbers = {value: value for value in range(count)}
    numbers |= {value: count + k for k, value in enumerate(reductions)}
    steps: list[Step] = []
    for value, step in enumerate(nest.steps, count):
        if value in numbers:
            continue
        numbers[value] = count + more + len(steps)
        steps.append(replace(step, args=tuple(numbers[arg] for arg in step.args)))
    return Nest(
        nest.shape,
        nest.axes if any(is_reducing(step) for step in steps) else (),
        (*nest.operands[:count], *known, *nest.operands[count:]),
        count + more,
        tuple(steps),
        tuple(numbers[value] for value in nest.results),
        tuple((source, operand + more) for source, operand in nest.in_place),
    )


def split(nest: Nest, axis: int, part: int, lanewise: bool) -> Stages:
    """A canonical nest whose reductions are all first ones, with `axis` reduced in parts."""
    reductions = first_reductions(nest)
    extent, dims = nest.shape[axis], len(nest.shape)
    parts = -(-extent // part)
    shape = (*(part if d == axis else n for d, n in enumerate(nest.shape)), parts)
    inputs = tuple(
        replace(o, strides=(*o.strides, part * o.strides[axis]))
        for o in nest.operands[: nest.n_inputs]
    )
    wide = replace(nest, shape=shape, operands=inputs)
    outputs, temporaries = [], []
    for value in reductions:
        dtype = nest.steps[value - nest.n_inputs].dtype
        strides = dense_strides(wide, dtype.itemsize, (dims,) if lanewise else ())
        outputs.append(Operand(dtype, strides))
        temporaries.append(kept_size(wide) * dtype.itemsize)
    first = replace(wide, operands=(*inputs, *outputs), results=tuple(reductions), in_place=())
    marks = tuple(-1 - t for t in range(len(reductions)))
    numbers = tuple(range(len(nest.operands)))
    count = nest.n_inputs
    return Stages(
        (
            Stage(first, (*numbers[:count], *marks), Ragged(dims, axis, extent)),
            Stage(
                _fold(nest, reductions, tuple(outputs), parts),
                (*marks, *numbers),
            ),
        ),
        tuple(temporaries),
    )


def _fold(nest: Nest, reductions: list[int], partial: tuple[Operand, ...], parts: int) -> Nest:
    """Reduces the parts, which are inputs before the nest's own, and finishes the program."""
    dims, more = len(nest.shape), len(reductions)
    numbers = {value: value + more for value in range(nest.n_inputs)}
    steps: list[Step] = []
    total = nest.n_inputs + more
    needed = _after(nest, set(reductions))
    for value, step in enumerate(nest.steps, nest.n_inputs):
        if value in reductions:
            numbers[value] = total + len(steps)
            steps.append(Step(step.kind, step.dtype, (reductions.index(value),)))
        elif value in needed:
            numbers[value] = total + len(steps)
            steps.append(replace(step, args=tuple(numbers[arg] for arg in step.args)))
    shape = (*(1 if d in nest.axes else n for d, n in enumerate(nest.shape)), parts)
    own = tuple(replace(o, strides=(*o.strides, 0)) for o in nest.operands)
    return Nest(
        shape,
        (dims,),
        (*partial, *own),
        total,
        tuple(steps),
        tuple(numbers[value] for value in nest.results),
        tuple((source + more, operand + more) for source, operand in nest.in_place),
    )


def _after(nest: Nest, stop: set[int]) -> set[int]:
    """The values that results depend on without going through those in `stop`."""
    found: set[int] = set()
    pending = list(nest.results)
    while pending:
        value = pending.pop()
        if value in found or value in stop or value < nest.n_inputs:
            continue
        found.add(value)
        pending.extend(nest.steps[value - nest.n_inputs].args)
    return found


def part_size(extent: int, others: int, lanewise: bool) -> int:
    """Points of a split dimension per part, where each is about `others` points of work."""
    size = max(1, PART // max(others, 1), -(-extent // MOST_PARTS))
    if lanewise:
        size = max(size, 128)
    return min(size, extent)
