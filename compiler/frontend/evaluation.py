"""What nodes of a graph are worth while it is traced: the ops that make them are run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from tapeline.compiler.ir.graph import Graph


class Leaves(Protocol):
    """Where an evaluation begins, and what it may run on its way."""

    def is_leaf(self, node: int) -> bool:
        """Whether the value of a node is given, and not computed."""
        ...

    def admits(self, node: int) -> bool:
        """Whether a node may be part of the evaluation; asked once of each, leaves too."""
        ...

    def value(self, node: int) -> Any:
        """The value of a leaf; None where nobody knows it. Asked once all nodes are admitted."""
        ...

    def attrs(self, attrs: Any) -> Any:
        """The attributes of a node, as its kernel takes them."""
        ...


def evaluate(graph: Graph, nodes: Sequence[int], leaves: Leaves) -> list[Any] | None:
    """The values of nodes; None where one of them depends on what is not known or not admitted."""
    needed: set[int] = set()
    stack = list(nodes)
    while stack:
        node = stack.pop()
        if node in needed:
            continue
        needed.add(node)
        if not leaves.admits(node):
            return None
        stack += graph.inputs[node]
    values: dict[int, Any] = {}
    for node in sorted(needed):
        if leaves.is_leaf(node):
            found = leaves.value(node)
            if found is None:
                return None
        else:
            inputs = [values[k] for k in graph.inputs[node]]
            found = graph.ops[node].kernel(*inputs, *leaves.attrs(graph.attrs[node]))
        values[node] = found if isinstance(found, tuple) else np.asarray(found)
    return [values[node] for node in nodes]
