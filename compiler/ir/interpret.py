"""Runs a graph node by node with the ops' NumPy kernels: the meaning that compiled code is held to.

Constant folding and tests use it; nothing here is fast.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from tapeline.compiler.ir.graph import Graph
from tapeline.compiler.ir.structure_ops import CONSTANT, PLACEHOLDER, make_call_op
from tapeline.runtime.errors import GraphError
from tapeline.runtime.op import Op

if TYPE_CHECKING:
    import numpy.typing as npt

Watcher: TypeAlias = Callable[[Graph, int, Sequence[Any], Any], None]
"""Told of each node after it ran: the graph, the node, its inputs and its value."""


class _Watching(threading.local):
    watcher: Watcher | None = None


_WATCHING = _Watching()


@contextmanager
def watching(watcher: Watcher) -> Iterator[None]:
    """A block of this thread in which a function is told of every node that `run_graph` ran, those
    of sub-graphs included."""
    before = _WATCHING.watcher
    _WATCHING.watcher = watcher
    try:
        yield
    finally:
        _WATCHING.watcher = before


def run_graph(graph: Graph, inputs: Sequence[npt.ArrayLike]) -> list[npt.NDArray[Any]]:
    """The outputs of a graph for these arrays, one per placeholder. Values are dropped after their
    last use."""
    if len(inputs) != len(graph.placeholders):
        raise GraphError(
            f"graph {graph.name} takes {len(graph.placeholders)} arrays, got {len(inputs)}"
        )
    given = dict(zip(graph.placeholders, inputs, strict=True))
    last = last_uses(graph)
    values: list[Any] = [None] * len(graph)
    watcher = _WATCHING.watcher
    with np.errstate(all="ignore"):  # as compiled code: IEEE results, no warnings
        for i, op in enumerate(graph.ops):
            if op is PLACEHOLDER:
                values[i] = np.asarray(given[i])
            elif op is CONSTANT:
                values[i] = graph.constant_value(i)
            else:
                arguments = [values[k] for k in graph.inputs[i]]
                values[i] = op.kernel(*arguments, *graph.attrs[i])
                if watcher is not None:
                    watcher(graph, i, arguments, values[i])
            for k in graph.inputs[i]:
                if last[k] == i:
                    values[k] = None
    return [np.asarray(values[i]) for i in graph.outputs]


def last_uses(graph: Graph) -> list[int]:
    """For each node the id of the last node that takes its value; the number of nodes for an
    output, and -1 where nobody does."""
    last = [-1] * len(graph)
    for user, inputs in enumerate(graph.inputs):
        for i in inputs:
            last[i] = user
    for i in graph.outputs:
        last[i] = len(graph)
    return last


def interpreted_call(name: str, graph: Graph) -> Op:
    """A call that runs its graph node by node, where nobody compiles it into its caller."""

    def kernel(*arrays: Any) -> Any:
        values = run_graph(graph, arrays)
        return values[0] if len(values) == 1 else tuple(values)

    return make_call_op(name, graph, kernel)
