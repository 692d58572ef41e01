"""Replaces ops that are defined in terms of simpler ops by those simpler ops."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from tapeline.compiler.ir.graph import Graph
from tapeline.compiler.passes.base import PassResult, Rebuild, Value, rebuild
from tapeline.runtime.errors import GraphError
from tapeline.runtime.op import Attrs, Expansion

TraceInto: TypeAlias = Callable[[Graph, Callable[..., Any], Sequence[int], Attrs], Sequence[int]]
"""`trace_into(graph, function, input_ids, attrs)` runs `function(*tensors, *attrs)` on symbolic
tensors for those nodes, adding to `graph`, and returns the ids of what it returns."""


@dataclass(frozen=True, slots=True)
class Expand:
    """Expands until nothing is left to expand: an expansion may use ops that expand themselves.

    Parameters
    ----------
    trace_into : callable
        See `TraceInto`.
    rounds : int
        How deep expansions may nest; deeper ones are taken to be endless.
    """

    trace_into: TraceInto
    rounds: int = 32
    name: str = "expand"

    def run(self, graph: Graph, /) -> PassResult:
        """The graph without ops whose lowering is an `Expansion`."""
        changed = False
        for _ in range(self.rounds):
            expandable = [
                op for op in dict.fromkeys(graph.ops) if isinstance(op.lowering, Expansion)
            ]
            if not expandable:
                return PassResult(graph, changed)
            graph = rebuild(graph, self._expand_node).graph
            changed = True
        names = ", ".join(op.name for op in expandable)
        raise GraphError(f"expand: {names}: still there after {self.rounds} rounds of expansion")

    def _expand_node(self, work: Rebuild, node_id: int) -> Value | None:
        source, target = work.source, work.target
        op, attrs, spec = source.ops[node_id], source.attrs[node_id], source.specs[node_id]
        if not isinstance(op.lowering, Expansion):
            return None
        start = len(target)
        found = tuple(self.trace_into(target, op.lowering.expand, work.inputs(node_id), attrs))
        for i in range(start, len(target)):
            target.locations[i] = source.locations[node_id]
        expected = spec if isinstance(spec, tuple) else (spec,)
        given = tuple(target.specs[i] for i in found)
        if given != expected:
            raise GraphError(f"expand: {op.name} should give {expected}, but expands to {given}")
        return found if isinstance(spec, tuple) else found[0]
