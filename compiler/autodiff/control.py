"""Gradients of choices and loops, which are again choices and loops, so that any order works.

The gradient of a choice is the choice of two gradients. A loop runs once more and keeps of each
turn, as further rows, what its way back needs (`make_scan_op(extends=...)`: where the first run is
in the same graph only this one stays). Then a loop over those rows goes the way back, and computes
again what is cheaper to compute than to keep.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np

from tapeline.compiler.autodiff.partition import partition
from tapeline.compiler.autodiff.room import turns_for
from tapeline.compiler.frontend.capture import CapturingGraph
from tapeline.compiler.frontend.control import UNLIMITED
from tapeline.compiler.frontend.replay import replay_on_tape
from tapeline.compiler.frontend.symbol import Symbol
from tapeline.compiler.ir.control_ops import (
    LoopForm,
    install_gradients,
    loop_form,
    make_cond_op,
    make_scan_op,
)
from tapeline.compiler.ir.graph import Graph
from tapeline.compiler.passes.cse import CommonSubexpressions
from tapeline.compiler.passes.dce import DeadCode
from tapeline.compiler.passes.pipeline import BEFORE_GRADIENTS, run_pipeline
from tapeline.runtime.backprop import imperative_grad
from tapeline.runtime.dispatch import STATE, bind, guarding, is_guarded
from tapeline.runtime.op import Attrs, Op, get_op
from tapeline.runtime.spec import TensorSpec
from tapeline.runtime.tensor import Tensor

_BEFORE_CUT = (*BEFORE_GRADIENTS, CommonSubexpressions(), DeadCode())


def _is_differentiable(spec: Any) -> bool:
    return spec.dtype.kind in "fcV"


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
) -> tuple[list[Tensor], list[Tensor | None]]:
    """In a trace: the graph's outputs, and the gradients for the inputs at `wrt` from cotangents of
    the outputs `given`."""
    tape, outputs = replay_on_tape(graph, inputs, wrt)
    targets = [outputs[k] for k in given]
    sources = [inputs[position] for position in wrt]
    return outputs, imperative_grad(None, tape, targets, sources, output_gradients=list(cts))


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
        guarded = is_guarded()
        graphs = [_cond_gradient(graph, wrt, given, guarded) for graph in op.subgraphs]
        inputs = (condition, *operands, *(cts[k] for k in given))
        found = _values(bind(make_cond_op(*graphs), inputs))
        for position, gradient in zip(wrt, found, strict=True):
            gradients[position + 1] = gradient
    return tuple(gradients)


def op_inputs(op: Op) -> int:
    """How many inputs an op of control flow has."""
    assert op.n_inputs is not None
    return op.n_inputs


def _cond_gradient(graph: Graph, wrt: Sequence[int], given: Sequence[int], guarded: bool) -> Graph:
    made = CapturingGraph(f"{graph.name}_vjp")
    made.holds_arrays = True
    with made.tracing():
        inputs = _placeholders(made, _specs(graph, graph.placeholders))
        cts = _placeholders(made, _specs(graph, [graph.outputs[k] for k in given]))
        with guarding() if guarded else nullcontext():
            _, found = _pull_back(graph, inputs, wrt, given, cts)
        for position, gradient in zip(wrt, found, strict=True):
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
    turn = _split_turn(form, moving, summed, rows, given)
    length = _history_length(form, inputs, turn.forward)
    count, history = _run_again(op, form, turn, inputs, length)
    starts = [_zeros(state[k]) if ct_state[k] is None else ct_state[k] for k in moving]
    starts += [_zeros(captures[k]) for k in summed]
    back_rows = [*history, *(xs[k] for k in turn.xs), *(ct_ys[k] for k in given)]
    fixed = [captures[k] for k in turn.captures]
    shape = (len(starts), len(back_rows), length, not form.reverse)
    backward = make_scan_op(turn.backward)
    found = _values(bind(backward, (count, *starts, *back_rows, *fixed), shape))[1:]
    result: list[Any] = [None] * len(inputs)
    first_capture = form.first + form.n_state + form.n_xs
    places = [form.first + k for k in moving] + [first_capture + k for k in summed]
    places += [form.first + form.n_state + k for k in rows]
    for place, gradient in zip(places, found, strict=True):
        result[place] = gradient
    return tuple(result)


@dataclass(frozen=True, slots=True)
class _Turn:
    """One turn forward and one backward, with what is kept between them.

    `forward` gives what the body gives, then what is kept as rows. `backward` takes cotangents of
    the state and sums for captures, then those rows, the rows of `xs` and cotangents of ys, then
    `captures`.
    """

    forward: Graph
    backward: Graph
    xs: tuple[int, ...]
    captures: tuple[int, ...]


def _run_again(
    op: Op, form: LoopForm, turn: _Turn, inputs: Sequence[Any], length: int
) -> tuple[Any, list[Any]]:
    """The number of turns, and what they keep."""
    recorder = make_scan_op(turn.forward, form.test, extends=op)
    limit = np.asarray(UNLIMITED, np.int64) if form.length is None else inputs[0]
    attrs = (form.n_state, form.n_xs, length, form.reverse)
    results = _values(bind(recorder, (limit, *inputs[form.first :]), attrs))
    count = limit if form.test is None else results[0]
    return count, results[1 + len(form.body.outputs) :]


def _split_turn(
    form: LoopForm,
    moving: Sequence[int],
    summed: Sequence[int],
    rows: Sequence[int],
    given: Sequence[int],
) -> _Turn:
    """Cuts a turn and its way back where the fewest bytes are kept; xs and captures are there
    anyway."""
    guarded = is_guarded()
    before, STATE.masked = STATE.masked, False
    joint, n_cts = _joint_turn(form, moving, summed, rows, given, guarded)
    if STATE.masked and not guarded:  # what one turn masks, those before it meet
        joint, n_cts = _joint_turn(form, moving, summed, rows, given, True)
    STATE.masked = STATE.masked or before
    joint = run_pipeline(joint, _BEFORE_CUT)
    n_inputs = len(form.body.placeholders)
    states = joint.placeholders[: form.n_state]
    late = joint.placeholders[n_inputs:]
    parts = partition(joint, len(form.body.outputs), late, dear=states)
    kept: list[int] = []
    xs: dict[int, int] = {}
    captures: dict[int, int] = {}
    takes = parts.backward.placeholders
    for number, at in enumerate(parts.input_of_residual):
        if at is None or at < form.n_state:
            kept.append(number)
        elif at < form.n_state + form.n_xs:
            xs[at - form.n_state] = takes[number]
        else:
            captures[at - form.n_state - form.n_xs] = takes[number]
    forward, backward = parts.forward, parts.backward
    n_body = len(form.body.outputs)
    forward.outputs = forward.outputs[:n_body] + [forward.outputs[n_body + k] for k in kept]
    cts = takes[len(parts.residuals) :]
    backward.placeholders = [
        *cts[:n_cts], *(takes[k] for k in kept), *xs.values(), *cts[n_cts:], *captures.values()
    ]  # fmt: skip
    return _Turn(forward, backward, tuple(xs), tuple(captures))


def _joint_turn(
    form: LoopForm,
    moving: Sequence[int],
    summed: Sequence[int],
    rows: Sequence[int],
    given: Sequence[int],
    guarded: bool,
) -> tuple[Graph, int]:
    """A turn and its way back in one graph, and how many cotangents and sums it takes.

    Its inputs are those of the body, then cotangents of the state, sums for captures, cotangents of
    ys. Its outputs are those of the body, then the gradients for the state, the new sums, and the
    gradients of xs.
    """
    body = form.body
    specs = _specs(body, body.placeholders)
    first = form.n_state + form.n_xs
    made = CapturingGraph(f"{body.name}_vjp")
    with made.tracing():
        inputs = _placeholders(made, specs)
        cts = _placeholders(made, [specs[k] for k in moving])
        sums = _placeholders(made, [specs[first + k] for k in summed])
        outputs = [body.outputs[form.n_state + k] for k in given]
        ct_ys = _placeholders(made, _specs(body, outputs))
        wrt = [*moving, *(first + k for k in summed), *(form.n_state + k for k in rows)]
        targets = [*moving, *(form.n_state + k for k in given)]
        with guarding() if guarded else nullcontext():
            results, found = _pull_back(body, inputs, wrt, targets, [*cts, *ct_ys])
        made.outputs = [made.value_id(tensor) for tensor in results]
        middle = len(moving) + len(summed)
        for position, gradient in zip(wrt[: len(moving)], found, strict=False):
            made.outputs.append(_node_of(made, gradient, inputs[position]))
        for total, gradient in zip(sums, found[len(moving) : middle], strict=True):
            made.outputs.append(made.value_id(total if gradient is None else total + gradient))
        for position, gradient in zip(wrt[middle:], found[middle:], strict=True):
            made.outputs.append(_node_of(made, gradient, inputs[position]))
    return made, middle


# --- how many turns there can be --------------------------------------------------------------


def _history_length(form: LoopForm, inputs: Sequence[Any], turn: Graph) -> int:
    """How many turns there must be room for."""
    if form.length is not None:
        return form.length
    bound = _bound(form, inputs)
    if bound is not None:
        return bound
    kept = sum(turn.spec(node).nbytes for node in turn.outputs[len(form.body.outputs) :])
    return turns_for(kept)


def _known(value: Any) -> Any:
    """The number that an input is, or None where it is not known now."""
    if type(value) is Tensor:
        value = value._value
    if type(value) is Symbol:
        value = value.graph.constant_value(value.id)
    return value.item() if isinstance(value, np.ndarray) and not value.ndim else None


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
