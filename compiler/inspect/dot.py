"""Writes a graph in the language of Graphviz, whose `dot` draws it. Looks at graphs only."""

from __future__ import annotations

from collections.abc import Iterator

from tapeline.compiler.inspect.families import family_of
from tapeline.compiler.inspect.fold import shorten, value_name
from tapeline.compiler.inspect.svg import COLOURS
from tapeline.compiler.ir.graph import Graph
from tapeline.compiler.ir.structure_ops import CONSTANT, PLACEHOLDER
from tapeline.compiler.ir.text import attr_text, spec_text, subgraphs_first_use


def graph_to_dot(graph: Graph) -> str:
    """The text of a `digraph`: `dot -Tsvg` or any other reader of the language takes it.

    Parameters
    ----------
    graph : Graph
        Any valid graph. Each sub-graph is a cluster of its own, with a dashed edge from the node
        that uses it.

    Returns
    -------
    str
        Nodes are `g<number of the graph>n<id>`, with op, attributes and spec as label and the
        source line as tooltip; outputs are double boxes, and edges into ops of several inputs carry
        the input's position.
    """
    ordered = subgraphs_first_use(graph)
    number = {id(g): k for k, g in enumerate(ordered)}
    lines = [
        f"digraph {quoted(graph.name)} {{",
        '  graph [rankdir=TB, fontname="Helvetica", labelloc=t, label=' + quoted(graph.name) + "];",
        '  node [shape=box, style="filled,rounded", fontname="Helvetica", fontsize=11];',
        '  edge [color="#9aa3ad", fontsize=9, fontname="Helvetica"];',
    ]
    for k, g in enumerate(ordered):
        if k:
            lines += [f"  subgraph cluster_{k} {{", f"    label={quoted(g.name)}; style=dashed;"]
        lines += _node_lines(g, k)
        if k:
            lines.append("  }")
    for k, g in enumerate(ordered):
        lines += _edge_lines(g, k, number)
    return "\n".join([*lines, "}", ""])


def quoted(text: str) -> str:
    """A string of the language; newlines become line breaks of a label."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def _node_lines(graph: Graph, k: int) -> Iterator[str]:
    outputs = set(graph.outputs)
    for i, op in enumerate(graph.ops):
        fill, ink = COLOURS[family_of(op)]
        title = value_name(graph, i) if op in (PLACEHOLDER, CONSTANT) else op.name
        label = f"%{i} {title}"
        if op not in (PLACEHOLDER, CONSTANT):
            names = [*op.attr_names, *(f"_{n}" for n in range(len(graph.attrs[i])))]
            for name, value in zip(names, graph.attrs[i], strict=False):
                label += f"\n{name}={shorten(attr_text(value), 40)}"
        label += f"\n{shorten(spec_text(graph.specs[i]), 60)}"
        location = graph.locations[i]
        tooltip = "" if location is None else f", tooltip={quoted(str(location))}"
        double = ", peripheries=2" if i in outputs else ""
        yield (
            f'  g{k}n{i} [label={quoted(label)}, fillcolor="{fill}", color="{ink}"'
            f"{tooltip}{double}];"
        )


def _edge_lines(graph: Graph, k: int, number: dict[int, int]) -> Iterator[str]:
    for i, inputs in enumerate(graph.inputs):
        for position, source in enumerate(inputs):
            label = f' [label="{position}"]' if len(inputs) > 1 else ""
            yield f"  g{k}n{source} -> g{k}n{i}{label};"
        for subgraph in graph.ops[i].subgraphs:
            if len(subgraph):
                yield f"  g{k}n{i} -> g{number[id(subgraph)]}n0 [style=dashed, arrowhead=open];"
