"""The values of two blocks being joined to what one op gives."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import numpy as np

from tapeline.compiler.frontend.convert.arrays import as_leaves
from tapeline.compiler.frontend.convert.blocktrace import (
    BlockTrace,
    Leaf,
    Value,
)
from tapeline.compiler.frontend.convert.nodes import apply_cond, mark_weak
from tapeline.compiler.frontend.convert.sameness import (
    ALWAYS,
    Same,
    When,
    either,
    link,
    partners,
    related,
    same,
)
from tapeline.compiler.frontend.convert.unify import (
    Joined,
    MismatchError,
    join_values,
    node_of,
    zeros,
)
from tapeline.runtime import nest
from tapeline.runtime.spec import spec_of
from tapeline.runtime.tensor import Tensor

_FLAG = Joined(spec_of((), np.dtype(np.bool_)), None)
_Sides: TypeAlias = tuple[Tensor | None, Tensor | None]


class Choice:
    """The values of two blocks being joined; collects the outputs of both."""

    def __init__(self, then: BlockTrace, other: BlockTrace) -> None:
        self.traces = then, other
        self.outputs: tuple[list[int], list[int]] = ([], [])
        self.joined: list[Joined] = []
        self._tensors: dict[int, _Sides] = {}
        """By position, the tensors that a result is on the two sides."""
        self._results: list[Tensor] = []
        self._late: list[tuple[int, list[Tensor]]] = []
        """Conditions of the blocks, by position, and where they go once they are there."""

    def add_node(self, a: int, b: int, wanted: Joined, tensors: _Sides = (None, None)) -> int:
        """A pair of nodes; the answer is the position of the result."""
        position = len(self.joined)
        self.outputs[0].append(a)
        self.outputs[1].append(b)
        self.joined.append(wanted)
        if wanted.weak is None and tensors != (None, None):
            self._tensors[position] = tensors
        return position

    def join(self, a: Value, b: Value) -> Callable[[], Any]:
        """Joins two values; what is returned gives the result once the op is applied."""
        a, b = as_leaves((a, b), self.traces)
        leaves = join_values(a, b)
        made = []
        for leaf, x, y in zip(leaves, a.leaves, b.leaves, strict=True):
            if type(leaf) is Joined:
                nodes = node_of(self.traces[0], x, leaf), node_of(self.traces[1], y, leaf)
                made.append(self.add_node(*nodes, leaf, (_tensor_of(x), _tensor_of(y))))
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
                tensor = _tensor_of(leaf)
                sides = (None, tensor) if side else (tensor, None)
                made.append(self.add_node(nodes[0], nodes[1], wanted, sides))
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
        found = list(self._samenesses())
        results = apply_cond(condition, self.traces, self.outputs)
        self._results = [
            mark_weak(tensor, wanted.weak)
            for tensor, wanted in zip(results, self.joined, strict=False)
        ]
        for position, place in self._late:
            place.append(self._results[position])
        for position, other, sides in found:
            when = either(condition, *sides)
            tensor = self._results[other] if isinstance(other, int) else other
            if when is not None:
                link(self._results[position], tensor, when)

    def cell(self, position: int) -> Tensor:
        """The result at a position."""
        return self._results[position]

    def let_go(self) -> None:
        """Lets go of the tensors of outside, so that none lives for this."""
        for traced in self.traces:
            traced.graph.let_go()

    # ---- what may be one object afterwards

    def _samenesses(self) -> Iterator[tuple[int, int | Tensor, tuple[Same, Same]]]:
        """The results that may be tensors of outside, or other results: when, on either side."""
        for position, sides in list(self._tensors.items()):
            outside = {
                id(tensor): tensor
                for side in (0, 1)
                for tensor in self._may_be(sides[side], side)
                if not self._is_inside(tensor, side)
            }
            for tensor in outside.values():
                yield position, tensor, self._when(sides, (tensor, tensor))
        results = list(self._tensors.items())
        pairs: set[tuple[int, int]] = set()
        for side, traced in enumerate(self.traces):
            pairs |= related([sides[side] for _, sides in results], traced.graph)
        for a, b in sorted(pairs):
            (position, first), (other, second) = results[a], results[b]
            yield position, other, self._when(first, second)

    def _may_be(self, tensor: Tensor | None, side: int) -> Iterator[Tensor]:
        if tensor is not None:
            yield tensor
            for other, _ in partners(tensor, self.traces[side].graph):
                yield other

    def _is_inside(self, tensor: Tensor, side: int) -> bool:
        traced = self.traces[side]
        return id(tensor) in traced.own or traced.graph.made(tensor)

    def _when(self, sides: _Sides, others: _Sides) -> tuple[Same, Same]:
        first, second = (
            self._outside(same(sides[side], others[side], self.traces[side].graph), side)
            for side in (0, 1)
        )
        return first, second

    def _outside(self, when: Same, side: int) -> Same:
        """A condition of a block as one of the trace around."""
        graph = self.traces[side].graph
        if when is None or when is ALWAYS or not when.is_of(graph):
            return when
        if when.node is None:
            return None
        nodes = [0, 0]
        nodes[side] = when.node
        nodes[1 - side] = self.traces[1 - side].graph.add_constant(np.array(False))
        position = self.add_node(nodes[0], nodes[1], _FLAG)
        place: list[Tensor] = []
        self._late.append((position, place))
        made = When(lambda: place[0])
        made.is_left = when.is_left
        return made


def _tensor_of(leaf: Any) -> Tensor | None:
    return leaf.tensor if type(leaf) is Leaf else None
