"""What a nest's program needs when: passes over the reduced dimensions, and what happens between.

A value is *inner* if it varies along the dimensions that passes run over; every other value is
computed once per row (or once per strip of lanes). A reduction belongs to the first pass in which
its argument can be computed, so softmax has three passes: maximum, sum of exponentials, division.

Pure: nothing here emits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tapeline.compiler.codegen.nest import Nest, Step
from tapeline.compiler.codegen.schedule import Schedule

HEAVY = 12
"""From so many instructions per vector on, a value is kept in memory instead of computed again."""

Cost = Callable[[Step, tuple[str, ...]], int]


@dataclass(frozen=True, slots=True)
class Pass:
    """One run over the inner dimensions.

    `reductions` are steps' values; `stores` are (value, operand). A value kept for later passes is
    stored like a result.
    """

    reductions: tuple[int, ...]
    stores: tuple[tuple[int, int], ...]
    loads: tuple[tuple[int, int], ...]
    """(value, operand): values that an earlier pass left in an output."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The passes of a nest, and which values are inner."""

    nest: Nest
    inner: tuple[bool, ...]
    passes: tuple[Pass, ...]
    row_stores: tuple[tuple[int, int], ...]
    """(value, operand) stored once per row, after the passes."""

    def step(self, value: int) -> Step | None:
        """The step that makes a value; None for an input."""
        number = value - self.nest.n_inputs
        return None if number < 0 else self.nest.steps[number]

    def stream(self, value: int) -> int:
        """The stream of an input or of a position (see `Space`)."""
        if value < self.nest.n_inputs:
            return value
        steps = self.nest.steps[: value - self.nest.n_inputs]
        return len(self.nest.operands) + sum(step.kind == "index" for step in steps)

    @property
    def flat_stream(self) -> int:
        """The stream of the flattened position that argmax counts with."""
        return len(self.nest.operands) + sum(step.kind == "index" for step in self.nest.steps)

    def wanted(self, number: int) -> list[int]:
        """The values that a pass reduces or stores."""
        this = self.passes[number]
        reduced = [self._argument(value) for value in this.reductions]
        return reduced + [value for value, _ in this.stores]

    def _argument(self, reduction: int) -> int:
        return self.nest.steps[reduction - self.nest.n_inputs].args[0]

    def closure(self, number: int) -> tuple[list[int], list[int]]:
        """The inner values that a pass computes or loads, in order, and the row values that those
        (and its results) use."""
        loaded = {value for value, _ in self.passes[number].loads}
        inner: set[int] = set()
        rows: set[int] = set()
        pending = self.wanted(number)
        while pending:
            value = pending.pop()
            if not self.inner[value]:
                rows.add(value)
                continue
            if value in inner:
                continue
            inner.add(value)
            step = self.step(value)
            if value not in loaded and step is not None and step.kind == "map":
                pending.extend(step.args)
        return sorted(inner), sorted(rows)

    def live(self) -> set[int]:
        """Every value that some result depends on."""
        return live_values(self.nest)


def live_values(nest: Nest) -> set[int]:
    """Every value that some result depends on."""
    found: set[int] = set()
    pending = list(nest.results)
    while pending:
        value = pending.pop()
        if value not in found:
            found.add(value)
            if value >= nest.n_inputs:
                pending.extend(nest.steps[value - nest.n_inputs].args)
    return found


def levels_of(nest: Nest) -> list[int]:
    """For each value the number of reductions, one after the other, that come before it."""
    levels = [0] * nest.n_inputs
    for step in nest.steps:
        below = max((levels[arg] for arg in step.args), default=0)
        levels.append(below + (step.kind not in ("map", "index")))
    return levels


def inner_values(nest: Nest, schedule: Schedule) -> tuple[bool, ...]:
    """For each value whether it varies along the inner dimensions."""
    moves = [stream.varies(schedule.inner) for stream in schedule.space.streams]
    inner = moves[: nest.n_inputs]
    position = len(nest.operands)
    for step in nest.steps:
        if step.kind == "index":
            inner.append(moves[position])
            position += 1
        else:
            inner.append(step.kind == "map" and any(inner[arg] for arg in step.args))
    return tuple(inner)


def codes_of(nest: Nest) -> list[str]:
    """The dtype of each value, as a string."""
    return [o.dtype.str for o in nest.operands[: nest.n_inputs]] + [s.dtype.str for s in nest.steps]


def recompute_costs(nest: Nest, inner: tuple[bool, ...], cost: Cost) -> list[int]:
    """For each value roughly the instructions that computing it again would take per vector."""
    codes = codes_of(nest)
    totals = [1] * nest.n_inputs
    for number, step in enumerate(nest.steps, nest.n_inputs):
        if step.kind != "map" or not inner[number]:
            totals.append(1)
            continue
        own = cost(step, tuple(codes[arg] for arg in step.args))
        totals.append(own + sum(totals[arg] for arg in set(step.args) if inner[arg]))
    return totals


def plan_passes(nest: Nest, schedule: Schedule, cost: Cost) -> Plan:
    """Settles the passes of a nest."""
    inner = inner_values(nest, schedule)
    levels = levels_of(nest)
    moves = [stream.varies(schedule.inner) for stream in schedule.space.streams]
    stored: dict[int, list[tuple[int, int]]] = {}
    row_stores = []
    for operand, value in enumerate(nest.results, nest.n_inputs):
        if inner[value] or moves[operand]:
            stored.setdefault(levels[value], []).append((value, operand))
        else:
            row_stores.append((value, operand))
    live = live_values(nest)
    reduced: dict[int, list[int]] = {}
    for number, step in enumerate(nest.steps, nest.n_inputs):
        if number in live and step.kind not in ("map", "index"):
            reduced.setdefault(levels[step.args[0]], []).append(number)
    count = max([*stored, *reduced], default=-1) + 1
    passes = [Pass(tuple(reduced.get(k, ())), tuple(stored.get(k, ())), ()) for k in range(count)]
    plan = Plan(nest, inner, tuple(passes), tuple(row_stores))
    plan = _delay_aliased(plan)
    return _keep_heavy(plan, schedule, recompute_costs(nest, inner, cost))


def _delay_aliased(plan: Plan) -> Plan:
    """Stores over an input no earlier than the last pass that reads the input."""
    passes = list(plan.passes)
    for source, operand in plan.nest.in_place:
        readers = [k for k in range(len(passes)) if source in plan.closure(k)[0]]
        last = max(readers, default=0)
        for k in range(last):
            moved = tuple(item for item in passes[k].stores if item[1] == operand)
            if moved:
                rest = tuple(item for item in passes[k].stores if item[1] != operand)
                passes[k] = Pass(passes[k].reductions, rest, ())
                passes[last] = Pass(passes[last].reductions, passes[last].stores + moved, ())
                plan = Plan(plan.nest, plan.inner, tuple(passes), plan.row_stores)
    return plan


def _uses(plan: Plan, costs: list[int]) -> Iterator[tuple[int, int, int]]:
    """(value, first pass, last pass) of heavy inner maps that several passes compute."""
    spans: dict[int, list[int]] = {}
    for k in range(len(plan.passes)):
        for value in plan.closure(k)[0]:
            step = plan.step(value)
            if step is not None and step.kind == "map" and costs[value] >= HEAVY:
                spans.setdefault(value, []).append(k)
    for value, found in sorted(spans.items(), key=lambda item: -costs[item[0]]):
        if len(found) > 1:
            yield value, found[0], found[-1]


def _keep_heavy(plan: Plan, schedule: Schedule, costs: list[int]) -> Plan:
    """Lets a heavy value wait for later passes in an output of its dtype, where there is one that
    is not final before."""
    nest = plan.nest
    aliased = {operand for _, operand in nest.in_place}
    taken: set[int] = set()
    while True:
        for value, first, last in _uses(plan, costs):
            step = plan.step(value)
            assert step is not None
            operand = _free_output(plan, schedule, step, value, first, last, aliased | taken)
            if operand is not None:
                break
        else:
            return plan
        taken.add(operand)
        passes = list(plan.passes)
        kept = passes[first]
        stores = (
            kept.stores if (value, operand) in kept.stores else (*kept.stores, (value, operand))
        )
        passes[first] = Pass(kept.reductions, stores, kept.loads)
        for k in range(first + 1, last + 1):
            this = passes[k]
            passes[k] = Pass(this.reductions, this.stores, (*this.loads, (value, operand)))
        plan = Plan(nest, plan.inner, tuple(passes), plan.row_stores)


def _free_output(
    plan: Plan,
    schedule: Schedule,
    step: Step,
    value: int,
    first: int,
    last: int,
    excluded: set[int],
) -> int | None:
    """An output where a value can wait from pass `first` to pass `last`."""
    nest = plan.nest
    for k, this in enumerate(plan.passes):
        for stored, operand in this.stores:
            fits = nest.operands[operand].dtype == step.dtype and operand not in excluded
            dense = schedule.access(operand) == "contiguous" or schedule.mode == "lanes"
            final = stored == value and k <= first
            moves = schedule.space.streams[operand].varies(schedule.inner)
            if fits and dense and moves and (final or (k >= last and k > first)):
                return operand
    return None
