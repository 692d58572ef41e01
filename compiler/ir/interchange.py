"""Graphs as JSON, to be kept and read elsewhere. The schema is docs/formats.md; `VERSION` is its
version.

    {"format": "tapeline.graph", "version": 1, "graphs": [GRAPH, ...]}

The first graph is the one that was written; sub-graphs follow those that use them, and are named by
position. Reading trusts nothing: every op is looked up by name, every spec is inferred again and
compared, and what does not fit is a `GraphError` that says where.
"""

from __future__ import annotations

import base64
import builtins
import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from tapeline.compiler.ir.control_ops import PARSED
from tapeline.compiler.ir.graph import Graph, NodeSpec
from tapeline.compiler.ir.interpret import interpreted_call
from tapeline.compiler.ir.location import Location
from tapeline.compiler.ir.structure_ops import CONSTANT, PLACEHOLDER
from tapeline.compiler.ir.text import attr_text, sizes_of, spec_text, subgraphs_first_use
from tapeline.runtime.dims import Dim, source_of
from tapeline.runtime.errors import GraphError, TapelineError
from tapeline.runtime.op import Attrs, Op, Trait, get_op
from tapeline.runtime.ops.effects import Message
from tapeline.runtime.sizes import Sizes
from tapeline.runtime.spec import Shape, TensorSpec, dtype_named, spec_of

Array: TypeAlias = npt.NDArray[Any]
Document: TypeAlias = dict[str, Any]
"""What `json.dumps` takes and `json.loads` gives."""

FORMAT = "tapeline.graph"
VERSION = 2
"""Documents of graphs without open sizes are written as version 1."""
CALL = "call"
"""The name under which all calls of sub-graphs are written."""
MAX_CONSTANT_BYTES = 1 << 32
MAX_DEPTH = 64


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


def array_to_document(array: Array) -> Document:
    """An array with its bytes in base64: little-endian, in C order."""
    little = np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<"), copy=False)
    data = base64.b64encode(little.tobytes()).decode()
    return {"dtype": array.dtype.name, "shape": list(array.shape), "base64": data}


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
        node["spec"] = _write_spec(graph.specs[i])
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


def _write_spec(spec: NodeSpec) -> Any:
    if isinstance(spec, tuple):
        return {"tuple": [_write_spec(one) for one in spec]}
    return [spec.dtype.name, [_write_extent(extent) for extent in spec.shape]]


def _write_extent(extent: Any) -> Any:
    return source_of(extent) if type(extent) is Dim else extent


def attr_to_document(value: Any) -> Any:
    """JSON for an attribute: itself where JSON has such a value, else an object with one key."""
    if type(value) is Dim:
        return {"size": source_of(value)}
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, tuple):
        return [attr_to_document(item) for item in value]
    if isinstance(value, np.dtype):
        return {"dtype": value.name}
    if isinstance(value, np.generic):
        return {"scalar": [value.dtype.name, attr_to_document(value.item())]}
    if isinstance(value, int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"float": repr(value)}
    if isinstance(value, complex):
        return {"complex": [attr_to_document(value.real), attr_to_document(value.imag)]}
    if value is Ellipsis:
        return {"ellipsis": True}
    found = _exception_to_document(value)
    return {"opaque": attr_text(value)} if found is None else found


def _exception_to_document(value: Any) -> Document | None:
    """JSON for what raises: an exception that Python has, with arguments that JSON has."""
    if isinstance(value, Message):
        kind, key, args = value.error, "message", value.args
    elif isinstance(value, Exception):
        kind, key, args = type(value), "error", value.args
    elif isinstance(value, type) and issubclass(value, Exception):
        kind, key, args = value, "error_type", ()
    else:
        return None
    arguments = [attr_to_document(item) for item in args]
    is_plain = all(not isinstance(item, dict) or "opaque" not in item for item in arguments)
    if getattr(builtins, kind.__name__, None) is not kind or not is_plain:
        return None
    return {key: [kind.__name__, arguments]}


def _exception_from_document(key: str, name: str, arguments: Sequence[Any]) -> Any:
    kind = getattr(builtins, name, None)
    if not isinstance(kind, type) or not issubclass(kind, Exception):
        raise GraphError(f"{name!r} is no exception that Python has")
    if key == "error_type":
        return kind
    return Message(tuple(arguments), kind) if key == "message" else kind(*arguments)


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


def array_from_document(document: Any) -> Array:
    """The array that `array_to_document` wrote."""
    dtype = dtype_named(str(document.get("dtype"))) if isinstance(document, dict) else None
    if dtype is None:
        raise GraphError("a constant must be an object with a known dtype")
    shape = _read_shape(document.get("shape"), _NO_SIZES)
    try:
        data = base64.b64decode(document.get("base64", ""), validate=True)
    except (TypeError, ValueError) as error:
        raise GraphError(f"a constant's bytes are not base64: {error}") from None
    if None in shape or len(data) != math.prod(cast(Shape, shape)) * dtype.itemsize:
        raise GraphError(f"a constant of {dtype.name}{list(shape)} comes with {len(data)} bytes")
    little = np.frombuffer(data, dtype.newbyteorder("<"))
    return little.astype(dtype).reshape(cast(Shape, shape))


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
        spec = _read_spec(node.get("spec"), self.sizes)
        location = _read_location(node.get("location"))
        inputs = _a_list(node, "inputs")
        for i in inputs:
            _check_id(i, position)
        attrs: Attrs = tuple(
            [attr_from_document(value, sizes=self.sizes) for value in _a_list(node, "attrs")]
        )
        op = self._find_op(node, position)
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

    def _find_op(self, node: Document, position: int) -> Op:
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


_NO_SIZES = Sizes(())


def _read_shape(value: Any, sizes: Sizes) -> tuple[int | None, ...]:
    fits = isinstance(value, list) and len(value) <= MAX_DEPTH
    read = [_read_extent(extent, sizes) for extent in value] if fits else [-1]
    known = [extent and sizes.evaluate(extent, sizes.values) for extent in read]
    if not all(e is None or (type(e) is int and e >= 0) for e in known):
        raise GraphError(f"a shape must be a list of extents, got {value!r}")
    if math.prod(e or 1 for e in known) > MAX_CONSTANT_BYTES:
        raise GraphError(f"the shape {value} is larger than any array that is read")
    return tuple(read)


def _read_extent(extent: Any, sizes: Sizes) -> Any:
    if not isinstance(extent, str):
        return extent
    try:
        return sizes.parse(extent)
    except ValueError as error:
        raise GraphError(str(error)) from None


def _read_spec(value: Any, sizes: Sizes) -> NodeSpec:
    match value:
        case {"tuple": list() as specs}:
            return tuple([cast(TensorSpec, _read_spec(one, sizes)) for one in specs])
        case [str() as name, list() as extents] if dtype := dtype_named(name):
            return spec_of(cast(Shape, _read_shape(extents, sizes)), dtype)
    raise GraphError(f"a spec must be a dtype and a shape, got {value!r}")


def attr_from_document(value: Any, depth: int = 0, sizes: Sizes = _NO_SIZES) -> Any:
    """The attribute that `attr_to_document` wrote; its open sizes are among `sizes`."""
    if depth > MAX_DEPTH:
        raise GraphError("an attribute is nested too deeply")
    match value:
        case list():
            return tuple([attr_from_document(item, depth + 1, sizes) for item in value])
        case {"size": str() as text}:
            return _read_extent(text, sizes)
        case {"dtype": str() as name} if dtype := dtype_named(name):
            return dtype
        case {"scalar": [str() as name, item]} if dtype := dtype_named(name):
            return dtype.type(attr_from_document(item, depth + 1))
        case {"float": ("inf" | "-inf" | "nan") as name}:
            return float(name)
        case {"complex": [real, imag]}:
            return complex(attr_from_document(real, depth + 1), attr_from_document(imag, depth + 1))
        case {"ellipsis": True}:
            return Ellipsis
        case {"message": [str() as name, list() as items]}:
            arguments = [attr_from_document(item, depth + 1) for item in items]
            return _exception_from_document("message", name, arguments)
        case {"error": [str() as name, list() as items]}:
            arguments = [attr_from_document(item, depth + 1) for item in items]
            return _exception_from_document("error", name, arguments)
        case {"error_type": [str() as name, []]}:
            return _exception_from_document("error_type", name, ())
        case {"opaque": text}:
            raise GraphError(f"the attribute {text} is an object of the process that wrote it")
        case dict():
            raise GraphError(f"an attribute cannot be {value!r}")
    return value


def opaque_attributes(graph: Graph) -> Sequence[tuple[Graph, int]]:
    """The nodes, in this graph and its sub-graphs, with attributes that cannot be read back."""
    return [
        (g, i)
        for g in subgraphs_first_use(graph)
        for i in range(len(g))
        if any(_is_opaque(value) for value in g.attrs[i])
    ]


def _is_opaque(value: Any) -> bool:
    if isinstance(value, tuple):
        return any(map(_is_opaque, value))
    written = attr_to_document(value)
    return isinstance(written, dict) and "opaque" in written
