"""Sizes that depend on values, in a trace: a symbol for each, and what it is in the call that is
traced.

The questions that the program asks of such a size are answered for the call at hand, as for all
open sizes. So its value is worked out on the way, from the arguments of that call, where ops
without effects lead there. Where they do not, and for specs, an example stands in.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tapeline.compiler.frontend.capture import CapturingGraph
from tapeline.compiler.frontend.evaluation import evaluate
from tapeline.compiler.frontend.location import user_location
from tapeline.compiler.frontend.symbol import Symbol
from tapeline.compiler.ir.structure_ops import CONSTANT, PLACEHOLDER
from tapeline.runtime.dims import Dim, present_value
from tapeline.runtime.errors import DynamicShapeError
from tapeline.runtime.op import Attrs, Op, Trait
from tapeline.runtime.tensor import Tensor

EXAMPLES = (13, 17, 19, 23)
"""What stands for sizes that nothing tells, in turn."""
_MOST_WORK = 1 << 28
"""Elements of the values that are worked out at most to know a size."""


def make_size(
    graph: CapturingGraph, op: Op, inputs: Sequence[Tensor], attrs: Attrs, most: Any
) -> Any:
    """The size of what `op` yields; the same for the same inputs. See
    `CapturingGraph.value_size`."""
    if graph.sizes is None:
        raise DynamicShapeError(_refusal(graph, op))
    nodes = tuple([graph.value_id(tensor) for tensor in inputs])
    key = op, nodes, attrs
    found = graph.value_sizes.get(key)
    if found is None:
        number = len(graph.value_sizes)
        value: int | None
        if number < len(graph.told):
            value = graph.told[number]
        else:
            value = _present_size(graph, op, nodes, attrs)
        if value is None:
            value = EXAMPLES[number % len(EXAMPLES)]
            value = value if most is None else min(value, present_value(most))
        found = graph.value_sizes[key] = graph.sizes.add_told(value)
    return found


def _refusal(graph: CapturingGraph, op: Op) -> str:
    place = user_location()
    where = f" at {place.filename}:{place.line}" if place is not None else ""
    return (
        f"{op.name}{where}: the size of the result depends on values, and this stands in "
        f"{graph.name!r}, which is a part of a trace: the body of a loop or of a branch, or a "
        "function under vmap, checkpoint or the like. There all sizes must be known beforehand. Do "
        "this step before or after it, or use tl.where(mask, x, other), tl.count_nonzero(mask) and "
        "the like, whose results have a fixed size"
    )


def _present_size(graph: CapturingGraph, op: Op, nodes: Sequence[int], attrs: Attrs) -> int | None:
    """What the size is in the call that is traced; None where that cannot be told."""
    try:
        with np.errstate(all="ignore"):
            values = _present_values(graph, nodes)
            if values is None:
                return None
            found = op.kernel(*values, *attrs, None)
    except Exception:  # the call itself will meet it, and say it better
        return None
    return int((found[0] if isinstance(found, tuple) else found).shape[-1])


def _present_values(graph: CapturingGraph, nodes: Sequence[int]) -> list[Any] | None:
    """The values of nodes in the call that is traced; None where one of them cannot be told."""
    return evaluate(graph, nodes, _Given(graph))


class _Given:
    """Constants and the inputs of the call that is traced as what an evaluation begins with, which
    runs no effects and no loops and is not too dear."""

    def __init__(self, graph: CapturingGraph) -> None:
        self._graph = graph
        self._work = 0

    def is_leaf(self, node: int) -> bool:
        return self._graph.ops[node] is CONSTANT or self._graph.ops[node] is PLACEHOLDER

    def admits(self, node: int) -> bool:
        op, specs = self._graph.ops[node], self._graph.specs[node]
        if (
            op.has(Trait.EFFECT)
            or op.has(Trait.RANDOM)
            or (op.subgraphs and not op.has(Trait.CALL))
        ):
            return False
        for spec in specs if isinstance(specs, tuple) else (specs,):
            self._work += math.prod(map(present_value, spec.static_shape))
        return self._work <= _MOST_WORK

    def value(self, node: int) -> Any:
        constant = self._graph.constant_value(node)
        return _input_value(self._graph, node) if constant is None else constant

    def attrs(self, attrs: Any) -> Any:
        return _present_attrs(attrs)


def _input_value(graph: CapturingGraph, node: int) -> Any:
    value = graph.feeds.get(node)
    for capture in graph.captures:
        if capture.placeholder == node:
            value = capture.source if isinstance(capture.source, np.ndarray) else capture.before
    for resource in graph.resources.values():
        if resource.placeholder == node:
            value = resource.variable._value
    value = value._value if type(value) is Tensor else value
    spec = graph.spec(node)
    if type(value) is Symbol:  # of a trace around
        around = value.graph
        found = _present_values(around, [value.id]) if around.is_open else None
        return None if found is None else found[0]
    if not isinstance(value, np.ndarray):
        return None
    return value.astype(spec.dtype, copy=False)


def _present_attrs(attrs: Any) -> Any:
    if type(attrs) is tuple:
        return tuple([_present_attrs(attr) for attr in attrs])
    return attrs.value if type(attrs) is Dim else attrs
