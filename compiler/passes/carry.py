"""Numbers that a turn wrote to an array and the next one reads again stay in a register.

In `x[i] = x[i - 1] + ...` the element that is read is the one that the turn before has written: the
loop carries it as one more number, and does not wait for memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from tapeline.compiler.ir.control_ops import LoopForm, loop_form, remake
from tapeline.compiler.ir.graph import Graph
from tapeline.compiler.ir.index_terms import CONSTANT_TERM, Terms, sum_terms
from tapeline.runtime.op import Attrs, Op, get_op


@dataclass(frozen=True, slots=True)
class _Found:
    """An array of the state, the number that a turn writes to it, and the node that reads it
    again."""

    state: int
    value: int
    read: int
    is_inside: bool
    """Whether the first turn is known to read an element that there is."""


def carry_elements(
    target: Graph, op: Op, attrs: Attrs, inputs: Sequence[int]
) -> tuple[Op, Attrs, list[int], int]:
    """The loop with such numbers among its states, and how many they are."""
    if not attrs:
        return op, attrs, list(inputs), 0
    form = loop_form(op, attrs)
    limit = target.constant_value(inputs[0])
    if limit is None or int(limit) < 1:
        return op, attrs, list(inputs), 0
    found = _Search(form, target, inputs, int(limit)).run()
    if not found:
        return op, attrs, list(inputs), 0
    outside = dict(zip(form.body.placeholders, inputs[form.first :], strict=True))
    first = [_first(target, form.body, one, outside) for one in found]
    n = form.first + form.n_state
    _, n_xs, length, reverse = cast(tuple[int, int, int, bool], attrs)
    graphs = [_with_numbers(form, graph, found, graph is form.body) for graph in op.subgraphs]
    made = remake(op, tuple(graphs))
    given = [*inputs[:n], *first, *inputs[n:]]
    return made, (form.n_state + len(found), n_xs, length, reverse), given, len(found)


class _Search:
    """Looks for reads of what the turn before wrote."""

    def __init__(self, form: LoopForm, target: Graph, inputs: Sequence[int], turns: int) -> None:
        self.form, self.body = form, form.body
        self.turns = turns
        self.users = form.body.users()
        self.counters: dict[int, tuple[int, int]] = {}
        """First value and step of the counters of which both are known."""
        for k in range(form.n_state):
            first = target.constant_value(inputs[form.first + k])
            pace = self._pace(k)
            if first is not None and pace is not None and not first.ndim:
                self.counters[self.body.placeholders[k]] = int(first), pace
        self.moving = set(self.body.placeholders[: form.n_state + form.n_xs])

    def run(self) -> list[_Found]:
        found = []
        for k in range(self.form.n_state):
            one = self._of_state(k)
            if one is not None:
                found.append(one)
        return found

    def _pace(self, k: int) -> int | None:
        body = self.body
        own, end = body.placeholders[k], body.outputs[k]
        if body.ops[end] is not get_op("add") or own not in body.inputs[end]:
            return None
        step = next((i for i in body.inputs[end] if i != own), own)
        constant = body.constant_value(step)
        return int(constant) if constant is not None and constant.dtype.kind == "i" else None

    def _of_state(self, k: int) -> _Found | None:
        body = self.body
        own, end = body.placeholders[k], body.outputs[k]
        if body.ops[end] is not get_op("put") or body.inputs[end][0] != own:
            return None
        _, place, value = body.inputs[end]
        if body.spec(place).shape or body.spec(value).shape:
            return None
        written = self.terms(place)
        before = dict(written)
        for node, (_, pace) in self.counters.items():
            before[CONSTANT_TERM] = before.get(CONSTANT_TERM, 0) - pace * written.get(node, 0)
        if not before.get(CONSTANT_TERM, 1):
            del before[CONSTANT_TERM]
        if before == written or not all(self._is_known(node) for node in written):
            return None
        for read in self._reads(own):
            if self.terms(body.inputs[read][1]) == before:
                return _Found(k, value, read, self._is_inside(read))
        return None

    def _reads(self, own: int) -> list[int]:
        """The nodes that read one number of an array, or of a flat view of it."""
        body, found, pending = self.body, [], [own]
        while pending:
            for user in self.users[pending.pop()]:
                if body.ops[user] is get_op("reshape"):
                    pending.append(user)
                    continue
                is_number = body.ops[user] is get_op("take") and not body.spec(user).shape
                if is_number and body.spec(body.inputs[user][0]).ndim == 1:
                    found.append(user)
        return found

    def _is_inside(self, read: int) -> bool:
        """Whether the index of the first turn is known, and in range."""
        index = self.terms(self.body.inputs[read][1])
        if not set(index) <= {CONSTANT_TERM, *self.counters}:
            return False
        ones = {CONSTANT_TERM: 1} | {node: first for node, (first, _) in self.counters.items()}
        place = sum(times * ones[term] for term, times in index.items())
        size = self.body.spec(self.body.inputs[read][0]).static_shape[0]
        return -size <= place < size

    def _is_known(self, node: int) -> bool:
        """Whether a term is a counter, or the same in all turns."""
        if node in (CONSTANT_TERM, *self.counters):
            return True
        pending, seen = [node], set()
        while pending:
            current = pending.pop()
            if current in self.moving:
                return False
            if current not in seen:
                seen.add(current)
                pending += self.body.inputs[current]
        return True

    def terms(self, node: int) -> Terms:
        """An index as a sum. A checked index is looked into where it is one from the front."""
        return sum_terms(self.body, node, self._in_range)

    def _in_range(self, node: int) -> bool:
        """Whether an index is in range, from the front, in all turns."""
        size, _ = cast(tuple[int, int], self.body.attrs[node])
        given = self.terms(self.body.inputs[node][0])
        if not set(given) <= {CONSTANT_TERM, *self.counters}:
            return False
        low = high = given.get(CONSTANT_TERM, 0)
        for term, times in given.items():
            if term != CONSTANT_TERM:
                first, pace = self.counters[term]
                ends = times * first, times * (first + pace * (self.turns - 1))
                low, high = low + min(ends), high + max(ends)
        return low >= 0 and high < size


def _first(target: Graph, body: Graph, one: _Found, outside: dict[int, int]) -> int:
    """The node in the target for what the first turn reads."""
    array = outside[body.placeholders[one.state]]
    if one.is_inside and target.ops[array] is get_op("broadcast_to"):
        (number,) = target.inputs[array]
        if not target.spec(number).shape:
            return number
    read = one.read
    needed: set[int] = set()
    pending = [read]
    while pending:
        node = pending.pop()
        if node not in needed:
            needed.add(node)
            pending += body.inputs[node]
    values = dict(outside)
    for node in sorted(needed):
        if node not in values:
            values[node] = target.copy_node(body, node, [values[i] for i in body.inputs[node]])
    return values[read]


def _with_numbers(form: LoopForm, graph: Graph, found: Sequence[_Found], is_body: bool) -> Graph:
    """The graph with one more number of the state for each."""
    made = Graph(graph.name)
    values: dict[int, int] = {}
    n = form.n_state
    for node in graph.placeholders[:n]:
        values[node] = made.add_placeholder(graph.spec(node), str(graph.attrs[node][0]))
    for number, one in enumerate(found):
        spec = form.body.spec(one.read)
        value = made.add_placeholder(spec, f"carried{number}")
        if is_body:
            values[one.read] = value
    for node in graph.placeholders[n:]:
        values[node] = made.add_placeholder(graph.spec(node), str(graph.attrs[node][0]))
    for node in range(len(graph)):
        if node not in values:
            values[node] = made.copy_node(graph, node, [values[i] for i in graph.inputs[node]])
    outputs = [values[node] for node in graph.outputs]
    if is_body:
        outputs[n:n] = [values[one.value] for one in found]
    made.outputs = outputs
    return made
