"""Loops over a few numbers in small arrays become loops over the numbers, which fit into registers.

The elements of each array are carried one by one: a pointwise op on three elements becomes three
ops on numbers, a view or a concatenation becomes nothing. Loops that index by what they compute,
or that do more than this, keep their arrays.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np

from tapeline.compiler.ir.control_ops import LoopForm
from tapeline.compiler.ir.graph import Graph
from tapeline.compiler.ir.structure_ops import CONSTANT, PICK, PLACEHOLDER
from tapeline.runtime.op import Assembly, Branch, IndexMap, Loop, Pointwise, Reduction, get_op
from tapeline.runtime.spec import Shape, TensorSpec

if TYPE_CHECKING:
    import numpy.typing as npt

MOST_ELEMENTS = 8
"""Elements of an array that is split; vectors do better from here on."""
MOST_CARRIED = 24
"""Numbers that a body may take."""
MOST_NODES = 400
FEWEST_TURNS = 16

Ids: TypeAlias = "npt.NDArray[np.int64]"
"""The nodes of the elements of an array, in its shape."""

_FOLDS = {"sum": "add", "prod": "multiply", "max": "maximum", "min": "minimum"}


def split_graphs(form: LoopForm, graphs: Sequence[Graph]) -> list[Graph] | None:
    """The graphs of a loop with numbers in the place of small arrays; None to keep them."""
    body = form.body
    specs = [body.spec(node) for node in body.placeholders]
    if all(not spec.shape for spec in specs[: form.n_state]):
        return None
    if form.length is not None and form.length < FEWEST_TURNS:
        return None
    if sum(spec.size for spec in specs) > MOST_CARRIED:
        return None
    found = [_split(graph) for graph in graphs]
    return None if any(graph is None for graph in found) else cast(list[Graph], found)


def elements_of(graph: Graph, node: int, shape: Shape, leading: int = 0) -> list[int]:
    """Nodes for the elements of an array of `shape` behind `leading` axes, in C order."""
    if not shape:
        return [node]
    full = ("slice", None, None, None)
    return [
        graph.add(get_op("getitem"), (node,), (((full,) * leading) + place,))
        for place in np.ndindex(shape)
    ]


def array_of(graph: Graph, nodes: Sequence[int], shape: Shape, leading: int = 0) -> int:
    """The node of the array with these elements: the reverse of `elements_of`."""
    if not shape:
        return nodes[0]
    columns = [graph.add(get_op("expand_dims"), (node,), ((leading,),)) for node in nodes]
    joined = graph.add(get_op("concat"), columns, (leading, (1,) * len(nodes)))
    if len(shape) == 1:
        return joined
    rows = graph.spec(joined).static_shape[:leading]
    return graph.add(get_op("reshape"), (joined,), ((*rows, *shape),))


# --- a body ------------------------------------------------------------------------------------


def _split(graph: Graph) -> Graph | None:
    made = Graph(graph.name)
    values: list[Any] = []
    for node in range(len(graph)):
        ids = _elements(graph, node, values, made)
        if ids is None or len(made) > MOST_NODES:
            return None
        values.append(ids)
    made.outputs = [int(i) for node in graph.outputs for i in np.ravel(values[node])]
    return made


def _elements(graph: Graph, node: int, values: list[Any], made: Graph) -> Any:
    """The elements of a node's value as nodes of the new graph; None where it cannot be split."""
    op, spec, location = graph.ops[node], graph.specs[node], graph.locations[node]
    inputs = [values[i] for i in graph.inputs[node]]
    if not isinstance(spec, TensorSpec) or isinstance(op.lowering, Branch | Loop) or op is PICK:
        return _whole(graph, node, inputs, made)
    is_native = spec.dtype.kind in "biu" or spec.dtype.name in ("float32", "float64")
    if spec.size > MOST_ELEMENTS or not is_native or not op.is_pure:
        return None
    shape = spec.static_shape
    if op is PLACEHOLDER:
        name, number = str(graph.attrs[node][0]), TensorSpec((), spec.dtype)
        return _filled(shape, [
            made.add_placeholder(number, f"{name}_{k}" if shape else name, location)
            for k in range(spec.size)
        ])  # fmt: skip
    if op is CONSTANT:
        array = graph.constant_value(node)
        assert array is not None
        return _filled(shape, [made.add_constant(x, location) for x in array.reshape(-1)])
    match op.lowering:
        case Pointwise():
            spread = np.broadcast_arrays(*inputs) if inputs else []
            columns = zip(*(ids.reshape(-1).tolist() for ids in spread), strict=True)
            attrs = graph.attrs[node]
            return _filled(shape, [made.add(op, row, attrs, location) for row in columns])
        case IndexMap():
            return np.asarray(op.kernel(inputs[0], *graph.attrs[node]))
        case Assembly():
            return _assembled(graph, node, inputs, made)
        case Reduction(kind):
            return _folded(graph, node, kind, inputs[0], made)
        case _:
            return None


def _filled(shape: Shape, ids: list[int]) -> Ids:
    return np.array(ids, np.int64).reshape(shape)


def _whole(graph: Graph, node: int, inputs: list[Any], made: Graph) -> Any:
    """A node of numbers only, kept as it is."""
    specs = graph.specs[node]
    parts = (specs,) if isinstance(specs, TensorSpec) else specs
    if any(spec.shape for spec in parts) or any(np.ndim(ids) for ids in inputs):
        return None
    copied = made.copy_node(graph, node, [int(ids) for ids in inputs])
    return np.asarray(copied)


def _assembled(graph: Graph, node: int, inputs: list[Any], made: Graph) -> Any:
    op, spec = graph.ops[node], graph.spec(node)
    assert isinstance(op.lowering, Assembly)
    out = np.zeros(spec.static_shape, np.int64)
    given = [graph.spec(i) for i in graph.inputs[node]]
    for part in op.lowering.parts(given, graph.attrs[node]):
        if part.fill is None:
            if given[part.source].dtype != spec.dtype:
                return None
            out[part.region] = inputs[part.source]
        else:
            out[part.region] = made.add_constant(np.asarray(part.fill, spec.dtype))
    return out


def _folded(graph: Graph, node: int, kind: str, ids: Ids, made: Graph) -> Any:
    given, spec, location = (
        graph.spec(graph.inputs[node][0]), graph.spec(node), graph.locations[node]
    )  # fmt: skip
    axes = cast(tuple[int, ...], graph.attrs[node][0])
    if kind not in _FOLDS or given.dtype != spec.dtype or math.prod(ids.shape) == 0:
        return None
    kept = [axis for axis in range(ids.ndim) if axis not in axes]
    rows = ids.transpose([*kept, *axes]).reshape(spec.size, -1)
    results = []
    for first, *rest in rows.tolist():
        total = first
        for following in rest:
            total = made.add(get_op(_FOLDS[kind]), (total, following), (), location)
        results.append(total)
    return _filled(spec.static_shape, results)
