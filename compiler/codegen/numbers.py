"""What in the graphs of bodies is a single number, or gets at one element of an array."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from tapeline.compiler.codegen.values import is_supported
from tapeline.compiler.ir.graph import Graph
from tapeline.compiler.ir.structure_ops import CONSTANT, PICK, PLACEHOLDER
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


_CHEAP = frozenset(
    map(get_op, (
        "add", "subtract", "multiply", "negative", "abs", "minimum", "maximum", "where",
        "bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_invert", "logical_and", "logical_or",
        "logical_not", "logical_xor", "equal", "not_equal", "less", "less_equal", "greater",
        "greater_equal", "cast", "identity",
    ))
)  # fmt: skip
_SHIFTS = frozenset(map(get_op, ("floor_divide", "remainder")))
"""Cheap where the divisor is a power of two."""
FEW_STEPS = 3


def is_read(graph: Graph, node: int, fixed: Collection[int]) -> bool:
    """Whether a condition depends on elements of arrays, and otherwise on nothing but constants and
    `fixed` placeholders: what it will be next is hard to guess then."""
    found, pending = False, [node]
    while pending:
        node = pending.pop()
        if is_take(graph, node):
            found = True
        elif graph.ops[node] is PLACEHOLDER:
            if node not in fixed:
                return False
        elif not is_number(graph, node) or graph.ops[node] is PICK:
            return False
        else:
            pending += graph.inputs[node]
    return found


def is_cheap(graph: Graph, most_of_floats: int = 0) -> bool:
    """Whether a branch is a few quick steps on ints and bools, with at most so many on floats: both
    branches are then computed sooner than a processor recovers from a wrong guess."""
    steps = of_floats = 0
    for node, op in enumerate(graph.ops):
        if not is_number(graph, node):
            if op is PLACEHOLDER:
                continue
            return False
        if op is PLACEHOLDER or op is CONSTANT:
            continue
        steps += 1
        of_floats += graph.spec(node).dtype.kind == "f"
        if of_floats > most_of_floats or steps > FEW_STEPS:
            return False
        if op in _SHIFTS:
            divisor = graph.constant_value(graph.inputs[node][1])
            if divisor is None or divisor.dtype.kind not in "iu" or not _is_power(int(divisor)):
                return False
        elif op not in _CHEAP:
            return False
    kinds = "biuf" if most_of_floats else "biu"
    return all(
        is_number(graph, node) and graph.spec(node).dtype.kind in kinds for node in graph.outputs
    )


def _is_power(number: int) -> bool:
    return number > 0 and number & (number - 1) == 0


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
