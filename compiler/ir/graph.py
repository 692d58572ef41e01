"""The graph: append-only parallel lists, indexed by the int id of a node.

Ascending ids are a topological order, and the program's order of effects. A node has one value,
which is named by the node's id; a node of an op with several outputs has a tuple of specs, and
`pick` nodes take the tuple apart. A pass never edits a graph: it builds a new one.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np

from tapeline.compiler.ir.location import Location
from tapeline.compiler.ir.structure_ops import CONSTANT, PICK, PLACEHOLDER
from tapeline.runtime.errors import GraphError
from tapeline.runtime.op import Attrs, Op
from tapeline.runtime.spec import Shape, TensorSpec, canonical_dtype, spec_of

if TYPE_CHECKING:
    import numpy.typing as npt

NodeSpec: TypeAlias = TensorSpec | tuple[TensorSpec, ...]
Array: TypeAlias = "npt.NDArray[Any]"

SMALL_CONSTANT_BYTES = 1024
"""Constants up to this size are shared by content, and printed inline."""

_INFERRED: dict[Hashable, NodeSpec] = {}
_INFERRED_LIMIT = 65536


def attrs_key(attrs: Attrs) -> Hashable:
    """A key that is equal only where the attributes are the same in type and value.

    Python holds 1, 1.0 and True equal, and 0.0 and -0.0; an op need not.
    """
    if not attrs:
        return attrs
    key: list[Hashable] = []
    for attr in attrs:
        kind = type(attr)
        if kind is int or kind is str or attr is None:
            key.append(attr)
        elif kind is tuple:
            key.append((tuple, attrs_key(cast(Attrs, attr))))
        elif isinstance(attr, float | complex | np.inexact):
            key.append((kind, repr(attr)))
        else:
            key.append((kind, attr))
    return tuple(key)


def _intern(spec: TensorSpec) -> TensorSpec:
    return spec_of(cast(Shape, spec.shape), spec.dtype)


def infer_spec(op: Op, specs: tuple[NodeSpec, ...], attrs: Attrs, key: Hashable) -> NodeSpec:
    """What the op yields for inputs of these specs, remembered from call to call.

    `key` is `attrs_key(attrs)`. The specs that come back are interned.
    """
    entry = (op, specs, key)
    found = _INFERRED.get(entry)
    if found is None:
        inferred = op.infer(*specs, *attrs)
        found = tuple(map(_intern, inferred)) if isinstance(inferred, tuple) else _intern(inferred)
        if not op.subgraphs:  # such an op lives as long as its graphs; do not hold them here
            if len(_INFERRED) >= _INFERRED_LIMIT:
                _INFERRED.clear()
            _INFERRED[entry] = found
    return found


def _constant_key(array: Array) -> Hashable:
    """What a small constant is shared by: its content; a big one only with itself."""
    if array.nbytes > SMALL_CONSTANT_BYTES:
        return id(array)
    return canonical_dtype(array.dtype), array.shape, array.tobytes()


class Node:
    """A view of one node, for people and for passes that are not in a hurry."""

    __slots__ = ("graph", "id")

    def __init__(self, graph: Graph, node_id: int) -> None:
        self.graph = graph
        self.id = node_id

    @property
    def op(self) -> Op:
        """What the node applies."""
        return self.graph.ops[self.id]

    @property
    def inputs(self) -> tuple[int, ...]:
        """Ids of the nodes whose values it takes."""
        return self.graph.inputs[self.id]

    @property
    def attrs(self) -> Attrs:
        """The op's static parameters."""
        return self.graph.attrs[self.id]

    @property
    def spec(self) -> NodeSpec:
        """Shape and dtype of its value; a tuple of them where the op has several outputs."""
        return self.graph.specs[self.id]

    @property
    def location(self) -> Location | None:
        """Where in the user's source it was made."""
        return self.graph.locations[self.id]

    def __repr__(self) -> str:
        inputs = ", ".join(f"%{i}" for i in self.inputs)
        return f"<node %{self.id} = {self.op.name}({inputs})>"


class Graph:
    """Nodes in topological order, with the ids of those that come in and those that go out.

    Parameters
    ----------
    name : str
        A name for people.

    Attributes
    ----------
    ops, inputs, attrs, specs, locations : list
        One entry per node: the op, the ids of its inputs, its attributes, the spec of its value
        (a tuple of specs for an op of several outputs), and the user's source line or None.
    placeholders : list of int
        The graph's inputs, in the order in which they are passed.
    outputs : list of int
        The graph's outputs; one node may be listed more than once.
    constants : list of ndarray
        The read-only values of the constant nodes.
    """

    __slots__ = (
        "_attrs_keys", "_value_numbers", "attrs", "constants", "inputs", "locations", "name", "ops",
        "outputs", "placeholders", "specs",
    )  # fmt: skip

    def __init__(self, name: str = "graph") -> None:
        self.name = name
        self.ops: list[Op] = []
        self.inputs: list[tuple[int, ...]] = []
        self.attrs: list[Attrs] = []
        self.specs: list[NodeSpec] = []
        self.locations: list[Location | None] = []
        self.placeholders: list[int] = []
        self.outputs: list[int] = []
        self.constants: list[Array] = []
        self._value_numbers: dict[Hashable, int] = {}
        self._attrs_keys: list[Hashable] = []

    def __getstate__(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in Graph.__slots__ if name != "_value_numbers"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, value in state.items():
            setattr(self, name, value)
        self._value_numbers = {}
        for i, op in enumerate(self.ops):
            if op is CONSTANT:
                array = self.constants[cast(int, self.attrs[i][0])]
                array.flags.writeable = False
                self._value_numbers[(CONSTANT, _constant_key(array))] = i
            elif op.is_pure and op is not PLACEHOLDER:
                self._value_numbers[(op, self.inputs[i], self._attrs_keys[i])] = i

    def __len__(self) -> int:
        return len(self.ops)

    def __iter__(self) -> Iterator[Node]:
        for i in range(len(self.ops)):
            yield Node(self, i)

    def __str__(self) -> str:
        from tapeline.compiler.ir.text import print_graph

        return print_graph(self)

    def summary(self) -> str:
        """What the graph consists of, in a few lines of at most 80 columns."""
        from tapeline.compiler.inspect.summary import summarize_graph

        return summarize_graph(self)

    def to_networkx(self) -> Any:
        """The graph as a `networkx.MultiDiGraph`, with op, attributes, spec and source line."""
        from tapeline.compiler.inspect.networkx_graph import graph_to_networkx  # loads networkx

        return graph_to_networkx(self)

    def to_json(self, indent: int | None = None) -> str:
        """The graph as JSON text of a versioned schema, docs/formats.md; `from_json` reads it.

        Examples
        --------
        >>> import tapeline as tl
        >>> f = tl.function(lambda x: tl.sum(x * x))
        >>> graph = f.get_concrete_function(tl.TensorSpec([3], "float64")).graph
        >>> print(type(graph).from_json(graph.to_json()).summary().splitlines()[0])
        graph <lambda>: 3 nodes, 2 of them ops
        """
        from tapeline.compiler.ir.interchange import graph_to_json

        return graph_to_json(self, indent)

    @staticmethod
    def from_json(text: str | bytes) -> Graph:
        """The graph that `to_json` wrote.

        Raises
        ------
        GraphError
            If the text is not of that format, is of a newer version, or does not fit together.
        """
        from tapeline.compiler.ir.interchange import graph_from_json

        return graph_from_json(text)

    def to_dot(self) -> str:
        """The graph as text in Graphviz's language, sub-graphs as clusters."""
        from tapeline.compiler.inspect.dot import graph_to_dot

        return graph_to_dot(self)

    def to_svg(self, fold: bool | None = None) -> str:
        """The graph as the text of an SVG picture; with `fold` each call of a source function is
        one block, by default in graphs of more than 400 nodes."""
        from tapeline.compiler.inspect.svg import graph_to_svg

        return graph_to_svg(self, fold)

    def to_html(self) -> str:
        """The graph as one HTML page to pan, zoom, search and click, without network.

        Examples
        --------
        >>> import tapeline as tl
        >>> f = tl.function(lambda x: tl.sum(x * x))
        >>> graph = f.get_concrete_function(tl.TensorSpec([3], "float64")).graph
        >>> graph.to_html().startswith("<!doctype html>")
        True
        """
        from tapeline.compiler.inspect.page import graph_to_html  # loads codegen

        return graph_to_html(self)

    def _repr_html_(self) -> str:
        from tapeline.compiler.inspect.notebook import graph_frame  # loads codegen

        return graph_frame(self)

    def __repr__(self) -> str:
        return f"<graph {self.name}: {len(self.ops)} nodes, {len(self.outputs)} outputs>"

    def node(self, node_id: int) -> Node:
        """A view of one node."""
        return Node(self, node_id)

    def _append(
        self, op: Op, inputs: tuple[int, ...], attrs: Attrs, key: Hashable, spec: NodeSpec,
        location: Location | None,
    ) -> int:  # fmt: skip
        node_id = len(self.ops)
        self.ops.append(op)
        self.inputs.append(inputs)
        self.attrs.append(attrs)
        self._attrs_keys.append(key)
        self.specs.append(spec)
        self.locations.append(location)
        return node_id

    def add(
        self,
        op: Op,
        inputs: Sequence[int],
        attrs: Attrs = (),
        location: Location | None = None,
    ) -> int:
        """The id of the node that applies `op` to the values of `inputs`.

        A pure op with the same inputs and attributes as an earlier node gives that node.

        Raises
        ------
        TapelineError
            What the op's `infer` raises for such inputs.
        """
        return self._add(op, tuple(inputs), attrs, attrs_key(attrs), None, location)

    def add_known(
        self,
        op: Op,
        inputs: Sequence[int],
        attrs: Attrs,
        spec: NodeSpec,
        location: Location | None = None,
    ) -> int:
        """As `add`, where it is known what the op infers."""
        return self._add(op, tuple(inputs), attrs, attrs_key(attrs), spec, location)

    def _add(
        self, op: Op, inputs: tuple[int, ...], attrs: Attrs, key: Hashable, spec: NodeSpec | None,
        location: Location | None,
    ) -> int:  # fmt: skip
        """As `add`; a spec that is given is taken to be what the op infers."""
        number = None
        if op.is_pure:
            number = (op, inputs, key)
            found = self._value_numbers.get(number)
            if found is not None:
                return found
        if spec is None:
            specs = self.specs
            spec = infer_spec(op, tuple([specs[i] for i in inputs]), attrs, key)
        node_id = self._append(op, inputs, attrs, key, spec, location)
        if number is not None:
            self._value_numbers[number] = node_id
        return node_id

    def add_placeholder(
        self, spec: TensorSpec, name: str | None = None, location: Location | None = None
    ) -> int:
        """A new input of the graph, after those that it has."""
        if name is None:
            name = spec.name or f"arg{len(self.placeholders)}"
        node_id = self._append(PLACEHOLDER, (), (name,), name, _intern(spec), location)
        self.placeholders.append(node_id)
        return node_id

    def add_constant(self, value: npt.ArrayLike, location: Location | None = None) -> int:
        """The node that holds a copy of `value`, shared with an equal small constant (bit for
        bit)."""
        array = np.asarray(value)
        if array.nbytes <= SMALL_CONSTANT_BYTES:
            found = self._value_numbers.get((CONSTANT, _constant_key(array)))
            if found is not None:
                return found
        array = np.array(array, dtype=canonical_dtype(array.dtype), order="C", copy=True)
        array.flags.writeable = False
        return self._append_constant(array, location)

    def _append_constant(self, array: Array, location: Location | None) -> int:
        slot = len(self.constants)
        self.constants.append(array)
        spec = spec_of(array.shape, array.dtype)
        node_id = self._append(CONSTANT, (), (slot,), slot, spec, location)
        self._value_numbers[(CONSTANT, _constant_key(array))] = node_id
        return node_id

    def constant_value(self, node_id: int) -> Array | None:
        """The read-only value of a constant node; None for any other node."""
        if self.ops[node_id] is not CONSTANT:
            return None
        return self.constants[cast(int, self.attrs[node_id][0])]

    def copy_node(self, source: Graph, node_id: int, inputs: Sequence[int]) -> int:
        """The node of `source` with that id, entered here with other inputs of the same specs.

        Placeholders become new placeholders; big constants are shared, not copied.
        """
        op = source.ops[node_id]
        location = source.locations[node_id]
        if op is PLACEHOLDER:
            spec = cast(TensorSpec, source.specs[node_id])
            return self.add_placeholder(spec, cast(str, source.attrs[node_id][0]), location)
        if op is CONSTANT:
            array = source.constants[cast(int, source.attrs[node_id][0])]
            if array.nbytes <= SMALL_CONSTANT_BYTES:
                return self.add_constant(array, location)
            found = self._value_numbers.get((CONSTANT, _constant_key(array)))
            return self._append_constant(array, location) if found is None else found
        attrs, key = source.attrs[node_id], source._attrs_keys[node_id]
        return self._add(op, tuple(inputs), attrs, key, source.specs[node_id], location)

    def copy_next(self, source: Graph, node_id: int) -> bool:
        """Copies a node with its very inputs, if this graph is the source up to there; otherwise
        does nothing. Placeholders and constants are not copied in this way."""
        op, inputs = source.ops[node_id], source.inputs[node_id]
        if len(self.ops) != node_id or not inputs:
            return False
        key = source._attrs_keys[node_id]
        if op.is_pure:
            number = (op, inputs, key)
            if self._value_numbers.setdefault(number, node_id) != node_id:
                return False
        self.ops.append(op)
        self.inputs.append(inputs)
        self.attrs.append(source.attrs[node_id])
        self._attrs_keys.append(key)
        self.specs.append(source.specs[node_id])
        self.locations.append(source.locations[node_id])
        return True

    def picks(self, node_id: int, location: Location | None = None) -> tuple[int, ...]:
        """The values of a node, one id each: itself, or a pick of each where it yields several."""
        spec = self.specs[node_id]
        if not isinstance(spec, tuple):
            return (node_id,)
        return tuple(self.add(PICK, (node_id,), (k,), location) for k in range(len(spec)))

    def spec(self, node_id: int) -> TensorSpec:
        """The spec of a node that yields one value."""
        found = self.specs[node_id]
        if isinstance(found, tuple):
            raise GraphError(f"%{node_id} yields {len(found)} values; pick one of them")
        return found

    def users(self) -> list[list[int]]:
        """For each node the ids of the nodes that take its value, ascending, each once."""
        users: list[list[int]] = [[] for _ in self.ops]
        for user, inputs in enumerate(self.inputs):
            for i in inputs:
                listed = users[i]
                if not listed or listed[-1] != user:
                    listed.append(user)
        return users


def graphs_equal(a: Graph, b: Graph) -> bool:
    """Whether two graphs have the same nodes, constants and outputs.

    Names of graphs and source locations do not count; sub-graphs are compared in the same way, and
    constants bit for bit.
    """
    pending = [(a, b)]
    seen: set[tuple[int, int]] = set()
    while pending:
        left, right = pending.pop()
        if left is right or (id(left), id(right)) in seen:
            continue
        seen.add((id(left), id(right)))
        if (
            len(left) != len(right)
            or left.inputs != right.inputs
            or left.specs != right.specs
            or left.placeholders != right.placeholders
            or left.outputs != right.outputs
        ):
            return False
        for i, (p, q) in enumerate(zip(left.ops, right.ops, strict=True)):
            if p is not q:
                if p.name != q.name or len(p.subgraphs) != len(q.subgraphs) or not p.subgraphs:
                    return False
                pending.extend(zip(p.subgraphs, q.subgraphs, strict=True))
            if p is CONSTANT:
                x, y = left.constant_value(i), right.constant_value(i)
                assert x is not None
                assert y is not None
                if x.tobytes() != y.tobytes():
                    return False
            elif attrs_key(left.attrs[i]) != attrs_key(right.attrs[i]):
                return False
    return True
