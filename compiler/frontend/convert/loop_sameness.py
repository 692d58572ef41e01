"""Tensors that go round a loop, and which others they are the same object as.

In a round a variable of the loop is a tensor of its own, which may be the one that the variable was
before the loop, or another one of outside or of the loop. As far as a write asks for that, or it is
so after a round, a bool for the pair goes round as well. Pairs that are no one object at the start,
and never become one in a round, need nothing.

Where the rounds do no more than to exchange tensors, as in `a, b = b, a`, a tensor of outside gets
its value once, after the loop.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tapeline.compiler.frontend.capture import CapturingGraph
from tapeline.compiler.frontend.convert.carried import Carried
from tapeline.compiler.frontend.convert.containers import Slot
from tapeline.compiler.frontend.convert.sameness import (
    ALWAYS,
    Same,
    When,
    give_value,
    link,
    partners,
    related,
    same,
)
from tapeline.compiler.frontend.convert.unify import Joined
from tapeline.runtime.ops.logic import logical_and
from tapeline.runtime.ops.selection import where
from tapeline.runtime.spec import spec_of
from tapeline.runtime.tensor import Tensor, as_tensor

if TYPE_CHECKING:
    from tapeline.compiler.frontend.convert.loop_trace import Loop

FLAG = Joined(spec_of((), np.dtype(np.bool_)), None)


@dataclass(slots=True, eq=False)
class Pair:
    """What goes round, and a tensor that it may be: of outside, or what goes round, too."""

    item: Carried
    other: Carried | Tensor
    start: Same
    """When they are one object before the loop."""
    is_asked: bool = False
    """Whether a bool goes round for it."""
    placeholder: Tensor | None = None
    after: int | None = None
    """The node of the bool after a round."""
    is_changed: bool = False
    """Whether one of the two may be another object after a round."""
    is_left: bool = False
    """Whether the tensor of outside gets what is written in rounds after the loop."""
    was_left: bool = False
    """The same in the last trace."""

    @property
    def items(self) -> list[Carried]:
        """Those of the two that go round."""
        return [x for x in (self.item, self.other) if isinstance(x, Carried)]


class _Asked(When):
    """The condition of a pair: asking for it makes a bool go round."""

    __slots__ = ()

    def __init__(self, pair: Pair) -> None:
        def compute() -> Tensor | None:
            pair.is_asked = True
            return pair.placeholder

        super().__init__(compute)
        self.is_asked_late = True
        self.is_left = pair.is_left


class LoopSameness:
    """The pairs of one loop, whose body is traced anew until `is_settled`."""

    def __init__(self, loop: Loop) -> None:
        self._loop = weakref.ref(loop)
        self._pairs: dict[tuple[int, int], Pair] = {}
        self._read: set[int] = set()
        """Ids of the tensors of outside that a round needs."""
        self._is_written = False
        """Whether a round writes to what goes round."""

    def _of_loop(self) -> Loop:
        loop = self._loop()
        assert loop is not None
        return loop

    # ---- before a trace of the body

    def prepare(self) -> None:
        """Finds the pairs that may be one object from the start."""
        items = list(self._tensors())
        kept = {id(item) for item in items}
        self._pairs = {
            key: pair
            for key, pair in self._pairs.items()
            if all(id(item) in kept for item in pair.items)
        }
        for item in items:
            if not item.is_late:
                start = item.initial[0]
                for tensor in (start, *(other for other, _ in partners(start))):
                    self._possible(item, tensor)
        for a, b in sorted(related([_start(item) for item in items])):
            self._possible(items[a], items[b])

    def _tensors(self) -> Iterator[Carried]:
        """What goes round that is a tensor, which can change in place."""
        for item in self._of_loop().carried:
            is_named = type(item.place) is int or isinstance(item.place, Slot)
            wanted = item.wanted[0] if len(item.wanted) == 1 else None
            if not (is_named and type(wanted) is Joined and type(item.structure) is Tensor):
                continue
            if wanted.weak is None and (item.is_late or type(item.initial[0]) is Tensor):
                yield item

    def _possible(self, item: Carried, other: Carried | Tensor) -> bool:
        """Takes note that two may be one object; the answer is whether that is new."""
        key = id(item), id(other)
        if key in self._pairs or key[::-1] in self._pairs:
            return False
        self._pairs[key] = Pair(item, other, same(_start(item), _start(other)))
        return True

    # ---- in a trace of the body or the test

    def enter(self, graph: CapturingGraph, inputs: list[int]) -> None:
        """Adds the inputs for the bools."""
        for pair in self._pairs.values():
            pair.placeholder = None
            if pair.is_asked:
                node = graph.add_placeholder(FLAG.spec, "same")
                inputs.append(node)
                pair.placeholder = graph.tensor(node)

    def link(self) -> None:
        """Lets writes of a round reach what may be the same tensor."""
        for pair in self._pairs.values():
            self._link(pair)

    def _link(self, pair: Pair) -> None:
        if not any(item.is_late for item in pair.items):
            other = pair.other.entered if isinstance(pair.other, Carried) else pair.other
            link(pair.item.entered, other, _Asked(pair))
            pair.was_left = pair.is_left

    def leave(self, graph: CapturingGraph) -> None:
        """Finds what is one object after a round, at the end of a trace of the body."""
        values = self._of_loop().state.get()
        after = {id(item): _value_of(item, values) for item in self._tensors()}
        for tensor in after.values():
            if type(tensor) is Tensor:
                graph.value_id(tensor)  # captures one of outside
        is_new = True
        while is_new:
            is_new = self._find(graph, after)
            for pair in self._pairs.values():
                pair.is_changed = any(
                    item.is_late or after[id(item)] is not item.entered for item in pair.items
                )
                is_new |= self._ask(graph, pair, after)
        self._read = {
            id(pair.other)
            for pair in self._pairs.values()
            if type(pair.other) is Tensor and graph.is_captured(pair.other)
        }
        self._leave_exchanged(after)
        self._is_written = any(
            type(item.entered) is Tensor and item.entered._value is not item.held
            for item in self._tensors()
        )

    def _find(self, graph: CapturingGraph, after: dict[int, Any]) -> bool:
        """Finds new pairs; the answer is whether there are any."""
        found = []
        for item in self._tensors():
            tensor = after[id(item)]
            if type(tensor) is not Tensor or tensor is item.entered:
                continue
            for other in (tensor, *(one for one, _ in partners(tensor))):
                if not graph.made(other):
                    found.append((item, other))
        pairs: list[tuple[Carried, Carried | Tensor]] = [*found]
        items = list(self._tensors())
        for a, b in sorted(related([_as_tensor(after[id(item)]) for item in items])):
            pairs.append((items[a], items[b]))
        before = set(self._pairs)
        for item, other_one in pairs:
            self._possible(item, other_one)
        for key in set(self._pairs) - before:
            self._link(self._pairs[key])
        return len(self._pairs) > len(before)

    def _ask(self, graph: CapturingGraph, pair: Pair, after: dict[int, Any]) -> bool:
        """Makes the bool of a pair after a round; the answer is whether it was not known before
        that it needs one."""
        if not pair.is_changed:
            pair.after = None if pair.placeholder is None else graph.value_id(pair.placeholder)
            return False
        other = after[id(pair.other)] if isinstance(pair.other, Carried) else pair.other
        when = same(_as_tensor(after[id(pair.item)]), _as_tensor(other))
        was_asked = pair.is_asked
        pair.is_asked |= when is not None
        condition = as_tensor(when is ALWAYS)
        if when is not None and when is not ALWAYS:
            found = when.tensor()
            condition = condition if found is None else found
        pair.after = graph.value_id(condition)
        return pair.is_asked and not was_asked

    def _leave_exchanged(self, after: dict[int, Any]) -> None:
        """Marks tensors of outside that need no look at before the loop is over: rounds only
        exchange who is called what."""
        entered = {id(item.entered): item for item in self._tensors() if not item.is_late}
        group = [item for item in self._tensors() if id(after[id(item)]) in entered]
        kept = {id(entered[id(after[id(item)])]) for item in group}
        group_ids = {id(item) for item in group}
        is_closed = kept == group_ids
        for pair in self._pairs.values():
            if type(pair.other) is Tensor:
                is_moved = pair.is_changed and id(pair.item) in group_ids
                pair.is_left = is_closed and is_moved and id(pair.other) not in self._read

    # ---- after a trace

    def is_settled(self) -> bool:
        """Whether the trace had all that it asked for."""
        settled = True
        for pair in self._pairs.values():
            settled &= pair.is_left or not pair.was_left
            if pair.is_asked and pair.placeholder is None:
                if pair.is_changed:
                    settled = False
                else:
                    pair.is_asked = False  # a write makes such a variable the tensor of outside
        return settled

    def carried(self) -> list[Pair]:
        """The pairs whose bools go round, in the order of the inputs."""
        return [pair for pair in self._pairs.values() if pair.is_asked]

    def initial(self) -> list[Tensor]:
        """Their values before the loop."""
        return [_known(pair.start) for pair in self.carried()]

    # ---- after the loop

    def finish(self, flags: Sequence[Tensor], unused: When | None) -> None:
        """Links the results of the loop; `unused` says that no round ran, None: one does."""
        values = self._of_loop().state.get()
        results = {id(item): _value_of(item, values) for item in self._tensors()}
        found = dict(zip(map(id, self.carried()), flags, strict=True))
        for pair in self._pairs.values():
            first = results[id(pair.item)]
            other = results[id(pair.other)] if isinstance(pair.other, Carried) else pair.other
            when = _result(found[id(pair)]) if pair.is_asked else _unless(pair.start, unused)
            is_pair = type(first) is Tensor and type(other) is Tensor and first is not other
            if pair.is_changed and when is not None and is_pair:
                link(first, other, when)
        self._write_left(found, results)

    def _write_left(self, found: dict[int, Tensor], results: dict[int, Any]) -> None:
        """Gives tensors of outside what rounds wrote to them."""
        left: dict[int, list[Pair]] = {}
        for pair in self.carried():
            if pair.is_left:
                left.setdefault(id(pair.other), []).append(pair)
        for pairs in left.values() if self._is_written else ():
            tensor = pairs[0].other
            assert type(tensor) is Tensor
            always = [pair for pair in pairs if pair.start is ALWAYS]
            value = results[id(always[0].item)] if always else tensor
            for pair in pairs:
                if pair not in always[:1]:
                    value = where(found[id(pair)], results[id(pair.item)], value)
            give_value(tensor, value)


def _start(one: Carried | Tensor) -> Tensor | None:
    if isinstance(one, Carried):
        return None if one.is_late else one.initial[0]
    return one


def _as_tensor(value: Any) -> Tensor | None:
    return value if type(value) is Tensor else None


def _value_of(item: Carried, variables: Sequence[Any]) -> Any:
    return item.place.read() if isinstance(item.place, Slot) else variables[item.place]


def _known(when: Same) -> Tensor:
    found = None if when is None or when is ALWAYS else when.tensor()
    return as_tensor(when is ALWAYS) if found is None else found


def _result(flag: Tensor) -> When:
    return When(lambda: flag)


def _unless(start: Same, unused: When | None) -> Same:
    """When two are one object that no round may leave so."""
    if start is None or unused is None:
        return None
    if start is ALWAYS:
        return unused

    def compute() -> Tensor | None:
        first, second = start.tensor(), unused.tensor()
        return None if first is None or second is None else logical_and(first, second)

    return When(compute)
