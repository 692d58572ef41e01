"""What a pass is, and how passes build the graph that they return.

The contract: a valid graph comes in (`verify_graph`), a valid graph that computes the same goes
out. A pass

- never edits the graph that it is given, nor the graphs inside it;
- keeps every placeholder, their order, and the number, order and specs of the outputs;
- keeps every node with an effect, in program order, and every random node that is still used;
- keeps source locations: a new node gets the location of the node that it stands for;
- takes time linear in the number of nodes, and does not recurse over them;
- says `changed=False`, and may return the graph itself, where it had nothing to do;
- asks ops for traits, lowering and rules, never for their names.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, cast

from tapeline.compiler.ir.graph import Graph
from tapeline.compiler.ir.structure_ops import PICK

Value: TypeAlias = int | tuple[int, ...]
"""What stands for a node in the new graph: an id, or one per part of a value of several parts."""


@dataclass(frozen=True, slots=True)
class PassResult:
    """The graph that a pass made, and whether it differs from the one that came in."""

    graph: Graph
    changed: bool


class Pass(Protocol):
    """A frozen dataclass with a name and `run`; its options are its fields."""

    @property
    def name(self) -> str:
        """The word by which it is printed."""
        ...

    def run(self, graph: Graph, /) -> PassResult:
        """The graph after the pass. See the module's docstring for the contract."""
        ...


class Rebuild:
    """A new graph being built from an old one, node by node in order.

    Attributes
    ----------
    source, target : Graph
        The graph that is read, and the one that grows.
    values : list of Value or None
        For each node of `source` so far what stands for it in `target`; None for a node that was
        left out.
    changed : bool
        Whether a node was replaced, merged or left out.
    """

    __slots__ = ("_is_fresh", "changed", "source", "target", "values")

    def __init__(self, source: Graph, target: Graph | None = None) -> None:
        self.source = source
        self.target = Graph(source.name) if target is None else target
        self.values: list[Any] = []
        self.changed = False
        self._is_fresh = target is None

    def inputs(self, node_id: int) -> tuple[int, ...]:
        """The ids in `target` of what a node of `source` takes."""
        values = self.values
        return tuple([values[i] for i in self.source.inputs[node_id]])

    def keep(self, node_id: int) -> None:
        """Copies the next node over."""
        is_same = self._is_fresh and not self.changed
        if is_same and self.target.copy_next(self.source, node_id):
            self.values.append(node_id)  # as long as nothing changes, nodes keep their ids
            return
        source, before = self.source, len(self.target)
        if source.ops[node_id] is PICK:
            whole = self.values[source.inputs[node_id][0]]
            if isinstance(whole, tuple):
                self.replace(whole[cast(int, source.attrs[node_id][0])])
                return
        new = self.target.copy_node(source, node_id, self.inputs(node_id))
        self.values.append(new)
        self.changed |= new != before

    def replace(self, value: Value | None) -> None:
        """Lets `value` stand for the next node; None where nobody needs it."""
        self.values.append(value)
        self.changed = True

    def finish(self) -> PassResult:
        """The new graph, with its placeholders and outputs in the order of the old one."""
        self.target.outputs = [self.values[i] for i in self.source.outputs]
        self.target.placeholders = [self.values[i] for i in self.source.placeholders]
        changed = self.changed or len(self.target) != len(self.source)
        return PassResult(self.target, changed)


def rebuild(graph: Graph, rewrite: Callable[[Rebuild, int], Value | None]) -> PassResult:
    """The graph after `rewrite(rebuild, node_id)` of each node: what stands for it, or None to
    copy it."""
    work = Rebuild(graph)
    for i in range(len(graph)):
        value = rewrite(work, i)
        if value is None:
            work.keep(i)
        else:
            work.replace(value)
    return work.finish()
