"""A graph as something to call. What runs a graph in stages is loaded where one needs it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tapeline.compiler.codegen.target import Manner
from tapeline.compiler.differentiable import DifferentiableGraph
from tapeline.compiler.ir.graph import Graph
from tapeline.runtime.op import Op
from tapeline.runtime.sizes import Sizes

if TYPE_CHECKING:
    from tapeline.compiler.staged.staged import StagedGraph


def call_op(graph: Graph) -> Op:
    """The op that calls a graph."""
    return DifferentiableGraph(graph).op


def callable_graph(
    graph: Graph, sizes: Sizes | None, manner: Manner, max_bytes: int | None = None
) -> DifferentiableGraph | StagedGraph:
    """What calls the graph: in stages where sizes depend on values, and on nothing else."""
    if sizes is not None and sizes.told and len(sizes.told) == len(sizes.symbols):
        from tapeline.compiler.staged.staged import StagedGraph
        from tapeline.compiler.staged.stages import has_value_sizes

        if has_value_sizes(graph):
            return StagedGraph(graph, sizes, manner, max_bytes)
    return DifferentiableGraph(graph, manner, max_bytes)
