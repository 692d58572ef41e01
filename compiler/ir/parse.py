"""Reads back the text that `print_graph` writes. Locations are comments, and are not read."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from tapeline.compiler.ir.graph import Graph, NodeSpec
from tapeline.compiler.ir.interpret import interpreted_call
from tapeline.compiler.ir.structure_ops import CALL_PREFIX, CONSTANT, PLACEHOLDER
from tapeline.runtime.dims import is_open_shape
from tapeline.runtime.errors import DTypeError, GraphError
from tapeline.runtime.op import Attrs, Op, get_op, make_op
from tapeline.runtime.sizes import OPPOSITES, Sizes
from tapeline.runtime.spec import TensorSpec, canonical_dtype, dtype_named, spec_of

OpSource: TypeAlias = Op | Callable[[tuple[Graph, ...]], Op]
"""An op, or for an op with sub-graphs a function that makes it of them."""

_NAMES: dict[str, object] = {"inf": float("inf"), "nan": float("nan"), "Ellipsis": Ellipsis}

_EXTENTS = r"[\w, ?+*/%()-]*"
_TYPE = rf"\w+\[{_EXTENTS}\]"
_TITLE = re.compile(r"graph (?:@(?P<number>\d+) )?(?P<name>.+):")
_NODE = re.compile(
    r"%(?P<id>\d+) = (?P<op>[^\s(]+)\((?P<arguments>.*)\)"
    rf"(?: \[(?P<subgraphs>[@\d, ]+)\])? +: (?P<spec>{_TYPE}|\((?:{_TYPE}(?:, )?)*\))(?: +#.*)?"
)
_RETURN = re.compile(r"return(?: (?P<outputs>[%\d, ]+))?")
_INPUTS = re.compile(r"(?:%\d+(?:, )?)*")
_SPEC = re.compile(rf"(\w+)\[({_EXTENTS})\]")
_SIZES = re.compile(r"sizes (n\d+=\d+(?:, n\d+=\d+)*)")
_WHERE = re.compile(r"where (.+) (==|!=|<=|>=|<|>) (.+)")
_OPPOSITES = {shown: relation for relation, shown in OPPOSITES.items()}


def parse_graph(
    text: str,
    ops: Mapping[str, OpSource] | None = None,
    constants: Mapping[str, npt.NDArray[Any]] | None = None,
) -> Graph:
    """The graph that the text describes.

    Parameters
    ----------
    text : str
        What `str(graph)` gives, or the like written by hand.
    ops : mapping of str to Op, optional
        Ops that are not in the registry, or that stand in for those there. For an op with
        sub-graphs, a function from a tuple of graphs to the op.
    constants : mapping of str to ndarray, optional
        The constants that the text names by hash: `constant_table(graph)`.

    Raises
    ------
    GraphError
        If a line cannot be read, an op or a constant is unknown, or a type is not what the op
        infers.
    """
    blocks = _split(text)
    parser = _Parser(ops or {}, constants or {})
    blocks[0] = blocks[0][0], parser.read_sizes(blocks[0][1])
    for number, (name, lines) in reversed(list(enumerate(blocks))):
        parser.graphs[number] = parser.read_block(name, lines)
    return parser.graphs[0]


def _split(text: str) -> list[tuple[str, list[tuple[int, str]]]]:
    blocks: list[tuple[str, list[tuple[int, str]]]] = []
    for line_number, line in enumerate(text.splitlines(), 1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        title = _TITLE.fullmatch(line)
        if title is not None:
            if int(title["number"] or 0) != len(blocks):
                raise GraphError(f"line {line_number}: graph @{len(blocks)} should come here")
            blocks.append((title["name"], []))
        elif not blocks:
            raise GraphError(f"line {line_number}: expected 'graph <name>:', got {line!r}")
        else:
            blocks[-1][1].append((line_number, line))
    if not blocks:
        raise GraphError("the text holds no graph; it should begin with 'graph <name>:'")
    return blocks


def parse_spec(text: str, sizes: Sizes | None = None) -> NodeSpec:
    """The spec written as `float64[2, 3]`; a tuple of them where the text is in brackets."""
    specs = []
    sizes = sizes or Sizes(())
    for name, extents in _SPEC.findall(text):
        shape = tuple(None if e == "?" else _size(e, sizes) for e in extents.split(", ") if e)
        try:
            specs.append(spec_of(cast(tuple[int, ...], shape), canonical_dtype(name)))
        except DTypeError as error:
            raise GraphError(str(error)) from None
    return tuple(specs) if text.startswith("(") else specs[0]


def _size(text: str, sizes: Sizes) -> int:
    try:
        return cast(int, sizes.parse(text))
    except ValueError as error:
        raise GraphError(str(error)) from None


class _Parser:
    def __init__(
        self, ops: Mapping[str, OpSource], constants: Mapping[str, npt.NDArray[Any]]
    ) -> None:
        self.ops = ops
        self.constants = constants
        self.graphs: dict[int, Graph] = {}
        self.sizes = Sizes(())
        self._attrs: dict[str, list[tuple[str, Any]]] = {}
        self._specs: dict[str, NodeSpec] = {}

    def read_sizes(self, lines: list[tuple[int, str]]) -> list[tuple[int, str]]:
        """Reads what the first lines of the text say of open sizes; returns the other lines."""
        rest = []
        for line_number, line in lines:
            values, condition = _SIZES.fullmatch(line), _WHERE.fullmatch(line)
            if values is not None:
                self.sizes = Sizes([int(v) for v in re.findall(r"=(\d+)", values[1])])
            elif condition is not None:
                left, right = (_size(condition[k], self.sizes) for k in (1, 3))
                relation = _OPPOSITES.get(condition[2], condition[2])
                holds = relation == condition[2]
                size: Any = left
                if is_open_shape((size,)) and self.sizes.note(size, relation, right) is not holds:
                    raise GraphError(f"line {line_number}: {line!r} comes out differently")
            else:
                rest.append((line_number, line))
        self.sizes.close()
        return rest

    def read_block(self, name: str, lines: list[tuple[int, str]]) -> Graph:
        graph = Graph(name)
        returned = False
        for line_number, line in lines:
            try:
                if returned:
                    raise GraphError("nothing may follow 'return'")
                found = _NODE.fullmatch(line)
                if found is not None:
                    self._read_node(graph, found)
                    continue
                end = _RETURN.fullmatch(line)
                if end is None:
                    raise GraphError(f"cannot read {line!r} as a node")
                graph.outputs = [int(i) for i in re.findall(r"\d+", end["outputs"] or "")]
                returned = True
                for i in graph.outputs:
                    _check_id(graph, i)
            except GraphError as error:
                raise GraphError(f"line {line_number}: {error}") from error
        if not returned:
            raise GraphError(f"graph {name} has no line 'return ...'")
        return graph

    def _read_node(self, graph: Graph, found: re.Match[str]) -> None:
        spec = self._specs.get(found["spec"])
        if spec is None:
            spec = self._specs[found["spec"]] = parse_spec(found["spec"], self.sizes)
        op = self._find_op(found["op"], found["subgraphs"])
        if op is CONSTANT:
            node_id = graph.add_constant(self._constant(found["arguments"], spec))
        else:
            inputs_text = _INPUTS.match(found["arguments"])
            assert inputs_text is not None
            inputs = tuple(int(i) for i in re.findall(r"\d+", inputs_text[0]))
            for i in inputs:
                _check_id(graph, i)
            attrs = self._read_attrs(op, found["arguments"][inputs_text.end() :])
            if op is PLACEHOLDER:
                assert isinstance(spec, TensorSpec)
                node_id = graph.add_placeholder(spec, cast(str, attrs[0]) if attrs else None)
            else:
                node_id = graph.add(op, inputs, attrs)
        if node_id != int(found["id"]):
            raise GraphError(f"%{found['id']} should be %{node_id}; equal nodes are written once")
        if graph.specs[node_id] != spec:
            raise GraphError(f"{found['spec']} is written, but {op.name} gives {graph.specs[-1]}")

    def _find_op(self, name: str, subgraphs: str | None) -> Op:
        source = self.ops.get(name)
        if subgraphs is not None:
            graphs = tuple(self.graphs[int(k)] for k in re.findall(r"\d+", subgraphs))
            if source is not None and not isinstance(source, Op):
                return source(graphs)
            if name.startswith(CALL_PREFIX):
                return interpreted_call(name, graphs[0])
            try:
                return make_op(name, graphs)
            except KeyError:
                message = f"{name} has sub-graphs; pass ops={{{name!r}: make_op}} for it"
                raise GraphError(message) from None
        if isinstance(source, Op):
            return source
        try:
            return get_op(name)
        except KeyError:
            raise GraphError(f"there is no op named {name!r}") from None

    def _constant(self, text: str, spec: NodeSpec) -> npt.NDArray[Any]:
        if text.startswith("#"):
            if text[1:] not in self.constants:
                raise GraphError(f"the constant {text} is not in the table `constants`")
            return self.constants[text[1:]]
        assert isinstance(spec, TensorSpec)
        values = _literal(ast.parse(text, mode="eval").body)
        if spec.dtype.kind != "c" and spec.dtype.kind != "f":
            values = np.array(values, dtype=spec.dtype)
        array = np.asarray(values).astype(spec.dtype)
        return array.reshape(spec.static_shape) if array.size == 0 else array

    def _read_attrs(self, op: Op, text: str) -> Attrs:
        pairs = self._attrs.get(text)
        if pairs is None:
            try:
                call = ast.parse(f"f({text})", mode="eval").body
            except SyntaxError:
                raise GraphError(f"cannot read the attributes {text!r}") from None
            assert isinstance(call, ast.Call)
            if call.args or any(k.arg is None for k in call.keywords):
                raise GraphError(f"{op.name}: attributes must be written name=value, got {text!r}")
            pairs = [(cast(str, k.arg), self._value(k.value)) for k in call.keywords]
            self._attrs[text] = pairs
        for k, (name, _) in enumerate(pairs):
            expected = op.attr_names[k] if k < len(op.attr_names) else f"_{k}"
            if name != expected:
                raise GraphError(f"{op.name}: attribute {k} is {expected!r}, not {name!r}")
        return tuple(value for _, value in pairs)

    def _value(self, node: ast.expr) -> Any:
        """A literal, or a size that is left open, or a tuple of such."""
        if isinstance(node, ast.Tuple):
            return tuple([self._value(item) for item in node.elts])
        is_size = isinstance(node, ast.BinOp) or (
            isinstance(node, ast.Name) and re.fullmatch(r"n\d+", node.id) is not None
        )
        return _size(ast.unparse(node), self.sizes) if is_size else _literal(node)


def _check_id(graph: Graph, node_id: int) -> None:
    if node_id >= len(graph):
        raise GraphError(f"%{node_id} is used before its line")


def _literal(node: ast.expr) -> Any:
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name):
        found = _NAMES.get(node.id) or dtype_named(node.id)
        if found is not None:
            return found
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_literal(node.operand)
    if isinstance(node, ast.Tuple):
        return tuple([_literal(item) for item in node.elts])
    if isinstance(node, ast.List):
        return [_literal(item) for item in node.elts]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
        arguments = [_literal(item) for item in node.args]
        if node.func.id == "complex" and len(arguments) == 2:
            return complex(*arguments)
        scalar = dtype_named(node.func.id)
        if scalar is not None and len(arguments) == 1:
            return scalar.type(arguments[0])
    raise GraphError(f"cannot read the value {ast.unparse(node)!r}")
