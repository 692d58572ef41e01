"""The records a tape is made of: nodes that hang on values, and the sets of tapes they belong to.

A node is reached from the value it describes and from younger nodes, never from a tape. A tape
finds its nodes through weak references only, so a value that dies takes its history with it.

Two invariants hold everywhere: a node is older (has a smaller serial) than every node that uses
it, and what a node saves is raw values, never tensors (a tensor would close a cycle).
"""

from __future__ import annotations

from _thread import RLock
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any, NoReturn
from weakref import ref

from tapeline.runtime.op import Attrs, Op

SERIALS = count(1)
"""The serials that nodes get in turn."""
next_serial: Callable[[], int] = SERIALS.__next__


class TapeSet(set["ref[Node]"]):
    """The weak references to all nodes that were recorded for exactly the tapes `ids`.

    Compared and hashed by identity: there is one per combination of live tapes.
    """

    __slots__ = ("drop", "ids", "memo")

    ids: tuple[int, ...]
    """Ids of the tapes, ascending; none once the only tape is released."""
    memo: dict[TapeSet, TapeSet | None] | None
    """What `meet` found, while this set was the active one."""
    drop: Callable[[ref[Node]], object] | None
    """The bound `discard`, called when a node dies; a cycle that the release of a tape cuts."""

    __hash__ = object.__hash__  # type: ignore[assignment]  # a set compared by identity
    __eq__ = object.__eq__
    __ne__ = object.__ne__

    def __reduce__(self) -> NoReturn:
        raise TypeError("the records of a tape cannot be pickled")


class Node:
    """How one value came about: an op and its parents, or a leaf (no op) that tapes watch."""

    __slots__ = ("__weakref__", "attrs", "op", "parents", "rec", "saved", "serial", "tapes")

    serial: int
    op: Op | None
    attrs: Attrs
    parents: tuple[Node | None, ...]
    """One per input; None for an input that no tape watched."""
    saved: tuple[Any, ...]
    rec: TapeSet
    """The tapes that recorded the op: they may look past this node."""
    tapes: TapeSet
    """The tapes that know the value: those of `rec`, and those that watch it as a leaf."""


class JointNode(Node):
    """The node of an op with several outputs. Its values hang on `PickNode`s."""

    __slots__ = ("outputs", "specs")

    outputs: tuple[ref[PickNode], ...]
    specs: tuple[tuple[tuple[int, ...], Any], ...]
    """Shape and dtype of each output."""


class PickNode(Node):
    """Output number `index` of the op of its only parent, a `JointNode`."""

    __slots__ = ("index",)

    index: int


def _new_set(ids: tuple[int, ...]) -> TapeSet:
    made = TapeSet()
    made.ids = ids
    made.memo = None
    made.drop = made.discard
    return made


EMPTY = _new_set(())
"""The set of no tapes; holds nothing."""
LOCK = RLock()
"""Held where the tapes of a node change: several threads may watch one value. Reentrant, for a tape
that dies of garbage collection releases itself wherever the thread happens to be."""
OWN: dict[int, TapeSet] = {}
"""The set of each tape alone, by its id, until it is released."""
COMBINED: dict[tuple[int, ...], TapeSet] = {}
"""The sets of several tapes, by their ids, until one of them is released."""
TAPE_IDS = count(1)
"""The ids that tapes get in turn."""


def open_tape_set() -> TapeSet:
    """The set of a new tape alone."""
    ident = next(TAPE_IDS)
    made = OWN[ident] = TapeSet()
    made.ids = (ident,)
    made.memo = None
    made.drop = made.discard
    return made


def tape_set(ids: tuple[int, ...]) -> TapeSet:
    """The one set for these ascending tape ids. A single released tape watches nothing."""
    if not ids:
        return EMPTY
    if len(ids) == 1:
        return OWN.get(ids[0], EMPTY)
    found = COMBINED.get(ids)
    return found if found is not None else COMBINED.setdefault(ids, _new_set(ids))


def union_set(a: TapeSet, b: TapeSet) -> TapeSet:
    """The set for the live tapes of both."""
    return tape_set(tuple(sorted(i for i in {*a.ids, *b.ids} if i in OWN)))


def join(a: TapeSet | None, b: TapeSet | None) -> TapeSet | None:
    """As `union_set`, where None stands for no tapes."""
    if a is None or a is b:
        return b
    if b is None:
        return a
    joined = union_set(a, b)
    return None if joined is EMPTY else joined


def meet(watching: TapeSet, active: TapeSet) -> TapeSet | None:
    """The tapes of `active` among `watching`; None when there are none."""
    memo = active.memo
    if memo is None:
        memo = active.memo = {}
    try:
        return memo[watching]
    except KeyError:
        found = tape_set(tuple([i for i in watching.ids if i in active.ids]))
        result = memo[watching] = None if found is EMPTY else found
        return result


def new_leaf(tapes: TapeSet) -> Node:
    """A node without history that `tapes` watch."""
    node = Node()
    node.serial = next_serial()
    node.op = None
    node.attrs = node.parents = node.saved = ()
    node.rec = EMPTY
    node.tapes = tapes
    return node


def watch_node(node: Node, own: TapeSet) -> None:
    """Let the tape know the value of the node, as a leaf if it did not record it."""
    with LOCK:
        if not node.tapes.ids:
            node.tapes = own
        elif own.ids[0] not in node.tapes.ids:
            node.tapes = union_set(node.tapes, own)


def enter(node: Node, tapes: TapeSet) -> None:
    """Make the finished node known to the tapes that record it."""
    node.rec = node.tapes = tapes
    tapes.add(ref(node, tapes.drop))


def record_one(
    op: Op, attrs: Attrs, parents: tuple[Node | None, ...], saved: tuple[Any, ...], tapes: TapeSet
) -> Node:
    """The node of an op with one output."""
    node = Node()
    node.serial = next_serial()
    node.op = op
    node.attrs = attrs
    node.parents = parents
    node.saved = saved
    enter(node, tapes)
    return node


def record_joint(
    op: Op,
    attrs: Attrs,
    parents: tuple[Node | None, ...],
    saved: tuple[Any, ...],
    specs: tuple[tuple[tuple[int, ...], Any], ...],
    tapes: TapeSet,
) -> tuple[PickNode, ...]:
    """The nodes of the outputs of an op with several."""
    node = JointNode()
    node.serial = next_serial()
    node.op = op
    node.attrs = attrs
    node.parents = parents
    node.saved = saved
    node.specs = specs
    picks = tuple([new_pick(node, index, tapes) for index in range(len(specs))])
    node.outputs = tuple([ref(pick) for pick in picks])
    enter(node, tapes)
    return picks


def new_pick(joint: JointNode, index: int, tapes: TapeSet) -> PickNode:
    """A node for output `index` of `joint`."""
    pick = PickNode()
    pick.serial = next_serial()
    pick.op = joint.op
    pick.attrs = pick.saved = ()
    pick.parents = (joint,)
    pick.index = index
    enter(pick, tapes)
    return pick


def sets_of(own: TapeSet) -> list[TapeSet]:
    """Every set that holds nodes of the tape whose own set this is."""
    (ident,) = own.ids
    return [own, *(found for ids, found in list(COMBINED.items()) if ident in ids)]


def live_nodes(own: TapeSet) -> list[Node]:
    """The nodes that the tape still knows, oldest first."""
    nodes: dict[int, Node] = {}
    for found in sets_of(own):
        for weak in list(found):
            node = weak()
            if node is not None:
                nodes[node.serial] = node
    return [nodes[serial] for serial in sorted(nodes)]


def release(own: TapeSet) -> None:
    """End the tape: nodes that no other tape knows lose their history."""
    (ident,) = own.ids
    LOCK.acquire()
    try:
        OWN.pop(ident, None)
        if CELLS:
            CELLS.pop(ident, None)
        for weak in list(own):
            node = weak()
            if node is not None:
                node.parents = node.saved = ()
                node.rec = EMPTY
                node.tapes = EMPTY if node.tapes is own else _without(node.tapes, ident)
        own.clear()
        own.ids = ()
        own.memo = own.drop = None
        if COMBINED:
            for ids in [ids for ids in list(COMBINED) if ident in ids]:
                _release_combined(ids, ident)
    finally:
        LOCK.release()


def _release_combined(ids: tuple[int, ...], ident: int) -> None:
    found = COMBINED.pop(ids, None)
    if found is None:
        return
    found.memo = found.drop = None
    rest = tape_set(tuple([i for i in ids if i != ident and i in OWN]))
    for weak in list(found):
        node = weak()
        if node is None:
            continue
        node.tapes = _without(node.tapes, ident)
        node.rec = rest
        if rest is EMPTY:
            node.parents = node.saved = ()
        else:
            rest.add(ref(node, rest.drop))


def _without(tapes: TapeSet, ident: int) -> TapeSet:
    return tape_set(tuple([i for i in tapes.ids if i != ident and i in OWN]))


# Cells that got a new value after a tape watched them: a source still names the watched value

CELLS: dict[int, dict[int, tuple[ref[Any], Node]]] = {}
"""Tape id -> id of the cell -> the cell, and the node of the value that the tape watched."""


def keep_watched(cell: Any, node: Node) -> None:
    """Remember the node for the tapes that watch it; its cell is about to get a new value."""
    for ident in node.tapes.ids:
        if ident in OWN and ident not in node.rec.ids:
            cells = CELLS.setdefault(ident, {})
            if id(cell) not in cells:
                remember_cell(ident, cell, node)


def remember_cell(ident: int, cell: Any, node: Node) -> None:
    """Let `cell`, as a source for the tape, name the value of `node`."""
    cells = CELLS.setdefault(ident, {})
    key = id(cell)
    cells[key] = (ref(cell, lambda _: cells.pop(key, None)), node)


def forget_cell(ident: int, cell: Any) -> None:
    """Let `cell` name the value it holds again."""
    if ident in CELLS:
        CELLS[ident].pop(id(cell), None)


def source_nodes(own: TapeSet, cells: Sequence[Any]) -> list[Node | None]:
    """The nodes that the cells name as sources for a tape; None for those it does not know."""
    (ident,) = own.ids
    kept = CELLS.get(ident)
    nodes = []
    for cell in cells:
        node = cell._node
        if kept and id(cell) in kept:
            node = kept[id(cell)][1]
        if node is not None and node.tapes is not own and ident not in node.tapes.ids:
            node = None
        nodes.append(node)
    return nodes
