"""Arrays on the paths of a branch and in the rounds of a loop.

An array of NumPy is a tensor where another path or round has one. A `TensorArray` that nothing
was written to yet takes dtype and shape of what another path or round wrote; one that grows is no
matter for a graph.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tapeline.compiler.frontend.capture import CapturingGraph
from tapeline.compiler.frontend.convert.blocktrace import BlockTrace, Leaf, Value, add_number
from tapeline.compiler.frontend.convert.unify import Joined
from tapeline.runtime import nest
from tapeline.runtime.errors import DynamicShapeError
from tapeline.runtime.ops import creation
from tapeline.runtime.tensor_array import TensorArray


def is_plain_array(leaf: Any) -> bool:
    """Whether a leaf is an array or a scalar of NumPy that a tensor can stand for."""
    is_array = type(leaf) is np.ndarray or isinstance(leaf, np.generic)
    return is_array and leaf.dtype.kind in "biufc"


def with_tensors(value: Any) -> Any:
    """The value with tensors in the place of NumPy's arrays; None if it has none of those."""
    if not any(map(is_plain_array, nest.flatten(value))):
        return None
    return nest.map_structure(
        lambda leaf: creation.asarray(leaf, copy=True) if is_plain_array(leaf) else leaf, value
    )


def as_leaves(pair: tuple[Value, Value], traces: tuple[BlockTrace, BlockTrace]) -> list[Value]:
    """The values that a variable has on two paths, with nodes for NumPy's arrays but for those that
    are on both."""
    if len(pair[0].leaves) != len(pair[1].leaves):
        return list(pair)
    made = []
    for value, other, traced in zip(pair, pair[::-1], traces, strict=True):
        leaves = [
            _node_of(traced.graph, leaf) if is_plain_array(leaf) and leaf is not across else leaf
            for leaf, across in zip(value.leaves, other.leaves, strict=True)
        ]
        made.append(Value(value.original, tuple(leaves)))
    return made


def as_carried(value: Value, wanted: Sequence[Any], graph: CapturingGraph) -> Value:
    """What a variable is after a round, with nodes for NumPy's arrays where it goes round as
    tensors."""
    if len(value.leaves) != len(wanted):
        return value
    leaves = [
        _node_of(graph, leaf) if is_plain_array(leaf) and type(form) is Joined else leaf
        for leaf, form in zip(value.leaves, wanted, strict=True)
    ]
    return Value(value.original, tuple(leaves))


def _node_of(graph: CapturingGraph, array: Any) -> Leaf:
    node = graph.add_constant(np.array(array))
    return Leaf(node, graph.spec(node), None)


def is_blank(value: Any) -> bool:
    """Whether it is an array of fixed size whose elements are of unknown dtype or shape."""
    if type(value) is not TensorArray or value.dynamic_size:
        return False
    return value.dtype is None or value.element_shape is None


def blank_like(value: Any, other: Any) -> Any:
    """The array that nothing was written to, for elements like those of another one; None if that
    is not what they are."""
    if is_blank(value) and type(other) is TensorArray and not is_blank(other):
        return value.like(other)
    return None


def align(pair: tuple[Value, Value], traces: tuple[BlockTrace, BlockTrace]) -> list[Value]:
    """The values that a variable has on two paths, with a blank array made like the other one."""
    made = list(pair)
    for side in (0, 1):
        value, other = made[side].original, made[1 - side].original
        array = blank_like(value, other)
        if array is None:
            continue
        graph = traces[side].graph
        shape = (array.size(), *array.element_shape)
        node = add_number(graph, 0, array.dtype, shape)
        made[side] = Value(array, (Leaf(node, graph.spec(node), None),))
    return made


def refuse_growth(what: str, name: str, before: Any, after: Any) -> None:
    """Raises an error if an array has one size here and another one there, as tensors decide."""
    if type(before) is not TensorArray or type(after) is not TensorArray:
        return
    if before.dynamic_size and before.size() != after.size():
        raise DynamicShapeError(
            f"{what} depends on a tensor and changes the size of the TensorArray {name!r}, so only "
            "such loops run as native code; give it its size and dynamic_size=False for the rest"
        )
