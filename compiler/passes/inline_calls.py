"""Puts the nodes of a called graph in the place of the call."""

from __future__ import annotations

from dataclasses import dataclass

from tapeline.compiler.ir.graph import Graph
from tapeline.compiler.ir.structure_ops import PLACEHOLDER
from tapeline.compiler.passes.base import PassResult, Rebuild, Value
from tapeline.runtime.op import Op, Trait


@dataclass(frozen=True, slots=True)
class InlineCalls:
    """Inlines calls inside calls too, in program order; no call to a graph is treated by name.

    Parameters
    ----------
    limit : int
        Once the graph has this many nodes the calls that are left stay calls: a short program can
        call its way to any size.
    """

    limit: int = 1_000_000
    name: str = "inline_calls"

    def run(self, graph: Graph, /) -> PassResult:
        """The graph without calls."""
        if not any(_is_call(op) for op in dict.fromkeys(graph.ops)):
            return PassResult(graph, False)
        root = Rebuild(graph)
        stack: list[Rebuild] = [root]
        while True:
            work = stack[-1]
            i = len(work.values)
            if i < len(work.source):
                body = self._visit(work, i, root.target)
                if body is not None:
                    stack.append(body)
            elif isinstance(work, _Body):
                stack.pop()
                stack[-1].replace(work.outputs())
            else:
                return root.finish()

    def _visit(self, work: Rebuild, node_id: int, target: Graph) -> _Body | None:
        """Brings the next node over; a call is begun instead, and its body returned."""
        op = work.source.ops[node_id]
        if _is_call(op) and len(target) < self.limit:
            return _Body(op.subgraphs[0], work.inputs(node_id), target)
        if op is PLACEHOLDER and isinstance(work, _Body):
            work.values.append(work.arguments[node_id])
        else:
            work.keep(node_id)
        return None


class _Body(Rebuild):
    """A called graph on its way into the caller's new graph."""

    __slots__ = ("arguments",)

    def __init__(self, source: Graph, inputs: tuple[int, ...], target: Graph) -> None:
        super().__init__(source, target)
        self.arguments = dict(zip(source.placeholders, inputs, strict=True))

    def outputs(self) -> Value:
        """What stands for the call."""
        values = [self.values[i] for i in self.source.outputs]
        return values[0] if len(values) == 1 else tuple(values)


def _is_call(op: Op) -> bool:
    return op.has(Trait.CALL)
