"""Folds a long graph into one block per call of a source function, for pictures that stay readable.

A group is a run of nodes from one function whose lines do not go back: one turn of a loop, or one
call. Runs one after the other that do the same are one block, with a count.
"""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass, field, replace

from tapeline.compiler.inspect.families import family_of_node
from tapeline.compiler.inspect.fold import Folded, Reference, Row, shorten, value_name
from tapeline.compiler.ir.graph import Graph
from tapeline.compiler.ir.structure_ops import CONSTANT, PLACEHOLDER
from tapeline.compiler.ir.text import spec_text

LONG_GRAPH = 400
"""Pictures of more nodes than this show functions."""
MAX_NAMES = 3
MAX_INPUTS = 12
"""So many inputs are listed, and half as many named in a block; the others are counted."""

Place = tuple[str, str]
"""File and function."""


@dataclass(slots=True)
class _Run:
    """Nodes of one function, one after the other."""

    place: Place
    nodes: list[int] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    count: int = 1


def _runs(graph: Graph) -> list[_Run]:
    """The nodes that are drawn, in runs; a node without a place goes with those before it."""
    runs: list[_Run] = []
    for node, op in enumerate(graph.ops):
        if op is PLACEHOLDER or op is CONSTANT:
            continue
        location = graph.locations[node]
        if location is None:
            place, line = (runs[-1].place, runs[-1].lines[-1]) if runs else (("", ""), 0)
        else:
            place, line = (location.filename, location.function), location.line
        if not runs or runs[-1].place != place or line < runs[-1].lines[-1]:
            runs.append(_Run(place))
        runs[-1].nodes.append(node)
        runs[-1].lines.append(line)
    return runs


def _merged(graph: Graph, runs: list[_Run]) -> list[_Run]:
    """Neighbours that do the same put together, with their number."""
    found: list[_Run] = []
    shown: list[tuple[object, ...]] = []
    for run in runs:
        what = run.place, run.lines, [graph.ops[node].name for node in run.nodes]
        if shown and shown[-1] == what:
            found[-1].nodes += run.nodes
            found[-1].count += 1
        else:
            found.append(run)
            shown.append((run.place, list(run.lines), what[2]))
    return found


def fold_by_function(graph: Graph) -> Folded:
    """The graph as blocks of two rows: a function, and what of it the graph holds."""
    runs = _merged(graph, _runs(graph))
    home = {node: number for number, run in enumerate(runs) for node in run.nodes}
    outputs: dict[int, list[int]] = {}
    for position, node in enumerate(graph.outputs):
        outputs.setdefault(home.get(node, -1), []).append(position)
    folded = Folded()
    folded.listed = [_input_row(graph, node) for node in graph.placeholders[:MAX_INPUTS]]
    rest = graph.placeholders[MAX_INPUTS:]
    if rest:
        folded.listed.append(
            replace(_input_row(graph, rest[0]), title="...", spec=_more(len(rest)))
        )
    edges: dict[tuple[int, int], None] = {}
    for number, run in enumerate(runs):
        named: dict[int, None] = {}
        for node in run.nodes:
            for source in graph.inputs[node]:
                if graph.ops[source] is PLACEHOLDER:
                    named[source] = None
                elif source in home and home[source] != number:
                    edges[home[source], number] = None
        references = tuple(Reference(value_name(graph, one), one) for one in named)
        if len(references) > MAX_INPUTS // 2:
            left = references[MAX_INPUTS // 2 :]
            last = Reference(_more(len(left)), left[0].node)
            references = (*references[: MAX_INPUTS // 2], last)
        folded.blocks.append(_block(graph, run, references, tuple(outputs.get(number, ()))))
    folded.edges = list(edges)
    return folded


def _block(
    graph: Graph, run: _Run, references: tuple[Reference, ...], outputs: tuple[int, ...]
) -> list[Row]:
    filename, function = run.place
    first, last = min(run.lines), max(run.lines)
    where = f"{os.path.basename(filename)}:{first}" if filename else ""
    where += f"-{last}" if last > first else ""
    title = (function or "ops") + (f" x{run.count}" if run.count > 1 else "")
    ops = Counter(graph.ops[node].name for node in run.nodes)
    texts = [name if count == 1 else f"{name} x{count}" for name, count in ops.most_common()]
    families = Counter(family_of_node(graph, node) for node in run.nodes)
    (family, _), *_ = families.most_common(1)
    more = f", {_more(len(texts) - MAX_NAMES)}" if len(texts) > MAX_NAMES else ""
    tooltip = f"{len(run.nodes)} nodes of {function} ({where})\n{', '.join(texts)}"
    start, end = run.nodes[0], run.nodes[-1]
    shown = shorten(spec_text(graph.specs[end]))
    return [
        Row(start, shorten(title), where, family, references, (), tooltip),
        Row(end, ", ".join(texts[:MAX_NAMES]) + more, shown, family, (), outputs, tooltip),
    ]


def _more(count: int) -> str:
    return f"{count} more"


def _input_row(graph: Graph, node: int) -> Row:
    spec = spec_text(graph.specs[node])
    title = value_name(graph, node)
    return Row(node, title, shorten(spec), family_of_node(graph, node), (), (), f"{title}: {spec}")
