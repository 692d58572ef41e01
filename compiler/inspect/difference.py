"""Compares two graphs as a person would: which nodes are gone, new, or take other inputs."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Literal, TypeAlias

from tapeline.compiler.ir.graph import Graph
from tapeline.compiler.ir.structure_ops import CONSTANT
from tapeline.compiler.ir.text import attr_text, constant_hash, print_graph, spec_text

Mark: TypeAlias = Literal["-", "+", "~", " "]

CONTEXT = 2


@dataclass(frozen=True, slots=True)
class Change:
    """One line of a comparison.

    Attributes
    ----------
    mark : str
        "-" gone, "+" new, "~" the same op with other inputs, " " the same.
    left, right : int or None
        The node in the first and in the second graph.
    text : str
        The node as text, with its line.
    """

    mark: Mark
    left: int | None
    right: int | None
    text: str


class Difference(Sequence[Change]):
    """All nodes of two graphs, aligned. Prints the changes with what stands around them.

    Attributes
    ----------
    is_empty : bool
        Whether the graphs do the same in the same order.
    """

    def __init__(self, left: Graph, right: Graph) -> None:
        self.names = left.name, right.name
        self._changes = tuple(_compare(left, right))
        self.is_empty = all(change.mark == " " for change in self._changes)

    def __len__(self) -> int:
        return len(self._changes)

    def __getitem__(self, index):  # type: ignore[no-untyped-def]  # as tuple's own
        return self._changes[index]

    def __repr__(self) -> str:
        counts = {mark: sum(c.mark == mark for c in self._changes) for mark in "-+~"}
        text = ", ".join(f"{mark}{count}" for mark, count in counts.items())
        return f"<difference of {self.names[0]} and {self.names[1]}: {text}>"

    def __str__(self) -> str:
        if self.is_empty:
            return f"{self.names[0]} and {self.names[1]}: no difference"
        changed = [k for k, change in enumerate(self._changes) if change.mark != " "]
        near = {k + d for k in changed for d in range(-CONTEXT, CONTEXT + 1)}
        lines = [f"--- {self.names[0]}", f"+++ {self.names[1]}"]
        before = -1
        for k, change in enumerate(self._changes):
            if k not in near:
                continue
            if k != before + 1:
                lines.append("  ...")
            lines.append(f"{change.mark} {change.text}")
            before = k
        return "\n".join(lines)


def _key(graph: Graph, node: int) -> Hashable:
    """What a node is, without its inputs."""
    op = graph.ops[node]
    if op is CONSTANT:
        value = graph.constant_value(node)
        assert value is not None
        return "constant", constant_hash(value)
    attrs = tuple(map(attr_text, graph.attrs[node]))
    inside = tuple(print_graph(subgraph) for subgraph in op.subgraphs)
    return op.name, attrs, spec_text(graph.specs[node]), inside


def node_text(graph: Graph, node: int) -> str:
    """A node as a line of text."""
    op = graph.ops[node]
    parts = [f"%{i}" for i in graph.inputs[node]]
    names = [*op.attr_names, *(f"_{k}" for k in range(len(graph.attrs[node])))]
    for name, value in zip(names, graph.attrs[node], strict=False):
        parts.append(f"{name}={attr_text(value)}")
    location = graph.locations[node]
    tail = "" if location is None else f"  # {location}"
    text = f"%{node} = {op.name}({', '.join(parts)}) : {spec_text(graph.specs[node])}"
    return text + tail


def _compare(left: Graph, right: Graph) -> Iterator[Change]:
    a = [_key(left, node) for node in range(len(left))]
    b = [_key(right, node) for node in range(len(right))]
    partner: dict[int, int] = {}
    for tag, i, i_end, j, j_end in SequenceMatcher(None, a, b, autojunk=False).get_opcodes():
        if tag != "equal":
            yield from (Change("-", n, None, node_text(left, n)) for n in range(i, i_end))
            yield from (Change("+", None, n, node_text(right, n)) for n in range(j, j_end))
            continue
        for node, other in zip(range(i, i_end), range(j, j_end), strict=True):
            partner[node] = other
            moved = [partner.get(k) for k in left.inputs[node]]
            mark: Mark = " " if moved == list(right.inputs[other]) else "~"
            yield Change(mark, node, other, node_text(right, other))
    if [partner.get(node) for node in left.outputs] != right.outputs:
        yield Change("-", None, None, f"return {', '.join(f'%{n}' for n in left.outputs)}")
        yield Change("+", None, None, f"return {', '.join(f'%{n}' for n in right.outputs)}")
