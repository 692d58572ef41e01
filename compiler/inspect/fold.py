"""Folds a graph into what a picture shows: blocks of rows, edges between them, and references.

Constants stand in the row that uses them. A chain, where each node alone uses the one before, is
one block with a row per node. In large graphs inputs are listed once and named where they are
used, and so is a value that is used far from where it was made. Draws nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import cast

from tapeline.compiler.inspect.families import family_of_node
from tapeline.compiler.inspect.layout import layer_numbers
from tapeline.compiler.ir.graph import Graph
from tapeline.compiler.ir.structure_ops import CONSTANT, PLACEHOLDER
from tapeline.compiler.ir.text import attr_text, constant_text, spec_text
from tapeline.runtime.op import Trait

SMALL_GRAPH = 40
"""Up to so many nodes every input is drawn as a box of its own."""
FAR = {True: 8, False: 4}
"""Edges over more layers than this become references, in small and in large graphs."""
MAX_ROWS = 8
MAX_TEXT = 26


@dataclass(frozen=True, slots=True)
class Reference:
    """An input of a row that is named instead of drawn: the text, and the node it stands for."""

    text: str
    node: int


@dataclass(frozen=True, slots=True)
class Row:
    """One node as a picture shows it."""

    node: int
    title: str
    spec: str
    family: str
    references: tuple[Reference, ...]
    outputs: tuple[int, ...]
    """At which places of the graph's outputs the node stands."""
    tooltip: str


@dataclass(slots=True)
class Folded:
    """Blocks of rows, edges between blocks by position, and the inputs that are only listed."""

    blocks: list[list[Row]] = field(default_factory=list)
    edges: list[tuple[int, int]] = field(default_factory=list)
    listed: list[Row] = field(default_factory=list)


def shorten(text: str, limit: int = MAX_TEXT) -> str:
    """The text, cut in the middle of nowhere with an ellipsis where it is too long."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def value_name(graph: Graph, node_id: int) -> str:
    """What a reference to a node says: an input's name, a constant's value, or the id."""
    if graph.ops[node_id] is PLACEHOLDER:
        return shorten(str(graph.attrs[node_id][0]), 16)
    if graph.ops[node_id] is CONSTANT:
        value = graph.constants[cast(int, graph.attrs[node_id][0])]
        return (
            f"{value[()]:.6g}" if value.ndim == 0 and value.dtype.kind in "f" else _literal(value)
        )
    return f"%{node_id}"


def _literal(value: object) -> str:
    text = constant_text(value)  # type: ignore[arg-type]
    if text.startswith("#") or len(text) > 14:
        return f"const{list(value.shape)}".replace(" ", "")  # type: ignore[attr-defined]
    return text


def _row(graph: Graph, node_id: int, named: list[int], outputs: dict[int, list[int]]) -> Row:
    op = graph.ops[node_id]
    names = op.attr_names
    attrs = []
    if op not in (PLACEHOLDER, CONSTANT):
        for position, value in enumerate(graph.attrs[node_id]):
            name = f"{names[position]}=" if position < len(names) else ""
            attrs.append(name + attr_text(value))
    title = value_name(graph, node_id) if op in (PLACEHOLDER, CONSTANT) else op.name
    location = graph.locations[node_id]
    inputs = ", ".join(value_name(graph, i) for i in graph.inputs[node_id])
    lines = [f"%{node_id} = {op.name}({', '.join(filter(None, [inputs, *attrs]))})"]
    lines.append(spec_text(graph.specs[node_id]))
    if location is not None:
        lines.append(f"{location} in {location.function}" if location.function else str(location))
    return Row(
        node=node_id,
        title=title,
        spec=shorten(spec_text(graph.specs[node_id])),
        family=family_of_node(graph, node_id),
        references=_references(graph, node_id, named),
        outputs=tuple(outputs.get(node_id, ())),
        tooltip="\n".join(lines),
    )


def _references(graph: Graph, node_id: int, named: list[int]) -> tuple[Reference, ...]:
    """The named inputs; a dot holds the place of a drawn one where the order says something."""
    inputs = graph.inputs[node_id]
    first = next((k for k, i in enumerate(inputs) if i in named), len(inputs))
    mixed = any(i not in named for i in inputs[first:])
    if not mixed or graph.ops[node_id].has(Trait.COMMUTATIVE):
        return tuple(Reference(value_name(graph, i), i) for i in named)
    return tuple(Reference(value_name(graph, i) if i in named else "·", i) for i in inputs)


def _named_inputs(graph: Graph, small: bool) -> list[list[int]]:
    """For each node the inputs that its row names; the other inputs are drawn as edges."""
    count = len(graph)
    edges = [(i, node) for node in range(count) for i in graph.inputs[node]]
    depth = layer_numbers(count, edges)
    named: list[list[int]] = []
    for node in range(count):
        here = []
        for i in graph.inputs[node]:
            far = depth[node] - depth[i] > FAR[small]
            if graph.ops[i] is CONSTANT or far or (graph.ops[i] is PLACEHOLDER and not small):
                here.append(i)
        named.append(here)
    return named


def fold_graph(graph: Graph) -> Folded:
    """The graph as blocks, edges and references."""
    small = len(graph) <= SMALL_GRAPH
    named = _named_inputs(graph, small)
    drawn = [
        sorted(set(inputs) - set(here)) for inputs, here in zip(graph.inputs, named, strict=True)
    ]
    outputs: dict[int, list[int]] = {}
    for position, node in enumerate(graph.outputs):
        outputs.setdefault(node, []).append(position)
    users = [0] * len(graph)
    for inputs in drawn:
        for i in inputs:
            users[i] += 1
    folded = Folded()
    block_of: dict[int, int] = {}
    for node, op in enumerate(graph.ops):
        if op is CONSTANT and node not in outputs:
            continue
        row = _row(graph, node, named[node], outputs)
        if op is PLACEHOLDER and not small:
            folded.listed.append(row)
            continue
        inputs = drawn[node]
        home = block_of[inputs[0]] if len(inputs) == 1 else None
        follows = (
            home is not None
            and users[inputs[0]] == 1
            and graph.ops[inputs[0]] is not PLACEHOLDER
            and folded.blocks[home][-1].node == inputs[0]
            and len(folded.blocks[home]) < MAX_ROWS
        )
        if follows and home is not None:
            folded.blocks[home].append(row)
            block_of[node] = home
            continue
        block_of[node] = len(folded.blocks)
        folded.blocks.append([row])
        folded.edges += [(block_of[i], block_of[node]) for i in inputs]
    folded.edges = list(dict.fromkeys(folded.edges))
    return folded
