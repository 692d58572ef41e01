"""Takes out of loops what every turn would compute again.

What a body computes from captures and constants alone is computed once, before the loop, and
becomes a capture. Only what cannot fail is moved, for the loop may make no turn at all; where it is
sure to make one, elements that are read are moved too. A matrix that is transposed to be multiplied
with is laid out that way once.
"""

from __future__ import annotations

from collections.abc import Sequence

from tapeline.compiler.ir.control_ops import LoopForm, loop_form, remake
from tapeline.compiler.ir.graph import Graph
from tapeline.compiler.ir.location import Location
from tapeline.compiler.ir.structure_ops import CONSTANT, PLACEHOLDER
from tapeline.compiler.passes.dce import DeadCode
from tapeline.runtime.op import (
    Assembly,
    Attrs,
    IndexMap,
    LibraryCall,
    Op,
    Pointwise,
    Reduction,
    get_op,
)
from tapeline.runtime.spec import TensorSpec

LARGE = 1 << 18
"""A pointwise result of more bytes is computed again rather than read again."""


def hoist_invariants(
    target: Graph, op: Op, attrs: Attrs, inputs: Sequence[int], location: Location | None
) -> tuple[Op, list[int]]:
    """The loop without what does not change, which is added to `target`, and its inputs."""
    form = loop_form(op, attrs)
    body = form.body
    fixed = _fixed_nodes(form, _runs(target, form, inputs))
    moved = _moved(body, fixed)
    if not moved:
        return op, list(inputs)
    outside = dict(zip(body.placeholders, inputs[form.first :], strict=True))
    values: dict[int, int] = {}

    def outer(node: int) -> int:
        """The node of the target for an invariant node; in order, so inputs are there."""
        return outside[node] if node in outside else values[node]

    needed = _needed(body, moved)
    for node in sorted(needed):
        if node not in outside:
            values[node] = target.copy_node(body, node, [outer(i) for i in body.inputs[node]])
    given = []
    for node in moved:
        value = outer(node)
        if isinstance(body.ops[node].lowering, IndexMap):
            value = target.add(get_op("identity"), (value,), (), location)
        given.append(value)
    graphs = [_without(graph, body, moved, graph is body) for graph in op.subgraphs]
    return remake(op, tuple(graphs)), [*inputs, *given]


def _runs(target: Graph, form: LoopForm, inputs: Sequence[int]) -> bool:
    """Whether the first turn is made in any case, with nothing to be seen before it fails."""
    if not form.first or form.test is not None:
        return False
    limit = target.constant_value(inputs[0])
    pure = all(op.is_pure or op is PLACEHOLDER for op in dict.fromkeys(form.body.ops))
    return pure and limit is not None and int(limit) > 0


def _fixed_nodes(form: LoopForm, runs: bool) -> set[int]:
    """The nodes of a body that are the same in each turn, and cannot fail; where the first turn
    `runs`, elements that are read too."""
    body = form.body
    fixed = set(body.placeholders[form.n_state + form.n_xs :])
    for node, op in enumerate(body.ops):
        if op is CONSTANT:
            fixed.add(node)
            continue
        known = all(i in fixed for i in body.inputs[node])
        if op is not PLACEHOLDER and known and _is_safe(body, node, runs):
            fixed.add(node)
    return fixed


def _is_safe(body: Graph, node: int, runs: bool) -> bool:
    op = body.ops[node]
    lowering = op.lowering
    if not op.is_pure or not isinstance(body.specs[node], TensorSpec):
        return False
    if op is get_op("check_index"):
        return runs
    if isinstance(lowering, LibraryCall):
        return lowering.name == "matmul" or (runs and lowering.name == "take")
    return isinstance(lowering, Pointwise | Reduction | IndexMap | Assembly)


def _moved(body: Graph, fixed: set[int]) -> list[int]:
    """The nodes whose values are to be captures."""
    outputs = set(body.outputs)
    found = []
    for node, users in enumerate(body.users()):
        op = body.ops[node]
        if node not in fixed or op is PLACEHOLDER or op is CONSTANT:
            continue
        outside = [user for user in users if user not in fixed]
        if not outside and node not in outputs:
            continue
        if isinstance(op.lowering, IndexMap):
            if any(_multiplies(body, user, node) for user in outside):
                found.append(node)
        elif not isinstance(op.lowering, Pointwise) or body.spec(node).nbytes <= LARGE:
            found.append(node)
    return found


def _multiplies(body: Graph, user: int, node: int) -> bool:
    """Whether a transposed matrix is the right operand of a product."""
    lowering = body.ops[user].lowering
    is_product = isinstance(lowering, LibraryCall) and lowering.name == "matmul"
    if not is_product or body.inputs[user][1] != node or body.ops[node] is not get_op(
        "permute_dims"
    ):  # fmt: skip
        return False
    return body.spec(node).ndim == 2 and body.spec(node).nbytes <= LARGE


def _needed(body: Graph, moved: Sequence[int]) -> set[int]:
    """All nodes that these depend on, themselves included."""
    needed: set[int] = set()
    pending = list(moved)
    while pending:
        node = pending.pop()
        if node not in needed:
            needed.add(node)
            pending += body.inputs[node]
    return needed


def _without(graph: Graph, body: Graph, moved: Sequence[int], is_body: bool) -> Graph:
    """The graph with further inputs; in a body they stand for the nodes that were moved."""
    made = Graph(graph.name)
    values: dict[int, int] = {}
    for node in graph.placeholders:
        values[node] = made.add_placeholder(graph.spec(node), str(graph.attrs[node][0]))
    for number, node in enumerate(moved):
        value = made.add_placeholder(body.spec(node), f"fixed{number}")
        if is_body:
            values[node] = value
    for node in range(len(graph)):
        if node not in values:
            values[node] = made.copy_node(graph, node, [values[i] for i in graph.inputs[node]])
    made.outputs = [values[node] for node in graph.outputs]
    return DeadCode().run(made).graph
