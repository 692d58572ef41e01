"""Shows graphs and tables in notebooks. Everything is plain HTML without scripts, but for graphs,
whose page lies in a frame of its own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING, TypeAlias

from tapeline.compiler.inspect.cost import Cost, count_text, time_text
from tapeline.compiler.inspect.kernels import KernelList
from tapeline.compiler.inspect.page import graph_to_html
from tapeline.compiler.inspect.summary import bytes_text
from tapeline.compiler.ir.graph import Graph
from tapeline.compiler.ir.text import spec_text

if TYPE_CHECKING:
    from tapeline.compiler.concrete import ConcreteFunction
    from tapeline.compiler.frontend.retraces import Explanation

FRAME_HEIGHT = 520
_CELL = "text-align:left;padding:2px 12px 2px 0;vertical-align:top"


Table: TypeAlias = tuple[str, Sequence[str], Sequence[Sequence[object]]]
"""Title, head and rows."""


def table_html(title: str, head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table with a title and a head, all text escaped."""
    names = "".join(f'<th style="{_CELL};opacity:.65">{escape(name)}</th>' for name in head)
    lines = []
    for row in rows:
        cells = "".join(f'<td style="{_CELL}">{escape(str(cell))}</td>' for cell in row)
        lines.append(f"<tr>{cells}</tr>")
    return (
        f"<div><b>{escape(title)}</b></div><table style='border-collapse:collapse;font-size:13px'>"
        f"<thead><tr>{names}</tr></thead><tbody>{''.join(lines)}</tbody></table>"
    )


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
    return table_html(concrete.name, ("", "name", "type"), rows) + graph_frame(graph)


def explanation_table(explanation: Explanation) -> Table:
    """The traces of a function with their reasons."""
    rows = []
    for record in explanation:
        given = ", ".join(f"{name}: {text}" for name, text in record.signature.items())
        seconds = f"{1e3 * record.seconds:.1f} ms"
        spent = (f"{1e3 * s:.1f} ms" for s in (record.optimizing, record.compiling))
        opened = ", ".join(record.open)
        rows.append(
            (
                record.number,
                seconds,
                *spent,
                record.calls,
                given,
                opened,
                record.reason,
                record.repair,
            )
        )
    head = (
        "trace", "tracing", "optimizing", "compiling", "calls", "for", "leaves open", "because",
        "to avoid it",
    )  # fmt: skip
    return f"{explanation.name}: {len(rows)} traces", head, rows


def kernels_table(kernels: KernelList) -> Table:
    """The kernels of a compiled graph."""
    rows = [
        (
            number, kernel.kind, kernel.strategy, " x ".join(map(str, kernel.shape)),
            bytes_text(kernel.nbytes), ", ".join(kernel.ops), kernel.location,
        )
        for number, kernel in enumerate(kernels)
    ]  # fmt: skip
    head = ("", "kind", "strategy", "over", "moves", "computes", "line")
    return f"kernels of {kernels.name}", head, rows


def cost_table(cost: Cost) -> Table:
    """What the kernels of a compiled graph cost."""
    rows = [
        (
            number, one.kernel.kind, count_text(one.kernel.flops), bytes_text(one.kernel.nbytes),
            time_text(one.seconds), one.limit, one.kernel.location,
        )
        for number, one in enumerate(cost)
    ]  # fmt: skip
    head = ("", "kind", "operations", "moves", "at least", "limited by", "line")
    return str(cost).splitlines()[0], head, rows
