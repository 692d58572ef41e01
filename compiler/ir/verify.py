"""The rules of a valid graph, and the check of all of them."""

from __future__ import annotations

from typing import cast

from tapeline.compiler.ir.graph import Graph, NodeSpec, attrs_key, infer_spec
from tapeline.compiler.ir.structure_ops import CONSTANT, PICK, PLACEHOLDER
from tapeline.compiler.ir.text import subgraphs_first_use
from tapeline.runtime.errors import GraphError, TapelineError


def verify_graph(graph: Graph) -> None:
    """Checks a graph and all its sub-graphs.

    The rules: the parallel lists have one length; a node's inputs come before it, as many as its op
    takes; attributes are hashable, no more than the op names; the spec is what the op infers, and
    says as many values as the op has outputs; a value of several parts is only taken apart by
    `pick`, and is no output; `placeholders` lists every placeholder once; constants
    exist, are read-only and fit their spec; pure nodes are not repeated.

    Raises
    ------
    GraphError
        That names the graph, the node and the broken rule.
    """
    for g in subgraphs_first_use(graph):
        try:
            _verify_lists(g)
            seen: dict[object, int] = {}
            for i in range(len(g)):
                try:
                    _verify_node(g, i, seen)
                except GraphError as error:
                    place = "" if g.locations[i] is None else f" made at {g.locations[i]}"
                    raise GraphError(f"%{i} = {g.ops[i].name}{place}: {error}") from error
        except GraphError as error:
            raise GraphError(f"graph {g.name}: {error}") from error


def _verify_lists(graph: Graph) -> None:
    count = len(graph.ops)
    for name in ("inputs", "attrs", "specs", "locations"):
        if len(getattr(graph, name)) != count:
            found = len(getattr(graph, name))
            raise GraphError(f"the list {name} has {found} entries for {count} nodes")
    expected = [i for i, op in enumerate(graph.ops) if op is PLACEHOLDER]
    if sorted(graph.placeholders) != expected:
        raise GraphError(
            f"`placeholders` lists {graph.placeholders}, but placeholder nodes are {expected}"
        )
    for i in graph.outputs:
        if not 0 <= i < count:
            raise GraphError(f"the output %{i} is no node; there are {count}")
        if isinstance(graph.specs[i], tuple):
            raise GraphError(f"the output %{i} is a value of several parts; pick one of them")


def _verify_node(graph: Graph, node_id: int, seen: dict[object, int]) -> None:
    op, inputs, attrs = graph.ops[node_id], graph.inputs[node_id], graph.attrs[node_id]
    spec = graph.specs[node_id]
    if op.n_inputs is not None and len(inputs) != op.n_inputs:
        raise GraphError(f"takes {op.n_inputs} inputs, but has {len(inputs)}")
    for i in inputs:
        if not 0 <= i < node_id:
            raise GraphError(f"its input %{i} does not come before it")
        if isinstance(graph.specs[i], tuple) and op is not PICK:
            raise GraphError(f"its input %{i} is a value of several parts; pick one of them")
    if len(attrs) > len(op.attr_names):
        raise GraphError(f"has attributes {attrs}, but its op names {op.attr_names}")
    try:
        key = attrs_key(attrs)
        hash(key)
    except TypeError as error:
        raise GraphError(f"its attributes {attrs} are not hashable") from error
    if op is PLACEHOLDER:
        return
    if op is CONSTANT:
        _verify_constant(graph, node_id)
        return
    _verify_spec(graph, node_id, spec, key)
    if op.is_pure:
        first = seen.setdefault((op, inputs, key), node_id)
        if first != node_id:
            raise GraphError(f"repeats %{first}")


def _verify_constant(graph: Graph, node_id: int) -> None:
    slot = cast(int, graph.attrs[node_id][0])
    if not 0 <= slot < len(graph.constants):
        raise GraphError(f"there is no constant {slot}; there are {len(graph.constants)}")
    array = graph.constants[slot]
    if array.flags.writeable:
        raise GraphError("its array is not read-only")
    spec = graph.spec(node_id)
    if array.shape != spec.shape or array.dtype != spec.dtype:
        raise GraphError(f"its array is {array.dtype}{array.shape}, but its spec is {spec}")


def _verify_spec(graph: Graph, node_id: int, spec: NodeSpec, key: object) -> None:
    op, attrs = graph.ops[node_id], graph.attrs[node_id]
    count = len(spec) if isinstance(spec, tuple) else None
    if count != op.n_outputs:
        raise GraphError(f"has the spec {spec}, but its op says n_outputs={op.n_outputs}")
    given = tuple(graph.specs[i] for i in graph.inputs[node_id])
    try:
        inferred = infer_spec(op, given, attrs, key)
    except TapelineError as error:
        raise GraphError(f"its op refuses the inputs: {error}") from error
    if inferred != spec:
        raise GraphError(f"has the spec {spec}, but its op infers {inferred}")
