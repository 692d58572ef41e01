"""The entry to code generation for nests: picks a strategy from shapes and strides, and emits it.

What is chosen never depends on the number of threads, so neither do the bits of any result.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from math import prod
from typing import TypeAlias

from tapeline.compiler.codegen.loops import FunctionBuilder
from tapeline.compiler.codegen.nest import Kernel, KernelFunction, Launch, Nest, SlotValue
from tapeline.compiler.codegen.passplan import (
    inner_values,
    levels_of,
    live_values,
)
from tapeline.compiler.codegen.schedule import Schedule, Space, schedule
from tapeline.compiler.codegen.sheet import is_wide
from tapeline.compiler.codegen.simplify import simplify
from tapeline.compiler.codegen.splitting import (
    Stages,
    canonical,
    is_reducing,
    part_size,
    peel,
    separate,
    split,
)
from tapeline.compiler.codegen.strategies import (
    EMITTERS,
    Choice,
    choose,
    lanes_of,
    plain_choice,
)
from tapeline.compiler.codegen.sweep import position_code
from tapeline.compiler.codegen.target import Target

SPLIT_SIZE = 1 << 17
"""From so many points on, a launch should have several chunks."""

ENOUGH_CHUNKS = 8

LONG_PASS = 1000
"""A pass of more instructions per vector calls the functions of the math library: that costs it a
few percent, and writing them out costs milliseconds of compile time each."""

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
    return _emit_sweep(nest, target, name, places, choose(nest, found, target))


def taken_apart(nest: Nest, found: Schedule) -> Stages | None:
    """The nest as several, where one launch would have few chunks and much to do, or where results
    of a nest without reductions do not vary alike."""
    if not any(is_reducing(step) for step in nest.steps):
        return separate(nest)
    size = found.space.size(tuple(range(len(found.space.extents))))
    if size < SPLIT_SIZE:
        return None
    if is_wide(nest, found):
        return None if _is_one_pass(nest, found) else peel(nest)
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
    along = size if lanewise else prod(plain.shape[d] for d in plain.axes)
    part = part_size(plain.shape[axis], along // plain.shape[axis], lanewise)
    return split(plain, axis, part, lanewise) if part < plain.shape[axis] else None


def _is_one_pass(nest: Nest, found: Schedule) -> bool:
    """Whether nothing inner is stored, and nothing reduced, after a reduction."""
    levels = levels_of(nest)
    streams = found.space.streams[nest.n_inputs :]
    stored = zip(nest.results, streams, strict=False)
    return all(levels[value] <= 1 for value in live_values(nest)) and not any(
        levels[value] and stream.varies(found.inner) for value, stream in stored
    )


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
            choice = plain_choice(stage.nest, found, target)
            kernel = _emit_sweep(stage.nest, target, title, where, choice)
            kernel = replace(kernel, strategy=kernel.strategy + " in parts")
        launches += kernel.launches
        names.append(kernel.strategy)
        end = max(end, kernel.scratch_bytes)
    return Kernel(", ".join(names), tuple(launches), end)


def _emit_sweep(nest: Nest, target: Target, name: str, places: Places, choice: Choice) -> Kernel:
    """The single launch of a strategy."""
    plan, found = choice.plan, choice.schedule
    key = (
        choice.strategy, target, program_key(nest), space_key(found), choice.lanes, choice.forms,
        choice.static,
    )  # fmt: skip
    function = _FUNCTIONS.get(key)
    if function is None:
        f = FunctionBuilder(target)
        f.shares_math = max(choice.costs, default=0) > LONG_PASS
        EMITTERS[choice.strategy](f, plan, found, choice.lanes, choice.forms).build()
        function = f.finish(name, key)
        if len(_FUNCTIONS) >= _MOST_FUNCTIONS:
            _FUNCTIONS.clear()
        _FUNCTIONS[key] = function
    elif function.name != name:
        text = function.text.replace(f"@{function.name}(", f"@{name}(", 1)
        function = replace(function, name=name, text=text)
    work = found.space.size(tuple(range(len(found.space.extents)))) * (sum(choice.costs) + 1)
    extent = found.space.extents[found.chunked] if found.chunked >= 0 else 1
    values = slot_values(function, found.space, places)
    launch = Launch(function, values, extent, choice.grain, work)
    return Kernel(choice.strategy, (launch,))


_MOST_FUNCTIONS = 512
_FUNCTIONS: dict[Hashable, KernelFunction] = {}


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
    return (
        found.mode,
        found.n_outer,
        found.chunked,
        found.space.reduced,
        split,
        position_code(found),
        streams,
    )


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
