"""A graph with open sizes, for given sizes: the same nodes with numbers in the place of symbols.

Every node's spec is inferred anew by its op's own rule, so a graph of a trace with open sizes is
checked like any other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np

from tapeline.compiler.ir.control_ops import is_cond, is_loop, make_scan_op, remake
from tapeline.compiler.ir.graph import Graph, NodeSpec
from tapeline.compiler.ir.structure_ops import CONSTANT, PLACEHOLDER, SIZE
from tapeline.runtime.dims import Dim
from tapeline.runtime.op import Attrs, Loop, Op, Trait
from tapeline.runtime.sizes import Sizes
from tapeline.runtime.spec import TensorSpec, spec_of

CallOp = Callable[[Graph], Op]
"""The op that calls a graph."""


class Specializer:
    """Fills in the sizes of graphs that belong to one trace.

    Parameters
    ----------
    sizes : Sizes
        The symbols of the trace.
    values : sequence of int
        What each of them is.
    call_op : callable
        The op that calls a graph.
    """

    def __init__(self, sizes: Sizes, values: Sequence[int], call_op: CallOp) -> None:
        self.sizes = sizes
        self.values = tuple(values)
        self._call_op = call_op
        self._ops: dict[Op, Op] = {}

    def fill(self, value: Any) -> Any:
        """Attributes or shapes, nested in tuples, with numbers for open sizes."""
        if type(value) is Dim:
            return self.sizes.evaluate(value, self.values)
        if type(value) is tuple:
            return tuple([self.fill(item) for item in value])
        return value

    def spec(self, spec: TensorSpec) -> TensorSpec:
        """The spec with numbers for open sizes."""
        return spec_of(self.fill(spec.shape), spec.dtype)

    def graph(self, source: Graph, keeps_specs: bool = False) -> tuple[Graph, list[int]]:
        """The graph for these sizes, and for each node of `source` the one that stands for it.

        Where some sizes stay open, specs must be kept, for what they are when traced may not fit
        the sizes that are given.
        """
        target = Graph(source.name)
        ids: list[int] = []
        for node, op in enumerate(source.ops):
            inputs = tuple([ids[i] for i in source.inputs[node]])
            attrs, location = source.attrs[node], source.locations[node]
            if op is PLACEHOLDER:
                spec = self.spec(source.spec(node))
                made = target.add_placeholder(spec, cast(str, attrs[0]), location)
            elif op is SIZE and type(size := self.fill(attrs[0])) is not Dim:
                made = target.add_constant(np.int64(size), location)
            elif op is CONSTANT:
                made = target.copy_node(source, node, inputs)
            elif keeps_specs:
                specs = source.specs[node]
                filled = (
                    tuple(map(self.spec, specs)) if isinstance(specs, tuple) else self.spec(specs)
                )
                made = target.add_known(self.op(op), inputs, self.fill(attrs), filled, location)
            else:
                made = target.add(self.op(op), inputs, self.fill(attrs), location)
            ids.append(made)
        target.placeholders = [ids[node] for node in source.placeholders]
        target.outputs = [ids[node] for node in source.outputs]
        return target, ids

    def op(self, op: Op) -> Op:
        """The op with its graphs for these sizes; itself where none of them has an open size."""
        found = self._ops.get(op)
        if found is None:
            found = self._ops[op] = self._remade(op)
        return found

    def _remade(self, op: Op) -> Op:
        if op.specialize is not None:
            return op.specialize(self)
        if not any(map(has_open_sizes, op.subgraphs)):
            return op
        graphs = tuple([self.graph(graph)[0] for graph in op.subgraphs])
        if op.has(Trait.CALL):
            return self._call_op(graphs[0])
        if is_loop(op) and op.attr_names:
            extends = cast(Loop, op.lowering).extends
            return make_scan_op(*graphs, extends=None if extends is None else self.op(extends))
        assert is_cond(op) or is_loop(op)
        return remake(op, graphs)


def _is_open(value: Any) -> bool:
    return type(value) is Dim or (type(value) is tuple and any(map(_is_open, value)))


def _is_open_spec(spec: NodeSpec) -> bool:
    specs = spec if isinstance(spec, tuple) else (spec,)
    return any(_is_open(one.shape) for one in specs)


def has_open_sizes(graph: Graph) -> bool:
    """Whether a spec or an attribute of the graph, or of a graph in it, holds an open size."""
    return (
        any(map(_is_open_spec, graph.specs))
        or any(map(_is_open, map(_as_tuple, graph.attrs)))
        or any(op.specialize is not None for op in dict.fromkeys(graph.ops))
        or any(has_open_sizes(inner) for op in dict.fromkeys(graph.ops) for inner in op.subgraphs)
    )


def _as_tuple(attrs: Attrs) -> tuple[Any, ...]:
    return tuple(attrs)
