"""Splits a graph that computes outputs and gradients into a forward and a backward graph.

In the joint graph some placeholders are cotangents. What depends on one belongs to the backward
graph; all the rest could be computed in the forward graph, and kept, or again in the backward
graph. Which of those values are kept (the *residuals*) is a minimum cut, weighted by bytes.

What the cut is told:

- placeholders that are no cotangents, and the primal outputs, are free to keep: somebody holds or
  writes them anyway;
- random ops, effects, calls, ops of `Trait.NO_RECOMPUTE` and ops without a lowering (host calls)
  are never run again, nor are reductions of something at least four times as big as their result;
- at most `DEPTH_LIMIT` ops on a path are run again: with nothing but cheap ops and free inputs the
  minimum would be to run all of the forward computation again;
- constants are not kept: both graphs hold them.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from tapeline.compiler.autodiff.mincut import CutProblem, minimum_cut
from tapeline.compiler.ir.graph import Graph
from tapeline.compiler.ir.structure_ops import CONSTANT, PICK, PLACEHOLDER
from tapeline.runtime.errors import GraphError
from tapeline.runtime.op import Branch, IndexMap, Loop, Op, Reduction, Trait

DEPTH_LIMIT = 64
REDUCTION_FACTOR = 4


@dataclass(frozen=True, slots=True)
class Partition:
    """A forward and a backward graph.

    Attributes
    ----------
    forward : Graph
        Takes the joint graph's placeholders that are no cotangents, in their order. Its outputs are
        the primal outputs, then the residuals.
    backward : Graph
        Takes the residuals, then all the cotangents in the order given. Its outputs are the
        gradient outputs.
    residuals : tuple of int
        The joint graph's ids of the residuals, ascending.
    n_forward_outputs : int
        How many outputs of `forward` are primal.
    input_of_residual : tuple of (int or None)
        For each residual the position of the forward graph's placeholder that it is, else None.
    output_of_residual : tuple of (int or None)
        For each residual the position of the (first) primal output that it is, else None.
    """

    forward: Graph
    backward: Graph
    residuals: tuple[int, ...]
    n_forward_outputs: int
    input_of_residual: tuple[int | None, ...]
    output_of_residual: tuple[int | None, ...]


def partition(
    joint: Graph,
    n_forward_outputs: int,
    cotangents: Sequence[int],
    depth_limit: int = DEPTH_LIMIT,
    dear: Collection[int] = (),
    max_bytes: int | None = None,
) -> Partition:
    """The forward and the backward graph of a joint graph.

    Parameters
    ----------
    joint : Graph
        Its first `n_forward_outputs` outputs are the primal outputs, the rest are gradients. Dead
        nodes may be there, and land in neither graph; effects stay.
    n_forward_outputs : int
        How many outputs are primal.
    cotangents : sequence of int
        The ids of the placeholders that are cotangents of primal outputs.
    depth_limit : int
        How many ops on a path may be run again.
    dear : collection of int
        Placeholders that are not free to keep: what a loop carries lasts for one turn only.
    max_bytes : int, optional
        How much may be kept besides inputs and outputs. Where that is less than the minimum cut
        keeps, some of what it would keep is kept, evenly along the way, and the rest is run again,
        dear or not, shortly before it is needed. Random draws and effects are never run again.

    Raises
    ------
    GraphError
        If a primal output depends on a cotangent, or a cotangent is no placeholder.
    """
    for i in cotangents:
        if joint.ops[i] is not PLACEHOLDER:
            raise GraphError(f"partition: the cotangent %{i} is no placeholder")
    outputs = joint.outputs[:n_forward_outputs]
    gradients = joint.outputs[n_forward_outputs:]
    late = _depends_on(joint, cotangents)
    for i in outputs:
        if late[i]:
            raise GraphError(f"partition: the primal output %{i} depends on a cotangent")
    residuals = _choose_residuals(joint, late, set(outputs), gradients, depth_limit, dear)
    over = max_bytes is not None and _kept_bytes(joint, residuals, outputs) > max_bytes
    if max_bytes is not None and over:
        anchors = _anchors(joint, residuals, outputs, max_bytes)
        residuals = _choose_residuals(
            joint, late, set(outputs), gradients, len(joint), dear, anchors
        )
    inputs = [i for i in joint.placeholders if not late[i]]
    input_at = {node: k for k, node in enumerate(inputs)}
    output_at = {node: k for k, node in reversed(list(enumerate(outputs)))}
    return Partition(
        forward=_forward_graph(joint, late, inputs, [*outputs, *residuals]),
        backward=_backward_graph(joint, late, [*residuals, *cotangents], gradients, over),
        residuals=residuals,
        n_forward_outputs=n_forward_outputs,
        input_of_residual=tuple(input_at.get(i) for i in residuals),
        output_of_residual=tuple(output_at.get(i) for i in residuals),
    )


def _depends_on(joint: Graph, roots: Sequence[int]) -> list[bool]:
    found = [False] * len(joint)
    for i in roots:
        found[i] = True
    for i, inputs in enumerate(joint.inputs):
        for k in inputs:
            if found[k]:
                found[i] = True
                break
    return found


def _choose_residuals(
    joint: Graph,
    late: list[bool],
    outputs: set[int],
    gradients: Sequence[int],
    depth_limit: int,
    dear: Collection[int],
    anchors: Collection[int] | None = None,
) -> tuple[int, ...]:
    """The minimum cut of the early values that the backward computation needs.

    With anchors these are kept, and everything else is run again if it can be.
    """
    needed = _ancestors(joint, gradients, late)
    values = [i for i in range(len(joint)) if needed[i] and not late[i]]
    position = {node: k for k, node in enumerate(values)}
    users: list[list[int]] = [[] for _ in values]
    wanted = [False] * len(values)
    for i in gradients:
        if not late[i]:
            wanted[position[i]] = True
    for user in range(len(joint)):
        if not needed[user]:
            continue
        for i in joint.inputs[user]:
            at = position.get(i)
            if at is not None and late[user]:
                wanted[at] = True
            elif at is not None:
                users[at].append(position[user])
    sizes = [_keeping_cost(joint, i, outputs, dear) for i in values]
    if anchors is None:
        fixed = _never_run_again(joint, values, position, depth_limit, bool(dear))
    else:
        fixed = [i in anchors or _is_given(joint.ops[i]) for i in values]
        sizes = [0 if i in anchors else size for i, size in zip(values, sizes, strict=True)]
    labels = [f"%{i} ({joint.ops[i].name})" for i in values]
    saved = minimum_cut(CutProblem(sizes, users, fixed, wanted, labels))
    return tuple(values[k] for k in saved)


def _is_given(op: Op) -> bool:
    """Whether a value cannot be had a second time."""
    return op is PLACEHOLDER or bool(op.traits & (Trait.EFFECT | Trait.RANDOM))


def _kept_bytes(joint: Graph, residuals: Sequence[int], outputs: Collection[int]) -> int:
    """How much the residuals take that are neither inputs nor outputs."""
    return sum(joint.spec(i).nbytes for i in _own(joint, residuals, outputs))


def _own(joint: Graph, residuals: Sequence[int], outputs: Collection[int]) -> list[int]:
    return [i for i in residuals if joint.ops[i] is not PLACEHOLDER and i not in outputs]


def _anchors(
    joint: Graph, residuals: Sequence[int], outputs: Collection[int], max_bytes: int
) -> set[int]:
    """The residuals to keep within the budget, spread evenly over all of them."""
    own = _own(joint, residuals, outputs)
    kept = {i for i in own if _is_given(joint.ops[i])}
    optional = [i for i in own if i not in kept]
    room = max_bytes - sum(joint.spec(i).nbytes for i in kept)
    total = sum(joint.spec(i).nbytes for i in optional)
    credit = 0.0
    for i in optional:
        size = joint.spec(i).nbytes
        credit += size * max(room, 0) / total
        if credit >= size:
            credit -= size
            kept.add(i)
    return kept


def _ancestors(joint: Graph, roots: Sequence[int], late: list[bool]) -> list[bool]:
    """What the roots need, and what late effects need."""
    needed = [False] * len(joint)
    for i in roots:
        needed[i] = True
    for i in range(len(joint) - 1, -1, -1):
        if needed[i] or (late[i] and joint.ops[i].has(Trait.EFFECT)):
            needed[i] = True
            for k in joint.inputs[i]:
                needed[k] = True
    return needed


def _keeping_cost(
    joint: Graph, node_id: int, outputs: set[int], dear: Collection[int]
) -> int | None:
    spec = joint.specs[node_id]
    if isinstance(spec, tuple):
        return None  # its parts can be kept
    if node_id in dear:
        return spec.nbytes
    if dear and isinstance(joint.ops[node_id].lowering, IndexMap):
        (source,) = joint.inputs[node_id]
        if joint.spec(source).nbytes <= spec.nbytes:
            return None  # as good to keep what it is a view of
    if not dear and node_id in outputs:
        return 0
    if joint.ops[node_id] is PLACEHOLDER:
        return 0
    return spec.nbytes


def _never_run_again(
    joint: Graph, values: list[int], position: dict[int, int], depth_limit: int, in_loop: bool
) -> list[bool]:
    fixed = [False] * len(values)
    depth = [0] * len(values)
    heavy = {
        op: _is_heavy(op) and not (in_loop and _is_control(op)) for op in dict.fromkeys(joint.ops)
    }
    for k, i in enumerate(values):
        op = joint.ops[i]
        if op is CONSTANT:
            continue
        depth[k] = 1 + max([depth[position[s]] for s in joint.inputs[i]], default=0)
        if op is PLACEHOLDER or heavy[op] or depth[k] > depth_limit or _shrinks(joint, i):
            fixed[k] = True
            depth[k] = 0
    return fixed


def _is_heavy(op: Op) -> bool:
    if op is PICK or op is CONSTANT or op is PLACEHOLDER:
        return False
    if op.traits & (Trait.EFFECT | Trait.RANDOM | Trait.NO_RECOMPUTE | Trait.CALL):
        return True
    return op.lowering is None


def _is_control(op: Op) -> bool:
    """Whether the op is a choice or a loop that may run twice: an inner loop does so rather than
    keep all its turns for all turns of the outer one."""
    return isinstance(op.lowering, Branch | Loop) and op.is_pure


def _shrinks(joint: Graph, node_id: int) -> bool:
    """Whether the node reduces something to a quarter of its size or less."""
    if not isinstance(joint.ops[node_id].lowering, Reduction):
        return False
    read = sum(joint.spec(i).nbytes for i in joint.inputs[node_id])
    return read >= REDUCTION_FACTOR * joint.spec(node_id).nbytes


def _forward_graph(joint: Graph, late: list[bool], inputs: list[int], outputs: list[int]) -> Graph:
    """The early nodes that the outputs or an early effect need."""
    needed = [False] * len(joint)
    for i in [*inputs, *outputs]:
        needed[i] = True
    for i in range(len(joint) - 1, -1, -1):
        if not late[i] and (needed[i] or joint.ops[i].has(Trait.EFFECT)):
            needed[i] = True
            for k in joint.inputs[i]:
                needed[k] = True
    graph = Graph(joint.name)
    new: dict[int, int] = {}
    for i in range(len(joint)):
        if needed[i]:
            new[i] = graph.copy_node(joint, i, [new[k] for k in joint.inputs[i]])
    graph.placeholders = [new[i] for i in inputs]
    graph.outputs = [new[i] for i in outputs]
    return graph


def _backward_graph(
    joint: Graph, late: list[bool], inputs: list[int], gradients: Sequence[int], lazily: bool
) -> Graph:
    """Placeholders for the inputs, then what the gradients need: late nodes, and early ones run
    again; lazily: just before they are needed."""
    graph = Graph(f"{joint.name}_backward")
    new: dict[int, int] = {}
    for i in inputs:
        name = joint.attrs[i][0] if joint.ops[i] is PLACEHOLDER else f"{joint.ops[i].name}_{i}"
        new[i] = graph.add_placeholder(joint.spec(i), str(name), joint.locations[i])
    needed = [False] * len(joint)
    for i in gradients:
        needed[i] = True
    for i in range(len(joint) - 1, -1, -1):
        if needed[i] or (late[i] and joint.ops[i].has(Trait.EFFECT)):
            needed[i] = True
            if i not in new:
                for k in joint.inputs[i]:
                    needed[k] = True
    wanted = [i for i in range(len(joint)) if needed[i] and i not in new]
    for i in _just_in_time(joint, late, wanted, set(new)) if lazily else wanted:
        new[i] = graph.copy_node(joint, i, [new[k] for k in joint.inputs[i]])
    graph.outputs = [new[i] for i in gradients]
    return graph


def _just_in_time(
    joint: Graph, late: list[bool], wanted: Sequence[int], there: set[int]
) -> list[int]:
    """The nodes in an order in which early ones stand right before the first that needs them."""
    ordered: list[int] = []
    done = set(there)
    for root in [*(i for i in wanted if late[i]), *wanted]:
        stack = [root]
        while stack:
            missing = [k for k in joint.inputs[stack[-1]] if k not in done]
            if stack[-1] in done or not missing:
                i = stack.pop()
                if i not in done:
                    done.add(i)
                    ordered.append(i)
            else:
                stack += reversed(missing)
    return ordered
