"""Which way a nest is emitted, and how its passes are unrolled: from sizes and strides alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from math import prod

import numpy as np

from tapeline.compiler.codegen.across import AcrossSweep, across
from tapeline.compiler.codegen.builder import Builder
from tapeline.compiler.codegen.flat import FlatSweep, flattened
from tapeline.compiler.codegen.lanes import LaneSweep
from tapeline.compiler.codegen.loops import FunctionBuilder
from tapeline.compiler.codegen.nest import LoopKey, Nest, Step
from tapeline.compiler.codegen.parts import ModuleParts
from tapeline.compiler.codegen.passplan import HEAVY, Plan, plan_passes
from tapeline.compiler.codegen.reduce import DEPTH, ROWS
from tapeline.compiler.codegen.rows import RowSweep
from tapeline.compiler.codegen.schedule import Schedule
from tapeline.compiler.codegen.sheet import TOGETHER, WIDTH, SheetSweep, is_wide
from tapeline.compiler.codegen.splitting import is_reducing
from tapeline.compiler.codegen.sweep import PassForm, Sweep
from tapeline.compiler.codegen.target import Target
from tapeline.compiler.codegen.transpose import LANES, TILE, TileSweep, tiled
from tapeline.compiler.codegen.values import Value, code_of

MOST_STRIDED = 16
"""Most lanes where elements are picked one by one, each by instructions of its own."""

LOOP_SCRATCH = 3
"""Registers for intermediate values, per vector that goes through a loop."""

CHEAP = 8
"""Up to so many instructions per vector, a reduction gets four accumulators."""

Emitter = Callable[[FunctionBuilder, Plan, Schedule, int, tuple[PassForm, ...]], Sweep]

LINE = 64
"""Bytes that memory moves at a time."""
NEAR = 1 << 15
"""Bytes of a row that the nearest cache keeps from pass to pass."""
FAR = 1 << 18
"""Bytes from which on memory is worth waiting for."""
TILES_FAR = 1 << 22
"""The same for nests in tiles, whose memory comes from the second cache as fast as it is used."""

EMITTERS: dict[str, Emitter] = {
    "elementwise": RowSweep,
    "flat": FlatSweep,
    "tiles": TileSweep,
    "rows": RowSweep,
    "lanes": LaneSweep,
    "across": AcrossSweep,
    "sheet": SheetSweep,
}


@dataclass(frozen=True, slots=True)
class Choice:
    """A strategy for a nest with everything that its emitter needs."""

    strategy: str
    plan: Plan
    schedule: Schedule
    lanes: int
    forms: tuple[PassForm, ...]
    costs: tuple[int, ...]
    """Instructions per vector of each pass."""
    grain: int
    static: int = 0
    """An extent that is part of the code."""


def choose(nest: Nest, found: Schedule, target: Target) -> Choice:
    """The best strategy for a nest."""
    lanes = lanes_of(nest, target)
    plain = plain_choice(nest, found, target)
    if any(is_reducing(step) for step in nest.steps):
        narrow = min(lanes, LANES)
        if is_wide(nest, found) and len(plain.plan.passes) == 1:
            return _choice("sheet", nest, found, lanes, target)
        turned = across(nest, found)
        if turned is None or not (found.mode == "rows" or _is_strided(nest, found)):
            return plain
        return _choice("across", nest, turned, narrow, target)
    tall = flattened(nest, found, lanes, sum(plain.costs))
    if tall is not None:
        return _choice("flat", nest, tall, lanes, target)
    square = tiled(nest, found)
    if square is not None:
        return _choice("tiles", nest, square, min(lanes, LANES), target)
    return plain


def plain_choice(nest: Nest, found: Schedule, target: Target) -> Choice:
    """The strategy that serves every nest."""
    reduces = any(is_reducing(step) for step in nest.steps)
    name = found.mode if reduces else "elementwise"
    lanes = lanes_of(nest, target)
    if _is_strided(nest, found):
        lanes = min(lanes, MOST_STRIDED)
    return _choice(name, nest, found, lanes, target)


def _is_strided(nest: Nest, found: Schedule) -> bool:
    accesses = [found.access(k) for k in range(len(nest.operands))]
    return "strided" in accesses or "stride2" in accesses


def _choice(name: str, nest: Nest, found: Schedule, lanes: int, target: Target) -> Choice:
    plan = plan_passes(nest, found, lambda step, codes: step_cost(target, step, codes))
    costs = tuple(pass_cost(plan, number, target) for number in range(len(plan.passes)))
    forms = pass_forms(plan, found, lanes, costs, target)
    if name == "across":
        forms = tuple(PassForm(0, 0) for _ in forms)
    elif name == "sheet":
        forms = (PassForm(TOGETHER if costs[0] <= HEAVY else 2, forms[0].block),)
    elif name == "tiles":
        forms = (replace(forms[0], ahead=_tiles_ahead(nest, found)),)
    elif name == "flat":
        forms = (PassForm(1, 0, found.space.extents[-2] % lanes == 0),)
    grain = 1
    if name == "flat":
        grain = lanes if found.chunked == found.n_outer else 1
    elif name == "tiles":
        grain = TILE if found.chunked == found.n_outer - 1 else 1
    elif name == "sheet":
        grain = WIDTH if found.chunked == found.vector else 1
    elif found.chunked == found.vector:
        grain = lanes * max([1, *(form.unroll for form in forms)])
    static = found.space.extents[-1] if name == "flat" else 0
    return Choice(name, plan, found, lanes, forms, costs, grain, static)


def lanes_of(nest: Nest, target: Target) -> int:
    """Lanes per vector: as many as the widest operand that moves leaves room for."""
    moving = [o.dtype for o in nest.operands if any(o.strides)]
    computed = [s.dtype for s in nest.steps if s.kind != "index" and s.dtype.kind in "f"]
    widest = max((dtype.itemsize for dtype in moving + computed), default=8)
    lanes = target.lanes(widest)
    return lanes * _side_by_side(nest, lanes, target)


def _side_by_side(nest: Nest, lanes: int, target: Target) -> int:
    """How many vectors go through a loop together, for each waits long for its own results: as
    many as the registers hold."""
    vectors = [step.key.vectors for step in nest.steps if isinstance(step.key, LoopKey)]
    if not vectors:
        return 1
    room = (32 if target.avx512 else 16) // (max(vectors) + LOOP_SCRATCH)
    count = 4 if room >= 4 else 2 if room >= 2 else 1
    while count > 1 and count * lanes > prod(nest.shape):
        count //= 2
    return count


def step_cost(target: Target, step: Step, codes: tuple[str, ...]) -> int:
    """The instructions that a map step takes per vector, roughly."""
    if step.key is None:
        return _count_lines(target, step, codes)
    return _known_cost(target, step, codes)


@lru_cache(maxsize=4096)
def _known_cost(target: Target, step: Step, codes: tuple[str, ...]) -> int:
    return _count_lines(target, step, codes)


def _count_lines(target: Target, step: Step, codes: tuple[str, ...]) -> int:
    assert step.emit is not None
    b = Builder(ModuleParts(), target)
    step.emit(b, *(Value(f"%x{k}", code, 4) for k, code in enumerate(_codes(codes))))
    return len(b.lines) * (step.key.turns if isinstance(step.key, LoopKey) else 1)


def _codes(dtypes: tuple[str, ...]) -> list[str]:
    return [code_of(np.dtype(text)) for text in dtypes]


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
    plan: Plan, found: Schedule, lanes: int, costs: tuple[int, ...], target: Target
) -> tuple[PassForm, ...]:
    """How each pass is unrolled, and whether it works in blocks."""
    extents = found.space.extents
    inner = found.space.size(found.inner)
    strided = "strided" in [found.access(k) for k in range(len(plan.nest.operands))]
    forms = []
    for number, this in enumerate(plan.passes):
        sums = any(
            step is not None and step.kind == "sum" and step.dtype.kind == "f"
            for step in (plan.step(value) for value in this.reductions)
        )
        unroll = 0
        if extents[found.vector] >= 2 * lanes:
            chained = bool(this.reductions) and found.mode == "rows"
            unroll = _unroll(costs[number], chained, strided, target)
        size = lanes * max(unroll, 1) * DEPTH if found.mode == "rows" else ROWS
        exact = _is_exact(found, lanes * max(unroll, 1))
        ahead = _ahead(plan, found, number) if found.mode == "rows" else ()
        forms.append(PassForm(unroll, size if sums and inner > size else 0, exact, ahead))
    if found.mode == "lanes" and forms:
        unroll = min(form.unroll for form in forms)
        if unroll == 2 and len(forms) == 1 and costs[0] <= CHEAP:
            unroll = _strip(extents[found.vector], lanes)
        exact = _is_exact(found, lanes * max(unroll, 1))
        forms = [PassForm(unroll, form.block, exact) for form in forms]
    return tuple(forms)


def _ahead(plan: Plan, found: Schedule, number: int) -> tuple[int, ...]:
    """What a pass over rows brings near for later: while several passes run over rows that fit the
    nearest cache, the memory would stand still otherwise.

    The last pass asks for the inputs of the next row, each other pass for the results that the pass
    after it is the first to store.
    """
    last = len(plan.passes) - 1
    if last == 0 or found.n_outer == 0 or len(found.inner) > 1:
        return ()
    nest, across = plan.nest, found.n_outer - 1
    moving = [
        k
        for k in range(len(nest.operands))
        if found.access(k) == "contiguous" and found.space.streams[k].strides[across]
    ]
    row = sum(found.space.extents[found.vector] * nest.operands[k].dtype.itemsize for k in moving)
    if not LINE <= row <= NEAR or row * found.space.extents[across] < FAR:
        return ()
    if number == last:
        return tuple(k for k in moving if k < nest.n_inputs)
    stored = {operand for this in plan.passes[: number + 1] for _, operand in this.stores}
    following = {operand for _, operand in plan.passes[number + 1].stores}
    return tuple(k for k in moving if k in following - stored)


def _tiles_ahead(nest: Nest, found: Schedule) -> tuple[int, ...]:
    """What a nest in tiles brings near for the next one: all that lies in a plane of tiles."""
    row, vector = found.n_outer - 1, found.vector
    streams = found.space.streams[: len(nest.operands)]
    moving = [k for k, s in enumerate(streams) if s.strides[row] and s.strides[vector]]
    plane = found.space.extents[row] * found.space.extents[vector]
    nbytes = sum(plane * nest.operands[k].dtype.itemsize for k in moving)
    return tuple(moving) if nbytes >= TILES_FAR else ()


def _strip(extent: int, lanes: int) -> int:
    """Vectors per strip: whole short rows, so that memory is read as it lies, else some."""
    for count in (8, 4):
        if extent == count * lanes or (count == 4 and extent % (count * lanes) == 0):
            return count
    return 2


def _is_exact(found: Schedule, step: int) -> bool:
    """Whether the vector dimension is a multiple of a turn, however it is split."""
    extents, ragged = found.space.extents, found.space.ragged
    if ragged is not None and ragged.inner == found.vector and ragged.total % step:
        return False
    return extents[found.vector] % step == 0


def _unroll(cost: int, chained: bool, strided: bool, target: Target) -> int:
    """Vectors per turn. Cheap reductions wait for their accumulators, so they get more of them;
    where masks are free, heavy bodies are emitted once, masked."""
    if cost > HEAVY + 4 and target.avx512:
        return 0
    if strided:
        return 1
    return 4 if chained and cost <= CHEAP else 2
