"""The functions that users give to control flow, as functions of lists of tensors, and what loops
carry."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tapeline.runtime import nest
from tapeline.runtime.dispatch import users
from tapeline.runtime.errors import ArgumentTypeError, ShapeError, StateError
from tapeline.runtime.spec import TensorSpec, spec_of
from tapeline.runtime.tensor import Tensor, as_tensor, wrap

Function = Callable[..., Any]


class Body:
    """A user's function on structures, as one on lists of tensors; keeps what it gave."""

    def __init__(self, name: str, function: Function, structure: Any) -> None:
        if not callable(function):
            raise ArgumentTypeError(
                f"{name}: expected a function, got {type(function).__name__} {function!r}"
            )
        self.name = name
        self.function = function
        self.structure = structure
        self.result: Any = None

    def __call__(self, *leaves: Tensor) -> list[Tensor]:
        """The leaves of what the function gives for these leaves of its arguments."""
        self.result = users(self.function)(*nest.unflatten(self.structure, leaves))
        return [as_tensor(leaf, argument=self.name) for leaf in nest.flatten(self.result)]


def fresh(tensor: Tensor) -> Tensor:
    """A cell of its own with the same value: a body may write to it."""
    return wrap(tensor._value, tensor._node)


def tensor_spec(tensor: Tensor) -> TensorSpec:
    """The spec of a tensor, of a trace or not."""
    return spec_of(tensor.shape, tensor.dtype)


def describe(spec: TensorSpec) -> str:
    """What a person calls a spec."""
    return f"{spec.dtype.name} of shape {spec.shape}"


def as_condition(name: str, pred: Any) -> Tensor:
    """What decides, which must be one bool; `name` is for the error."""
    tensor = as_tensor(pred, argument=name)
    if tensor.ndim or tensor.dtype.kind != "b":
        raise ShapeError(
            f"{name}: expected one bool, got {describe(tensor_spec(tensor))}; compare, or use "
            "tl.any or tl.all"
        )
    return tensor


class Carried:
    """What a loop carries: a structure, as leaves, that a body must give back alike."""

    def __init__(self, name: str, structure: Any) -> None:
        self.name = name
        self.is_row = isinstance(structure, list | tuple) and not hasattr(structure, "_fields")
        self.structure = structure
        self.leaves = [as_tensor(leaf, argument=name) for leaf in nest.flatten(structure)]
        self.specs = [tensor_spec(leaf) for leaf in self.leaves]

    def arguments(self, leaves: Sequence[Tensor]) -> tuple[Any, ...]:
        """The arguments for the user's functions: the items of a list or a tuple, or the whole."""
        whole = self.pack(leaves)
        return tuple(whole) if self.is_row else (whole,)

    def pack(self, leaves: Sequence[Tensor]) -> Any:
        """The structure with these leaves."""
        return nest.unflatten(self.structure, leaves)

    def take(self, result: Any) -> list[Tensor]:
        """The leaves of what a body gives; a Python number takes the dtype that it had before."""
        if self.is_row:
            result = list(result) if isinstance(result, list | tuple) else [result]
            nest.assert_same_structure(list(self.structure), result)
        else:
            nest.assert_same_structure(self.structure, result)
        tensors = []
        for number, (leaf, spec) in enumerate(zip(nest.flatten(result), self.specs, strict=True)):
            is_weak = type(leaf) in (bool, int, float)
            tensor = as_tensor(leaf, spec.dtype if is_weak else None, self.name)
            if tensor_spec(tensor) != spec:
                raise StateError(
                    f"{self.name}: what it carries must stay alike, but leaf {number} is "
                    f"{describe(spec)} before a turn and {describe(tensor_spec(tensor))} after it; "
                    "cast or reshape it before the loop, or in the body"
                )
            tensors.append(tensor)
        return tensors
