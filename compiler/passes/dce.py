"""Drops what nobody sees: nodes that no output and no effect needs."""

from __future__ import annotations

from dataclasses import dataclass

from tapeline.compiler.ir.graph import Graph
from tapeline.compiler.ir.structure_ops import PLACEHOLDER
from tapeline.compiler.passes.base import PassResult, Rebuild
from tapeline.runtime.op import Trait


@dataclass(frozen=True, slots=True)
class DeadCode:
    """Keeps placeholders, nodes with effects, and what they and the outputs need."""

    name: str = "dce"

    def run(self, graph: Graph, /) -> PassResult:
        """The graph without dead nodes."""
        live = live_nodes(graph)
        if all(live):
            return PassResult(graph, False)
        work = Rebuild(graph)
        for i, needed in enumerate(live):
            if needed:
                work.keep(i)
            else:
                work.replace(None)
        return work.finish()


def live_nodes(graph: Graph) -> list[bool]:
    """For each node whether the outputs or an effect need it; placeholders always count."""
    live = [False] * len(graph)
    for i in graph.outputs:
        live[i] = True
    rooted = {op: op is PLACEHOLDER or op.has(Trait.EFFECT) for op in dict.fromkeys(graph.ops)}
    for i in range(len(graph) - 1, -1, -1):
        if rooted[graph.ops[i]]:
            live[i] = True
        if live[i]:
            for k in graph.inputs[i]:
                live[k] = True
    return live
