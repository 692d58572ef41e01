"""The values of two blocks being joined to what one op gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tapeline.compiler.frontend.convert.arrays import as_leaves
from tapeline.compiler.frontend.convert.blocktrace import (
    BlockTrace,
    Value,
)
from tapeline.compiler.frontend.convert.nodes import apply_cond, mark_weak
from tapeline.compiler.frontend.convert.unify import (
    Joined,
    MismatchError,
    join_values,
    node_of,
    zeros,
)
from tapeline.runtime import nest
from tapeline.runtime.tensor import Tensor


class Choice:
    """The values of two blocks being joined; collects the outputs of both."""

    def __init__(self, then: BlockTrace, other: BlockTrace) -> None:
        self.traces = then, other
        self.outputs: tuple[list[int], list[int]] = ([], [])
        self.joined: list[Joined] = []
        self._results: list[Tensor] = []

    def add_node(self, a: int, b: int, wanted: Joined) -> int:
        """A pair of nodes; the answer is the position of the result."""
        self.outputs[0].append(a)
        self.outputs[1].append(b)
        self.joined.append(wanted)
        return len(self.joined) - 1

    def join(self, a: Value, b: Value) -> Callable[[], Any]:
        """Joins two values; what is returned gives the result once the op is applied."""
        a, b = as_leaves((a, b), self.traces)
        leaves = join_values(a, b)
        made = []
        for leaf, x, y in zip(leaves, a.leaves, b.leaves, strict=True):
            if type(leaf) is Joined:
                nodes = node_of(self.traces[0], x, leaf), node_of(self.traces[1], y, leaf)
                made.append(self.add_node(*nodes, leaf))
            else:
                made.append(leaf)
        return self._rebuild(a.original, leaves, made)

    def take(self, value: Value, side: int) -> Callable[[], Any]:
        """The value of one block; nobody will look at it where the other one runs."""
        leaves = []
        made = []
        for leaf in value.leaves:
            try:
                wanted = join_values(Value(None, (leaf,)), Value(None, (leaf,)))[0]
            except MismatchError:
                wanted = leaf
            leaves.append(wanted)
            if type(wanted) is Joined:
                nodes = [zeros(traced, wanted) for traced in self.traces]
                nodes[side] = node_of(self.traces[side], leaf, wanted)
                made.append(self.add_node(nodes[0], nodes[1], wanted))
            else:
                made.append(leaf)
        return self._rebuild(value.original, tuple(leaves), made)

    def _rebuild(
        self, structure: Any, leaves: tuple[Any, ...], made: list[Any]
    ) -> Callable[[], Any]:
        def result() -> Any:
            values = [
                self._results[x] if type(leaf) is Joined else x
                for leaf, x in zip(leaves, made, strict=True)
            ]
            return nest.unflatten(structure, values)

        return result

    def apply(self, condition: Tensor) -> None:
        """Adds the op to the graph around."""
        results = apply_cond(condition, self.traces, self.outputs)
        self._results = [
            mark_weak(tensor, wanted.weak)
            for tensor, wanted in zip(results, self.joined, strict=False)
        ]

    def cell(self, position: int) -> Tensor:
        """The result at a position."""
        return self._results[position]
