"""Indices of loop bodies as sums, so that they can be compared."""

from __future__ import annotations

from collections.abc import Callable

from tapeline.compiler.ir.graph import Graph
from tapeline.runtime.op import get_op

CONSTANT_TERM = -1
"""Stands for 1 among the nodes of a sum."""

Terms = dict[int, int]
"""A sum of nodes, each so many times."""


def sum_terms(graph: Graph, node: int, is_in_range: Callable[[int], bool]) -> Terms:
    """An index as a sum.

    Parameters
    ----------
    graph : Graph
        The body.
    node : int
        The index.
    is_in_range : callable
        Whether a checked index, the node of a `check_index`, is one from the front in all turns, so
        that it is what is checked.
    """
    found: Terms = {}
    pending = [(node, 1)]
    while pending:
        current, times = pending.pop()
        op, inputs = graph.ops[current], graph.inputs[current]
        constant = graph.constant_value(current)
        if constant is not None and not constant.ndim:
            found[CONSTANT_TERM] = found.get(CONSTANT_TERM, 0) + times * int(constant)
        elif op is get_op("add") or op is get_op("subtract"):
            sign = 1 if op is get_op("add") else -1
            pending += [(inputs[0], times), (inputs[1], sign * times)]
        elif op is get_op("multiply") and graph.constant_value(inputs[1]) is not None:
            number = graph.constant_value(inputs[1])
            assert number is not None
            pending.append((inputs[0], times * int(number)))
        elif op is get_op("check_index") and is_in_range(current):
            pending.append((inputs[0], times))
        else:
            found[current] = found.get(current, 0) + times
    return {term: times for term, times in found.items() if times}
