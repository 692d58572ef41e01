"""`TensorArray`s on the paths of a branch and in the rounds of a loop: one that nothing was written
to yet takes dtype and shape of what another path or round wrote; one that grows is no matter for a
graph."""

from __future__ import annotations

from typing import Any

from tapeline.compiler.frontend.convert.blocktrace import BlockTrace, Leaf, Value, add_number
from tapeline.runtime.errors import DynamicShapeError
from tapeline.runtime.tensor_array import TensorArray


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
