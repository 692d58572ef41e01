"""Traces one block of the user's code into a graph of its own, and undoes all that it did.

What the block did is kept as data: the values of its variables afterwards, the places in containers
that it changed, the tensors it wrote to, the Variables it assigned. The operators make results of
that, and give the originals the chosen ones.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tapeline.compiler.frontend.capture import CapturingGraph
from tapeline.compiler.frontend.convert.containers import Containers, Slot, Watched, user_variables
from tapeline.compiler.frontend.convert.sameness import settle
from tapeline.compiler.frontend.convert.state import State, appended_lists, outer_graph
from tapeline.compiler.frontend.location import is_library_code
from tapeline.compiler.frontend.symbol import Symbol
from tapeline.compiler.frontend.tracebacks import raised_at
from tapeline.runtime import nest
from tapeline.runtime.dispatch import bind
from tapeline.runtime.errors import DynamicShapeError, TracingError
from tapeline.runtime.op import get_op
from tapeline.runtime.ops.effects import HOST_RAISE
from tapeline.runtime.spec import DType, Shape, TensorSpec
from tapeline.runtime.tensor import Tensor, as_tensor

_CHANGED = (
    "{what} over a tensor changes the {changed} of {path!r}, which was made before it. The "
    "block is traced once, however often it will run: keep such results in a tl.TensorArray, in "
    "a tensor with x[i] = v, or as variables of the function"
)


class LengthChangedError(DynamicShapeError):
    """A block over tensors makes a list or a dict longer or shorter."""


class RaisedError(Exception):
    """A block came to a `raise` statement: it has no results."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(error)
        self.error = error


@dataclass(frozen=True, slots=True, eq=False)
class Leaf:
    """A tensor among the values of a block: its node in the block's graph."""

    node: int
    spec: TensorSpec
    weak: type | None
    """The Python type that the number would have without a trace; such numbers promote weakly."""
    tensor: Tensor | None = None
    """The tensor itself, where it can change in place."""


@dataclass(frozen=True, slots=True, eq=False)
class Value:
    """A value with its tensors as `Leaf`s; `original` is the object itself."""

    original: Any
    leaves: tuple[Any, ...]

    @property
    def has_tensors(self) -> bool:
        """Whether a tensor is in it."""
        return any(type(leaf) is Leaf for leaf in self.leaves)


@dataclass(slots=True, eq=False)
class BlockTrace:
    """What a block did."""

    graph: CapturingGraph
    values: tuple[Value, ...] = ()
    """Of the variables, in order."""
    slots: dict[tuple[int, Any], tuple[Slot, Value]] = field(default_factory=dict)
    cells: dict[int, tuple[Tensor, int]] = field(default_factory=dict)
    """By id, the tensors of outside that it wrote to, and the node of what they hold then."""
    grown: dict[int, tuple[list[Any], Value]] = field(default_factory=dict)
    """By id, the lists that it appended to, and the list of new items."""
    returned: Value | None = None
    """What the block's function returned, where it is an expression."""
    raised: BaseException | None = None
    own: frozenset[int] = frozenset()
    """Ids of the tensors among the values that the block made."""

    def value_after(self, value: Any) -> Value:
        """A value of outside as it is after the block, which may have written to its tensors."""
        taken = take_value(self.graph, value)
        return Value(value, tuple([self._leaf_after(leaf) for leaf in taken.leaves]))

    def _leaf_after(self, leaf: Any) -> Any:
        written = self.cells.get(id(leaf.tensor)) if type(leaf) is Leaf else None
        return leaf if written is None else replace(leaf, node=written[1])


def take_value(graph: CapturingGraph, value: Any) -> Value:
    """The value as data, in the graph that is being traced."""
    leaves: list[Any] = []
    for leaf in nest.flatten(value):
        kind = type(leaf)
        if kind is Tensor or (
            hasattr(kind, "__tapeline_tensor__") and not hasattr(kind, "is_apart")
        ):
            tensor = as_tensor(leaf)
            node = graph.value_id(tensor)
            held = tensor._value
            weak = held.weak if type(held) is Symbol else None
            cell = tensor if weak is None and tensor is leaf else None
            leaves.append(Leaf(node, graph.spec(node), weak, cell))
        else:
            leaves.append(leaf)
    return Value(value, tuple(leaves))


@contextmanager
def block_graph(name: str, containers: Containers) -> Iterator[CapturingGraph]:
    """A graph for a block inside of the trace that is under way, and its trace."""
    outer = outer_graph()
    graph = CapturingGraph(name)
    graph.reads = None if outer is None else outer.reads
    graph.surroundings = containers
    with graph.tracing():
        yield graph


@dataclass(slots=True)
class Surroundings:
    """What a block may change: its variables, and the containers within reach."""

    state: State
    before: tuple[Any, ...]
    containers: Containers
    variables: list[tuple[str, Any]]
    """All variables within reach, with their names."""
    blocks: tuple[Callable[..., Any], ...]

    @classmethod
    def around(cls, state: State, blocks: tuple[Callable[..., Any], ...]) -> Surroundings:
        """As it is now."""
        variables = user_variables(is_library_code, blocks)
        variables += [("a list", x) for x in appended_lists(state)]
        return cls(state, state.get(), Containers(variables), variables, blocks)

    def lists(self) -> dict[int, str]:
        """By id, the paths of the lists within reach."""
        watched = self.containers.all()
        return {id(one.container): one.path for one in watched if type(one.container) is list}

    def restore(self) -> None:
        """Undoes what a block did."""
        self.containers.restore()
        self.state.set(self.before)


def trace_block(
    run: Callable[[CapturingGraph], Any],
    around: Surroundings,
    what: str,
    is_expression: bool = False,
    growing: Collection[int] = (),
) -> BlockTrace:
    """Runs a block in a graph of its own. `run` gets the graph, and prepares what it likes.
    `growing` has the ids of lists that it may append to."""
    traced: BlockTrace | None = None
    try:
        with block_graph(what, around.containers) as graph:
            traced = BlockTrace(graph)
            try:
                result = run(graph)
            except RaisedError as signal:
                traced.raised = signal.error
                result = None
            except Exception as error:
                if not _is_among(error, around.containers.raised):
                    raise
                graph.location = raised_at(error)
                bind(HOST_RAISE, (), (error,))
                graph.location = None
                traced.raised = error
                result = None
            traced.values = tuple([take_value(graph, v) for v in around.state.get()])
            if is_expression and traced.raised is None:
                traced.returned = take_value(graph, result)
            slots, grown, others = around.containers.changed_slots()
            for watched, new in grown:
                if id(watched.container) in growing:
                    traced.grown[id(watched.container)] = watched.container, take_value(graph, new)
                else:
                    others.append(watched)
            if others:
                raise _changed(others[0], what)
            for slot in slots:
                traced.slots[slot.identity] = slot, take_value(graph, slot.read())
            settle(graph)
            traced.own = _made_by(traced)
    finally:
        around.restore()
        if traced is not None:
            written = traced.graph.written_cells()
            traced.cells = {id(c.cell): (c.cell, node) for c, node in written}
    return traced


def _made_by(traced: BlockTrace) -> frozenset[int]:
    """The ids of the tensors among the values of a block that it made."""
    values = [*traced.values, *[value for _, value in traced.slots.values()]]
    if traced.returned is not None:
        values.append(traced.returned)
    leaves = [leaf for value in values for leaf in value.leaves if type(leaf) is Leaf]
    tensors = [leaf.tensor for leaf in leaves if leaf.tensor is not None]
    return frozenset([id(tensor) for tensor in tensors if traced.graph.made(tensor)])


def _changed(watched: Watched, what: str) -> TracingError:
    """The error for a container that a block may not change."""
    if isinstance(watched.container, np.ndarray):
        return TracingError(_CHANGED.format(what=what, changed="elements", path=watched.path))
    return length_changed(what, watched.path)


def length_changed(what: str, path: str) -> LengthChangedError:
    """The error for a container whose length a block changes."""
    return LengthChangedError(_CHANGED.format(what=what, changed="length or the keys", path=path))


def _is_among(error: Exception, raised: list[Any]) -> bool:
    """Whether an exception comes from a `raise` statement."""
    return any(error is one or (isinstance(one, type) and type(error) is one) for one in raised)


def add_number(graph: CapturingGraph, number: Any, dtype: DType, shape: Shape) -> int:
    """A node for a number in every element of a shape."""
    node = graph.add_constant(np.array(number, dtype))
    return graph.add(get_op("broadcast_to"), (node,), (shape,)) if shape else node


def convert_node(graph: CapturingGraph, node: int, spec: TensorSpec) -> int:
    """The node in the dtype and shape of `spec`."""
    if graph.spec(node).dtype != spec.dtype:
        node = graph.add(get_op("cast"), (node,), (spec.dtype,))
    if graph.spec(node).static_shape != spec.static_shape:
        node = graph.add(get_op("broadcast_to"), (node,), (spec.static_shape,))
    return node
