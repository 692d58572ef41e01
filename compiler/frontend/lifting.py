"""Variables that a function makes while it is traced, and their first values.

Such a Variable is made at once, as outside of a trace. Its first value may depend on the arguments
of the call that is traced: what the graph says so far is computed for these.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tapeline.compiler.frontend.symbol import Symbol
from tapeline.compiler.ir.structure_ops import CONSTANT, PICK, PLACEHOLDER
from tapeline.runtime.errors import VariableCreationError
from tapeline.runtime.scopes import init_scope
from tapeline.runtime.tensor import Tensor

if TYPE_CHECKING:
    from tapeline.compiler.frontend.capture import CapturingGraph

Array = npt.NDArray[Any]


class UnknownValueError(VariableCreationError):
    """A value that nobody can know while the function is traced."""


def first_value(tensor: Tensor) -> Array:
    """The value that a tensor of the trace has in the call that is traced, as an array of its own.

    Raises
    ------
    VariableCreationError
        If it depends on an argument that a spec stands for, or on a round of a loop.
    """
    value = tensor._value
    if type(value) is not Symbol:
        return np.array(value, order="C")
    with init_scope():
        return np.array(_evaluate(value.graph, value.id), order="C")


def _evaluate(graph: CapturingGraph, node: int) -> Array:
    needed = _ancestors(graph, [node])
    values: dict[int, Any] = {}
    with np.errstate(all="ignore"):
        for k in needed:
            values[k] = _run(graph, k, values)
    _move_generators_on(graph, set(needed))
    return np.asarray(values[node])


def _ancestors(graph: CapturingGraph, nodes: list[int]) -> list[int]:
    """The nodes that these depend on, and these, in order."""
    found: set[int] = set()
    pending = list(nodes)
    while pending:
        node = pending.pop()
        if node not in found:
            found.add(node)
            pending.extend(graph.inputs[node])
    return sorted(found)


def _run(graph: CapturingGraph, node: int, values: dict[int, Any]) -> Any:
    op = graph.ops[node]
    if op is PLACEHOLDER:
        return _source(graph, node)
    if op is CONSTANT:
        return graph.constant_value(node)
    arguments = [values[k] for k in graph.inputs[node]]
    if op is PICK:
        return arguments[0][graph.attrs[node][0]]
    return op.kernel(*arguments, *graph.attrs[node])


def _source(graph: CapturingGraph, node: int) -> Any:
    """What an input of the graph is in the call that is traced."""
    if node in graph.feeds:
        return _known(graph.feeds[node], graph, node)
    for capture in graph.captures:
        if capture.placeholder == node:
            source = capture.source
            return _known(capture.before if source is capture.cell else source, graph, node)
    for resource in graph.resources.values():
        if resource.placeholder == node:
            return resource.variable._value
    raise _unknown(graph, node)


def _known(source: Any, graph: CapturingGraph, node: int) -> Array:
    value = source._value if type(source) is Tensor else source
    if value is None:
        raise _unknown(graph, node)
    if type(value) is Symbol:
        return _evaluate(value.graph, value.id)
    return np.asarray(value, graph.spec(node).dtype)


def _unknown(graph: CapturingGraph, node: int) -> UnknownValueError:
    name = graph.attrs[node][0]
    return UnknownValueError(
        f"{graph.name}: the first value of a Variable depends on {name}, which has no value while "
        "the function is traced; call the function with values, or give the Variable a first value "
        "that does not depend on it"
    )


def _move_generators_on(graph: CapturingGraph, needed: set[int]) -> None:
    """Keeps the new state of generators that the value came from: the trace will not draw again."""
    for resource in graph.resources.values():
        is_state = resource.spec.dtype == np.uint64 and not resource.variable.trainable
        if is_state and resource.is_assigned and resource.placeholder in needed:
            values: dict[int, Any] = {}
            for k in _ancestors(graph, [resource.current]):
                values[k] = _run(graph, k, values)
            resource.variable._value = np.array(values[resource.current], order="C")
