"""Loops over whole arrays whose elements go their own ways: each element's loop runs in registers.

Where the body computes element by element and the test looks at single numbers only, the loop may
be turned inside out: for each few elements, all turns. It becomes steps of a loop nest like any
other pointwise op, so that no turn reads or writes memory. A loop whose turns change nothing but
under a mask, as when points escape one by one, is left as soon as the mask of these elements is
empty.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from tapeline.compiler.codegen.builder import Builder
from tapeline.compiler.codegen.nest import LoopKey, Step
from tapeline.compiler.codegen.values import Value, is_supported
from tapeline.compiler.ir.control_ops import LoopForm
from tapeline.compiler.ir.graph import Graph
from tapeline.compiler.ir.structure_ops import CONSTANT, PLACEHOLDER
from tapeline.compiler.ir.text import print_graph
from tapeline.runtime.op import Pointwise, get_op
from tapeline.runtime.spec import Shape, TensorSpec

GUESS = 16
"""How many turns a loop without a known limit is taken to make."""

MOST_TURNS = 1 << 16
"""No loop is taken to make more turns."""


def element_shape(form: LoopForm, wanted: Sequence[bool]) -> Shape | None:
    """The shape of the states of a loop whose elements are independent; None for other loops.

    `wanted` tells which outputs of the op somebody takes: single numbers must not be among them.
    """
    if form.n_xs or form.n_ys or (form.first and wanted[0]):
        return None
    body = form.body
    shape: Shape = ()
    for node in body.placeholders:
        own = body.spec(node).static_shape
        if own and shape and own != shape:
            return None
        shape = own or shape
    if not shape or 0 in shape:
        return None
    for k in range(form.n_state):
        if not body.spec(body.placeholders[k]).shape and wanted[form.first + k]:
            return None
    if not _is_elementwise(body, shape):
        return None
    if form.test is None:
        return shape
    return shape if _is_elementwise(form.test, shape) and not _reads_arrays(form.test) else None


def _is_elementwise(graph: Graph, shape: Shape) -> bool:
    for node, op in enumerate(graph.ops):
        spec = graph.specs[node]
        if not isinstance(spec, TensorSpec) or not is_supported(spec.dtype):
            return False
        if op is PLACEHOLDER:
            continue
        if op is CONSTANT:
            if spec.size != 1:
                return False
            continue
        if spec.shape not in ((), shape):
            return False
        if not isinstance(op.lowering, Pointwise) and op is not get_op("broadcast_to"):
            return False
    return True


def _reads_arrays(graph: Graph) -> bool:
    """Whether anything but single numbers is looked at."""
    used = [False] * len(graph)
    for node in range(len(graph) - 1, -1, -1):
        if used[node] or node in graph.outputs:
            for i in graph.inputs[node]:
                used[i] = True
    return any(used[node] and graph.spec(node).shape for node in graph.placeholders)


def going_mask(form: LoopForm) -> int | None:
    """The node of a bool array in the body such that, once it is false, no turn changes a state
    that is an array; None where there is no such node."""
    body = form.body
    arrays = [k for k in range(form.n_state) if body.spec(body.placeholders[k]).shape]
    found: int | None = None
    for k in arrays:
        own, end = body.placeholders[k], body.outputs[k]
        if own == end:
            continue
        mask = _mask_of_change(body, own, end)
        if mask is None or (found is not None and mask != found):
            return None
        found = mask
    if found is None:
        return None
    counters = {k for k in range(form.n_state) if k not in arrays}
    return None if counters & _sources(body, found) else found


def _mask_of_change(body: Graph, own: int, end: int) -> int | None:
    """The node of the mask where a state changes: it is chosen by the mask, or an int grows by
    the mask."""
    op, inputs = body.ops[end], body.inputs[end]
    if op is get_op("where") and inputs[2] == own:
        return inputs[0]
    if op is get_op("add") and own in inputs and body.spec(own).dtype.kind in "iu":
        step = inputs[1] if inputs[0] == own else inputs[0]
        if body.ops[step] is get_op("cast"):
            step = body.inputs[step][0]
        return step if body.spec(step).dtype.kind == "b" else None
    return None


def _sources(body: Graph, node: int) -> set[int]:
    """The positions of the inputs that a node depends on."""
    seen: set[int] = set()
    pending = [node]
    while pending:
        current = pending.pop()
        if current not in seen:
            seen.add(current)
            pending += body.inputs[current]
    return {k for k, own in enumerate(body.placeholders) if own in seen}


def loop_steps(form: LoopForm, arguments: Sequence[int], outputs: Sequence[int]) -> list[Step]:
    """Steps of a nest that give the states at these positions when the loop is over; the arguments
    are those of the op."""
    graphs = [form.body] if form.test is None else [form.body, form.test]
    key = "\n".join(print_graph(graph) for graph in graphs)
    emitted = _Emitted(form)
    arrays = sum(bool(form.body.spec(node).shape) for node in form.body.placeholders)
    turns = GUESS if form.length is None else max(1, min(form.length, MOST_TURNS))
    steps = []
    for position in outputs:
        dtype = form.body.spec(form.body.placeholders[position]).dtype
        emit = emitted.output(position)
        name = LoopKey("loop", position, key, arrays, turns)
        steps.append(Step("map", dtype, tuple(arguments), emit, name))
    return steps


class _Emitted:
    """The loop as it was emitted last: the steps of all its outputs share it."""

    def __init__(self, form: LoopForm) -> None:
        self.form = form
        self.builder: Any = None
        self.found: dict[tuple[Value, ...], list[Value]] = {}

    def output(self, position: int) -> Any:
        """The emit function of one output."""

        def emit(b: Any, *values: Value) -> Value:
            if b is not self.builder:
                self.builder, self.found = b, {}
            states = self.found.get(values)
            if states is None:
                states = self.found[values] = _emit_loop(b, self.form, values)
            return states[position]

        return emit


def _emit_loop(b: Builder, form: LoopForm, values: Sequence[Value]) -> list[Value]:
    """The states after the loop, for all lanes of the values."""
    lanes = max(value.lanes for value in values)
    state, _, captures = form.split(values)
    nodes = form.body.placeholders
    state = [_fit(b, form.body, node, x, lanes) for node, x in zip(nodes, state, strict=False)]
    fixed = nodes[form.n_state :]
    captures = [_fit(b, form.body, node, x, lanes) for node, x in zip(fixed, captures, strict=True)]
    limit = b.lane(values[0], 0) if form.first else None
    zero, one = b.fixed(0, "i8"), b.fixed(1, "i8")
    mask = going_mask(form)

    def going(turn: Value, now: Sequence[Value], moving: Value | None = None) -> Value:
        answers = [] if moving is None else [b.any_lane(moving)]
        if form.test is not None:
            answers += _emit_graph(b, form.test, [*now, *captures], lanes)
        if limit is not None:
            answers.append(b.compare("lt", turn, limit))
        return functools.reduce(b.bit_and, answers)

    before, head, done = b.current, b.new_label("turns"), b.new_label("over")
    b.branch_if(going(zero, state), head, done)
    before = b.current
    b.start_block(head)
    turn = b.open_phi(zero, before)
    phis = [b.open_phi(x, before) for x in state]
    now = [phi.value for phi in phis]
    outputs = form.body.outputs if mask is None else [*form.body.outputs, mask]
    following = _emit_graph(b, form.body, [*now, *captures], lanes, outputs)
    moving = None if mask is None else following.pop()
    next_turn = b.add(turn.value, one)
    again = going(next_turn, following, moving)
    latch = b.current
    b.close_phi(turn, (next_turn, latch))
    for phi, x in zip(phis, following, strict=True):
        b.close_phi(phi, (x, latch))
    b.branch_if(again, head, done)
    b.start_block(done)
    return [b.phi((x, before), (y, latch)) for x, y in zip(state, following, strict=True)]


def _fit(b: Builder, graph: Graph, node: int, x: Value, lanes: int) -> Value:
    """A value of an array in all lanes, a single number in one."""
    return b.splat(x, lanes) if graph.spec(node).shape else b.lane(x, 0)


def _emit_graph(
    b: Builder,
    graph: Graph,
    arguments: Sequence[Value],
    lanes: int,
    outputs: Sequence[int] | None = None,
) -> list[Value]:
    """The values of a graph's outputs, or of those nodes, for these arguments."""
    values: dict[int, Value] = dict(zip(graph.placeholders, arguments, strict=True))
    for node, op in enumerate(graph.ops):
        if op is PLACEHOLDER:
            continue
        inputs = [values[i] for i in graph.inputs[node]]
        if op is CONSTANT:
            constant = graph.constant_value(node)
            assert constant is not None
            values[node] = b.constant(constant.item(), constant.dtype)
        elif isinstance(op.lowering, Pointwise):
            values[node] = op.lowering.emit(b, *inputs, *graph.attrs[node])
        else:
            values[node] = inputs[0]
    outputs = graph.outputs if outputs is None else outputs
    return [_fit(b, graph, node, values[node], lanes) for node in outputs]
