"""Tensors that are one object, or not, as a tensor decides.

After `if p: b = b * 2` the variable `b` is a new tensor where `p` holds, and elsewhere the very
tensor that it was, which may have other names. In a trace both are tensors of their own. What is
known of that is kept here, so that a write to one of them, as by `b[0] = v`, reaches the other one
where they are the same.

Every pair of tensors that may be one object is kept, with the condition under which they are, so a
write looks at the pairs of its tensor only. The pairs belong to the graph (or the `vmap`) in which
they were found, and live as long as both tensors.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from tapeline.compiler.frontend.capture import CapturingGraph
from tapeline.runtime import cells
from tapeline.runtime.batching.level import Level
from tapeline.runtime.dispatch import STATE
from tapeline.runtime.ops.logic import logical_and, logical_not, logical_or
from tapeline.runtime.ops.selection import where
from tapeline.runtime.tensor import Tensor


class When:
    """A condition of the trace, which is made when it is asked for first."""

    __slots__ = ("_compute", "_found", "_handler", "is_asked_late", "is_left", "node")

    def __init__(self, compute: Callable[[], Tensor | None]) -> None:
        self._compute = compute
        self._found: Tensor | None = None
        self._handler = STATE.handler
        self.node: int | None = None
        """In a block that is over, the node of the condition."""
        self.is_left = False
        """Whether writes are left to the end of a loop."""
        self.is_asked_late = False
        """Whether it is made for those only who ask for it while the block is traced."""

    def is_of(self, handler: Any) -> bool:
        """Whether it is a condition of this graph or `vmap`."""
        return self._handler is handler

    def tensor(self) -> Tensor | None:
        """The condition as a tensor; None where it is not known in this attempt of a trace."""
        if self._found is not None:
            return self._found
        made = self._compute()
        if STATE.handler is self._handler:
            self._found = made
        return made


ALWAYS: Final = When(lambda: None)
"""The condition of one object under two names."""

Same: TypeAlias = When | None
"""When two tensors are one object; None: never."""


@dataclass(slots=True)
class _Pairs:
    """A tensor, and those that may be the same object."""

    tensor: weakref.ref[Tensor]
    others: dict[int, tuple[weakref.ref[Tensor], When]]


def link(a: Tensor, b: Tensor, when: When) -> None:
    """From now on a write to one of two tensors reaches the other one under a condition."""
    store = _pairs_of(STATE.handler)
    for one, other in ((a, b), (b, a)):
        pairs = store.get(id(one))
        if pairs is None or pairs.tensor() is not one:
            pairs = store[id(one)] = _Pairs(weakref.ref(one), {})
        pairs.others[id(other)] = weakref.ref(other), when


def _pairs_of(handler: Any) -> dict[int, _Pairs]:
    """The pairs that were found in a graph or a `vmap`, which ends with them."""
    found: dict[int, _Pairs] = handler.same_tensors
    return found


def _handlers() -> Iterator[Any]:
    """The graphs and the `vmap`s at work, from the innermost one outwards."""
    handler: Any = STATE.handler
    while isinstance(handler, CapturingGraph | Level):
        yield handler
        handler = handler.around if isinstance(handler, CapturingGraph) else handler.outer


def partners(tensor: Tensor, block: CapturingGraph | None = None) -> Iterator[tuple[Tensor, When]]:
    """The tensors that may be the same object as another one, as is known here, and perhaps in a
    block that is over."""
    for handler in (*(() if block is None else (block,)), *_handlers()):
        pairs = _pairs_of(handler).get(id(tensor))
        if pairs is None or pairs.tensor() is not tensor:
            continue
        for other, when in list(pairs.others.values()):
            found = other()
            if found is not None:
                yield found, when


def same(a: Tensor | None, b: Tensor | None, block: CapturingGraph | None = None) -> Same:
    """When two tensors are one object."""
    if a is None or b is None:
        return None
    if a is b:
        return ALWAYS
    return next((when for other, when in partners(a, block) if other is b), None)


def related(
    tensors: Sequence[Tensor | None], block: CapturingGraph | None = None
) -> set[tuple[int, int]]:
    """The places of those that may be one object, in pairs."""
    places: dict[int, list[int]] = {}
    for place, tensor in enumerate(tensors):
        if tensor is not None:
            places.setdefault(id(tensor), []).append(place)
    found: set[tuple[int, int]] = set()
    for place, tensor in enumerate(tensors):
        if tensor is None:
            continue
        for one in (tensor, *(other for other, _ in partners(tensor, block))):
            found.update((place, other) for other in places.get(id(one), ()) if other != place)
    return {(a, b) for a, b in found if a < b}


def settle(graph: CapturingGraph) -> None:
    """Makes the conditions of a block nodes, at its end."""
    for pairs in list(_pairs_of(graph).values()):
        if pairs.tensor() is None:
            continue
        for other, when in list(pairs.others.values()):
            is_made = when is ALWAYS or when.is_asked_late or when.node is not None
            if other() is None or is_made:
                continue
            condition = when.tensor()
            when.node = None if condition is None else graph.value_id(condition)


def either(condition: Tensor, then: Same, other: Same) -> Same:
    """The one where the condition holds, else the other one."""
    if then is None and other is None:
        return None
    if then is ALWAYS and other is ALWAYS:
        return ALWAYS

    def compute() -> Tensor | None:
        parts = []
        for holds, side in ((True, then), (False, other)):
            if side is None:
                continue
            chosen = condition if holds else logical_not(condition)
            if side is not ALWAYS:
                found = side.tensor()
                if found is None:
                    return None
                chosen = logical_and(chosen, found)
            parts.append(chosen)
        return parts[0] if len(parts) == 1 else logical_or(*parts)

    made = When(compute)
    made.is_left = any(side is not None and side.is_left for side in (then, other))
    return made


def give_value(cell: Tensor, value: Tensor) -> None:
    """Gives a tensor a value, which no other one gets for it."""
    if isinstance(STATE.handler, CapturingGraph):
        STATE.handler.value_id(cell)  # one of outside is captured before it changes
    cells.give_value(cell, value)


def spread_write(cell: Tensor) -> None:
    """Gives the new value of a cell to the tensors that are the same object."""
    for other, when in list(partners(cell)):
        if when is ALWAYS:
            give_value(other, cell)
            continue
        condition = None if when.is_left else when.tensor()
        if condition is not None:
            give_value(other, where(condition, cell, other))


cells.on_change(spread_write)
