"""From traced blocks to nodes of the graph around them: inputs lined up, ops applied, results back.

All graphs of one op take the same inputs in the same order: those that they name first, then the
tensors and Variables of outside that any of them uses.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tapeline.compiler.autodiff import control as _gradients  # noqa: F401  # rules of these ops
from tapeline.compiler.frontend import batching as _batching  # noqa: F401  # and under vmap
from tapeline.compiler.frontend.capture import CapturingGraph
from tapeline.compiler.frontend.convert.blocktrace import BlockTrace
from tapeline.compiler.frontend.fixed_point import stage_fixed_point
from tapeline.compiler.frontend.replay import replay
from tapeline.compiler.frontend.symbol import Symbol
from tapeline.compiler.ir.control_ops import make_cond_op, make_scan_op, make_while_op
from tapeline.compiler.ir.graph import Graph
from tapeline.compiler.ir.structure_ops import PLACEHOLDER
from tapeline.runtime.batching.level import Batched
from tapeline.runtime.dispatch import bind
from tapeline.runtime.errors import LoopLimitError, TracingError
from tapeline.runtime.op import Trait, get_op
from tapeline.runtime.ops.effects import HOST_ASSERT, Message
from tapeline.runtime.ops.logic import logical_not
from tapeline.runtime.spec import TensorSpec
from tapeline.runtime.tensor import Tensor, as_tensor, wrap


def _outside(graph: CapturingGraph, outputs: Sequence[int]) -> dict[int, tuple[int, Any]]:
    """What a graph takes of outside: by id of the source, its placeholder and the source."""
    needed = _needed(graph, outputs)
    found: dict[int, tuple[int, Any]] = {}
    for capture in graph.captures:
        if capture.placeholder in needed:
            found[id(capture.source)] = capture.placeholder, capture.source
    for resource in graph.resources.values():
        if resource.placeholder in needed:
            found[id(resource.variable)] = resource.placeholder, resource.variable
    return found


def _needed(graph: CapturingGraph, outputs: Sequence[int]) -> set[int]:
    needed = set(outputs)
    for node in range(len(graph) - 1, -1, -1):
        if node in needed or graph.ops[node].has(Trait.EFFECT):
            needed.add(node)
            needed.update(graph.inputs[node])
    return needed


def _line_up(
    traces: Sequence[BlockTrace],
    leading: Sequence[Sequence[int]],
    outputs: Sequence[Sequence[int]],
) -> tuple[list[Graph], list[Tensor]]:
    """Plain graphs with one list of inputs, and the tensors of outside to pass after the
    `leading` ones."""
    tables = [_outside(traced.graph, out) for traced, out in zip(traces, outputs, strict=True)]
    sources: dict[int, Any] = {}
    for table in tables:
        sources.update({key: source for key, (_, source) in table.items()})
    tensors = [_as_operand(source) for source in sources.values()]
    graphs = []
    for traced, table, first, out in zip(traces, tables, leading, outputs, strict=True):
        specs: list[TensorSpec] = [traced.graph.spec(node) for node in first]
        specs += [_spec_of(tensor) for tensor in tensors]
        order = [*first, *(table[key][0] if key in table else None for key in sources)]
        graphs.append(_plain(traced.graph, order, specs, out))
    return graphs, tensors


def _as_operand(source: Any) -> Tensor:
    if isinstance(source, np.ndarray):
        return as_tensor(source, source.dtype)
    return as_tensor(source)


def _spec_of(tensor: Tensor) -> TensorSpec:
    return TensorSpec(tensor.shape, tensor.dtype)


def _plain(
    graph: CapturingGraph, order: Sequence[int | None], specs: Sequence[TensorSpec],
    outputs: Sequence[int],
) -> Graph:  # fmt: skip
    """The graph with these inputs in this order (None: one it does not use), and no dead nodes."""
    made = Graph(graph.name)
    values: dict[int, int] = {}
    for node, spec in zip(order, specs, strict=True):
        placeholder = made.add_placeholder(spec)
        if node is not None:
            values[node] = placeholder
    for node in sorted(_needed(graph, outputs)):
        if graph.ops[node] is not PLACEHOLDER:
            inputs = [values[i] for i in graph.inputs[node]]
            values[node] = made.copy_node(graph, node, inputs)
    made.outputs = [values[node] for node in outputs]
    return made


def has_effects(traced: BlockTrace) -> bool:
    """Whether running the block is seen from outside, apart from its results."""
    return any(op.has(Trait.EFFECT) for op in dict.fromkeys(traced.graph.ops))


def apply_cond(
    condition: Tensor, traces: Sequence[BlockTrace], outputs: Sequence[Sequence[int]]
) -> list[Tensor]:
    """The outputs of the first block where the condition holds, else those of the second one."""
    then, other = traces
    results = [list(out) for out in outputs]
    if not results[0]:
        if not (has_effects(then) or has_effects(other)):
            return []
        for traced, out in zip(traces, results, strict=True):
            out.append(traced.graph.add_constant(np.array(False)))  # an op has a result
    graphs, operands = _line_up(traces, ((), ()), results)
    return _as_list(bind(make_cond_op(*graphs), (condition, *operands)))


@dataclass(frozen=True, slots=True)
class LoopShape:
    """How a loop is to be run.

    Parameters
    ----------
    limit : int or None
        How many rounds there are at most; then the test need not count.
    rows : sequence of Tensor
        Tensors of which each round takes one part: the last placeholders of the body.
    every : int
        How many rounds lie between two checkpoints; 0 without checkpoints, -1 where the loop ends
        at a fixed point.
    bound : int or None
        How many rounds of a loop without limit its author says there are at most.
    what : str
        What messages call the loop.
    """

    limit: int | None = None
    rows: Sequence[Tensor] = ()
    every: int = 0
    bound: int | None = None
    what: str = ""


def apply_while(
    test: BlockTrace,
    body: BlockTrace,
    placeholders: tuple[Sequence[int], Sequence[int]],
    condition: int,
    outputs: Sequence[int],
    initial: Sequence[Tensor],
    shape: LoopShape,
) -> list[Tensor]:
    """The variables of a loop when its test fails; `placeholders` are theirs in both graphs.

    Further outputs are rows that each round gives; the results have the arrays of them.
    """
    graphs, operands = _line_up((test, body), placeholders, ([condition], outputs))
    is_always = constant_truth(test, condition)
    going = None if shape.limit is not None and is_always else graphs[0]
    turn = graphs[1]
    limit = shape.bound if shape.limit is None else shape.limit
    n_state, n_rows = len(initial), len(shape.rows)
    if shape.every > 0:
        if len(outputs) > n_state:
            raise TracingError(
                f'{shape.what} appends to a list, which it cannot with gradient="checkpoint:k"; '
                "write to a tl.TensorArray"
            )
        is_counted = shape.limit is not None
        stretch = _stretch(turn, going, n_state, shape.every, shape.limit if is_counted else None)
        count = None if limit is None else -(-limit // shape.every)
        results = _run_loop(stretch, going, count, n_state, (*initial, *operands))
    else:
        inputs = (*initial, *shape.rows, *operands)
        results = _run_loop(turn, going, limit, n_state, inputs, n_rows)
    if shape.bound is not None and going is not None:
        (more,) = replay(going, [*results, *operands])
        _check_bound(more, shape.bound, shape.what)
    if shape.every < 0:
        return stage_fixed_point(lambda *state: replay(turn, [*state, *operands]), results)
    return results


def _run_loop(
    body: Graph,
    test: Graph | None,
    limit: int | None,
    n_state: int,
    inputs: Sequence[Tensor],
    n_rows: int = 0,
) -> list[Tensor]:
    if limit is None:
        assert test is not None
        return _as_list(bind(make_while_op(test, body), tuple(inputs)))
    turns = as_tensor(limit, np.int64)
    results = bind(make_scan_op(body, test), (turns, *inputs), (n_state, n_rows, limit, False))
    return list(results)[1:]


def _stretch(body: Graph, test: Graph | None, n_state: int, every: int, limit: int | None) -> Graph:
    """So many turns of a loop as one turn of another one, which keeps the state before them.

    Where there is a limit, the first state counts the turns.
    """
    made = Graph("stretch")
    inputs = [made.add_placeholder(body.spec(node)) for node in body.placeholders]
    turns = made.add_constant(np.asarray(every, np.int64))
    if limit is not None:
        left = made.add(get_op("subtract"), (_number(made, limit), inputs[0]))
        turns = made.add(get_op("minimum"), (turns, left))
    inner = made.add(make_scan_op(body, test), (turns, *inputs), (n_state, 0, every, False))
    made.outputs = list(made.picks(inner)[1 : 1 + n_state])
    return made


def _number(graph: Graph, number: int) -> int:
    return graph.add_constant(np.asarray(number, np.int64))


def _check_bound(more: Tensor, bound: int, what: str) -> None:
    text = (
        f"{what} makes more than the {bound} rounds that set_loop_options(maximum_iterations="
        f"{bound}) says"
    )
    bind(HOST_ASSERT, (logical_not(more),), (Message((text,), LoopLimitError),))


def constant_truth(test: BlockTrace, condition: int) -> bool:
    """Whether the test always holds."""
    value = test.graph.constant_value(condition)
    return value is not None and bool(value)


def _as_list(results: Any) -> list[Tensor]:
    return [results] if type(results) is Tensor else list(results)


def mark_weak(tensor: Tensor, weak: type | None) -> Tensor:
    """The tensor as one that promotes like a Python number of the type."""
    held = tensor._value
    if weak is not None and type(held) is Batched:
        value = Batched(held.level, held.tensor, held.mapped)
        value.weak = weak
        return wrap(value, tensor._node)
    if weak is None or type(held) is not Symbol:
        return tensor
    symbol = Symbol(held.graph, held.id, held.graph.spec(held.id))
    symbol.weak = weak
    return wrap(symbol, tensor._node)
