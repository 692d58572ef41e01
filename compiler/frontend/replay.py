"""Runs a graph's nodes again as op calls on tensors: into another trace, under a tape, or
eagerly."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np

from tapeline.compiler.frontend.capture import CapturingGraph
from tapeline.compiler.ir.graph import Graph
from tapeline.compiler.ir.interpret import last_uses
from tapeline.compiler.ir.structure_ops import CONSTANT, PICK, PLACEHOLDER
from tapeline.runtime.dispatch import STATE, bind
from tapeline.runtime.op import Attrs
from tapeline.runtime.recorder import Tape
from tapeline.runtime.tape import pop_tape, push_new_tape, watch
from tapeline.runtime.tensor import Tensor, new_tensor


def replay(graph: Graph, inputs: Sequence[Tensor]) -> list[Tensor]:
    """The outputs of the graph for these tensors, by calling each op in order.

    In a trace, the nodes keep the source lines of `graph`.
    """
    handler = STATE.handler
    target = handler if isinstance(handler, CapturingGraph) else None
    given = dict(zip(graph.placeholders, inputs, strict=True))
    last = last_uses(graph)
    values: list[Any] = [None] * len(graph)
    for node, op in enumerate(graph.ops):
        if op is PLACEHOLDER:
            values[node] = given[node]
        elif op is CONSTANT:
            constant = graph.constant_value(node)
            assert constant is not None
            if target is None:
                values[node] = new_tensor(constant)
            else:
                values[node] = target.tensor(target.add_constant(constant))
        elif op is PICK:
            values[node] = values[graph.inputs[node][0]][cast(int, graph.attrs[node][0])]
        else:
            if target is not None:
                target.location = graph.locations[node]
            values[node] = bind(op, tuple(values[i] for i in graph.inputs[node]), graph.attrs[node])
            if target is not None:
                made = values[node]
                for tensor in made[:1] if isinstance(made, tuple) else (made,):
                    target.note_origin(tensor)
        for i in graph.inputs[node]:
            if last[i] == node:
                values[i] = None
    if target is not None:
        target.location = None
    return [values[node] for node in graph.outputs]


def replay_on_tape(
    graph: Graph, inputs: Sequence[Tensor], wrt: Sequence[int]
) -> tuple[Tape, list[Tensor]]:
    """A tape that watched the inputs at the positions `wrt`, and the outputs of a replay that it
    recorded."""
    tape = push_new_tape(persistent=False, watch_accessed_variables=False)
    try:
        for position in wrt:
            watch(tape, inputs[position])
        outputs = replay(graph, inputs)
    finally:
        pop_tape(tape)
    return tape, outputs


class _Extension(CapturingGraph):
    """A handler that adds nodes to an existing plain graph; tensors of outside are constants."""

    __slots__ = ()

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph.name)
        for name in Graph.__slots__:
            setattr(self, name, getattr(graph, name))

    def value_id(self, tensor: Tensor) -> int:
        """The node of a tensor's value; a constant for a tensor that a rule made itself."""
        value = tensor._value
        return self.add_constant(value) if type(value) is np.ndarray else super().value_id(tensor)


def trace_into(
    graph: Graph, function: Callable[..., Any], inputs: Sequence[int], attrs: Attrs
) -> tuple[int, ...]:
    """Adds to `graph` what `function(*tensors, *attrs)` computes from the values of these nodes;
    returns the nodes of its results."""
    extension = _Extension(graph)
    before = len(graph.placeholders)
    with extension.tracing():
        result = function(*(extension.tensor(node) for node in inputs), *attrs)
        results = result if isinstance(result, tuple) else (result,)
        nodes = tuple(extension.value_id(tensor) for tensor in results)
    assert len(graph.placeholders) == before, "an expansion must not capture tensors of outside"
    return nodes
