"""Draws a graph as an SVG picture, with a layout of our own and no other program.

Every row of a box is a node: its id, its op, inputs that are named instead of drawn, and the shape
and dtype it yields. The source line is the tooltip. Tall graphs are cut into columns; a value that
crosses a cut is named where it is used. Looks at graphs only, never changes them.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from html import escape
from typing import NamedTuple

from tapeline.compiler.inspect.families import (
    CALL,
    COMPOSITE,
    ELEMENTWISE,
    FAMILIES,
    HOST,
    INPUT,
    LITERAL,
    MOVEMENT,
    PRODUCT,
    REDUCTION,
    family_of,
)
from tapeline.compiler.inspect.fold import Folded, Reference, Row, fold_graph
from tapeline.compiler.inspect.fold_functions import LONG_GRAPH, fold_by_function
from tapeline.compiler.inspect.layout import GAP_X, GAP_Y, Edge, Layout, Point, layer_numbers
from tapeline.compiler.inspect.layout import layered_layout as place_boxes
from tapeline.compiler.ir.control_ops import is_cond, is_loop
from tapeline.compiler.ir.graph import Graph
from tapeline.compiler.ir.text import subgraphs_first_use
from tapeline.runtime.op import Op

COLOURS = {
    INPUT: ("#e3f1e5", "#2e7d4f"),
    LITERAL: ("#f1f1ee", "#8a8a80"),
    ELEMENTWISE: ("#e6eefb", "#3b69b5"),
    REDUCTION: ("#fdebd9", "#c46a1b"),
    PRODUCT: ("#f6e2ec", "#ad3a72"),
    MOVEMENT: ("#ece8f8", "#6a55ad"),
    COMPOSITE: ("#dff2f3", "#23808a"),
    CALL: ("#fbf3cf", "#99801a"),
    HOST: ("#ececec", "#5c5c5c"),
}
"""Fill and ink of each family."""

ROW = 24.0
CHARACTER = 7.3
SMALL_CHARACTER = 6.1
PAD = 9.0
MARGIN = 24.0
COLUMN_GAP = 56.0
WANTED_ASPECT = 1.5
PANEL_GAP = 56.0
MIN_SHELF = 1100.0
"""Sub-graphs stand side by side up to this width, or to that of the graph."""
MAX_PANELS = 40
"""So many sub-graphs are drawn."""
MAX_COLUMN = 1500.0
"""A picture up to this height stays in one column."""

STYLE = """
.tl-graph text { font: 12px ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace }
.tl-graph text { fill: #22262b }
.tl-graph .title { font-size: 15px; font-weight: 600 }
.tl-graph .op { font-weight: 600 }
.tl-graph .note { font-size: 10px; fill: #7b828a }
.tl-graph .ref { font-size: 10px }
.tl-graph .edge { fill: none; stroke: #9aa3ad; stroke-width: 1.3 }
.tl-graph .edge:hover { stroke: #d2452d; stroke-width: 2.4 }
.tl-graph .frame { fill: none; stroke: #cfd5db; stroke-width: 1; stroke-dasharray: 5 4 }
.tl-graph .rule { stroke: #dfe3e7; stroke-width: 1 }
.tl-graph a:hover rect { stroke-width: 2 }
"""


def _text_width(text: str, character: float = CHARACTER) -> float:
    return len(text) * character


def _pill_width(text: str) -> float:
    return _text_width(text, SMALL_CHARACTER) + 10


def _tag(row: Row) -> str:
    return "out " + ", ".join(map(str, row.outputs)) if row.outputs else ""


def _row_width(row: Row) -> float:
    width = 2 * PAD + _text_width(f"%{row.node}", SMALL_CHARACTER) + 6 + _text_width(row.title)
    width += sum(_pill_width(reference.text) + 4 for reference in row.references) + 14
    width += _text_width(row.spec, SMALL_CHARACTER)
    return width + (_pill_width(_tag(row)) + 6 if row.outputs else 0)


def _box_size(block: Sequence[Row]) -> Point:
    return max(map(_row_width, block)), ROW * len(block)


def _split_layers(layers: Sequence[int], sizes: Sequence[Point]) -> list[int]:
    """The column of each layer, so that the picture comes near the wanted aspect."""
    count = max(layers, default=-1) + 1
    heights, widths = [0.0] * count, [0.0] * count
    for layer, (width, height) in zip(layers, sizes, strict=True):
        heights[layer] = max(heights[layer], height + GAP_Y)
        widths[layer] += width + GAP_X
    tall, wide = sum(heights), max(widths, default=0.0)
    columns = 1
    if tall > MAX_COLUMN:
        columns = max(1, round(math.sqrt(WANTED_ASPECT * tall / (wide + COLUMN_GAP))))
    found, done = [], 0.0
    for height in heights:
        found.append(min(int(columns * (done + height / 2) / tall), columns - 1))
        done += height
    return found


def _name_across(folded: Folded, column: Sequence[int]) -> list[Edge]:
    """The edges inside columns; those across become references in the target's first row."""
    inside = []
    for source, target in folded.edges:
        if column[source] == column[target]:
            inside.append((source, target))
            continue
        value = folded.blocks[source][-1]
        name = value.title if value.family == INPUT else f"%{value.node}"
        first = folded.blocks[target][0]
        references = (*first.references, Reference(name, value.node))
        folded.blocks[target][0] = replace(first, references=references)
    return inside


class _Picture:
    """Lines of SVG, and the place where the next column starts."""

    def __init__(self, graph: Graph, prefix: str) -> None:
        self.prefix = prefix
        """What the ids of this graph's nodes begin with, in the whole picture."""
        self.families = [family_of(op) for op in graph.ops]
        self.lines: list[str] = []
        self.width = 0.0
        self.height = 0.0

    def text(self, x: float, y: float, text: str, kind: str = "", end: bool = False) -> None:
        anchor = ' text-anchor="end"' if end else ""
        name = f' class="{kind}"' if kind else ""
        self.lines.append(f'<text x="{x:.1f}" y="{y:.1f}"{name}{anchor}>{escape(text)}</text>')

    def rect(
        self, x: float, y: float, width: float, height: float, fill: str, ink: str,
        radius: float = 5, stroke: float = 1.2,
    ) -> None:  # fmt: skip
        self.lines.append(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" '
            f'rx="{radius}" fill="{fill}" stroke="{ink}" stroke-width="{stroke}"/>'
        )

    def pill(self, x: float, y: float, text: str, family: str, node: int | None) -> float:
        """A reference, linked to what it names; returns its width."""
        fill, ink = COLOURS[family]
        width = _pill_width(text)
        if node is not None:
            self.lines.append(f'<a href="#{self.prefix}{node}">')
        self.rect(x, y - 8, width, 16, fill, ink, radius=8, stroke=0.8)
        self.text(x + 5, y + 3.5, text, "ref")
        if node is not None:
            self.lines.append("</a>")
        return width

    def row(self, row: Row, x: float, y: float, width: float) -> None:
        fill, ink = COLOURS[row.family]
        self.lines.append(f'<g id="{self.prefix}{row.node}"><title>{escape(row.tooltip)}</title>')
        radius = ROW / 2 if row.family == INPUT else 5
        self.rect(x, y, width, ROW, fill, ink, radius, 2.4 if row.outputs else 1.2)
        middle, left = y + ROW / 2, x + PAD
        number = f"%{row.node}"
        self.text(left, middle + 4, number, "note")
        left += _text_width(number, SMALL_CHARACTER) + 6
        self.text(left, middle + 4, row.title, "op")
        left += _text_width(row.title) + 6
        for reference in row.references:
            family = self.families[reference.node]
            node = None if family == LITERAL else reference.node
            left += self.pill(left, middle, reference.text, family, node) + 4
        right = x + width - PAD
        if row.outputs:
            right -= _pill_width(_tag(row))
            self.pill(right, middle, _tag(row), INPUT, None)
            right -= 6
        self.text(right, middle + 4, row.spec, "note", end=True)
        self.lines.append("</g>")

    def column(self, blocks: list[list[Row]], edges: Sequence[Edge], layout: Layout) -> None:
        """Draws one column at the right of what is there."""
        dx = self.width + (COLUMN_GAP if self.width else 0.0)
        for path in _curves(edges, layout, dx):
            self.lines.append(f'<path class="edge" marker-end="url(#tip)" d="{path}"/>')
        for block, (x, y) in zip(blocks, layout.corners, strict=True):
            width, _ = _box_size(block)
            for k, row in enumerate(block):
                self.row(row, x + dx, y + k * ROW, width)
        self.width = dx + layout.width
        self.height = max(self.height, layout.height)


def _curves(edges: Sequence[Edge], layout: Layout, dx: float) -> Iterator[str]:
    """The path of each edge; edges into one box end side by side."""
    arriving: dict[int, list[int]] = {}
    for number, (_, target) in enumerate(edges):
        arriving.setdefault(target, []).append(number)
    shift = [0.0] * len(edges)
    for numbers in arriving.values():
        numbers.sort(key=lambda number: layout.routes[number][-2][0])
        for k, number in enumerate(numbers):
            shift[number] = (k - (len(numbers) - 1) / 2) * 14
    for number, points in enumerate(layout.routes):
        last_x, last_y = points[-1]
        route = [*points[:-1], (last_x + shift[number], last_y - 4)]
        moved = [(x + dx, y) for x, y in route]
        path = f"M{moved[0][0]:.1f},{moved[0][1]:.1f}"
        for (x0, y0), (x1, y1) in itertools.pairwise(moved):
            if abs(x0 - x1) < 0.05:
                path += f"L{x1:.1f},{y1:.1f}"
                continue
            bend = (y0 + y1) / 2
            path += f"C{x0:.1f},{bend:.1f} {x1:.1f},{bend:.1f} {x1:.1f},{y1:.1f}"
        yield path


def _draw_columns(picture: _Picture, folded: Folded) -> None:
    """All boxes and edges, column by column."""
    sizes = [_box_size(block) for block in folded.blocks]
    layers = layer_numbers(len(folded.blocks), folded.edges)
    column_of_layer = _split_layers(layers, sizes)
    column = [column_of_layer[layer] for layer in layers]
    edges = _name_across(folded, column)
    for number in range(max(column, default=-1) + 1):
        members = [box for box, where in enumerate(column) if where == number]
        place = {box: k for k, box in enumerate(members)}
        inner = [(place[s], place[t]) for s, t in edges if s in place]
        blocks = [folded.blocks[box] for box in members]
        first = min((layers[box] for box in members), default=0)
        layout = place_boxes(
            [_box_size(block) for block in blocks], inner, [layers[b] - first for b in members]
        )
        picture.column(blocks, inner, layout)


def _draw_head(picture: _Picture, graph: Graph, folded: Folded, width: float, title: str) -> float:
    """Title, legend, and the inputs that are only listed; returns the height."""
    counts = (
        (len(graph), "node"),
        (len(graph.placeholders), "input"),
        (len(graph.outputs), "output"),
    )
    head = ", ".join(f"{n} {what}{'' if n == 1 else 's'}" for n, what in counts)
    picture.text(0, 14, title, "title")
    picture.text(_text_width(title, 9.2) + 14, 14, head, "note")
    used = set(picture.families)
    x, y = 0.0, 36.0
    for family in (family for family in FAMILIES if family in used):
        if x and x + _pill_width(family) > width:
            x, y = 0.0, y + 22
        x += picture.pill(x, y, family, family, None) + 6
    y += 20
    x = 0.0
    for row in folded.listed:
        box = _row_width(row)
        if x and x + box > width:
            x, y = 0.0, y + ROW + 6
        picture.row(row, x, y, box)
        x += box + 8
    return y + (ROW if folded.listed else 0) + 22


class _Panel(NamedTuple):
    """The picture of one graph, to be put somewhere."""

    lines: list[str]
    width: float
    height: float


def _draw_panel(graph: Graph, prefix: str, title: str, fold: bool | None) -> _Panel:
    is_long = len(graph) > LONG_GRAPH if fold is None else fold
    folded = fold_by_function(graph) if is_long else fold_graph(graph)
    body = _Picture(graph, prefix)
    _draw_columns(body, folded)
    listed = max((_row_width(row) for row in folded.listed), default=0.0)
    head_width = _text_width(title, 9.2) + 14
    head_width += _text_width("00000 nodes, 000 inputs, 00 outputs", SMALL_CHARACTER)
    width = max(body.width, listed, head_width, 320.0)
    head = _Picture(graph, prefix)
    top = _draw_head(head, graph, folded, width, title)
    shift = f'<g transform="translate({(width - body.width) / 2:.1f},{top:.1f})">'
    return _Panel([*head.lines, shift, *body.lines, "</g>"], width, top + body.height)


def _subgraph_titles(graph: Graph) -> Iterator[tuple[Graph, str]]:
    """Every sub-graph once, with what it is to the node that owns it."""
    seen = {id(graph)}
    for owner in subgraphs_first_use(graph):
        for node, op in enumerate(owner.ops):
            for number, inner in enumerate(op.subgraphs):
                if id(inner) not in seen:
                    seen.add(id(inner))
                    name = re.sub(r"/\S*/", "", owner.name)
                    where = "" if owner is graph else f" in {name}"
                    yield inner, f"{role_of(op, number)} of %{node} {op.name}{where}"


def role_of(op: Op, number: int) -> str:
    """What a sub-graph is to its op."""
    if is_cond(op):
        return ("then", "else")[number]
    if is_loop(op):
        return ("test", "body")[number] if not op.attr_names else ("body", "test")[number]
    return "inside"


def _arrange(panels: Sequence[_Panel]) -> tuple[list[Point], float, float]:
    """Where panels go: the first above, the others in rows beneath; and the size of all."""
    places: list[Point] = [(0.0, 0.0)]
    width = max(panels[0].width, MIN_SHELF)
    x, y, tall, right = 0.0, panels[0].height + PANEL_GAP, 0.0, panels[0].width
    for panel in panels[1:]:
        if x and x + panel.width > width:
            x, y, tall = 0.0, y + tall + PANEL_GAP, 0.0
        places.append((x, y))
        right = max(right, x + panel.width)
        x += panel.width + PANEL_GAP
        tall = max(tall, panel.height)
    return places, right, y + tall if len(panels) > 1 else panels[0].height


def graph_to_svg(graph: Graph, fold: bool | None = None) -> str:
    """The graph as the text of an SVG picture.

    Parameters
    ----------
    graph : Graph
        Any valid graph; what it calls, its branches and its loop bodies are drawn beneath.
    fold : bool, optional
        Whether each call of a source function is one block; by default in graphs of more than 400
        nodes.

    Returns
    -------
    str
        A whole SVG document.
    """
    panels = [_draw_panel(graph, "n", graph.name, fold)]
    inner = itertools.islice(_subgraph_titles(graph), MAX_PANELS)
    for number, (subgraph, title) in enumerate(inner, 1):
        panels.append(_draw_panel(subgraph, f"g{number}n", title, fold))
    places, width, height = _arrange(panels)
    full_width, full_height = width + 2 * MARGIN, height + 2 * MARGIN
    lines: list[str] = []
    for panel, (x, y) in zip(panels, places, strict=True):
        if panel is not panels[0]:
            frame = PANEL_GAP / 2 - 10
            lines.append(
                f'<rect class="frame" x="{x - frame:.1f}" y="{y - frame:.1f}" rx="8" '
                f'width="{panel.width + 2 * frame:.1f}" height="{panel.height + 2 * frame:.1f}"/>'
            )
        lines += [f'<g transform="translate({x:.1f},{y:.1f})">', *panel.lines, "</g>"]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" class="tl-graph" width="{full_width:.0f}" '
            f'height="{full_height:.0f}" viewBox="0 0 {full_width:.0f} {full_height:.0f}">',
            f"<style>{STYLE}</style>",
            '<defs><marker id="tip" viewBox="0 0 8 8" refX="5" refY="4" markerWidth="7" '
            'markerHeight="7" orient="auto"><path d="M0,0.8L7,4L0,7.2z" fill="#9aa3ad"/></marker>'
            "</defs>",
            '<rect width="100%" height="100%" fill="#ffffff"/>',
            f'<g transform="translate({MARGIN:.0f},{MARGIN:.0f})">',
            *lines,
            "</g></svg>",
            "",
        ]
    )
