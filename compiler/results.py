"""How the results of a trace are put together from the outputs of its graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np

from tapeline.compiler.calling import ShownText, show_spec
from tapeline.compiler.frontend.symbol import Symbol
from tapeline.compiler.ir.structure_ops import SIZE
from tapeline.runtime import nest
from tapeline.runtime.spec import TensorSpec
from tapeline.runtime.tensor import Tensor

Form: TypeAlias = Literal["single", "tuple", "list", "none", "other"]


@dataclass(frozen=True, slots=True)
class Output:
    """Stands for a tensor among the results; the position of its value among the graph's
    outputs."""

    index: int
    is_number: bool = False
    """Whether it comes back as a Python number: a size that values tell, or what the program made
    of numbers that its trace leaves open."""


class Results:
    """The structure that a function returned, and its leaves: an `Output` for each tensor, and
    values that are the same for each call."""

    __slots__ = ("leaves", "structure")

    def __init__(self, structure: Any, leaves: Sequence[Any]) -> None:
        self.structure = structure
        self.leaves = list(leaves)

    @classmethod
    def of_template(cls, structure: Any, leaves: Sequence[tuple[int | None, Any]]) -> Results:
        """Results of what `template` says."""
        return cls(structure, [value if k is None else Output(k, value) for k, value in leaves])

    @property
    def template(self) -> tuple[Any, list[tuple[int | None, Any]]]:
        """The structure, and its leaves: (position of the output, whether it comes back as a Python
        number) for a tensor, else (None, value)."""
        leaves: list[tuple[int | None, Any]] = [
            (leaf.index, leaf.is_number) if type(leaf) is Output else (None, leaf)
            for leaf in self.leaves
        ]
        return self.structure, leaves

    def marked(self) -> tuple[Any, list[tuple[Any, int | None, Any]]]:
        """The structure with a marker for each leaf, and per marker what it stands for, as in
        `template`."""
        leaves = self.template[1]
        markers = [object() for _ in leaves]
        structure = nest.unflatten(self.structure, markers)
        return structure, [
            (marker, k, value) for marker, (k, value) in zip(markers, leaves, strict=True)
        ]

    @property
    def form(self) -> Form:
        """What they are: a tensor, a flat tuple or list of all outputs in order, None, or
        otherwise."""
        if self.structure is None:
            return "none"
        in_order = [
            type(leaf) is Output and leaf.index == k and not leaf.is_number
            for k, leaf in enumerate(self.leaves)
        ]
        if not all(in_order):
            return "other"
        if nest.is_leaf(self.structure):
            return "single"
        flat = all(nest.is_leaf(child) for child in nest.children(self.structure))
        if flat and type(self.structure) is tuple:
            return "tuple"
        return "list" if flat and type(self.structure) is list else "other"

    @property
    def has_numbers(self) -> bool:
        """Whether some are Python numbers that differ from call to call."""
        return any(type(leaf) is Output and leaf.is_number for leaf in self.leaves)

    def mapped(self, function: Callable[[Any], Any]) -> Results:
        """The same structure with what a function makes of each leaf."""
        return Results(self.structure, list(map(function, self.leaves)))

    def filled(self, outputs: Sequence[Any]) -> Any:
        """The structure with one of these in the place of each tensor."""
        return nest.unflatten(
            self.structure,
            [outputs[leaf.index] if type(leaf) is Output else leaf for leaf in self.leaves],
        )

    def shown(self, specs: Sequence[TensorSpec]) -> str:
        """A line that says what they are."""
        return repr(self.filled([ShownText(show_spec(spec)) for spec in specs]))

    def pack(self, *outputs: Tensor) -> Any:
        """The results of a call, from the graph's outputs."""
        leaves = self.leaves
        if len(leaves) == 1 and type(leaves[0]) is Output and nest.is_leaf(self.structure):
            return _value_of(leaves[0], outputs)
        values: list[Any] = []
        for leaf in leaves:
            if type(leaf) is Output:
                values.append(_value_of(leaf, outputs))
            else:
                values.append(leaf.copy() if isinstance(leaf, np.ndarray) else leaf)
        return nest.unflatten(self.structure, values)


def _value_of(leaf: Output, outputs: Sequence[Tensor]) -> Any:
    """An output as it comes back: a number as an int or float, but in a trace around, which may
    leave it open."""
    output = outputs[leaf.index]
    if not leaf.is_number:
        return output
    value = output._value
    if type(value) is Symbol and value.graph.ops[value.id] is SIZE:
        return value.graph.attrs[value.id][0]
    return output.item()
