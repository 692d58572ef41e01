"""Shows graphs in notebooks: the page of a graph lies in a frame of its own."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from tapeline.compiler.inspect.page import graph_to_html
from tapeline.compiler.ir.graph import Graph
from tapeline.compiler.ir.text import spec_text
from tapeline.runtime.tables import html_table

if TYPE_CHECKING:
    from tapeline.compiler.concrete import ConcreteFunction

FRAME_HEIGHT = 520


def graph_frame(graph: Graph) -> str:
    """The graph's page in a frame."""
    page = escape(graph_to_html(graph), quote=True)
    return (
        f'<iframe srcdoc="{page}" sandbox="allow-scripts" loading="lazy" '
        f'style="width:100%;height:{FRAME_HEIGHT}px;border:1px solid #8884;border-radius:8px">'
        "</iframe>"
    )


def concrete_html(concrete: ConcreteFunction) -> str:
    """What a concrete function takes and gives, and its graph as traced."""
    graph = concrete.graph
    rows = [("takes", graph.attrs[i][0], spec_text(graph.specs[i])) for i in graph.placeholders]
    rows += [("gives", f"%{i}", spec_text(graph.specs[i])) for i in graph.outputs]
    return html_table(concrete.name, ("", "name", "type"), rows) + graph_frame(graph)
