"""Cuts a graph at the ops whose results have a size that depends on values.

A stage is the part of the graph between two such ops, in the program's order, as a graph of its
own. It ends with an op that tells a size; the stages after it have that size among theirs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tapeline.compiler.frontend.specialize import has_open_sizes
from tapeline.compiler.ir.graph import Graph
from tapeline.compiler.ir.structure_ops import CONSTANT, PICK, PLACEHOLDER
from tapeline.compiler.ir.text import print_graph, sizes_of
from tapeline.compiler.passes.dce import live_nodes
from tapeline.runtime.errors import GraphError
from tapeline.runtime.op import Attrs, Op, Trait


@dataclass(frozen=True, slots=True)
class Teller:
    """The op at the end of a stage."""

    op: Op
    attrs: Attrs
    """Without the size."""
    inputs: tuple[int, ...]
    results: tuple[int | None, ...]
    """The nodes that stand for its results; None where nobody needs one."""
    end: int
    """The first node after it and its results."""


@dataclass(frozen=True, slots=True)
class Stage:
    """A part of a graph; ids are those of nodes of the whole graph.

    Attributes
    ----------
    graph : Graph
        What it computes.
    inputs, outputs : tuple of int
        What the placeholders and the outputs of `graph` stand for.
    is_open : bool
        Whether it needs sizes.
    teller : Teller or None
        What tells the next size; None at the end.
    last : tuple of int
        What nobody needs after this stage.
    """

    graph: Graph
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    is_open: bool
    teller: Teller | None
    last: tuple[int, ...]


def is_sized(op: Op) -> bool:
    """Whether the size of the op's result depends on values."""
    return op.has(Trait.SIZED)


def has_value_sizes(graph: Graph) -> bool:
    """Whether a size in the graph depends on values."""
    return any(map(is_sized, dict.fromkeys(graph.ops)))


def check_tellers(graph: Graph, n_given: int) -> None:
    """Checks a graph that comes from elsewhere: that its ops tell one symbol after the other, once
    those of the arguments are given.

    Raises
    ------
    GraphError
        If they do not.
    """
    told = [graph.attrs[node][-1] for node, op in enumerate(graph.ops) if is_sized(op)]
    sizes = sizes_of(graph)
    symbols = () if sizes is None else sizes.symbols[n_given:]
    if len(told) != len(symbols) or any(a is not b for a, b in zip(told, symbols, strict=True)):
        raise GraphError(
            f"{graph.name}: its ops must tell the sizes {symbols} in order, not {told}"
        )
    inner = [graph for op in dict.fromkeys(graph.ops) for graph in op.subgraphs]
    for one in inner:
        if has_value_sizes(one):
            raise GraphError(f"{one.name}: a part of a graph cannot tell sizes")
        inner += [graph for op in dict.fromkeys(one.ops) for graph in op.subgraphs]


def cut(graph: Graph) -> list[Stage]:
    """The stages of a graph, in the order in which they run."""
    return _Cut(graph).stages()


class _Cut:
    """What is known of a graph that is cut."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.tellers = _tellers(graph)
        self.live = _live(graph)
        self.given = [op is PLACEHOLDER or op is CONSTANT or is_sized(op) for op in graph.ops]
        """Whether the value of a node comes from elsewhere than from a stage."""
        self.stage_of = self._stage_of()
        self.last_stage = self._last_stage()
        """The last stage that needs a node from outside of its own."""

    def stages(self) -> list[Stage]:
        """All of them."""
        members: list[list[int]] = [[] for _ in range(len(self.tellers) + 1)]
        for node in range(len(self.graph)):
            if self.live[node] and not self.given[node]:
                members[self.stage_of[node]].append(node)
        tellers = (*self.tellers, None)
        return [self._stage(k, members[k], teller) for k, teller in enumerate(tellers)]

    def _stage_of(self) -> list[int]:
        """The number of the stage that computes each node; for what a teller gives, that after
        it."""
        found: list[int] = []
        number = 0
        for node, op in enumerate(self.graph.ops):
            if is_sized(op):
                number += 1
            if op is PICK:
                (source,) = self.graph.inputs[node]
                found.append(found[source])
                self.given[node] = self.given[source]
            else:
                found.append(number)
        return found

    def _last_stage(self) -> list[int]:
        graph = self.graph
        found = [-1] * len(graph)
        for node, inputs in enumerate(graph.inputs):
            if self.live[node]:
                for k in inputs:
                    found[k] = max(found[k], self.stage_of[node])
        for node in graph.outputs:
            found[node] = len(self.tellers) + 1
        return found

    def _stage(self, number: int, members: Sequence[int], teller: Teller | None) -> Stage:
        graph, made = self.graph, Graph(self.graph.name)
        made.name = f"{graph.name}_stage{number}"
        ids: dict[int, int] = {}
        inputs: list[int] = []
        for node in members:
            for k in graph.inputs[node]:
                if k in ids or not (self.given[k] or self.stage_of[k] < number):
                    continue
                if graph.ops[k] is CONSTANT:
                    ids[k] = made.copy_node(graph, k, ())
                else:
                    ids[k] = made.add_placeholder(graph.spec(k), f"v{k}", graph.locations[k])
                    inputs.append(k)
        for node in members:
            ids[node] = made.copy_node(graph, node, [ids[k] for k in graph.inputs[node]])
        outputs = [
            node
            for node in members
            if self.last_stage[node] > number and not isinstance(graph.specs[node], tuple)
        ]
        made.outputs = [ids[node] for node in outputs]
        is_open = has_open_sizes(made)
        last = [node for node, stage in enumerate(self.last_stage) if stage == number]
        return Stage(made, tuple(inputs), tuple(outputs), is_open, teller, tuple(last))


def _tellers(graph: Graph) -> list[Teller]:
    picks: dict[tuple[int, Any], int] = {}
    for node, op in enumerate(graph.ops):
        if op is PICK:
            picks[graph.inputs[node][0], graph.attrs[node][0]] = node
    found = []
    for node, op in enumerate(graph.ops):
        if is_sized(op):
            *attrs, _ = graph.attrs[node]
            spec = graph.specs[node]
            results: tuple[int | None, ...] = (node,)
            if isinstance(spec, tuple):
                results = tuple(picks.get((node, k)) for k in range(len(spec)))
            end = max(n for n in (node, *results) if n is not None) + 1
            found.append(Teller(op, tuple(attrs), graph.inputs[node], results, end))
    return found


def _live(graph: Graph) -> list[bool]:
    """Which nodes somebody needs, those that tell sizes included."""
    live = live_nodes(graph)
    for node in range(len(graph) - 1, -1, -1):
        if is_sized(graph.ops[node]):
            live[node] = True
        if live[node]:
            for k in graph.inputs[node]:
                live[k] = True
    return live


def begin_alike(graph: Graph, other: Graph, end: int) -> bool:
    """Whether two graphs have the same nodes before `end`; sizes count by their text."""
    if graph.inputs[:end] != other.inputs[:end]:
        return False
    for node in range(end):
        op, its = graph.ops[node], other.ops[node]
        if op is not its and not (op.subgraphs and _alike(op, its)):
            return False
        if op is CONSTANT:
            a, b = graph.constant_value(node), other.constant_value(node)
            if a is None or b is None or a.dtype != b.dtype or a.tobytes() != b.tobytes():
                return False
        elif repr(graph.attrs[node]) != repr(other.attrs[node]):
            return False
    return True


def _alike(op: Op, other: Op) -> bool:
    """Whether two ops of graphs have the same ones; sizes count by their text."""
    texts = [list(map(_text, one.subgraphs)) for one in (op, other)]
    return op.name == other.name and texts[0] == texts[1]


def _text(graph: Graph) -> str:
    """A graph as text, without what its sizes were in the call that was traced."""
    lines = print_graph(graph).splitlines()
    return "\n".join(line for line in lines if not line.startswith(("  sizes ", "  where ")))
