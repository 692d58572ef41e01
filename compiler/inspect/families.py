"""Sorts nodes into a few kinds that people think in. Reads the op's record, never its name."""

from __future__ import annotations

from tapeline.compiler.ir.graph import Graph
from tapeline.compiler.ir.structure_ops import CONSTANT, PICK, PLACEHOLDER, SIZE
from tapeline.runtime.op import (
    Assembly,
    Expansion,
    IndexMap,
    LibraryCall,
    Op,
    Pointwise,
    Reduction,
)

INPUT = "input"
LITERAL = "constant"
ELEMENTWISE = "elementwise"
REDUCTION = "reduction"
PRODUCT = "product, gather"
MOVEMENT = "data movement"
COMPOSITE = "composite"
CALL = "call of a graph"
HOST = "NumPy call"

FAMILIES = (INPUT, LITERAL, ELEMENTWISE, REDUCTION, PRODUCT, MOVEMENT, COMPOSITE, CALL, HOST)
"""All families, in the order in which they are listed."""


def family_of(op: Op) -> str:
    """The family of an op: what kind of work its lowering is."""
    if op is PLACEHOLDER:
        return INPUT
    if op is CONSTANT or op is SIZE:
        return LITERAL
    if op.subgraphs:
        return CALL
    if op is PICK:
        return MOVEMENT
    match op.lowering:
        case Pointwise():
            return ELEMENTWISE
        case Reduction():
            return REDUCTION
        case LibraryCall(name="matmul"):
            return PRODUCT
        case LibraryCall():
            return MOVEMENT
        case IndexMap() | Assembly():
            return MOVEMENT
        case Expansion():
            return COMPOSITE
        case _:
            return HOST


def family_of_node(graph: Graph, node_id: int) -> str:
    """The family of the op that a node applies."""
    return family_of(graph.ops[node_id])
