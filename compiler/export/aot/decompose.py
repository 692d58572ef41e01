"""Puts loops of simple ops in the place of what runs as NumPy calls, where that can be."""

from __future__ import annotations

from typing import Any

from tapeline.compiler.codegen.target import Manner
from tapeline.compiler.compiled import Compiled
from tapeline.compiler.export.decompositions import DECOMPOSITIONS
from tapeline.compiler.frontend.replay import trace_into
from tapeline.compiler.ir.control_ops import is_cond, is_loop, remake
from tapeline.compiler.ir.graph import Graph
from tapeline.compiler.passes.base import Rebuild, rebuild
from tapeline.runtime.spec import TensorSpec


def without_numpy_calls(graph: Graph, manner: Manner) -> Graph:
    """An optimized graph, optimized again where something in it was taken apart."""
    if not _has_any(graph):
        return graph
    return Compiled(_decomposed(graph), manner).optimized


def _has_any(graph: Graph) -> bool:
    found = dict.fromkeys(graph.ops)
    return any(op.name in DECOMPOSITIONS or any(map(_has_any, op.subgraphs)) for op in found)


def _decomposed(graph: Graph) -> Graph:
    return rebuild(graph, _replace).graph


def _replace(work: Rebuild, node: int) -> Any:
    source, target = work.source, work.target
    op, attrs = source.ops[node], source.attrs[node]
    start = len(target)
    if op.subgraphs and (is_cond(op) or is_loop(op)) and any(map(_has_any, op.subgraphs)):
        other = remake(op, tuple(map(_decomposed, op.subgraphs)))
        found = target.picks(target.add(other, work.inputs(node), attrs))
    elif op.name in DECOMPOSITIONS and _is_real(source, node):
        found = tuple(trace_into(target, DECOMPOSITIONS[op.name], work.inputs(node), attrs))
    else:
        return None
    for new in range(start, len(target)):
        target.locations[new] = source.locations[node]
    return found if isinstance(source.specs[node], tuple) else found[0]


def _is_real(graph: Graph, node: int) -> bool:
    specs = [graph.specs[one] for one in (node, *graph.inputs[node])]
    flat = [one for spec in specs for one in (spec if isinstance(spec, tuple) else (spec,))]
    return all(isinstance(spec, TensorSpec) and spec.dtype.kind != "c" for spec in flat)
