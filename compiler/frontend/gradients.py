"""`gradients`: derivatives between tensors of one trace, after the fact and without a tape.

The nodes of the graph that lead from the sources to the targets become the nodes of a tape of
their own, which is walked back at once. So the rules and the conventions are those of the tape.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from tapeline.compiler.frontend.capture import CapturingGraph
from tapeline.compiler.frontend.symbol import Symbol
from tapeline.compiler.ir.structure_ops import CONSTANT, PICK, PLACEHOLDER
from tapeline.runtime import nest
from tapeline.runtime.backprop import Unconnected, walk_from
from tapeline.runtime.dispatch import STATE, is_recorded
from tapeline.runtime.errors import ArgumentError, ShapeError, TapeError
from tapeline.runtime.record import (
    Node,
    TapeSet,
    new_leaf,
    open_tape_set,
    record_joint,
    record_one,
    release,
)
from tapeline.runtime.tape import hide_tapes
from tapeline.runtime.tensor import Tensor, as_tensor
from tapeline.runtime.walk import TENSOR_SPACE


def gradients(
    ys: Any,
    xs: Any,
    grad_ys: Any = None,
    unconnected_gradients: Unconnected = "none",
    stop_gradients: Any = None,
) -> list[Any]:
    """The gradients of the sum of `ys` with respect to each of `xs`, inside a compiled function.

    No tape is needed: the graph that is being traced says how one comes from the other. Eagerly
    nothing does, and only `GradientTape` and the functions over it work. Tapes of the trace do not
    see how these gradients are computed; call `gradients` again for higher orders.

    Parameters
    ----------
    ys : Tensor or structure of them
        What was computed in this trace.
    xs : Tensor, Variable or structure of them
        What to differentiate by; intermediate results may be among them.
    grad_ys : structure of TensorLike or None, optional
        One cotangent, or None for ones, per leaf of `ys`.
    unconnected_gradients : "none" or "zero"
        What stands for the gradient of what no target depends on.
    stop_gradients : Tensor or structure of them, optional
        Taken for constants: no gradient flows through them.

    Returns
    -------
    list of Tensor or None
        One per leaf of `xs`.

    Raises
    ------
    TapeError
        (a RuntimeError) outside of a trace.
    ArgumentError, ShapeError
        If `grad_ys` does not fit `ys`.

    Examples
    --------
    >>> import tapeline as tl
    >>> @tl.function
    ... def slope(x):
    ...     y = x * x * x
    ...     return tl.gradients(y, x)[0]
    >>> slope(tl.asarray(2.0))
    tl.Tensor(12., shape=(), dtype=float64)
    """
    graph = STATE.handler
    if not isinstance(graph, CapturingGraph):
        raise TapeError(
            "gradients: it works on what a trace has recorded, so only in a function under "
            "tl.function; eagerly use tl.GradientTape or tl.grad"
        )
    if unconnected_gradients not in ("none", "zero"):
        raise ArgumentError(
            f"gradients: unconnected_gradients must be 'none' or 'zero', got "
            f"{unconnected_gradients!r}"
        )
    targets = [as_tensor(y, None, "gradients: ys") for y in nest.flatten(ys)]
    sources = [as_tensor(x, None, "gradients: xs") for x in nest.flatten(xs)]
    stops = [] if stop_gradients is None else nest.flatten(stop_gradients)
    stopped = {graph.value_id(as_tensor(x)) for x in stops}
    seeds = _cotangents(targets, ys, grad_ys)
    wanted = [graph.value_id(x) for x in sources]
    with hide_tapes():
        found = _walk_graph(graph, [graph.value_id(y) for y in targets], seeds, wanted, stopped)
    if unconnected_gradients == "zero":
        found = [
            TENSOR_SPACE.zeros(x.shape, x.dtype) if part is None else part
            for x, part in zip(sources, found, strict=True)
        ]
    return found


def _cotangents(targets: Sequence[Tensor], ys: Any, grad_ys: Any) -> list[Tensor]:
    """One cotangent per target, ones where none is given."""
    given: list[Any] = [None] * len(targets)
    if grad_ys is not None:
        given = [grad_ys] if nest.is_leaf(ys) and len(targets) == 1 else list(grad_ys)
        if nest.is_leaf(ys) and isinstance(grad_ys, list | tuple):
            given = list(grad_ys)
    if len(given) != len(targets):
        raise ArgumentError(f"gradients: {len(given)} grad_ys for {len(targets)} ys")
    seeds = []
    for target, ct in zip(targets, given, strict=True):
        seed = TENSOR_SPACE.ones(target.shape, target.dtype)
        if ct is not None:
            seed = as_tensor(ct, target.dtype, "gradients: grad_ys")
        if seed.shape != target.shape:
            raise ShapeError(
                f"gradients: a cotangent of shape {seed.shape} for a target of shape {target.shape}"
            )
        seeds.append(seed)
    return seeds


def _walk_graph(
    graph: CapturingGraph,
    targets: Sequence[int],
    seeds: Sequence[Tensor],
    sources: Sequence[int],
    stopped: set[int],
) -> list[Any]:
    own = open_tape_set()
    try:
        nodes = _tape_nodes(graph, own, set(sources), stopped, max(targets, default=-1))
        starts = [
            (node, seed)
            for target, seed in zip(targets, seeds, strict=True)
            if (node := nodes.get(target)) is not None
        ]
        return walk_from(TENSOR_SPACE, own, [nodes.get(source) for source in sources], starts)
    finally:
        release(own)


def _tape_nodes(
    graph: CapturingGraph, own: TapeSet, sources: set[int], stopped: set[int], last: int
) -> dict[int, Node]:
    """A tape node for each node of the graph, up to `last`, that depends on a source."""
    nodes: dict[int, Node] = {}
    joint: dict[int, Sequence[Node]] = {}
    for at in range(last + 1):
        op = graph.ops[at]
        inputs = graph.inputs[at]
        if at in stopped or op is PLACEHOLDER or op is CONSTANT:
            pass
        elif op is PICK:
            if inputs[0] in joint and _is_float(graph, at):
                nodes[at] = joint[inputs[0]][cast(int, graph.attrs[at][0])]
        elif is_recorded(op) and any(k in nodes for k in inputs):
            parents = tuple([nodes.get(k) for k in inputs])
            saved = op.save(*(_symbol(graph, k) for k in inputs), *_results(graph, at))
            if op.n_outputs is None:
                if _is_float(graph, at):
                    nodes[at] = record_one(op, graph.attrs[at], parents, saved, own)
            else:
                specs = tuple([(s.shape, s.dtype) for s in _results(graph, at)])
                joint[at] = record_joint(op, graph.attrs[at], parents, saved, specs, own)
        if at in sources and at not in nodes and _is_float(graph, at):
            nodes[at] = new_leaf(own)
    return nodes


def _is_float(graph: CapturingGraph, at: int) -> bool:
    return graph.spec(at).dtype.kind in "fcV"


def _symbol(graph: CapturingGraph, at: int) -> Symbol:
    return Symbol(graph, at, graph.spec(at))


def _results(graph: CapturingGraph, at: int) -> list[Symbol]:
    """What stands for the results of a node: symbols, of its picks where there are several."""
    if graph.ops[at].n_outputs is None:
        return [_symbol(graph, at)]
    picks = graph.picks(at, graph.locations[at])
    return [_symbol(graph, pick) for pick in picks]
