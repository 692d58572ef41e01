"""Which loops may make as many turns at once as a vector has lanes, however many turns there are.

Such a loop counts, and each turn writes an element of its own from numbers that it computes of the
counters and of elements which lie side by side from turn to turn. All its indices grow evenly, so
that how many turns stay in range is known before the first one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import cast

from tapeline.compiler.codegen.cluster import is_view
from tapeline.compiler.codegen.numbers import is_number, is_put, is_take
from tapeline.compiler.codegen.program import Body, PutStep, ScalarStep
from tapeline.compiler.ir.control_ops import LoopForm
from tapeline.compiler.ir.graph import Graph
from tapeline.compiler.ir.index_terms import CONSTANT_TERM, sum_terms
from tapeline.compiler.ir.structure_ops import CONSTANT, PLACEHOLDER
from tapeline.runtime.op import Pointwise, get_op
from tapeline.runtime.spec import TensorSpec

MOST_NODES = 120
"""The code of longer bodies is not worth writing twice."""

_DIVISIONS = frozenset(map(get_op, ("floor_divide", "remainder", "power")))
"""Of ints these have no vector instructions."""


@dataclass(slots=True)
class VectorPlan:
    """What is known about the body of such a loop."""

    counters: dict[int, int] = field(default_factory=dict)
    """For each number of the state, by position, how much a turn adds to it."""
    paces: dict[int, int] = field(default_factory=dict)
    """The numbers that grow evenly: how much from turn to turn. The others differ."""
    indices: list[tuple[int, int]] = field(default_factory=list)
    """The nodes that must be within an axis, and its size."""
    reads: list[int] = field(default_factory=list)
    writes: list[int] = field(default_factory=list)
    limit: tuple[int, int] | None = None
    """The position of the counter that the test looks at, and the node of the test that it must
    stay below."""


def vector_plan(form: LoopForm, body: Body) -> VectorPlan | None:
    """The plan for a loop; None where turns may need one another."""
    graph = form.body
    if form.n_xs or form.n_ys or form.reverse or len(graph) > MOST_NODES:
        return None
    if not all(isinstance(step, ScalarStep | PutStep) for step in body.program.steps):
        return None
    plan = VectorPlan()
    if not _note_states(plan, form, body) or not plan.writes:
        return None
    if form.test is not None and not _note_limit(plan, form):
        return None
    if not _note_nodes(plan, form):
        return None
    fits = all(_may_read(plan, form, body, node) for node in plan.reads)
    return plan if fits and all(_may_write(plan, form, node) for node in plan.writes) else None


def root_of(graph: Graph, node: int) -> int:
    """The array that a node shows."""
    while is_view(graph, node):
        node = graph.inputs[node][0]
    return node


def index_of(graph: Graph, node: int) -> int:
    """The node of the index of an element that is read or written."""
    return graph.inputs[node][1]


def _note_states(plan: VectorPlan, form: LoopForm, body: Body) -> bool:
    """Whether the state consists of counters, and of arrays of which one element is written."""
    graph = form.body
    for k in range(form.n_state):
        own, end = graph.placeholders[k], graph.outputs[k]
        if is_number(graph, own):
            pace = _pace(graph, own, end)
            if pace is None:
                return False
            plan.counters[k] = plan.paces[own] = pace
        elif is_put(graph, end) and graph.inputs[end][0] == own and k in body.in_place:
            plan.writes.append(end)
        else:
            return False
    return True


def _pace(graph: Graph, own: int, end: int) -> int | None:
    if graph.ops[end] is not get_op("add") or own not in graph.inputs[end]:
        return None
    step = next((i for i in graph.inputs[end] if i != own), own)
    constant = graph.constant_value(step)
    if constant is None or constant.dtype.str != "<i8" or graph.spec(own).dtype.str != "<i8":
        return None
    return int(constant)


def _note_limit(plan: VectorPlan, form: LoopForm) -> bool:
    """Whether the test asks for a counter that grows by 1 to be less than what never changes."""
    test = form.test
    assert test is not None
    (answer,) = test.outputs
    if test.ops[answer] is get_op("less"):
        counter, limit = test.inputs[answer]
    elif test.ops[answer] is get_op("greater"):
        limit, counter = test.inputs[answer]
    else:
        return False
    if test.ops[counter] is not PLACEHOLDER:
        return False
    position = test.placeholders.index(counter)
    if plan.counters.get(position) != 1:
        return False
    is_fixed = test.constant_value(limit) is not None or (
        test.ops[limit] is PLACEHOLDER and test.placeholders.index(limit) >= form.n_state
    )
    plan.limit = position, limit
    return is_fixed


def _note_nodes(plan: VectorPlan, form: LoopForm) -> bool:
    """Notes what grows evenly, and the indices; whether there is nothing but numbers, elements that
    are read, and the elements that are written last."""
    graph = form.body
    for node, op in enumerate(graph.ops):
        spec = graph.specs[node]
        if op is PLACEHOLDER or op is CONSTANT:
            if is_number(graph, node) and node not in plan.paces:
                plan.paces[node] = 0
        elif node in plan.writes:
            continue
        elif is_view(graph, node):
            if graph.spec(node).shape == ():
                return False
        elif not isinstance(spec, TensorSpec) or not is_number(graph, node):
            return False
        elif is_take(graph, node):
            array, index = graph.inputs[node]
            size = graph.spec(array).static_shape[cast(int, graph.attrs[node][0])]
            plan.indices.append((index, size))
            plan.reads.append(node)
        elif op is get_op("check_index"):
            size = cast(int, graph.attrs[node][0])
            plan.indices.append((graph.inputs[node][0], size))
            if graph.inputs[node][0] in plan.paces:
                plan.paces[node] = plan.paces[graph.inputs[node][0]]
        elif not isinstance(op.lowering, Pointwise) or not _note_pace(plan, graph, node):
            return False
    return all(
        index in plan.paces and graph.spec(index).dtype.str == "<i8" for index, _ in plan.indices
    )


def _note_pace(plan: VectorPlan, graph: Graph, node: int) -> bool:
    """Notes how much a pointwise op grows; False where it has no vector code."""
    op, inputs = graph.ops[node], graph.inputs[node]
    dtype = graph.spec(node).dtype
    paces = [plan.paces.get(i) for i in inputs]
    if all(pace == 0 for pace in paces):
        plan.paces[node] = 0
        return True
    if op in _DIVISIONS and dtype.kind in "iu":
        return False
    first, second = (*paces, None, None)[:2]
    if dtype.str != "<i8" or first is None or second is None:
        return True
    if op is get_op("add"):
        plan.paces[node] = first + second
    elif op is get_op("subtract"):
        plan.paces[node] = first - second
    elif op is get_op("multiply"):
        for pace, factor in ((first, inputs[1]), (second, inputs[0])):
            constant = graph.constant_value(factor)
            if constant is not None and abs(pace * int(constant)) < 1 << 31:
                plan.paces[node] = pace * int(constant)
                break
    return True


def _may_read(plan: VectorPlan, form: LoopForm, body: Body, node: int) -> bool:
    """Whether what is read is not what another of the turns writes that are made at once."""
    graph = form.body
    array = graph.inputs[node][0]
    root = root_of(graph, array)
    if graph.ops[root] is CONSTANT or root in graph.placeholders[form.n_state :]:
        return True
    if root not in graph.placeholders or array not in body.places:
        return False
    write = graph.outputs[graph.placeholders.index(root)]
    own = body.places[array].layout
    if graph.spec(array).size != graph.spec(root).size or own.offset or graph.spec(array).ndim != 1:
        return False
    pace = plan.paces[index_of(graph, node)]
    if pace != plan.paces.get(index_of(graph, write)):
        return False
    read, written = (
        sum_terms(graph, index_of(graph, one), lambda _: True) for one in (node, write)
    )
    ahead = read.pop(CONSTANT_TERM, 0) - written.pop(CONSTANT_TERM, 0)
    return read == written and ahead * pace >= 0


def _may_write(plan: VectorPlan, form: LoopForm, node: int) -> bool:
    """Whether the elements that are written lie side by side, and nobody looks at the array."""
    graph = form.body
    index = index_of(graph, node)
    if plan.paces.get(index) not in (1, -1) or graph.spec(index).dtype.str != "<i8":
        return False
    return not any(node in inputs for inputs in graph.inputs)
