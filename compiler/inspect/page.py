"""Makes one HTML file out of graphs: it needs no network, and a browser shows it to pan, zoom,
search and click. The page's own text lies in the folder `page`; this module gathers what it shows.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import lru_cache
from html import escape
from pathlib import Path
from typing import Any, TypeAlias

from tapeline.compiler.codegen.module import Module
from tapeline.compiler.codegen.program import touched
from tapeline.compiler.inspect.code import (
    functions_of_steps,
    locations_of_step,
    source_line,
)
from tapeline.compiler.inspect.cost import count_text
from tapeline.compiler.inspect.families import FAMILIES, family_of
from tapeline.compiler.inspect.fold import shorten, value_name
from tapeline.compiler.inspect.kernels import KernelInfo, describe_kernels
from tapeline.compiler.inspect.memory_plan import written_buffers
from tapeline.compiler.inspect.summary import bytes_text
from tapeline.compiler.inspect.svg import COLOURS
from tapeline.compiler.ir.graph import Graph
from tapeline.compiler.ir.location import Location
from tapeline.compiler.ir.structure_ops import CONSTANT, PLACEHOLDER
from tapeline.compiler.ir.text import attr_text, spec_text, subgraphs_first_use

Record: TypeAlias = dict[str, Any]

SCRIPTS = ("layout.js", "blocks.js", "paint.js", "panel.js", "page.js")
MAX_IR = 4 << 20
"""Characters of emitted code that a page takes along."""
_FUNCTION = re.compile(r"^define [^@\n]*@([\w.$]+)\(.*?^}$", re.MULTILINE | re.DOTALL)
KINDS = {"loop": "elementwise", "product": "product, gather", "NumPy call": "NumPy call"}
"""The colours of kernels, by kind; others are calls of graphs."""


class PageBuilder:
    """Gathers graphs for a page, and source locations once."""

    def __init__(self, title: str) -> None:
        self.title = title
        self.graphs: list[Record] = []
        self.panels: list[int] = []
        self.columns: list[list[int]] = []
        """Which panels stand above each other; each for itself where nothing is said."""
        self.summary = ""
        self._locations: dict[tuple[str, int, str], int] = {}
        self._places: list[list[Any]] = []
        self._numbers: dict[int, int] = {}

    def place(self, location: Location | None) -> int:
        """The number of a location in the page; -1 for None."""
        if location is None:
            return -1
        key = location.filename, location.line, location.function
        found = self._locations.get(key)
        if found is None:
            found = self._locations[key] = len(self._places)
            base = str(location).rpartition(":")[0]
            self._places.append([key[0], base, key[1], key[2], source_line(location)[:300]])
        return found

    def add_graph(self, graph: Graph, title: str = "") -> int:
        """The number of the graph in the page; its sub-graphs are added too."""
        ordered = subgraphs_first_use(graph)
        for one in ordered:
            if id(one) not in self._numbers:
                self._numbers[id(one)] = len(self.graphs)
                self.graphs.append({})
        for one in ordered:
            number = self._numbers[id(one)]
            if not self.graphs[number]:
                self.graphs[number] = self._graph(one, title if one is graph else one.name)
        return self._numbers[id(graph)]

    def _graph(self, graph: Graph, title: str) -> Record:
        outputs: dict[int, list[int]] = {}
        for position, node in enumerate(graph.outputs):
            outputs.setdefault(node, []).append(position)
        nodes = [self._node(graph, i, outputs.get(i)) for i in range(len(graph))]
        about = f"{len(graph)} nodes"
        return {"name": graph.name, "title": title or graph.name, "about": about, "nodes": nodes}

    def _node(self, graph: Graph, i: int, outputs: list[int] | None) -> Record:
        op = graph.ops[i]
        title = value_name(graph, i) if op in (PLACEHOLDER, CONSTANT) else op.name
        record: Record = {
            "op": op.name, "t": title, "f": FAMILIES.index(family_of(op)),
            "s": spec_text(graph.specs[i]), "l": self.place(graph.locations[i]),
        }  # fmt: skip
        if graph.inputs[i]:
            record["i"] = list(graph.inputs[i])
        if op is PLACEHOLDER:
            record["input"] = 1
        elif op is CONSTANT:
            if outputs is None:
                record["inline"] = 1
        elif graph.attrs[i]:
            names = [*op.attr_names, *(f"_{k}" for k in range(len(graph.attrs[i])))]
            texts = [shorten(attr_text(value), 200) for value in graph.attrs[i]]
            record["a"] = list(zip(names, texts, strict=False))
        if outputs is not None:
            record["o"] = outputs
        if op.subgraphs:
            record["g"] = [self._numbers[id(g)] for g in op.subgraphs]
        return record

    def add_kernels(self, graph: Graph, module: Module, title: str) -> int:
        """The number of the graph of kernels; `graph` is in the page already."""
        kernels = describe_kernels(graph, module)
        of = self._numbers[id(graph)]
        nodes: list[Record] = []
        writer: dict[int, int] = {}
        texts = _function_texts(module)
        room = MAX_IR
        for number, (step, names) in enumerate(
            zip(module.program.steps, functions_of_steps(module), strict=True)
        ):
            buffers = touched(step)
            written = written_buffers(step)
            sources = {writer[b] for b in buffers if b in writer}
            text = "\n\n".join(texts.get(name, "") for name in names)
            room -= len(text)
            record = _kernel_record(kernels[number])
            record["i"] = sorted(sources)
            places = [self.place(location) for location in locations_of_step(graph, step)]
            record |= {"l": places[0] if places else -1, "places": places}
            record["n"] = [node for node in step.nodes if node >= 0]
            record["ir"] = text if room > 0 else "left out: the page would be too large"
            nodes.append(record)
            writer.update(dict.fromkeys(written, number))
            for node in record["n"]:
                self.graphs[of]["nodes"][node]["k"] = number
        about = f"{len(nodes)}; {bytes_text(module.arena.nbytes)} of memory in between"
        self.graphs.append(
            {"name": title, "title": title, "about": about, "nodes": nodes, "kernels": 1, "of": of}
        )
        return len(self.graphs) - 1

    def html(self, about: str) -> str:
        """The whole page."""
        families = []
        for family in FAMILIES:
            fill, ink = COLOURS[family]
            families.append({"name": family, "day": [fill, ink], "night": _at_night(ink)})
        data = {
            "title": self.title, "summary": self.summary, "families": families,
            "locations": self._places, "graphs": self.graphs, "panels": self.panels,
            "columns": self.columns or [[k] for k in range(len(self.panels))],
        }  # fmt: skip
        text = json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")
        parts = {
            "title": escape(self.title), "about": escape(about), "style": _asset("page.css"),
            "script": "\n".join(map(_asset, SCRIPTS)).replace('"use strict";\n', ""), "data": text,
        }  # fmt: skip
        page = _asset("page.html")
        pieces = page.split("@")
        return "".join(parts[piece] if k % 2 else piece for k, piece in enumerate(pieces))


@lru_cache(maxsize=8)
def _asset(name: str) -> str:
    return (Path(__file__).with_name("page") / name).read_text(encoding="utf-8")


def _at_night(ink: str) -> list[str]:
    """Fill and ink on a dark ground."""
    red, green, blue = (int(ink[k : k + 2], 16) for k in (1, 3, 5))
    dark = [round(0x1C + (c - 0x1C) * 0.3) for c in (red, green, blue)]
    light = [round(c + (255 - c) * 0.35) for c in (red, green, blue)]
    return ["#" + "".join(f"{c:02x}" for c in colour) for colour in (dark, light)]


def _kernel_record(kernel: KernelInfo) -> Record:
    family = KINDS.get(kernel.kind, "call of a graph")
    if kernel.kind == "loop" and {"sum", "max", "min", "prod"} & set(kernel.ops):
        family = "reduction"
    ops = ", ".join(kernel.ops)
    return {
        "op": kernel.kind, "t": f"{kernel.kind} {shorten(ops, 22)}", "f": FAMILIES.index(family),
        "s": " x ".join(map(str, kernel.shape)),
        "a": [
            ("strategy", kernel.strategy), ("computes", ops), ("moves", bytes_text(kernel.nbytes)),
            ("operations", count_text(kernel.flops).strip()),
        ],
    }  # fmt: skip


def _function_texts(module: Module) -> dict[str, str]:
    """The text of each emitted function by its name."""
    return {found[1]: found[0] for found in _FUNCTION.finditer(module.text)}


def graph_to_html(graph: Graph) -> str:
    """One graph as a page of its own.

    Parameters
    ----------
    graph : Graph
        Any valid graph.

    Returns
    -------
    str
        A whole HTML document that refers to nothing outside of itself.
    """
    builder = PageBuilder(graph.name)
    builder.panels = [builder.add_graph(graph)]
    builder.summary = graph.summary()
    return builder.html(f"{len(graph)} nodes")


def compiled_to_html(
    name: str, forward: tuple[Graph, Module], backward: tuple[Graph, Module] | None
) -> str:
    """What runs for a function: forward, backward and kernels side by side.

    Parameters
    ----------
    name : str
        The function.
    forward, backward : pair of a Graph and its Module
        What was compiled; no backward for a function that has no gradient.
    """
    builder = PageBuilder(name)
    graphs: Sequence[tuple[str, tuple[Graph, Module]]] = [("forward", forward)]
    if backward is not None:
        graphs = [*graphs, ("backward", backward)]
    for title, (graph, _) in graphs:
        builder.panels.append(builder.add_graph(graph, title))
    for title, (graph, module) in graphs:
        label = "kernels" if len(graphs) == 1 else f"{title} kernels"
        builder.panels.append(builder.add_kernels(graph, module, label))
    if backward is not None:
        builder.columns = [[0, 2], [1, 3]]
    builder.summary = forward[0].summary()
    counts = " + ".join(f"{len(graph)}" for _, (graph, _) in graphs)
    return builder.html(f"{counts} nodes")


def staged_to_html(name: str, graph: Graph, stages: Sequence[tuple[Graph, Module]]) -> str:
    """What runs for a function whose sizes depend on values: its stages side by side, in order.

    Parameters
    ----------
    name : str
        The function.
    graph : Graph
        All of it, as it was traced.
    stages : sequence of pairs of a Graph and its Module
        What was compiled for the sizes of the call that was traced.
    """
    builder = PageBuilder(name)
    for number, (part, module) in enumerate(stages):
        builder.panels.append(builder.add_graph(part, f"stage {number}"))
        builder.panels.append(builder.add_kernels(part, module, f"kernels of stage {number}"))
    builder.columns = [[2 * k, 2 * k + 1] for k in range(len(stages))]
    builder.summary = graph.summary()
    counts = " + ".join(f"{len(part)}" for part, _ in stages)
    return builder.html(f"{counts} nodes")
