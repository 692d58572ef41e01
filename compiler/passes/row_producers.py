"""Moves into a loop what prepares the rows that it reads, where that is a quick step.

A loop over the rows of `x @ w + b` reads the rows of `x @ w` and adds `b` itself: the sum is not
written to memory and read again. Rows of a few numbers are left alone, because whole arrays are
computed faster than they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from tapeline.compiler.ir.control_ops import is_loop, loop_form, remake
from tapeline.compiler.ir.graph import Graph
from tapeline.compiler.passes.base import Rebuild
from tapeline.runtime.op import get_op
from tapeline.runtime.spec import spec_of

SMALLEST_ROW = 64
"""Elements of a row that are worth it."""

_QUICK = frozenset(map(get_op, ("add", "subtract", "multiply", "negative", "cast", "maximum")))


def sink_rows(graph: Graph) -> Graph:
    """The graph with such steps in the bodies of its loops."""
    users = graph.users()
    work = Rebuild(graph)
    for node, op in enumerate(graph.ops):
        made = _sunk(work, node, users) if is_loop(op) and graph.attrs[node] else None
        if made is None:
            work.keep(node)
        else:
            work.replace(made)
    return work.finish().graph if work.changed else graph


def _sunk(work: Rebuild, node: int, users: list[list[int]]) -> tuple[int, ...] | None:
    """The results of a loop that prepares its rows itself; None where there is nothing to do."""
    graph = work.source
    op, attrs, inputs = graph.ops[node], graph.attrs[node], graph.inputs[node]
    form = loop_form(op, attrs)
    first, last = form.first + form.n_state, form.first + form.n_state + form.n_xs
    chosen = [k for k in range(first, last) if _may_sink(graph, inputs[k], node, users)]
    if not chosen:
        return None
    body = Graph(form.body.name)
    kept = [k for k in range(first, last) if k not in chosen]
    rows = list(dict.fromkeys(i for k in chosen for i in _operands(graph, inputs[k], True)))
    fixed = list(dict.fromkeys(i for k in chosen for i in _operands(graph, inputs[k], False)))
    values: dict[int, int] = {}
    placeholders = form.body.placeholders
    for k in (*range(form.n_state), *(k - form.first for k in kept)):
        values[placeholders[k]] = _copied(body, form.body, placeholders[k])
    given = {
        i: body.add_placeholder(spec_of(graph.spec(i).static_shape[1:], graph.spec(i).dtype), "row")
        for i in rows
    }
    for own in placeholders[form.n_state + form.n_xs :]:
        values[own] = _copied(body, form.body, own)
    given |= {i: body.add_placeholder(graph.spec(i), "fixed") for i in fixed}
    for k in chosen:
        producer = inputs[k]
        row = [given[i] for i in graph.inputs[producer]]
        made = body.add(
            graph.ops[producer], row, graph.attrs[producer], graph.locations[producer]
        )  # fmt: skip
        values[placeholders[k - form.first]] = made
    for inner in range(len(form.body)):
        if inner not in values:
            taken = [values[i] for i in form.body.inputs[inner]]
            values[inner] = body.copy_node(form.body, inner, taken)
    body.outputs = [values[end] for end in form.body.outputs]
    return _added(work, node, body, [*kept], rows, fixed, last)


def _copied(body: Graph, source: Graph, node: int) -> int:
    return body.add_placeholder(source.spec(node), str(source.attrs[node][0]))


def _may_sink(graph: Graph, producer: int, loop: int, users: list[list[int]]) -> bool:
    """Whether an array of rows is made by a quick step, for this loop only."""
    if graph.ops[producer] not in _QUICK or set(users[producer]) != {loop}:
        return False
    spec = graph.spec(producer)
    if graph.outputs.count(producer) or graph.inputs[loop].count(producer) != 1:
        return False
    if spec.size // max(spec.static_shape[0], 1) < SMALLEST_ROW:
        return False
    return all(
        graph.spec(i).ndim < spec.ndim or graph.spec(i).static_shape[0] == spec.static_shape[0]
        for i in graph.inputs[producer]
    )


def _operands(graph: Graph, producer: int, moving: bool) -> Sequence[int]:
    """The operands that have rows, or those that are the same for all rows."""
    ndim = graph.spec(producer).ndim
    return [i for i in graph.inputs[producer] if (graph.spec(i).ndim == ndim) == moving]


def _added(
    work: Rebuild,
    node: int,
    body: Graph,
    kept: Sequence[int],
    rows: Sequence[int],
    fixed: Sequence[int],
    last: int,
) -> tuple[int, ...]:
    """The new loop, in the target."""
    graph, target = work.source, work.target
    op, location = graph.ops[node], graph.locations[node]
    form = loop_form(op, graph.attrs[node])
    first = form.first + form.n_state
    given = work.inputs(node)
    inputs = [
        *given[:first],
        *(given[k] for k in kept),
        *(work.values[i] for i in rows),
        *given[last:],
        *(work.values[i] for i in fixed),
    ]
    graphs = [body]
    if form.test is not None:
        test = Graph(form.test.name)
        values = {own: _copied(test, form.test, own) for own in form.test.placeholders}
        for i in fixed:
            test.add_placeholder(graph.spec(i), "fixed")
        for inner in range(len(form.test)):
            if inner not in values:
                taken = [values[i] for i in form.test.inputs[inner]]
                values[inner] = test.copy_node(form.test, inner, taken)
        test.outputs = [values[end] for end in form.test.outputs]
        graphs.append(test)
    attrs = (form.n_state, len(kept) + len(rows), cast(int, form.length), form.reverse)
    made = target.add(remake(op, tuple(graphs)), inputs, attrs, location)
    return target.picks(made, location)
