"""What goes round a loop: where a value lives, and the form in which each round takes it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tapeline.compiler.frontend.convert.blocktrace import Leaf
from tapeline.compiler.frontend.convert.containers import Slot
from tapeline.compiler.frontend.convert.state import is_symbolic
from tapeline.compiler.frontend.convert.unify import Joined, describe, is_number
from tapeline.runtime import nest
from tapeline.runtime.errors import PathError
from tapeline.runtime.ops.shaping import broadcast_to
from tapeline.runtime.spec import spec_of
from tapeline.runtime.tensor import Tensor, as_tensor


class DriftError(PathError):
    """A variable does not keep its type; `is_tensor` says whether it is a tensor at the start."""

    is_tensor = False


@dataclass(slots=True, eq=False)
class Carried:
    """One value that goes round: where it lives, and the spec of each of its tensors."""

    place: Any
    """The position of a variable, a `Slot`, a `Tensor` cell, or a Variable."""
    name: str
    structure: Any
    wanted: list[Any]
    """A `Joined`, or the Python object that stays, per leaf."""
    initial: list[Any]
    """The leaves at the start; None for a variable that the first round defines."""
    is_late: bool = False
    entered: Any = None
    """The value in the last trace of the body, and what it held then."""
    held: Any = None
    is_kept: bool = False
    """Whether a round leaves the very object there that it found."""

    @property
    def shown_place(self) -> str | Slot:
        """What messages name it by."""
        return self.place if isinstance(self.place, Slot) else self.name


def identity_of(place: Any) -> Any:
    """What tells a place from another one."""
    if type(place) is int:
        return place
    if isinstance(place, Slot):
        return place.identity
    return ("cell" if type(place) is Tensor else "variable"), id(place)


def input_form(leaf: Any) -> Any:
    """The form in which a leaf of outside enters a round."""
    if type(leaf) is Tensor:
        weak = getattr(leaf._value, "weak", None)
        return Joined(spec_of(leaf.shape, leaf.dtype), weak)
    if is_number(leaf):
        return Joined(spec_of((), np.dtype(type(leaf))), type(leaf))
    return leaf


def output_form(leaf: Any) -> Any:
    """The form of a leaf that a round gave."""
    if type(leaf) is Leaf:
        return Joined(leaf.spec, leaf.weak)
    return input_form(leaf)


def initial_tensor(leaf: Any, wanted: Joined) -> Tensor:
    """A leaf at the start, in the form that was agreed on."""
    tensor = as_tensor(leaf, wanted.spec.dtype)
    shape = wanted.spec.static_shape
    return tensor if tensor.shape == shape else broadcast_to(tensor, shape)


def describe_python(value: Any) -> str:
    """What a person calls a value of outside."""
    if nest.is_leaf(value):
        return (
            describe(Leaf(0, spec_of(value.shape, value.dtype), None))
            if is_symbolic(value)
            else describe(value)
        )
    return "None" if value is None else f"a {type(value).__name__}"
