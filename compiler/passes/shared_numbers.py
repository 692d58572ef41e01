"""Numbers that a branch would compute once more although the graph around has them already: they
become operands of the choice.

So an element that a condition looks at is read, and its index checked, once for both.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

from tapeline.compiler.ir.control_ops import is_cond, make_cond_op
from tapeline.compiler.ir.graph import Graph
from tapeline.compiler.ir.structure_ops import CONSTANT, PICK, PLACEHOLDER
from tapeline.compiler.passes.base import Rebuild, rebuild
from tapeline.runtime.spec import TensorSpec


def share_numbers(graph: Graph) -> Graph:
    """The graph whose branches compute no number that is there."""
    if not any(map(is_cond, dict.fromkeys(graph.ops))):
        return graph
    known = _Known()

    def rewrite(work: Rebuild, node: int) -> Any:
        op = graph.ops[node]
        if not is_cond(op):
            known.note(work.source, node, work.inputs(node), len(work.target))
            return None
        condition, *operands = work.inputs(node)
        found = [known.in_branch(branch, operands) for branch in op.subgraphs]
        more = list(dict.fromkeys(there for one in found for there in one.values()))
        if not more:
            return None
        branches = [
            _with_operands(branch, shared, more, work.target)
            for branch, shared in zip(op.subgraphs, found, strict=True)
        ]
        made = work.target.add(
            make_cond_op(*branches), (condition, *operands, *more), (), graph.locations[node]
        )
        parts = work.target.picks(made, graph.locations[node])
        return parts[0] if op.n_outputs is None else parts

    return rebuild(graph, rewrite).graph


class _Known:
    """What the graph around has computed so far, by what it is made of."""

    def __init__(self) -> None:
        self._nodes: dict[Hashable, int] = {}

    def note(self, graph: Graph, node: int, inputs: Sequence[Any], made: int) -> None:
        """A node of the graph around, which becomes `made`."""
        key = _key(graph, node, inputs)
        if key is not None:
            self._nodes.setdefault(key, made)

    def in_branch(self, branch: Graph, operands: Sequence[int]) -> dict[int, int]:
        """The numbers of a branch that are there, by node; those that lead to others are not
        named."""
        there: dict[int, int] = dict(zip(branch.placeholders, operands, strict=True))
        for node in range(len(branch)):
            if all(i in there for i in branch.inputs[node]) and node not in there:
                key = _key(branch, node, [there[i] for i in branch.inputs[node]])
                place = None if key is None else self._nodes.get(key)
                if place is not None:
                    there[node] = place
        used = set(branch.outputs)
        for node, inputs in enumerate(branch.inputs):
            if node not in there:
                used.update(inputs)
        last = _last_placeholder(branch)  # further ones come after it
        return {
            node: place
            for node, place in there.items()
            if node > last
            and node in used
            and _is_made(branch, node)
            and not branch.spec(node).shape
        }


def _is_made(graph: Graph, node: int) -> bool:
    op = graph.ops[node]
    return op is not PLACEHOLDER and op is not CONSTANT and op is not PICK


def _key(graph: Graph, node: int, inputs: Sequence[Any]) -> Hashable | None:
    """Equal for nodes of the same value; None where nobody can tell."""
    op = graph.ops[node]
    if op is CONSTANT:
        value = graph.constant_value(node)
        small = value is not None and not value.shape
        return (CONSTANT, value.dtype, value.tobytes()) if small and value is not None else None
    if not op.is_pure or op is PLACEHOLDER or op.subgraphs or op is PICK:
        return None
    if not isinstance(graph.specs[node], TensorSpec):
        return None
    return (op, tuple(inputs), repr(graph.attrs[node]))


def _with_operands(
    branch: Graph, shared: dict[int, int], more: Sequence[int], around: Graph
) -> Graph:
    """A branch that takes further operands, in the place of numbers that it computes."""
    work = Rebuild(branch)
    last = _last_placeholder(branch)
    for node in range(last + 1):
        work.keep(node)
    added = [work.target.add_placeholder(around.spec(node), "shared") for node in more]
    place_of = dict(zip(more, added, strict=True))
    for node in range(last + 1, len(branch)):
        if node in shared:
            work.replace(place_of[shared[node]])
        else:
            work.keep(node)
    made = work.finish().graph
    made.placeholders += added
    return made


def _last_placeholder(graph: Graph) -> int:
    return max(graph.placeholders, default=-1)
