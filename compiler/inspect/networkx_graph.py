"""Turns a graph into a networkx graph, for people who want to ask it things. Imports networkx."""

from __future__ import annotations

from typing import Any

import networkx

from tapeline.compiler.inspect.families import family_of
from tapeline.compiler.ir.graph import Graph


def graph_to_networkx(graph: Graph) -> Any:
    """The graph as a `networkx.MultiDiGraph`.

    Parameters
    ----------
    graph : Graph
        Any valid graph; sub-graphs stay inside the node that uses them.

    Returns
    -------
    networkx.MultiDiGraph
        One node per id, with `op` (a name), `family`, `attrs` (a dict by name), `spec`, `location`
        (text or None) and `outputs` (places among the graph's outputs). One edge per input, from
        the value to the node that takes it, with its position as `input`. The graph itself has
        `name`, `placeholders` and `outputs`.
    """
    result = networkx.MultiDiGraph(
        name=graph.name, placeholders=list(graph.placeholders), outputs=list(graph.outputs)
    )
    places: dict[int, list[int]] = {}
    for place, node in enumerate(graph.outputs):
        places.setdefault(node, []).append(place)
    for node, op in enumerate(graph.ops):
        location = graph.locations[node]
        names = [*op.attr_names, *(f"_{k}" for k in range(len(graph.attrs[node])))]
        result.add_node(
            node,
            op=op.name,
            family=family_of(op),
            attrs=dict(zip(names, graph.attrs[node], strict=False)),
            spec=graph.specs[node],
            location=None if location is None else str(location),
            outputs=tuple(places.get(node, ())),
        )
        for position, source in enumerate(graph.inputs[node]):
            result.add_edge(source, node, input=position)
    return result
