"""Graphs as JSON, to be kept and read elsewhere. The schema is docs/formats.md; `VERSION` is its
version.

    {"format": "tapeline.graph", "version": 1, "graphs": [GRAPH, ...]}

The first graph is the one that was written; sub-graphs follow those that use them, and are named by
position. Reading trusts nothing: every op is looked up by name, every spec is inferred again and
compared, and what does not fit is a `GraphError` that says where.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tapeline.compiler.ir.control_ops import PARSED
from tapeline.compiler.ir.graph import Graph
from tapeline.compiler.ir.interchange_values import (
    Array,
    Document,
    array_from_document,
    array_to_document,
    attr_from_document,
    attr_to_document,
    is_opaque,
    spec_from_document,
    spec_to_document,
)
from tapeline.compiler.ir.interpret import interpreted_call
from tapeline.compiler.ir.location import Location
from tapeline.compiler.ir.structure_ops import CONSTANT, PLACEHOLDER
from tapeline.compiler.ir.text import sizes_of, spec_text, subgraphs_first_use
from tapeline.runtime.errors import GraphError, TapelineError
from tapeline.runtime.op import Attrs, Op, Trait, get_op
from tapeline.runtime.sizes import Sizes
from tapeline.runtime.spec import TensorSpec

FORMAT = "tapeline.graph"
VERSION = 2
"""Documents of graphs without open sizes are written as version 1."""
CALL = "call"
"""The name under which all calls of sub-graphs are written."""


# ---- writing


def graph_to_json(graph: Graph, indent: int | None = None) -> str:
    """The text of a graph and its sub-graphs as JSON; see docs/formats.md.

    Parameters
    ----------
    graph : Graph
        Any valid graph.
    indent : int, optional
        Spread over lines, with so many spaces of indent; by default one line.
    """
    return json.dumps(graph_to_document(graph), indent=indent, allow_nan=False)


def graph_to_document(graph: Graph, store: Callable[[Array], Any] | None = None) -> Document:
    """The graph as dicts and lists.

    Parameters
    ----------
    graph : Graph
    store : function of an array, optional
        Puts a constant elsewhere, and gives what stands for it here.
    """
    ordered = subgraphs_first_use(graph)
    number = {id(g): k for k, g in enumerate(ordered)}
    graphs = [_write_graph(g, number, store or array_to_document) for g in ordered]
    sizes = sizes_of(graph)
    if sizes is None:
        return {"format": FORMAT, "version": 1, "graphs": graphs}
    return {"format": FORMAT, "version": VERSION, "sizes": sizes.describe(), "graphs": graphs}


def _write_graph(graph: Graph, number: dict[int, int], store: Callable[[Array], Any]) -> Document:
    nodes = []
    for i, op in enumerate(graph.ops):
        node: Document = {"op": CALL if op.has(Trait.CALL) else op.name}
        if graph.inputs[i]:
            node["inputs"] = list(graph.inputs[i])
        if graph.attrs[i]:
            node["attrs"] = [attr_to_document(value) for value in graph.attrs[i]]
        if op.subgraphs:
            node["graphs"] = [number[id(g)] for g in op.subgraphs]
            node["name"] = op.name
        node["spec"] = spec_to_document(graph.specs[i])
        location = graph.locations[i]
        if location is not None:
            node["location"] = [location.filename, location.line, location.function]
        nodes.append(node)
    return {
        "name": graph.name,
        "nodes": nodes,
        "placeholders": list(graph.placeholders),
        "outputs": list(graph.outputs),
        "constants": [store(array) for array in graph.constants],
    }


# ---- reading


def graph_from_json(text: str | bytes, ops: Mapping[str, Op] | None = None) -> Graph:
    """The graph that `graph_to_json` wrote.

    Parameters
    ----------
    text : str or bytes
    ops : mapping of str to Op, optional
        Ops that are not in the registry.

    Raises
    ------
    GraphError
        If the text is not of this format, is of a newer version, or does not fit together.
    """
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise GraphError(f"the text is not JSON: {error}") from None
    return graph_from_document(document, ops=ops)


def graph_from_document(
    document: Any,
    fetch: Callable[[Any], Array] | None = None,
    ops: Mapping[str, Op] | None = None,
    make_call: Callable[[str, Graph], Op] | None = None,
) -> Graph:
    """The graph that dicts and lists describe.

    Parameters
    ----------
    document : dict
        What `graph_to_document` gave.
    fetch : function, optional
        Gets the constants that `store` put elsewhere.
    ops : mapping of str to Op, optional
        Ops that are not in the registry.
    make_call : function of a name and a graph, optional
        Makes the op that calls a sub-graph.
    """
    check_header(document, FORMAT, VERSION)
    graphs = _a_list(document, "graphs")
    if not graphs:
        raise GraphError("the document holds no graph")
    reader = _Reader(
        fetch or array_from_document,
        ops or {},
        make_call or interpreted_call,
        _read_sizes(document),
    )
    for position, one in reversed(list(enumerate(graphs))):
        try:
            reader.graphs[position] = reader.read(one)
        except GraphError as error:
            raise GraphError(f"graph {position}: {error}") from None
    return reader.graphs[0]


def _read_sizes(document: Document) -> Sizes:
    """The sizes that the graphs leave open."""
    found = document.get("sizes", {"values": [], "conditions": []})
    if not isinstance(found, dict):
        raise GraphError("the sizes must be an object")
    try:
        sizes = Sizes.restore(found.get("values"), found.get("conditions"))
    except ValueError as error:
        raise GraphError(str(error)) from None
    sizes.close()
    return sizes


def check_header(document: Any, format_name: str, version: int) -> None:
    """Raises unless the document is of this format, and of this version or an older one."""
    if not isinstance(document, dict) or document.get("format") != format_name:
        raise GraphError(f'this is no {format_name} document: its key "format" does not say so')
    found = document.get("version")
    if type(found) is not int or found < 1:
        raise GraphError(f"{format_name}: the version must be a positive integer, got {found!r}")
    if found > version:
        raise GraphError(
            f"{format_name}: the document is of version {found}, and this Tapeline reads versions "
            f"up to {version}; read it with the Tapeline that wrote it, or a newer one"
        )


class _Reader:
    def __init__(
        self, fetch: Callable[[Any], Array], ops: Mapping[str, Op],
        make_call: Callable[[str, Graph], Op], sizes: Sizes,
    ) -> None:  # fmt: skip
        self.sizes = sizes
        self.fetch = fetch
        self.ops = ops
        self.make_call = make_call
        self.graphs: dict[int, Graph] = {}

    def read(self, document: Any) -> Graph:
        name = document.get("name") if isinstance(document, dict) else None
        if not isinstance(name, str):
            raise GraphError("a graph must be an object with a name")
        graph = Graph(name)
        constants = _a_list(document, "constants")
        for position, node in enumerate(_a_list(document, "nodes")):
            try:
                self._read_node(graph, position, node, constants)
            except (TapelineError, TypeError, ValueError, IndexError, KeyError) as error:
                raise GraphError(f"node {position}: {error}") from None
        for node_id in (outputs := _a_list(document, "outputs")):
            _check_id(node_id, len(graph))
        if graph.placeholders != _a_list(document, "placeholders"):
            raise GraphError("the placeholders listed are not those among the nodes")
        graph.outputs = outputs
        return graph

    def _read_node(self, graph: Graph, position: int, node: Any, constants: list[Any]) -> None:
        if not isinstance(node, dict):
            raise GraphError("a node must be an object")
        spec = spec_from_document(node.get("spec"), self.sizes)
        location = _read_location(node.get("location"))
        inputs = _a_list(node, "inputs")
        for i in inputs:
            _check_id(i, position)
        attrs: Attrs = tuple(
            [attr_from_document(value, sizes=self.sizes) for value in _a_list(node, "attrs")]
        )
        op = self._find_op(node)
        if op is PLACEHOLDER:
            if not isinstance(spec, TensorSpec) or len(attrs) != 1 or not isinstance(attrs[0], str):
                raise GraphError("a placeholder has one spec and a name")
            found = graph.add_placeholder(spec, attrs[0], location)
        elif op is CONSTANT:
            if len(attrs) != 1 or type(attrs[0]) is not int or not 0 <= attrs[0] < len(constants):
                raise GraphError("a constant names its place in the list of constants")
            found = graph.add_constant(self.fetch(constants[attrs[0]]), location)
        else:
            if op.n_inputs is not None and op.n_inputs != len(inputs):
                raise GraphError(f"{op.name} takes {op.n_inputs} inputs, got {len(inputs)}")
            found = graph.add(op, inputs, attrs, location)
        if found != position:
            raise GraphError(f"it is equal to node {found}; equal nodes are written once")
        if graph.specs[found] != spec:
            raise GraphError(
                f"{op.name} yields {spec_text(graph.specs[found])} here, but "
                f"{spec_text(spec)} is written"
            )

    def _find_op(self, node: Document) -> Op:
        name = node.get("op")
        if not isinstance(name, str):
            raise GraphError("a node must name its op")
        numbers = _a_list(node, "graphs")
        if numbers:
            missing = [k for k in numbers if type(k) is not int or k not in self.graphs]
            if missing:
                raise GraphError(f"its sub-graph {missing[0]!r} does not follow it")
            graphs = tuple(self.graphs[k] for k in numbers)
            if name == CALL and len(graphs) == 1:
                return self.make_call(str(node.get("name", CALL)), graphs[0])
            if name not in PARSED:
                raise GraphError(f"no op named {name!r} has sub-graphs")
            return PARSED[name](graphs)
        if name in self.ops:
            return self.ops[name]
        try:
            return get_op(name)
        except KeyError:
            raise GraphError(f"there is no op named {name!r}") from None


def _a_list(document: Any, key: str) -> list[Any]:
    value = document.get(key, [])
    if not isinstance(value, list):
        raise GraphError(f"{key!r} must be a list")
    return value


def _check_id(node_id: Any, limit: int) -> None:
    if type(node_id) is not int or not 0 <= node_id < limit:
        raise GraphError(f"{node_id!r} is not the id of an earlier node")


def _read_location(value: Any) -> Location | None:
    if value is None:
        return None
    match value:
        case [str() as filename, int() as line, str() as function]:
            return Location.at(filename, line, function)
    raise GraphError("a location is a file, a line and a function")


def opaque_attributes(graph: Graph) -> Sequence[tuple[Graph, int]]:
    """The nodes, in this graph and its sub-graphs, with attributes that cannot be read back."""
    return [
        (g, i)
        for g in subgraphs_first_use(graph)
        for i in range(len(g))
        if any(is_opaque(value) for value in g.attrs[i])
    ]
