"""Loops whose turns do not need one another become ops on the numbers of all turns at once.

A counted loop that writes `x[i]` from numbers which it computes of `i`, of elements read at places
that move with `i`, and of rows, gives each turn its own element. What each turn computes of single
numbers is then computed of arrays, elements that are read side by side are slices, and the elements
that are written are a slice too. Such ops are vectorised and run on several threads.

An element that another turn writes before it is read, a write at a place that no rule here can
tell, and anything but pointwise ops keep the loop a loop.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np

from tapeline.compiler.ir.control_ops import LoopForm, is_cond, is_loop, loop_form
from tapeline.compiler.ir.graph import Graph
from tapeline.compiler.ir.structure_ops import CONSTANT, PICK, PLACEHOLDER
from tapeline.compiler.passes.base import PassResult, Rebuild
from tapeline.runtime.op import Pointwise, get_op

FEWEST_TURNS = 32
"""Shorter loops stay loops."""

SMALLEST_PART = 4
"""A loop that writes less than this part of an array writes in place instead: the rest of the array
would be copied."""

MOST_COUNTED = 1 << 16
"""Where the counter itself is computed with, it becomes a constant of at most so many elements."""


_FAR = 1 << 40
"""Indices do not go beyond this."""


@dataclass(frozen=True, slots=True)
class Spread:
    """Turns such loops into ops on arrays, and runs `optimize` on what comes out."""

    optimize: Callable[[Graph], Graph]
    name: str = "spread"

    def run(self, graph: Graph, /) -> PassResult:
        """The graph with fewer loops."""
        work = Rebuild(graph)
        found = False
        for node, op in enumerate(graph.ops):
            values = _spread(work, node) if is_loop(op) else None
            if values is None:
                work.keep(node)
            else:
                found = True
                work.replace(values)
        if not found:
            return PassResult(graph, False)
        return PassResult(self.optimize(work.finish().graph), True)


class _Stop(Exception):
    """The turns of the loop may need one another."""


@dataclass(frozen=True, slots=True)
class _Number:
    """A number of each turn: the node of an array of one per turn, or of a single number. Where it
    is `line[0] + line[1] * turn`, the node may be missing."""

    node: int | None
    line: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class _Array:
    """An array that is the same in all turns."""

    node: int


@dataclass(frozen=True, slots=True)
class _State:
    """An array that the loop carries, as it is before a turn writes."""

    position: int


@dataclass(frozen=True, slots=True)
class _Written:
    """Such an array after a turn wrote one element."""

    position: int
    line: tuple[int, int]
    value: _Number


def _spread(work: Rebuild, node: int) -> tuple[int, ...] | None:
    """What stands for the results of a loop; None where it has to stay."""
    graph = work.source
    form = loop_form(graph.ops[node], graph.attrs[node])
    if form.test is not None or form.length is None or not form.body.placeholders:
        return None
    limit = graph.constant_value(graph.inputs[node][0])
    if limit is None or int(limit) != form.length or form.length < FEWEST_TURNS:
        return None
    if not _may_spread(form):
        return None
    inputs = work.inputs(node)
    initial = [graph.constant_value(i) for i in graph.inputs[node][1:]]
    try:
        return _Spreader(work.target, form, inputs, initial, graph.locations[node]).run()
    except _Stop:
        return None  # what was added is dead code


def _may_spread(form: LoopForm) -> bool:
    """Whether the states are counters and arrays that are written, at a first glance."""
    body = form.body
    for k in range(form.n_state):
        own, end = body.placeholders[k], body.outputs[k]
        op = body.ops[end]
        if not body.spec(own).shape:
            if op is not get_op("add") or own not in body.inputs[end]:
                return False
        elif op is not get_op("put") and not is_cond(op) and op is not PICK:
            return False
    counted = any(not body.spec(body.placeholders[k]).shape for k in range(form.n_state))
    rows = body.placeholders[form.n_state : form.n_state + form.n_xs]
    if any(body.spec(row).shape for row in rows) or (form.reverse and counted):
        return False
    return not any(body.spec(end).shape for end in body.outputs[form.n_state :])


@dataclass(slots=True)
class _Spreader:
    """Builds the ops for one loop in the target graph."""

    target: Graph
    form: LoopForm
    given: Sequence[int]
    initial: Sequence[Any]
    location: Any
    reads: list[tuple[int, tuple[int, int]]] = field(default_factory=list)
    """Where states are read: position and line."""
    depth: int = 0
    """In how many choices."""

    @property
    def turns(self) -> int:
        assert self.form.length is not None
        return self.form.length

    def run(self) -> tuple[int, ...]:
        """The nodes of the loop's results."""
        form = self.form
        state, xs, captures = form.split(self.given)
        arguments: list[Any] = []
        for k in range(form.n_state):
            arguments.append(self._state(k))
        arguments += [_Number(node) for node in xs]
        for node in captures:
            arguments.append(_Array(node) if self.target.spec(node).shape else _Number(node))
        ends = self._graph(form.body, arguments)
        results = [self._constant(np.asarray(self.turns))]
        for k, end in enumerate(ends[: form.n_state]):
            results.append(self._last(k, state[k], arguments[k], end))
        results += [self._all_turns(end) for end in ends[form.n_state :]]
        return tuple(results)

    def _state(self, k: int) -> _Number | _State:
        body = self.form.body
        own, end = body.placeholders[k], body.outputs[k]
        if body.spec(own).shape:
            return _State(k)
        first = self.initial[k]
        step = next((i for i in body.inputs[end] if i != own), own)
        constant = body.constant_value(step)
        if first is None or constant is None or first.dtype != np.int64:
            raise _Stop
        return _Number(None, (int(first), int(constant)))

    def _last(self, k: int, given: int, start: Any, end: Any) -> int:
        """A state after all turns."""
        if isinstance(start, _Number):
            assert start.line is not None
            first, step = start.line
            dtype = self.form.body.spec(self.form.body.placeholders[k]).dtype
            return self._constant(np.asarray(first + step * self.turns, dtype))
        if not isinstance(end, _Written) or end.position != k:
            raise _Stop
        first, step = end.line
        for position, (read, pace) in self.reads:
            behind = position == k and pace == step and (read - first) % step == 0 and read < first
            if behind or (position == k and pace != step):
                raise _Stop
        return self._overwritten(given, first, self._all_turns(end.value))

    def _overwritten(self, array: int, first: int, values: int) -> int:
        """The array with the values from an element on, in C order."""
        target, spec = self.target, self.target.spec(array)
        size, count = spec.size, self.turns
        if count * SMALLEST_PART < size:
            raise _Stop
        if count == size:
            flat = values
        else:
            whole = self._flat(array)
            parts = [
                self._slice(whole, 0, first),
                values,
                self._slice(whole, first + count, size),
            ]
            sizes = (first, count, size - first - count)
            kept = [(part, n) for part, n in zip(parts, sizes, strict=True) if n]
            attrs = (0, tuple(n for _, n in kept))
            flat = target.add(get_op("concat"), [part for part, _ in kept], attrs, self.location)
        if spec.ndim == 1:
            return flat
        return target.add(get_op("reshape"), (flat,), (spec.static_shape,), self.location)

    # ---- nodes

    def _constant(self, array: Any) -> int:
        return self.target.add_constant(array, self.location)

    def _flat(self, array: int) -> int:
        spec = self.target.spec(array)
        if spec.ndim == 1:
            return array
        return self.target.add(get_op("reshape"), (array,), ((spec.size,),), self.location)

    def _slice(self, array: int, start: int, stop: int, step: int = 1) -> int:
        index = (("slice", start, stop, step),)
        return self.target.add(get_op("getitem"), (array,), (index,), self.location)

    def _node(self, number: _Number) -> int:
        """The node of a number."""
        if number.node is not None:
            return number.node
        assert number.line is not None
        first, step = number.line
        if not step:
            return self._constant(np.asarray(first, np.int64))
        if self.turns > MOST_COUNTED:
            raise _Stop
        return self._constant(first + step * np.arange(self.turns, dtype=np.int64))

    def _all_turns(self, number: Any) -> int:
        """The node of an array with one number per turn."""
        if not isinstance(number, _Number):
            raise _Stop
        node = self._node(number)
        if self.target.spec(node).shape:
            return node
        return self.target.add(
            get_op("broadcast_to"), (node,), ((self.turns,),), self.location
        )  # fmt: skip

    # ---- graphs

    def _graph(self, graph: Graph, arguments: Sequence[Any]) -> list[Any]:
        """What the outputs of a graph are in all turns."""
        values: list[Any] = [None] * len(graph)
        for node, argument in zip(graph.placeholders, arguments, strict=True):
            values[node] = argument
        for node, op in enumerate(graph.ops):
            if op is not PLACEHOLDER:
                inputs = [values[i] for i in graph.inputs[node]]
                values[node] = self._value(graph, node, inputs)
        return [values[node] for node in graph.outputs]

    def _value(self, graph: Graph, node: int, inputs: Sequence[Any]) -> Any:
        op = graph.ops[node]
        if op is CONSTANT:
            return self._known(graph.constant_value(node))
        if op is PICK:
            return inputs[0][cast(int, graph.attrs[node][0])]
        if is_cond(op):
            return self._choice(graph, node, inputs)
        if op is get_op("check_index"):
            size, _ = cast(tuple[int, int], graph.attrs[node])
            return _Number(None, self._within(inputs[0], size))
        if op is get_op("take"):
            return self._taken(graph, node, inputs)
        if op is get_op("put"):
            return self._put(inputs, graph.spec(node).size)
        if isinstance(op.lowering, Pointwise) and op.is_pure:
            return self._pointwise(graph, node, inputs)
        raise _Stop

    def _known(self, array: Any) -> Any:
        if array.ndim:
            return _Array(self._constant(array))
        if array.dtype == np.int64:
            return _Number(None, (int(array), 0))
        return _Number(self._constant(array))

    def _pointwise(self, graph: Graph, node: int, inputs: Sequence[Any]) -> _Number:
        op = graph.ops[node]
        if graph.spec(node).shape or not all(isinstance(x, _Number) for x in inputs):
            raise _Stop
        lines = [x.line for x in inputs]
        line = _line(op.name, lines) if graph.spec(node).dtype == np.int64 else None
        if line is not None:
            return _Number(None, line)
        nodes = [self._node(x) for x in inputs]
        return _Number(self.target.add(op, nodes, graph.attrs[node], graph.locations[node]))

    def _within(self, index: Any, size: int) -> tuple[int, int]:
        """The line of an index that is in range in every turn."""
        if not isinstance(index, _Number) or index.line is None:
            raise _Stop
        first, step = index.line
        last = first + step * (self.turns - 1)
        if step < 0 or first < 0 or last >= size:
            raise _Stop
        return index.line

    def _taken(self, graph: Graph, node: int, inputs: Sequence[Any]) -> _Number:
        source, index = inputs
        spec = graph.spec(graph.inputs[node][0])
        if spec.ndim != 1 or graph.spec(node).shape or not isinstance(index, _Number):
            raise _Stop
        if index.line is None:
            if not isinstance(source, _Array) or self.depth:
                raise _Stop
            nodes = (source.node, self._node(index))
            return _Number(self.target.add(graph.ops[node], nodes, (0,), graph.locations[node]))
        line = self._within(index, spec.size)
        pace = _pace(graph.constant_value(graph.inputs[node][0]))
        if pace is not None:
            start, step = pace
            return _Number(None, (start + step * line[0], step * line[1]))
        return self._read(source, line)

    def _read(self, source: Any, line: tuple[int, int]) -> _Number:
        """The elements of an array along a line."""
        first, step = line
        if isinstance(source, _State):
            self.reads.append((source.position, line))
            array = self.given[self.form.first + source.position]
        elif isinstance(source, _Array):
            array = source.node
        else:
            raise _Stop
        flat = self._flat(array)
        if not step:
            index = (first,)
            return _Number(self.target.add(get_op("getitem"), (flat,), (index,), self.location))
        return _Number(self._slice(flat, first, first + step * (self.turns - 1) + 1, step))

    def _put(self, inputs: Sequence[Any], size: int) -> _Written:
        array, index, value = inputs
        line = self._within(index, size)
        if not isinstance(array, _State) or line[1] != 1 or not isinstance(value, _Number):
            raise _Stop
        return _Written(array.position, line, value)

    # ---- choices

    def _choice(self, graph: Graph, node: int, inputs: Sequence[Any]) -> Any:
        """Both branches, and which of the two each turn takes."""
        op = graph.ops[node]
        condition, *operands = inputs
        if not isinstance(condition, _Number):
            raise _Stop
        self.depth += 1
        then, other = (self._graph(branch, operands) for branch in op.subgraphs)
        self.depth -= 1
        results = [
            self._chosen(self._node(condition), a, b) for a, b in zip(then, other, strict=True)
        ]
        return results[0] if op.n_outputs is None else results

    def _chosen(self, condition: int, a: Any, b: Any) -> Any:
        if isinstance(a, _Number) and isinstance(b, _Number):
            nodes = (condition, self._node(a), self._node(b))
            return _Number(self.target.add(get_op("where"), nodes, (), self.location))
        if isinstance(a, _State) and isinstance(b, _State) and a == b:
            return a
        written = a if isinstance(a, _Written) else b
        if not isinstance(written, _Written):
            raise _Stop
        first, second = (self._element(side, written) for side in (a, b))
        return _Written(written.position, written.line, self._chosen(condition, first, second))

    def _element(self, side: Any, written: _Written) -> _Number:
        """What stands at the place that `written` writes, after a branch."""
        if isinstance(side, _Written) and side.line == written.line:
            if side.position == written.position:
                return side.value
        elif isinstance(side, _State) and side.position == written.position:
            return self._read(side, written.line)
        raise _Stop


def _pace(table: Any) -> tuple[int, int] | None:
    """First element and step of a table of indices that grow evenly."""
    if table is None or table.dtype != np.int64 or table.size < 2:
        return None
    start, step = int(table[0]), int(table[1]) - int(table[0])
    even = bool((table == start + step * np.arange(table.size)).all())
    return (start, step) if even and max(abs(start), abs(step)) < _FAR else None


def _line(name: str, lines: Sequence[tuple[int, int] | None]) -> tuple[int, int] | None:
    """A sum, difference or product of numbers that grow evenly, where that grows evenly too."""
    if len(lines) != 2:
        return None
    first, second = lines
    if first is None or second is None:
        return None
    (a, p), (b, q) = first, second
    if name == "add":
        made = a + b, p + q
    elif name == "subtract":
        made = a - b, p - q
    elif name == "multiply" and not (p and q):
        made = a * b, a * q + b * p
    else:
        return None
    return made if max(map(abs, made)) < _FAR else None
