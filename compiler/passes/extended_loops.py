"""Loops that extend others: one that gives what another gives, and further rows besides.

A loop that was differentiated is such a one: it keeps what its gradient needs. Only the longest of
a family on the same inputs has to run.
"""

from __future__ import annotations

from typing import Any, cast

from tapeline.compiler.ir.control_ops import is_loop
from tapeline.compiler.ir.graph import Graph
from tapeline.compiler.passes.base import Rebuild
from tapeline.runtime.op import Loop, Op


def merge_extended(graph: Graph) -> Graph:
    """One loop in the place of all that it extends, or that extend the same one alike."""
    families: dict[Any, list[int]] = {}
    for node, op in enumerate(graph.ops):
        if is_loop(op):
            families.setdefault(_family(graph, node), []).append(node)
    chosen: dict[int, int] = {}
    for members in families.values():
        longest = max(members, key=lambda node: (_generation(graph.ops[node]), -node))
        chosen.update(dict.fromkeys(members, longest))
    if all(node == longest for node, longest in chosen.items()):
        return graph
    work = Rebuild(graph)
    done: dict[int, tuple[int, ...]] = {}
    for node, op in enumerate(graph.ops):
        if node not in chosen:
            work.keep(node)
            continue
        longest = chosen[node]
        if longest not in done:
            inputs = [_early(work, i) for i in graph.inputs[longest]]
            made = work.target.copy_node(graph, longest, inputs)
            done[longest] = work.target.picks(made, graph.locations[longest])
        start = 1 if not _has_limit(op) and _has_limit(graph.ops[longest]) else 0
        values = done[longest][start : start + (op.n_outputs or 1)]
        work.replace(values[0] if op.n_outputs is None else values)
    return work.finish().graph


def _early(work: Rebuild, node: int) -> int:
    """The new node for an input; a limit may be a constant that only comes later."""
    if node < len(work.values):
        return cast(int, work.values[node])
    constant = work.source.constant_value(node)
    assert constant is not None
    return work.target.add_constant(constant)


def _has_limit(op: Op) -> bool:
    return bool(op.attr_names)


def _extended(op: Op) -> Op | None:
    assert isinstance(op.lowering, Loop)
    found: Op | None = op.lowering.extends
    return found


def _family(graph: Graph, node: int) -> Any:
    """What is equal for loops of which one extends another, on the same inputs."""
    root = op = graph.ops[node]
    while True:
        before = _extended(root)
        if before is None:
            break
        root = before
    inputs = graph.inputs[node]
    return root, inputs[1:] if _has_limit(op) and not _has_limit(root) else inputs


def _generation(op: Op) -> int:
    """How many loops the op extends, one extending the next."""
    count = 0
    before = _extended(op)
    while before is not None:
        count, before = count + 1, _extended(before)
    return count
