"""From traced blocks to nodes of the graph around them: inputs lined up, ops applied, results back.

All graphs of one op take the same inputs in the same order: those that they name first, then the
tensors and Variables of outside that any of them uses.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tapeline.compiler.frontend.capture import CapturingGraph
from tapeline.compiler.frontend.convert.blocktrace import BlockTrace
from tapeline.compiler.frontend.symbol import Symbol
from tapeline.compiler.ir.control_ops import make_cond_op, make_scan_op, make_while_op
from tapeline.compiler.ir.graph import Graph
from tapeline.compiler.ir.structure_ops import PLACEHOLDER
from tapeline.runtime.dispatch import bind
from tapeline.runtime.op import Trait
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


def apply_while(
    test: BlockTrace,
    body: BlockTrace,
    placeholders: tuple[Sequence[int], Sequence[int]],
    condition: int,
    outputs: Sequence[int],
    initial: Sequence[Tensor],
    limit: int | None = None,
    rows: Sequence[Tensor] = (),
) -> list[Tensor]:
    """The variables of a loop when its test fails; `placeholders` are theirs in both graphs.

    A `limit` says how many rounds there are at most; then the test need not count, and the last
    placeholders of the body are the parts of `rows` for a round.
    """
    graphs, operands = _line_up((test, body), placeholders, ([condition], outputs))
    if limit is not None:
        is_always = constant_truth(test, condition)
        op = make_scan_op(graphs[1], None if is_always else graphs[0])
        attrs = (len(outputs), len(rows), limit, False)
        inputs = (as_tensor(limit, np.int64), *initial, *rows, *operands)
        return list(bind(op, inputs, attrs))[1:]
    return _as_list(bind(make_while_op(*graphs), (*initial, *operands)))


def constant_truth(test: BlockTrace, condition: int) -> bool:
    """Whether the test always holds."""
    value = test.graph.constant_value(condition)
    return value is not None and bool(value)


def _as_list(results: Any) -> list[Tensor]:
    return [results] if type(results) is Tensor else list(results)


def mark_weak(tensor: Tensor, weak: type | None) -> Tensor:
    """The tensor as one that promotes like a Python number of the type."""
    held = tensor._value
    if weak is None or type(held) is not Symbol:
        return tensor
    symbol = Symbol(held.graph, held.id, held.graph.spec(held.id))
    symbol.weak = weak
    return wrap(symbol, tensor._node)
