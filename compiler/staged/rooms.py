"""Loops and branches of stages that run op by op: compiled by themselves, for all sizes.

What a loop does in a turn seldom depends on how many rows it goes through. Then it is compiled with
room for some number of rows, a power of two, and told how many there are: the rows beyond are not
looked at.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tapeline.compiler.codegen.target import Manner
from tapeline.compiler.differentiable import DifferentiableGraph
from tapeline.compiler.frontend.specialize import has_open_sizes
from tapeline.compiler.ir.control_ops import is_cond, is_loop
from tapeline.compiler.ir.graph import Graph
from tapeline.runtime.dims import is_open_shape
from tapeline.runtime.op import Attrs, Op
from tapeline.runtime.ops.joining import pad
from tapeline.runtime.spec import TensorSpec, spec_of
from tapeline.runtime.tensor import Tensor

_LEAST = 16


def fits_a_room(op: Op, specs: Sequence[TensorSpec]) -> bool:
    """Whether the op is a loop or a branch that depends on no open size but a number of rows;
    `specs` are those of its inputs."""
    if not (is_loop(op) or is_cond(op)) or any(map(has_open_sizes, op.subgraphs)):
        return False
    return not any(is_open_shape(spec.static_shape[1:]) for spec in specs)


class Room:
    """Such an op, to be called with its inputs: arrays if `raw`, else tensors.

    Parameters
    ----------
    op, attrs
        The op of a node.
    specs : sequence of TensorSpec
        Those of its inputs.
    manner : Manner
        How code is made.
    raw : bool
        Whether it takes and gives arrays.
    """

    def __init__(
        self, op: Op, attrs: Attrs, specs: Sequence[TensorSpec], manner: Manner, raw: bool
    ) -> None:
        self.op = op
        self.attrs = attrs
        self.specs = tuple(specs)
        self.manner = manner
        self.raw = raw
        self._xs: range = range(0)
        self._ys_from = 0
        if attrs:
            n_state, n_xs, _, _ = attrs
            self._xs = range(1 + n_state, 1 + n_state + n_xs)  # type: ignore[operator]  # ints
            self._ys_from = 1 + n_state  # type: ignore[operator]  # an int
        self._graphs: dict[int, DifferentiableGraph] = {}

    def __call__(self, length: int, *inputs: Any) -> Any:
        """The outputs; `length` is how many rows there are, if any."""
        if not self.attrs:
            return self._run(self._graph(0), inputs)
        room = _LEAST
        while room < length:
            room *= 2
        given = list(inputs)
        for k in self._xs:
            given[k] = self._widened(given[k], length, room)
        outputs = self._run(self._graph(room), given)
        first = self._ys_from
        return (*outputs[:first], *[rows[:length] for rows in outputs[first:]])

    def _widened(self, rows: Any, length: int, room: int) -> Any:
        if length == room:
            return rows
        if type(rows) is Tensor:
            return pad(rows, [(0, room - length)] + [(0, 0)] * (rows.ndim - 1))
        made = np.zeros((room, *rows.shape[1:]), rows.dtype)
        made[:length] = rows
        return made

    def _run(self, graph: DifferentiableGraph, inputs: Sequence[Any]) -> Any:
        if self.raw:
            return graph.compiled(*inputs)
        outputs = graph(inputs)
        return outputs[0] if self.op.n_outputs is None else outputs

    def _graph(self, room: int) -> DifferentiableGraph:
        found = self._graphs.get(room)
        if found is None:
            graph = Graph(self.op.name)
            inputs = []
            for k, spec in enumerate(self.specs):
                shape = (room, *spec.static_shape[1:]) if k in self._xs else spec.static_shape
                inputs.append(graph.add_placeholder(spec_of(shape, spec.dtype), f"v{k}"))
            attrs = self.attrs and (*self.attrs[:2], room, self.attrs[3])
            node = graph.add(self.op, inputs, attrs)
            graph.outputs = list(graph.picks(node))
            found = self._graphs[room] = DifferentiableGraph(graph, self.manner)
        return found
