"""The truth value of tensors, and what `not` and `in` mean for them."""

from __future__ import annotations

from typing import Any

from tapeline.compiler.frontend.convert.state import (
    is_symbolic,
)
from tapeline.runtime.errors import ArgumentError
from tapeline.runtime.ops.logic import logical_not
from tapeline.runtime.tensor import Tensor, as_tensor

_BOOL = "bool"


def as_condition(x: Any) -> Tensor:
    """The truth value of a tensor of one element, as a bool tensor of no dimensions.

    Raises
    ------
    ArgumentError
        (a ValueError, as NumPy's) if it has more elements.
    """
    tensor = as_tensor(x)
    if tensor.size != 1:
        raise ArgumentError(
            f"the truth value of a tensor of shape {tensor.shape} is ambiguous; "
            "use .any() or .all(), or tl.where to choose element by element"
        )
    if tensor.shape:
        tensor = tensor.reshape(())
    return as_tensor(tensor, _BOOL)


def negate(x: Any) -> Tensor:
    """`not x`"""
    return logical_not(as_condition(x))


def contained(item: Any, container: Any) -> Any:
    """`item in container`"""
    if is_symbolic(container):
        return (as_tensor(container) == item).any()
    if not isinstance(container, list | tuple | range | set | frozenset):
        return item in container
    if not (is_symbolic(item) or any(map(is_symbolic, container))):
        return item in container
    found: Any = False
    for candidate in container:
        equal = as_condition(item == candidate)
        found = equal if found is False else found | equal
    return found
