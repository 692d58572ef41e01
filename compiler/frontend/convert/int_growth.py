"""Where ints of Python's, which have no bounds, may leave the 64 bits that a loop of the graph has
for them.

Each number gets an interval: the number of a round from how many there are, a constant its value,
results from their operands, and what goes from round to round by going round until it grows evenly.
Whoever asks gets the operations whose results may not fit; the loop is unrolled then, so that
Python computes, or looks at run time whether all fit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from tapeline.compiler.frontend.capture import CapturingGraph
from tapeline.compiler.frontend.convert.blocktrace import Leaf
from tapeline.compiler.frontend.symbol import Symbol
from tapeline.runtime.op import get_op
from tapeline.runtime.tensor import Tensor

if TYPE_CHECKING:
    from tapeline.compiler.frontend.convert.loop_trace import Loop

Interval: TypeAlias = tuple[int, int]
"""The least and the greatest value."""

_LARGEST = 1 << 63
_MOST_ROUNDS = 1 << 31
"""More rounds than any loop makes whose number of rounds is not known."""
UNKNOWN: Interval = (-(1 << 31), 1 << 31)
"""A number of outside; larger ones are not looked for."""
_TRIALS = 500
"""So many rounds are followed one by one."""


def rounds_of(count: int | None) -> Interval:
    """The numbers of the rounds of a loop."""
    return 0, max((_MOST_ROUNDS if count is None else count) - 1, 0)


def overflowing(loop: Loop) -> list[int]:
    """The nodes of a loop's body whose results may not fit 64 bits."""
    graph = loop.body_trace.graph
    if not graph.python_ints:
        return []
    carried = _carried_ints(loop)
    state = {placeholder: start for placeholder, _, start in carried}
    rounds = loop.limit if type(loop.limit) is int else _MOST_ROUNDS
    growth: list[Interval] = []
    for done in range(1, rounds + 1):
        values = evaluate(graph, state)
        new = {
            placeholder: _join(state[placeholder], _operand(graph, after, values))
            for placeholder, after, _ in carried
        }
        if new == state or not all(map(_fits, values.values())):
            break
        before, growth = growth, _growth(state, new)
        state = new
        if growth == before:
            left = rounds - done
            state = {
                k: (low + left * down, high + left * up)
                for (k, (low, high)), (down, up) in zip(state.items(), growth, strict=True)
            }
            break
        if done == _TRIALS:
            state = dict.fromkeys(state, (-_LARGEST, _LARGEST))
            break
    values = evaluate(graph, state)
    return [
        node
        for node, value in values.items()
        if not _fits(value) and graph.ops[node].name in _GROWING
    ]


def _carried_ints(loop: Loop) -> list[tuple[int, int, Interval]]:
    """For each int that goes round: its placeholder, its node after a round, and what it may be
    where it does not come from a round."""
    found = []
    for _, initial, wanted, placeholder, leaf in loop.carried_leaves():
        if wanted.weak is not int:
            continue
        start = _start(initial)
        if isinstance(leaf, int):
            start = _join(start, _start(leaf))
        found.append((placeholder, leaf.node if type(leaf) is Leaf else placeholder, start))
    return found


def _start(value: Any) -> Interval:
    if isinstance(value, int):
        return int(value), int(value)
    return interval_of(value) if isinstance(value, Tensor) else UNKNOWN


def add_check(graph: CapturingGraph, fits: int, nodes: Sequence[int]) -> int:
    """Adds to a loop's body whether these results fit; `fits` says whether all fitted before."""
    limit = graph.add_constant(np.array(float(_LARGEST)))
    for node in nodes:
        op = graph.ops[node]
        operands = [_in_floats(graph, k) for k in graph.inputs[node]]
        if op is get_op("bitwise_left_shift"):
            two = graph.add_constant(np.array(2.0))
            operands[1] = graph.add(get_op("power"), (two, operands[1]))
            op = get_op("multiply")
        size = graph.add(get_op("abs"), (graph.add(op, operands),))
        fits = graph.add(get_op("logical_and"), (fits, graph.add(get_op("less"), (size, limit))))
    return fits


def _in_floats(graph: CapturingGraph, node: int) -> int:
    return graph.add(get_op("cast"), (node,), (np.dtype(np.float64),))


def evaluate(graph: CapturingGraph, given: dict[int, Interval]) -> dict[int, Interval]:
    """The interval of each int of Python's in a graph, by node."""
    values: dict[int, Interval] = {}
    for node, known in sorted(graph.python_ints.items()):
        if node in given or known is not None:
            values[node] = given.get(node) or known or UNKNOWN
            continue
        rule = _RULES.get(graph.ops[node].name)
        operands = [_operand(graph, k, values) for k in graph.inputs[node]]
        values[node] = UNKNOWN if rule is None else rule(*operands)
    return values


def interval_of(tensor: Tensor) -> Interval:
    """What an int of an enclosing trace may be."""
    symbol = tensor._value
    if type(symbol) is not Symbol:
        return UNKNOWN
    return _operand(symbol.graph, symbol.id, evaluate(symbol.graph, {}))


def _operand(graph: CapturingGraph, node: int, values: dict[int, Interval]) -> Interval:
    found = values.get(node)
    if found is not None:
        return found
    constant = graph.constant_value(node)
    if constant is not None:
        return int(constant), int(constant)
    capture = graph.capture_at(node)
    if capture is not None and isinstance(capture.source, Tensor):
        return interval_of(capture.source)
    return UNKNOWN


def _fits(interval: Interval) -> bool:
    return interval[0] >= -_LARGEST and interval[1] < _LARGEST


def _join(a: Interval, b: Interval) -> Interval:
    return min(a[0], b[0]), max(a[1], b[1])


def _growth(state: dict[int, Interval], new: dict[int, Interval]) -> list[Interval]:
    return [(new[k][0] - low, new[k][1] - high) for k, (low, high) in state.items()]


def _corners(operation: Callable[[int, int], int]) -> Callable[[Interval, Interval], Interval]:
    """The rule of an operation that takes its extremes at the ends of the intervals."""

    def rule(a: Interval, b: Interval) -> Interval:
        found = [operation(x, y) for x in a for y in b]
        return min(found), max(found)

    return rule


def _shifted(a: Interval, b: Interval) -> Interval:
    return _corners(lambda x, y: x << min(max(y, 0), 128))(a, b)


def _quotient(a: Interval, _: Interval) -> Interval:
    return min(a[0], -a[1]), max(a[1], -a[0])


def _remainder(_: Interval, b: Interval) -> Interval:
    return min(b[0] + 1, 0), max(b[1] - 1, 0)


def _bits(a: Interval, b: Interval) -> Interval:
    most = max(abs(x) for x in (*a, *b))
    limit = 1 << most.bit_length()
    return (-limit if min(a[0], b[0]) < 0 else 0), limit - 1


def _absolute(a: Interval) -> Interval:
    least = 0 if a[0] <= 0 <= a[1] else min(map(abs, a))
    return least, max(map(abs, a))


_GROWING = frozenset({"add", "subtract", "multiply", "negative", "abs", "bitwise_left_shift"})
"""Ops whose result may not fit although their operands do."""

_RULES: dict[str, Callable[..., Interval]] = {
    "add": _corners(lambda x, y: x + y),
    "subtract": _corners(lambda x, y: x - y),
    "multiply": _corners(lambda x, y: x * y),
    "negative": lambda a: (-a[1], -a[0]),
    "positive": lambda a: a,
    "abs": _absolute,
    "bitwise_left_shift": _shifted,
    "bitwise_right_shift": lambda a, _: (min(a[0], 0), max(a[1], 0)),
    "bitwise_and": _bits,
    "bitwise_or": _bits,
    "bitwise_xor": _bits,
    "bitwise_invert": lambda a: (-a[1] - 1, -a[0] - 1),
    "floor_divide": _quotient,
    "remainder": _remainder,
    "minimum": _corners(min),
    "maximum": _corners(max),
    "where": lambda _, a, b: _join(a, b),
    "cast": lambda a: a,
}
"""What the result of an op may be; a quotient is taken for one by 1 or -1."""
