"""What in the graphs of bodies is a single number, or gets at one element of an array."""

from __future__ import annotations

import numpy as np

from tapeline.compiler.codegen.values import is_supported
from tapeline.compiler.ir.graph import Graph
from tapeline.compiler.ir.structure_ops import PICK, PLACEHOLDER
from tapeline.runtime.op import Branch, LibraryCall, Loop, Pointwise, get_op
from tapeline.runtime.spec import TensorSpec


def is_number(graph: Graph, node: int) -> bool:
    """Whether a node is one number that fits into a register."""
    spec = graph.specs[node]
    return isinstance(spec, TensorSpec) and not spec.shape and is_supported(spec.dtype)


def is_scalar_op(graph: Graph, node: int) -> bool:
    """Whether a node computes a number from numbers, or reads one by its index."""
    if not is_number(graph, node):
        return False
    if isinstance(graph.ops[node].lowering, Pointwise) or graph.ops[node] is get_op("check_index"):
        return all(is_number(graph, i) for i in graph.inputs[node])
    return is_take(graph, node)


def is_take(graph: Graph, node: int) -> bool:
    """Whether a node takes what lies at one index along an axis."""
    lowering = graph.ops[node].lowering
    if not isinstance(lowering, LibraryCall) or lowering.name != "take":
        return False
    array, index = graph.inputs[node]
    return is_number(graph, index) and is_supported(graph.spec(array).dtype)


def is_put(graph: Graph, node: int) -> bool:
    """Whether a node writes one number at one place."""
    if graph.ops[node] is not get_op("put"):
        return False
    return all(is_number(graph, i) for i in graph.inputs[node][1:])


def in_register(graph: Graph, node: int) -> bool:
    """Whether a body has the value in a register."""
    op = graph.ops[node]
    if not is_number(graph, node):
        return False
    if op is PICK:
        op = graph.ops[graph.inputs[node][0]]
    return op is PLACEHOLDER or isinstance(op.lowering, Branch | Loop) or is_scalar_op(graph, node)


def row_put_index(graph: Graph, node: int) -> int | None:
    """The node of the index, where a node writes one entry along the first axis of an array."""
    if graph.ops[node] is not get_op("put"):
        return None
    array, places, value = graph.inputs[node]
    if not is_take(graph, places) or graph.attrs[places] != (0,):
        return None
    table, index = graph.inputs[places]
    constant, spec = graph.constant_value(table), graph.spec(array)
    if constant is None or constant.shape != spec.shape or spec.ndim < 2:
        return None
    if not is_supported(spec.dtype) or graph.spec(value).ndim >= spec.ndim:
        return None
    in_order = np.arange(spec.size).reshape(spec.static_shape)
    return index if np.array_equal(constant, in_order) else None
