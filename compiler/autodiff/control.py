"""Gradients of choices and loops, which are again choices and loops, so that any order works.

The gradient of a choice is the choice of two gradients. A loop runs once more with the states at
the beginning of each turn as further rows (`make_scan_op(extends=...)`: where the first run is in
the same graph only this one stays), then a loop over those rows goes the way back, and computes
again what a turn needs of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tapeline.compiler.frontend.capture import CapturingGraph
from tapeline.compiler.frontend.control import UNLIMITED
from tapeline.compiler.frontend.replay import replay
from tapeline.compiler.frontend.symbol import Symbol
from tapeline.compiler.ir.control_ops import (
    LoopForm,
    install_gradients,
    loop_form,
    make_cond_op,
    make_scan_op,
)
from tapeline.compiler.ir.graph import Graph
from tapeline.runtime.backprop import imperative_grad
from tapeline.runtime.dispatch import bind, guarding
from tapeline.runtime.op import Attrs, Op, get_op
from tapeline.runtime.spec import TensorSpec
from tapeline.runtime.tape import pop_tape, push_new_tape, watch
from tapeline.runtime.tensor import Tensor

HISTORY_BYTES = 1 << 28
"""Room for the states of a loop whose number of turns is not known beforehand; pages that nothing
is written to cost no memory."""
HISTORY_TURNS = 1 << 24
"""The most turns of such a loop."""


def _is_differentiable(spec: Any) -> bool:
    return spec.dtype.kind in "fc"


def _specs(graph: Graph, nodes: Sequence[int]) -> list[TensorSpec]:
    return [graph.spec(node) for node in nodes]


def _placeholders(graph: CapturingGraph, specs: Sequence[TensorSpec]) -> list[Tensor]:
    return [graph.placeholder_tensor(spec) for spec in specs]


def _pull_back(
    graph: Graph,
    inputs: Sequence[Tensor],
    wrt: Sequence[int],
    given: Sequence[int],
    cts: Sequence[Tensor],
) -> list[Tensor | None]:
    """In a trace: the gradients for the inputs at `wrt` from cotangents of the outputs `given`."""
    tape = push_new_tape(persistent=False, watch_accessed_variables=False)
    try:
        for position in wrt:
            watch(tape, inputs[position])
        outputs = replay(graph, inputs)
    finally:
        pop_tape(tape)
    targets = [outputs[k] for k in given]
    sources = [inputs[position] for position in wrt]
    with guarding():  # a turn does not know what later ones mask
        return imperative_grad(None, tape, targets, sources, output_gradients=list(cts))


def _zeros(spec: Any) -> Any:
    return np.zeros(spec.shape, spec.dtype)


def _values(results: Any) -> list[Any]:
    return list(results) if isinstance(results, tuple) else [results]


# --- choices ----------------------------------------------------------------------------------


def differentiate_cond(
    op: Op, cts: Sequence[Any], attrs: Attrs, needed: Sequence[bool], condition: Any, *operands: Any
) -> tuple[Any, ...]:
    """The gradients of a choice."""
    wrt = [k for k, x in enumerate(operands) if needed[k + 1] and _is_differentiable(x)]
    given = [k for k, ct in enumerate(cts) if ct is not None]
    gradients: list[Any] = [None] * op_inputs(op)
    if wrt and given:
        graphs = [_cond_gradient(graph, wrt, given) for graph in op.subgraphs]
        inputs = (condition, *operands, *(cts[k] for k in given))
        found = _values(bind(make_cond_op(*graphs), inputs))
        for position, gradient in zip(wrt, found, strict=True):
            gradients[position + 1] = gradient
    return tuple(gradients)


def op_inputs(op: Op) -> int:
    """How many inputs an op of control flow has."""
    assert op.n_inputs is not None
    return op.n_inputs


def _cond_gradient(graph: Graph, wrt: Sequence[int], given: Sequence[int]) -> Graph:
    made = CapturingGraph(f"{graph.name}_vjp")
    made.holds_arrays = True
    with made.tracing():
        inputs = _placeholders(made, _specs(graph, graph.placeholders))
        cts = _placeholders(made, _specs(graph, [graph.outputs[k] for k in given]))
        for position, gradient in zip(wrt, _pull_back(graph, inputs, wrt, given, cts), strict=True):
            made.outputs.append(_node_of(made, gradient, inputs[position]))
    return made


def _node_of(graph: CapturingGraph, gradient: Tensor | None, like: Any) -> int:
    """The node of a gradient, zeros where there is none."""
    if gradient is not None:
        return graph.value_id(gradient)
    zero = graph.add_constant(np.zeros((), like.dtype))
    return graph.add(get_op("broadcast_to"), (zero,), (like.shape,)) if like.shape else zero


# --- loops ------------------------------------------------------------------------------------


def differentiate_loop(
    op: Op, cts: Sequence[Any], attrs: Attrs, needed: Sequence[bool], *saved: Any
) -> tuple[Any, ...]:
    """The gradients of a loop."""
    form = loop_form(op, attrs)
    inputs = saved[: op_inputs(op)]
    state, xs, captures = form.split(inputs)
    _, need_xs, need_captures = form.split(needed)
    ct_state, ct_ys = cts[form.first : form.first + form.n_state], cts[form.first + form.n_state :]
    moving = [k for k, x in enumerate(state) if _is_differentiable(x)]
    summed = [k for k, x in enumerate(captures) if need_captures[k] and _is_differentiable(x)]
    rows = [k for k, x in enumerate(xs) if need_xs[k] and _is_differentiable(x)]
    given = [k for k, ct in enumerate(ct_ys) if ct is not None]
    length = _history_length(form, inputs)
    count, history = _run_with_history(op, form, inputs, length)
    starts = [_zeros(state[k]) if ct_state[k] is None else ct_state[k] for k in moving]
    starts += [_zeros(captures[k]) for k in summed]
    body = _backward_body(form, moving, summed, rows, given)
    back_rows = [*history, *xs, *(ct_ys[k] for k in given)]
    shape = (len(starts), len(back_rows), length, not form.reverse)
    found = _values(bind(make_scan_op(body), (count, *starts, *back_rows, *captures), shape))
    found = found[1:]
    result: list[Any] = [None] * len(inputs)
    first_capture = form.first + form.n_state + form.n_xs
    places = [form.first + k for k in moving] + [first_capture + k for k in summed]
    places += [form.first + form.n_state + k for k in rows]
    for place, gradient in zip(places, found, strict=True):
        result[place] = gradient
    return tuple(result)


def _run_with_history(
    op: Op, form: LoopForm, inputs: Sequence[Any], length: int
) -> tuple[Any, list[Any]]:
    """The number of turns, and each state at the beginning of each turn as rows."""
    body = Graph(form.body.name)
    copied: list[int] = []
    for node in range(len(form.body)):
        copied.append(body.copy_node(form.body, node, [copied[i] for i in form.body.inputs[node]]))
    body.placeholders = [copied[node] for node in form.body.placeholders]
    kept = form.body.placeholders[: form.n_state]
    body.outputs = [copied[node] for node in (*form.body.outputs, *kept)]
    recorder = make_scan_op(body, form.test, extends=op)
    limit = np.asarray(UNLIMITED, np.int64) if form.length is None else inputs[0]
    attrs = (form.n_state, form.n_xs, length, form.reverse)
    results = _values(bind(recorder, (limit, *inputs[form.first :]), attrs))
    count = limit if form.test is None else results[0]
    return count, results[1 + len(form.body.outputs) :]


def _backward_body(
    form: LoopForm,
    moving: Sequence[int],
    summed: Sequence[int],
    rows: Sequence[int],
    given: Sequence[int],
) -> Graph:
    """One turn of the way back: cotangents of the state, sums for the captures, and the forward
    turn's own inputs in; the same before that turn, and gradients of its rows, out."""
    body = form.body
    specs = _specs(body, body.placeholders)
    first = form.n_state + form.n_xs
    state, captures = specs[: form.n_state], specs[first:]
    made = CapturingGraph(f"{body.name}_vjp")
    made.holds_arrays = True
    with made.tracing():
        cts = _placeholders(made, [state[k] for k in moving])
        sums = _placeholders(made, [captures[k] for k in summed])
        inputs = _placeholders(made, specs[:first])
        outputs = [body.outputs[form.n_state + k] for k in given]
        ct_ys = _placeholders(made, _specs(body, outputs))
        inputs += _placeholders(made, captures)
        wrt = [*moving, *(first + k for k in summed), *(form.n_state + k for k in rows)]
        targets = [*moving, *(form.n_state + k for k in given)]
        found = _pull_back(body, inputs, wrt, targets, [*cts, *ct_ys])
        middle = len(moving) + len(summed)
        for position, gradient in zip(wrt[: len(moving)], found, strict=False):
            made.outputs.append(_node_of(made, gradient, inputs[position]))
        for total, gradient in zip(sums, found[len(moving) : middle], strict=True):
            made.outputs.append(made.value_id(total if gradient is None else total + gradient))
        for position, gradient in zip(wrt[middle:], found[middle:], strict=True):
            made.outputs.append(_node_of(made, gradient, inputs[position]))
    return made


# --- how many turns there can be --------------------------------------------------------------


def _history_length(form: LoopForm, inputs: Sequence[Any]) -> int:
    """How many turns there must be room for."""
    if form.length is not None:
        return form.length
    bound = _bound(form, inputs)
    if bound is not None:
        return bound
    turn = sum(_specs(form.body, [node])[0].nbytes for node in form.body.placeholders)
    return max(1, min(HISTORY_TURNS, HISTORY_BYTES // max(turn, 1)))


def _known(value: Any) -> Any:
    """The number that an input is, or None where it is not known now."""
    if type(value) is Tensor:
        value = value._value
    if type(value) is Symbol:
        value = value.graph.constant_value(value.id)
    return None if value is None or value.ndim else value.item()


def _bound(form: LoopForm, inputs: Sequence[Any]) -> int | None:
    """The most turns of a loop that counts an int up to a number known now; None for others."""
    test, body = form.test, form.body
    if test is None:
        return None
    position = {node: k for k, node in enumerate(test.placeholders)}

    def number(node: int) -> Any:
        constant = test.constant_value(node)
        if constant is not None:
            return _known(constant)
        at = position.get(node, 0)
        return _known(inputs[at]) if at >= form.n_state else None

    pending = list(test.outputs)
    while pending:
        node = pending.pop()
        op = test.ops[node]
        if op in (get_op("bitwise_and"), get_op("logical_and")):
            pending += test.inputs[node]
        elif op in (get_op("less"), get_op("less_equal")):
            index, end = test.inputs[node]
            stop, at = number(end), position.get(index)
            if stop is None or at is None or at >= form.n_state:
                continue
            start, step = _known(inputs[at]), _step(body, at)
            if isinstance(start, int) and isinstance(stop, int) and step:
                stop += op is get_op("less_equal")
                return max(0, -((start - stop) // step))
    return None


def _step(body: Graph, at: int) -> int | None:
    """What a turn adds to a state, where that is a positive int known now."""
    node = body.outputs[at]
    if body.ops[node] is not get_op("add"):
        return None
    a, b = body.inputs[node]
    if b == body.placeholders[at]:
        a, b = b, a
    constant = body.constant_value(b)
    if a != body.placeholders[at] or constant is None or constant.ndim:
        return None
    step = constant.item()
    return step if isinstance(step, int) and step > 0 else None


install_gradients(differentiate_cond, differentiate_loop)
