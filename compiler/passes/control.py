"""Brings the passes into branches and loop bodies, and leaves out what control flow does not need.

From the end to the start: a result that nobody takes, rows and states that only serve such results,
and inputs that no graph uses are left out. A state that no turn changes becomes a capture, a small
constant moves into the graphs, and of a loop that another one extends only the other one stays.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from tapeline.compiler.ir.control_ops import LoopForm, is_cond, is_loop, loop_form, remake
from tapeline.compiler.ir.graph import Graph
from tapeline.compiler.ir.location import Location
from tapeline.compiler.ir.structure_ops import PICK, PLACEHOLDER
from tapeline.compiler.passes.base import PassResult, Rebuild
from tapeline.compiler.passes.carry import carry_elements
from tapeline.compiler.passes.elements import name_elements, work_on_elements
from tapeline.compiler.passes.extended_loops import merge_extended
from tapeline.compiler.passes.invariants import hoist_invariants
from tapeline.compiler.passes.row_producers import sink_rows
from tapeline.compiler.passes.shared_numbers import share_numbers
from tapeline.compiler.passes.small_arrays import array_of, elements_of, split_graphs
from tapeline.runtime.op import Attrs, Op, Trait

SMALL = 64
"""Constants of at most so many bytes move into the graphs."""


@dataclass(frozen=True, slots=True)
class Control:
    """Simplifies ops of control flow, and runs `optimize` on the graphs that they own."""

    optimize: Callable[[Graph], Graph]
    name: str = "control"

    def run(self, graph: Graph, /) -> PassResult:
        """The graph with simpler choices and loops."""
        graph = sink_rows(merge_extended(share_numbers(graph)))
        live, plans = _plan(graph)
        work = Rebuild(graph)
        for node in range(len(graph)):
            plan = plans.get(node)
            if not live[node]:
                work.replace(None)
            elif plan is None:
                work.keep(node)
            else:
                work.replace(self._apply(work, node, plan))
        return PassResult(work.finish().graph, True)

    def _apply(self, work: Rebuild, node: int, plan: _Plan) -> Any:
        source, target = work.source, work.target
        given = work.inputs(node)
        parts: tuple[int, ...] | None = ()
        if plan.graphs:
            graphs = tuple(
                work_on_elements(self.optimize(name_elements(graph))) for graph in plan.graphs
            )
            op = remake(source.ops[node], graphs)
            inputs = [given[k] for k in plan.inputs]
            if is_loop(op):
                location = source.locations[node]
                op, inputs = hoist_invariants(target, op, plan.attrs, inputs, location)
            parts = _numbers_only(target, op, plan.attrs, inputs, source.locations[node])
            if parts is None:
                parts = _added(target, op, plan.attrs, inputs, source.locations[node])
        count = source.ops[node].n_outputs
        values: list[Any] = [None] * (count or 1)
        assert parts is not None
        for old, new in plan.outputs.items():
            values[old] = parts[new]
        for old, position in plan.passed.items():
            values[old] = given[position]
        return values[0] if count is None else tuple(values)


def _added(
    target: Graph, op: Op, attrs: Attrs, inputs: Sequence[int], location: Location | None
) -> tuple[int, ...]:
    """The results of an op of control flow, which is added; a loop may carry further numbers."""
    if not is_loop(op):
        return target.picks(target.add(op, inputs, attrs, location), location)
    form = loop_form(op, attrs)
    op, attrs, inputs, count = carry_elements(target, op, attrs, inputs)
    parts = target.picks(target.add(op, inputs, attrs, location), location)
    end = form.first + form.n_state
    return (*parts[:end], *parts[end + count :])


def _numbers_only(
    target: Graph, op: Op, attrs: Attrs, inputs: Sequence[int], location: Location | None
) -> tuple[int, ...] | None:
    """The results of a loop that carries numbers in the place of small arrays; None where the loop
    is to be used as it is."""
    if not is_loop(op):
        return None
    form = loop_form(op, attrs)
    graphs = split_graphs(form, op.subgraphs)
    if graphs is None:
        return None
    state, xs, captures = form.split(inputs)
    body, first = form.body, form.first
    shapes = [body.spec(node).static_shape for node in body.placeholders]
    values: list[list[int]] = []
    for k, node in enumerate((*state, *xs, *captures)):
        is_row = form.n_state <= k < form.n_state + form.n_xs
        values.append(elements_of(target, node, shapes[k], int(is_row)))
    counts = [len(ids) for ids in values]
    n_state, n_xs = sum(counts[: form.n_state]), sum(counts[form.n_state :][: form.n_xs])
    if form.length is not None:
        attrs = (n_state, n_xs, form.length, form.reverse)
    given = [*inputs[:first], *(i for ids in values for i in ids)]
    made = target.add(remake(op, tuple(graphs)), given, attrs, location)
    parts = target.picks(made, location)
    results, at = list(parts[:first]), first
    for k, node in enumerate(body.outputs):
        shape = body.spec(node).static_shape
        count = math.prod(shape)
        results.append(array_of(target, parts[at : at + count], shape, int(k >= form.n_state)))
        at += count
    return tuple(results)


@dataclass(slots=True)
class _Plan:
    """What becomes of a node: new graphs, which inputs they take, and where its outputs are now."""

    graphs: list[Graph]
    inputs: list[int]
    attrs: Attrs
    outputs: dict[int, int]
    passed: dict[int, int]
    """Outputs that are an input of the node as it is."""


def _plan(graph: Graph) -> tuple[list[bool], dict[int, _Plan]]:
    """Which nodes are live, and a plan for each live one of control flow, made from the end to the
    start."""
    live = [False] * len(graph)
    used: dict[int, set[int]] = {}
    for node in graph.outputs:
        live[node] = True
    plans: dict[int, _Plan] = {}
    for node in range(len(graph) - 1, -1, -1):
        op, inputs = graph.ops[node], graph.inputs[node]
        live[node] = live[node] or op is PLACEHOLDER or op.has(Trait.EFFECT)
        if not live[node]:
            continue
        if op is PICK:
            used.setdefault(inputs[0], set()).add(cast(int, graph.attrs[node][0]))
        if is_cond(op) or is_loop(op):
            wanted = {0} if op.n_outputs is None else used.get(node, set())
            constants = [graph.constant_value(i) for i in inputs]
            use = _Use(op, graph.attrs[node], inputs, constants, wanted)
            plans[node] = use.plan_cond() if is_cond(op) else use.plan_loop()
            inputs = tuple(inputs[k] for k in (*plans[node].inputs, *plans[node].passed.values()))
        for i in inputs:
            live[i] = True
    return live, plans


@dataclass(slots=True)
class _Use:
    """A use of an op of control flow."""

    op: Op
    attrs: Attrs
    inputs: Sequence[int]
    constants: Sequence[Any]
    wanted: set[int]

    def stand_in(self, candidates: Sequence[int]) -> dict[int, int | Any]:
        """For inputs among the candidates that need not be passed: the constant, or the position of
        an earlier one with the same value."""
        found: dict[int, int | Any] = {}
        first: dict[int, int] = {}
        for position in candidates:
            constant = self.constants[position]
            if constant is not None and constant.nbytes <= SMALL:
                found[position] = constant
            elif first.setdefault(self.inputs[position], position) != position:
                found[position] = first[self.inputs[position]]
        return found

    def plan_cond(self) -> _Plan:
        """The plan of a choice."""
        graphs = self.op.subgraphs
        passed: dict[int, int] = {}
        for k in self.wanted:
            places = {_position(graph, graph.outputs[k]) for graph in graphs}
            if len(places) == 1 and None not in places:
                passed[k] = 1 + cast(int, places.pop())
        kept = sorted(self.wanted - passed.keys())
        if not kept and self.op.has(Trait.EFFECT):
            kept = [0]
        if not kept:
            return _Plan([], [], (), {}, passed)
        stand_ins = {
            k - 1: v - 1 if isinstance(v, int) else v
            for k, v in self.stand_in(range(1, len(self.inputs))).items()
        }
        needed: set[int] = set()
        for graph in graphs:
            needed |= _needed_inputs(graph, kept)
        for k in list(needed):
            stand_in = stand_ins.get(k)
            if isinstance(stand_in, int):
                needed.add(stand_in)
        order = [k for k in sorted(needed) if k not in stand_ins]
        made = [_rebuilt(graph, order, stand_ins, kept) for graph in graphs]
        outputs = {old: new for new, old in enumerate(kept)}
        return _Plan(made, [0, *(1 + k for k in order)], (), outputs, passed)

    def plan_loop(self) -> _Plan:
        """The plan of a loop."""
        form = loop_form(self.op, self.attrs)
        body, first, n = form.body, form.first, form.n_state
        rows = range(n, n + form.n_xs)
        still = [k for k in range(n) if body.outputs[k] == body.placeholders[k]]
        captures = [*still, *range(n + form.n_xs, len(body.placeholders))]
        stand_ins = {
            k - first: v - first if isinstance(v, int) else v
            for k, v in self.stand_in([first + k for k in captures]).items()
        }
        ys = [k for k in range(n, len(body.outputs)) if first + k in self.wanted]
        wanted = {k - first for k in self.wanted}
        moving, needed = _moving_states(form, {*range(n)} - {*still}, wanted, ys)
        states = sorted(moving)
        for k in list(needed):
            stand_in = stand_ins.get(k)
            if isinstance(stand_in, int):
                needed.add(stand_in)
        fixed = [k for k in captures if k in needed and k not in stand_ins and k not in moving]
        taken = [k for k in rows if k in needed]
        graphs = [_rebuilt(body, [*states, *taken, *fixed], stand_ins, [*states, *ys])]
        if form.test is not None:
            graphs.append(_rebuilt_test(form, [*states, *fixed], stand_ins))
        inputs = [first + k for k in (*states, *taken, *fixed)]
        attrs = self.attrs
        if form.length is not None:
            inputs.insert(0, 0)
            attrs = (len(states), len(taken), form.length, form.reverse)
        elif self.op.name == "while_loop":
            graphs.reverse()
        outputs = {first + old: first + new for new, old in enumerate((*states, *ys))}
        if first and 0 in self.wanted:
            outputs[0] = 0
        passed = {first + k: first + k for k in still if first + k in self.wanted}
        return _Plan(graphs, inputs, attrs, outputs, passed)


def _moving_states(
    form: LoopForm, changing: set[int], wanted: set[int], ys: Sequence[int]
) -> tuple[set[int], set[int]]:
    """The states that a turn must give anew, of those that change at all, for the wanted ones and
    the rows `ys`; and the inputs of the body that this needs."""
    body = form.body
    by_test = _test_inputs(form.test, form.n_state, form.n_xs)
    moving = (wanted | by_test) & changing
    while True:
        needed = _needed_inputs(body, [*moving, *ys]) | by_test
        more = (needed & changing) | moving
        if more == moving:
            break
        moving = more
    if not moving and not ys and form.length is None:
        moving = changing or {0}
        needed |= _needed_inputs(body, [*moving])
    return moving, needed


def _rebuilt_test(form: LoopForm, inputs: Sequence[int], stand_ins: Mapping[int, Any]) -> Graph:
    """The test of a loop on these inputs of the body, with others in the place of some."""

    def placed(k: Any) -> Any:
        return _in_test(k, form.n_state, form.n_xs) if isinstance(k, int) else k

    assert form.test is not None
    changed = {placed(k): placed(v) for k, v in stand_ins.items()}
    return _rebuilt(form.test, list(map(placed, inputs)), changed, [0])


def _position(graph: Graph, node: int) -> int | None:
    """Which input of the graph a node is."""
    return graph.placeholders.index(node) if graph.ops[node] is PLACEHOLDER else None


def _needed_inputs(graph: Graph, outputs: Sequence[int]) -> set[int]:
    """The positions of the inputs that these outputs, or an effect, need."""
    needed = _needed(graph, outputs)
    return {k for k, node in enumerate(graph.placeholders) if needed[node]}


def _needed(graph: Graph, outputs: Sequence[int]) -> list[bool]:
    needed = [False] * len(graph)
    for k in outputs:
        needed[graph.outputs[k]] = True
    for node in range(len(graph) - 1, -1, -1):
        if needed[node] or graph.ops[node].has(Trait.EFFECT):
            needed[node] = True
            for i in graph.inputs[node]:
                needed[i] = True
    return needed


def _in_test(position: int, n_state: int, n_xs: int) -> int:
    """The position among the test's inputs of an input of the body that both take."""
    return position if position < n_state else position - n_xs


def _test_inputs(test: Graph | None, n_state: int, n_xs: int) -> set[int]:
    """What the test needs, as positions among the inputs of the body."""
    if test is None:
        return set()
    return {k if k < n_state else k + n_xs for k in _needed_inputs(test, [0])}


def _rebuilt(
    graph: Graph, order: Sequence[int], stand_ins: Mapping[int, Any], outputs: Sequence[int]
) -> Graph:
    """The graph with the inputs at these positions, in this order, and these outputs."""
    made = Graph(graph.name)
    values: dict[int, int] = {}
    for position in order:
        node = graph.placeholders[position]
        values[node] = made.add_placeholder(graph.spec(node), str(graph.attrs[node][0]))
    needed = _needed(graph, outputs)
    for position, stand_in in stand_ins.items():
        node = graph.placeholders[position]
        if not needed[node] or node in values:
            continue
        if isinstance(stand_in, int):
            values[node] = values[graph.placeholders[stand_in]]
        else:
            values[node] = made.add_constant(stand_in)
    for node in range(len(graph)):
        if needed[node] and graph.ops[node] is not PLACEHOLDER:
            values[node] = made.copy_node(graph, node, [values[i] for i in graph.inputs[node]])
    made.outputs = [values[graph.outputs[k]] for k in outputs]
    return made
