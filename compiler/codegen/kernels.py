"""The entry to code generation for nests: picks a strategy from shapes and strides, and emits it.

What is chosen never depends on the number of threads, so neither do the bits of any result.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from functools import cache
from typing import TypeAlias

import numpy as np

from tapeline.compiler.codegen.builder import Builder
from tapeline.compiler.codegen.lanes import LaneSweep
from tapeline.compiler.codegen.loops import FunctionBuilder
from tapeline.compiler.codegen.nest import Kernel, KernelFunction, Launch, Nest, SlotValue, Step
from tapeline.compiler.codegen.parts import ModuleParts
from tapeline.compiler.codegen.passplan import (
    HEAVY,
    Plan,
    inner_values,
    levels_of,
    live_values,
    plan_passes,
)
from tapeline.compiler.codegen.reduce import DEPTH, ROWS
from tapeline.compiler.codegen.rows import RowSweep
from tapeline.compiler.codegen.schedule import Schedule, Space, schedule
from tapeline.compiler.codegen.simplify import simplify
from tapeline.compiler.codegen.splitting import (
    Stages,
    canonical,
    is_reducing,
    part_size,
    peel,
    split,
)
from tapeline.compiler.codegen.sweep import PassForm
from tapeline.compiler.codegen.target import Target
from tapeline.compiler.codegen.transpose import LANES, TILE, TileSweep, tiled
from tapeline.compiler.codegen.values import Value, code_of

SPLIT_SIZE = 32768
"""From so many points on, a launch should have many chunks."""

ENOUGH_CHUNKS = 16

Places: TypeAlias = Sequence[SlotValue]
"""Where each operand of a nest is when its kernel runs."""


def emit_nest(nest: Nest, target: Target, name: str) -> Kernel:
    """The kernel that carries out a nest; its functions are named after `name`.

    Every dtype must be one that values can have (`tapeline.compiler.codegen.values.is_supported`).
    """
    places: list[SlotValue] = [("operand", k, o.offset) for k, o in enumerate(nest.operands)]
    return emit_placed(nest, target, name, places, 0)


def emit_placed(nest: Nest, target: Target, name: str, places: Places, scratch: int) -> Kernel:
    """As `emit_nest`, for operands that are where `places` says, with scratch memory from an offset
    on."""
    nest, numbers = simplify(nest)
    places = [places[k] for k in numbers]
    kept = [nest.shape[d] for d in range(len(nest.shape)) if d not in nest.axes]
    if 0 in kept or not nest.results:
        return Kernel("empty", ())
    found = schedule(nest, lanes_of(nest, target))
    stages = taken_apart(nest, found)
    if stages is not None:
        return _emit_stages(stages, target, name, places, scratch)
    turned = None if any(is_reducing(step) for step in nest.steps) else tiled(nest, found)
    return _emit_sweep(nest, target, name, places, turned or found, turned is not None)


def taken_apart(nest: Nest, found: Schedule) -> Stages | None:
    """The nest as several, where one launch would have few chunks and much to do."""
    reduces = any(is_reducing(step) for step in nest.steps)
    size = found.space.size(tuple(range(len(found.space.extents))))
    if not reduces or size < SPLIT_SIZE:
        return None
    chunks = found.space.extents[found.chunked] if found.chunked >= 0 else 1
    if found.chunked == found.vector:
        chunks //= 64
    if chunks >= ENOUGH_CHUNKS:
        return None
    plain = canonical(nest)
    if levels_of(nest) and not _is_one_level(nest, found):
        return peel(nest)
    if plain is None:
        return None
    axis = max(plain.axes, key=lambda d: plain.shape[d])
    lanewise = found.mode == "lanes"
    part = part_size(plain.shape[axis], size // plain.shape[axis] if lanewise else 1, lanewise)
    return split(plain, axis, part, lanewise) if part < plain.shape[axis] else None


def _is_one_level(nest: Nest, found: Schedule) -> bool:
    """Whether no result is inner or needs a reduction of reductions."""
    levels, inner = levels_of(nest), inner_values(nest, found)
    live = live_values(nest)
    if any(levels[value] > 1 for value in live):
        return False
    streams = found.space.streams[nest.n_inputs : len(nest.operands)]
    if any(stream.varies(found.inner) for stream in streams):
        return False
    return not any(inner[value] for value in nest.results)


def _emit_stages(stages: Stages, target: Target, name: str, places: Places, scratch: int) -> Kernel:
    """The launches of several nests."""
    starts = []
    for size in stages.temporaries:
        starts.append(scratch)
        scratch += -(-size // 64) * 64
    launches: list[Launch] = []
    names, end = [], scratch
    for number, stage in enumerate(stages.stages):
        where: list[SlotValue] = [
            places[k] if k >= 0 else ("scratch", 0, starts[-1 - k]) for k in stage.sources
        ]
        title = f"{name}_{number}"
        if stage.ragged is None:
            kernel = emit_placed(stage.nest, target, title, where, scratch)
        else:
            lanes = lanes_of(stage.nest, target)
            found = schedule(stage.nest, lanes, stage.ragged)
            kernel = _emit_sweep(stage.nest, target, title, where, found)
            kernel = replace(kernel, strategy=kernel.strategy + " in parts")
        launches += kernel.launches
        names.append(kernel.strategy)
        end = max(end, kernel.scratch_bytes)
    return Kernel(", ".join(names), tuple(launches), end)


def lanes_of(nest: Nest, target: Target) -> int:
    """Lanes per vector: as many as the widest operand that moves leaves room for."""
    moving = [o.dtype for o in nest.operands if any(o.strides)]
    computed = [s.dtype for s in nest.steps if s.kind != "index" and s.dtype.kind in "f"]
    widest = max((dtype.itemsize for dtype in moving + computed), default=8)
    return target.lanes(widest)


def step_cost(target: Target, step: Step, codes: tuple[str, ...]) -> int:
    """The instructions that a map step takes per vector, roughly."""
    if step.key is None:
        return _count_lines(target, step, codes)
    return _known_cost(target, step, codes)


@cache
def _known_cost(target: Target, step: Step, codes: tuple[str, ...]) -> int:
    return _count_lines(target, step, codes)


def _count_lines(target: Target, step: Step, codes: tuple[str, ...]) -> int:
    assert step.emit is not None
    b = Builder(ModuleParts(), target)
    step.emit(b, *(Value(f"%x{k}", code, 4) for k, code in enumerate(_codes(codes))))
    return len(b.lines)


def _codes(dtypes: tuple[str, ...]) -> list[str]:
    return [code_of(np.dtype(text)) for text in dtypes]


def _emit_sweep(
    nest: Nest,
    target: Target,
    name: str,
    places: Places,
    found: Schedule,
    turned: bool = False,
) -> Kernel:
    """One launch: row by row, lane by lane, or in tiles."""
    plan = plan_passes(nest, found, lambda step, codes: step_cost(target, step, codes))
    lanes = min(lanes_of(nest, target), LANES) if turned else lanes_of(nest, target)
    costs = [pass_cost(plan, number, target) for number in range(len(plan.passes))]
    forms = pass_forms(plan, found, lanes, costs, target)
    f = FunctionBuilder(target)
    emitter = TileSweep if turned else RowSweep if found.mode == "rows" else LaneSweep
    emitter(f, plan, found, lanes, forms).build()
    strategy = "tiles" if turned else strategy_name(nest, found)
    key = (strategy, target, program_key(nest), space_key(found), lanes, forms)
    function = f.finish(name, key)
    work = found.space.size(tuple(range(len(found.space.extents)))) * (sum(costs) + 1)
    launch = Launch(function, slot_values(function, found.space, places), 1, 1, work)
    if found.chunked >= 0:
        grain = 1
        if found.chunked == found.vector:
            grain = lanes * max([1, *(form.unroll for form in forms)])
        elif turned and found.chunked == found.n_outer - 1:
            grain = TILE
        launch = replace(launch, extent=found.space.extents[found.chunked], grain=grain)
    return Kernel(strategy, (launch,))


def strategy_name(nest: Nest, found: Schedule) -> str:
    """How the kernel works, in a word."""
    reduces = any(step.kind not in ("map", "index") for step in nest.steps)
    return found.mode if reduces else "elementwise"


def pass_cost(plan: Plan, number: int, target: Target) -> int:
    """Instructions per vector of one pass."""
    dtypes = {v: s.dtype.str for v, s in enumerate(plan.nest.steps, plan.nest.n_inputs)}
    dtypes |= {v: o.dtype.str for v, o in enumerate(plan.nest.operands[: plan.nest.n_inputs])}
    total = 0
    loaded = dict(plan.passes[number].loads)
    for value in plan.closure(number)[0]:
        step = plan.step(value)
        if step is None or step.kind != "map" or value in loaded:
            total += 1
        else:
            total += step_cost(target, step, tuple(dtypes[arg] for arg in step.args))
    return total + len(plan.passes[number].reductions) + len(plan.passes[number].stores)


def pass_forms(
    plan: Plan, found: Schedule, lanes: int, costs: list[int], target: Target
) -> tuple[PassForm, ...]:
    """How each pass is unrolled, and whether it works in blocks."""
    extents = found.space.extents
    inner = found.space.size(found.inner)
    forms = []
    for number, this in enumerate(plan.passes):
        sums = any(
            step is not None and step.kind == "sum" and step.dtype.kind == "f"
            for step in (plan.step(value) for value in this.reductions)
        )
        heavy = costs[number] > HEAVY + 4
        strided = any(found.access(k) == "strided" for k in range(len(plan.nest.operands)))
        if extents[found.vector] < 2 * lanes or (heavy and target.avx512):
            unroll = 0
        elif strided:
            unroll = 1
        elif this.reductions and not heavy and found.mode == "rows":
            unroll = 4
        else:
            unroll = 2
        size = lanes * max(unroll, 1) * DEPTH if found.mode == "rows" else ROWS
        forms.append(PassForm(unroll, size if sums and inner > size else 0))
    if found.mode == "lanes" and forms:
        unroll = min(form.unroll for form in forms)
        forms = [PassForm(unroll, form.block) for form in forms]
    return tuple(forms)


def program_key(nest: Nest) -> Hashable:
    """What the emitted text depends on in a nest's program."""
    steps = tuple(
        (s.kind, s.dtype.str, s.args, s.emit if s.key is None else s.key, s.axis)
        for s in nest.steps
    )
    dtypes = tuple(o.dtype.str for o in nest.operands)
    return nest.n_inputs, dtypes, steps, nest.results, nest.in_place


def space_key(found: Schedule) -> Hashable:
    """What the emitted text depends on in a schedule: no extents and no strides as such."""
    vector = found.vector
    streams = tuple(
        (stream.access(vector), tuple(bool(x) for x in stream.strides))
        for stream in found.space.streams
    )
    ragged = found.space.ragged
    split = None if ragged is None else (ragged.part, ragged.inner)
    return found.mode, found.n_outer, found.chunked, found.space.reduced, split, streams


def slot_values(function: KernelFunction, space: Space, places: Places) -> tuple[SlotValue, ...]:
    """The values of a function's slots: p3 a pointer, d1 an extent, s3_1 a stride."""
    values: list[SlotValue] = []
    for slot in function.slots:
        if slot[0] == "p":
            values.append(places[int(slot[1:])])
        elif slot == "total":
            assert space.ragged is not None
            values.append(space.ragged.total)
        elif slot[0] == "d":
            values.append(space.extents[int(slot[1:])])
        else:
            stream, dim = slot[1:].split("_")
            values.append(space.streams[int(stream)].strides[int(dim)])
    return tuple(values)
