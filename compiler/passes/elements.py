"""Prepares bodies for working on elements of arrays in place.

A sum of an array and of one that is zero but for one element becomes a write of that element. What
only reads comes before what writes, so that arrays need not be kept as they were.
"""

from __future__ import annotations

import heapq

import numpy as np

from tapeline.compiler.ir.graph import Graph
from tapeline.compiler.ir.structure_ops import PICK, PLACEHOLDER
from tapeline.compiler.passes.base import Rebuild, rebuild
from tapeline.compiler.passes.dce import DeadCode
from tapeline.runtime.op import Branch, Loop, get_op
from tapeline.runtime.spec import Shape, TensorSpec


def work_on_elements(graph: Graph) -> Graph:
    """The graph of a body after all steps."""
    return _reads_first(_named_reads(_sparse_sums(graph)))


def name_elements(graph: Graph) -> Graph:
    """The graph with fixed elements that are written, or that a gradient is of, named by a number:
    to be called before such ops are expanded."""
    if not {get_op("setitem"), get_op("getitem_grad")} & set(graph.ops):
        return graph
    users = graph.users()

    def rewrite(work: Rebuild, node: int) -> int | None:
        op, inputs = graph.ops[node], graph.inputs[node]
        if op is get_op("setitem") and not graph.spec(inputs[1]).shape:
            place = _fixed_place(graph.attrs[node][0], graph.spec(node).static_shape)
            return None if place is None else _put_at(work, node, place)
        if op is not get_op("getitem_grad") or graph.spec(inputs[0]).shape:
            return None
        if any(graph.ops[user] is not get_op("add") for user in users[node]):
            return None
        place = _fixed_place(graph.attrs[node][0], graph.spec(node).static_shape)
        return None if place is None else _gradient_at(work, node, place)

    return rebuild(graph, rewrite).graph


def _fixed_place(index: object, shape: Shape) -> int | None:
    """The position, in C order, of the one element that an index of ints names."""
    if not isinstance(index, tuple) or len(index) != len(shape) or not shape:
        return None
    place = 0
    for entry, extent in zip(index, shape, strict=True):
        if not isinstance(entry, int):
            return None
        place = place * extent + entry
    return place


def _put_at(work: Rebuild, node: int, place: int) -> int:
    target, location = work.target, work.source.locations[node]
    where = target.add_constant(np.asarray(place, np.int64), location)
    array, value = work.inputs(node)
    return target.add(get_op("put"), (array, where, value), (), location)


def _gradient_at(work: Rebuild, node: int, place: int) -> int:
    target, spec, location = work.target, work.source.spec(node), work.source.locations[node]
    where = target.add_constant(np.asarray(place, np.int64), location)
    (ct,) = work.inputs(node)
    flat = target.add(get_op("take_grad"), (ct, where), (0, spec.size), location)
    if spec.ndim == 1:
        return flat
    return target.add(get_op("reshape"), (flat,), (spec.static_shape,), location)


def _named_reads(graph: Graph) -> Graph:
    """The graph with fixed elements that are read named by a number, where arrays are written: a
    view of an array would have to be read before."""
    if get_op("getitem") not in graph.ops or not any(_writes(graph)):
        return graph

    def rewrite(work: Rebuild, node: int) -> int | None:
        if graph.ops[node] is not get_op("getitem") or graph.spec(node).shape:
            return None
        given = graph.spec(graph.inputs[node][0])
        place = _fixed_place(graph.attrs[node][0], given.static_shape)
        if place is None:
            return None
        target, location = work.target, graph.locations[node]
        (array,) = work.inputs(node)
        if given.ndim != 1:
            array = target.add(get_op("reshape"), (array,), ((given.size,),), location)
        where = target.add_constant(np.asarray(place, np.int64), location)
        return target.add(get_op("take"), (array, where), (0,), location)

    return rebuild(graph, rewrite).graph


def _writes(graph: Graph) -> list[bool]:
    """Which nodes may write in place."""
    return [_may_write(graph, node) for node in range(len(graph))]


# --- sums with one element ---------------------------------------------------------------------


def _sparse_sums(graph: Graph) -> Graph:
    if get_op("take_grad") not in graph.ops:
        return graph

    def rewrite(work: Rebuild, node: int) -> int | None:
        if graph.ops[node] is not get_op("add"):
            return None
        for array, other in (graph.inputs[node], graph.inputs[node][::-1]):
            single = _single_element(graph, other)
            if single is None or _single_element(graph, array) is not None:
                continue
            if graph.spec(array) != graph.spec(node):
                continue
            return _write(work, node, array, single)
        return None

    return DeadCode().run(rebuild(graph, rewrite).graph).graph


def _single_element(graph: Graph, node: int) -> int | None:
    """The `take_grad` of one number that a node is, whatever its shape."""
    while graph.ops[node] is get_op("reshape"):
        node = graph.inputs[node][0]
    if graph.ops[node] is not get_op("take_grad"):
        return None
    is_single = all(not graph.spec(i).shape for i in graph.inputs[node])
    return node if is_single else None


def _write(work: Rebuild, node: int, array: int, single: int) -> int:
    """The array with the number added at its place."""
    graph, target = work.source, work.target
    location = graph.locations[node]
    number, index = (work.values[i] for i in graph.inputs[single])
    axis, size = graph.attrs[single]
    place = target.add(get_op("check_index"), (index,), (size, axis), location)
    flat = before = work.values[array]
    if target.spec(before).ndim != 1:
        flat = target.add(get_op("reshape"), (before,), ((size,),), location)
    old = target.add(get_op("take"), (flat, place), (0,), location)
    new = target.add(get_op("add"), (old, number), (), location)
    return target.add(get_op("put"), (before, place, new), (), location)


# --- reads before writes -----------------------------------------------------------------------


def _reads_first(graph: Graph) -> Graph:
    """The nodes in an order in which those that may write in place wait for all others."""
    writers = _writes(graph)
    if not any(writers) or not all(op.is_pure for op in dict.fromkeys(graph.ops)):
        return graph
    waiting = [len(set(inputs)) for inputs in graph.inputs]
    users = graph.users()
    ready = [(writers[n], n) for n, count in enumerate(waiting) if not count]
    heapq.heapify(ready)
    made = Graph(graph.name)
    values: dict[int, int] = {}
    while ready:
        _, node = heapq.heappop(ready)
        values[node] = made.copy_node(graph, node, [values[i] for i in graph.inputs[node]])
        for user in users[node]:
            waiting[user] -= 1
            if not waiting[user]:
                heapq.heappush(ready, (writers[user], user))
    made.placeholders = [values[node] for node in graph.placeholders]
    made.outputs = [values[node] for node in graph.outputs]
    return made


def _may_write(graph: Graph, node: int) -> bool:
    op = graph.ops[node]
    if op is get_op("put"):
        return True
    if op is PICK or op is PLACEHOLDER or not isinstance(op.lowering, Branch | Loop):
        return False
    specs = graph.specs[node]
    parts = (specs,) if isinstance(specs, TensorSpec) else specs
    return any(spec.shape for spec in parts)
