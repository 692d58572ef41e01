"""The walk back over plain arrays, where nothing may record the rules of ops.

`walk` uses it. Machine code may stand in its place: see `WALKER`.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush, heappushpop
from typing import Any

import numpy as np

from tapeline.runtime.record import Node, TapeSet
from tapeline.runtime.tensor import Tensor, new_tensor

_ndarray = np.ndarray


def walk_arrays(
    own: TapeSet,
    wanted: dict[Node | None, Any],
    low: int,
    grads: dict[Node, Any],
    heap: list[tuple[int, Node]],
    node: Node,
) -> Node | None:
    """Pass the cotangent of a node on to its parents, then those of the nodes that follow it.

    Parameters
    ----------
    own : TapeSet
        The set of the tape whose nodes are walked.
    wanted : dict
        Takes the cotangents of its keys, the sources.
    low : int
        No source is older than this serial.
    grads : dict
        Node of an op -> its cotangent so far, an array.
    heap : list
        The nodes that wait for their turn, youngest first.
    node : Node
        Where to begin.

    Returns
    -------
    Node or None
        Where it stopped: at an op with one rule for all inputs, or without rules.
    """
    # All is spelled out in one frame: walks over small arrays spend their time here.
    (ident,) = own.ids
    owned: set[Node] | None = None
    while True:
        op: Any = node.op
        parents = node.parents
        if node.rec is not own and ident not in node.rec.ids:
            parents = ()
        elif op.joint_vjp is not None or op.n_outputs is not None or not op.vjps:
            return node
        ct = grads.pop(node)
        if node in wanted:
            wanted[node] = ct
        attrs, saved, rules = node.attrs, node.saved, op.vjps
        n_saved = len(saved)
        following = None
        position = -1
        for parent in parents:
            position += 1
            if parent is None:
                continue
            if parent.op is None:
                if parent not in wanted:
                    continue
                table: dict[Any, Any] = wanted
            elif parent.serial < low or (parent.tapes is not own and ident not in parent.tapes.ids):
                continue
            else:
                table = grads
            rule = rules[position]
            if rule is None:
                continue
            if n_saved == 1:
                part = rule(ct, attrs, saved[0])
            elif n_saved == 2:
                part = rule(ct, attrs, saved[0], saved[1])
            else:
                part = rule(ct, attrs, *saved)
            if part is None:
                continue
            held = table.get(parent)
            if held is not None:
                if owned is None:
                    owned = set()
                accumulate(owned, table, parent, held, part)
                continue
            table[parent] = part
            if table is wanted:
                continue
            if following is None:
                following = parent
            else:
                heappush(heap, (-parent.serial, parent))
        if following is None:
            if not heap:
                return None
            node = heappop(heap)[1]
        elif heap:
            node = heappushpop(heap, (-following.serial, following))[1]
        else:
            node = following


WALKER: list[Callable[..., Node | None]] = [walk_arrays]
"""The function that walks: `walk_arrays`, or machine code that does the same."""


def push(heap: list[tuple[int, Node]], node: Node) -> None:
    """Let a node wait for its turn."""
    heappush(heap, (-node.serial, node))


def pop(heap: list[tuple[int, Node]]) -> Node:
    """The youngest of those that wait."""
    return heappop(heap)[1]


def push_pop(heap: list[tuple[int, Node]], node: Node) -> Node:
    """The youngest of those that wait and the node, which waits if it is not that one."""
    return heappushpop(heap, (-node.serial, node))[1]


def accumulate(owned: set[Node], table: dict[Any, Any], node: Node, held: Any, part: Any) -> None:
    """Add to the cotangent that a node has in the table. `owned` are the nodes whose cotangent is
    an array made here, which nobody else has seen."""
    if node in owned and type(part) is _ndarray:
        held += part
        return
    table[node] = total = add_up(held, part)
    if type(total) is _ndarray:
        owned.add(node)
    else:
        owned.discard(node)


def add_up(held: Any, part: Any) -> Any:
    """The sum of two arrays or two tensors; where they differ both become tensors."""
    if (type(held) is Tensor) != (type(part) is Tensor):
        held, part = as_cotangent(held), as_cotangent(part)
    return held + part


def as_cotangent(part: Any) -> Any:
    """An array as a tensor; tensors, None and cotangents of other kinds as they are."""
    if type(part) is _ndarray:
        return new_tensor(part)
    return new_tensor(np.asarray(part)) if isinstance(part, np.generic) else part
