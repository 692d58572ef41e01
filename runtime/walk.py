"""The walk back over a tape's nodes: from targets to sources, youngest node first.

Serial order is an order of dependence, so every node is met once, after all that use it, and sums
are made in one fixed order. The walk is a loop: the length of a chain meets no recursion limit.

Gradient rules run on plain arrays where nothing could record them, on tensors where an outer tape
or a trace may. The rules are the same.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from heapq import heappop, heappush
from typing import Any, NamedTuple, NoReturn

import numpy as np

from tapeline.runtime.array_walk import WALKER, add_up, as_cotangent
from tapeline.runtime.dispatch import BUSY, STATE
from tapeline.runtime.errors import GradientError
from tapeline.runtime.indexed_slices import densified
from tapeline.runtime.op import OUT, Op, Trait
from tapeline.runtime.record import JointNode, Node, PickNode, TapeSet, new_pick
from tapeline.runtime.spec import DType, Shape
from tapeline.runtime.tensor import Tensor, new_tensor, wrap

_ndarray = np.ndarray


class VSpace(NamedTuple):
    """The vector space cotangents live in, so that the walk knows no tensor type."""

    add: Callable[[Any, Any], Any]
    zeros: Callable[[Shape, DType], Any]
    ones: Callable[[Shape, DType], Any]
    num_elements: Callable[[Any], int]


_CACHED: dict[tuple[int, Shape, DType], np.ndarray[Any, Any]] = {}


def filled(number: int, shape: Shape, dtype: DType) -> np.ndarray[Any, Any]:
    """An array that nobody writes to; small ones are made once."""
    key = (number, shape, dtype)
    found = _CACHED.get(key)
    if found is None:
        if len(_CACHED) >= 256:
            _CACHED.clear()
        found = np.full(shape, number, dtype)
        if found.nbytes <= 4096:
            found.flags.writeable = False
            _CACHED[key] = found
    return found


TENSOR_SPACE = VSpace(
    add=operator.add,
    zeros=lambda shape, dtype: new_tensor(filled(0, shape, dtype)),
    ones=lambda shape, dtype: new_tensor(filled(1, shape, dtype)),
    num_elements=lambda tensor: tensor.size,
)
"""The space of tensors, the default everywhere."""


RAW, _MIXED, _TENSORS, _FOREIGN = range(4)
"""What cotangents are: arrays; arrays where only this tape looks; tensors; what a space makes."""


_BEYOND = 1 << 62
"""A serial that no node reaches."""


def _mode_of(space: VSpace, own: TapeSet) -> int:
    """In which form cotangents go along in a walk over the tape that owns `own`."""
    if space is not TENSOR_SPACE:
        return _FOREIGN
    here = STATE.__dict__
    active = here["active"]
    if here["sparse"] or (BUSY[0] and (here["callbacks"] or here["handler"] is not None)):
        return _TENSORS
    if active is None:
        return RAW
    return _TENSORS if own.ids[0] in active.ids else _MIXED


def oldest_serial(nodes: Iterable[Node | None]) -> int:
    """The smallest serial; a walk does not look at nodes that are older."""
    low = _BEYOND
    for node in nodes:
        if node is not None and node.serial < low:
            low = node.serial
    return low


def walk(
    space: VSpace,
    own: TapeSet,
    wanted: dict[Node | None, Any],
    seeds: Sequence[tuple[Node, Any]],
) -> None:
    """Walk over the nodes of the tape that owns `own`, from the seeds, targets with their
    cotangents; leave in `wanted` the cotangent of each node there that the targets depend on."""
    low = oldest_serial(wanted)
    mode = _mode_of(space, own)
    if mode == RAW and len(seeds) == 1:  # what most programs ask for, with nothing around it
        ((node, ct),) = seeds
        if node.tapes is own and node.op is not None and type(ct) is _ndarray:
            grads: dict[Node, Any] = {node: ct}
            waiting: list[tuple[int, Node]] = []
            left = WALKER[0](own, wanted, low, grads, waiting, node)
            if left is not None:
                finish_walk(own, wanted, grads, waiting, left)
            return
    way = Walk(space, own, wanted, low, mode)
    way.start(seeds)
    heap = way.heap
    while heap and mode != RAW:
        way.expand(heappop(heap)[1])
    way.finish_arrays()


def finish_walk(
    own: TapeSet,
    wanted: dict[Node | None, Any],
    grads: dict[Node, Any],
    heap: list[tuple[int, Node]],
    node: Node,
) -> None:
    """Go on with a walk over arrays at a node where `walk_arrays` stopped."""
    way = Walk(TENSOR_SPACE, own, wanted, oldest_serial(wanted), RAW)
    way.grads, way.heap = grads, heap
    way.expand(node)
    way.finish_arrays()


class Walk:
    """One way back over the nodes of the tape that owns `own`."""

    __slots__ = ("grads", "heap", "ident", "low", "mode", "own", "owned", "space", "wanted")

    space: VSpace
    own: TapeSet
    ident: int
    wanted: dict[Node | None, Any]
    low: int
    """No source is older than this serial."""
    mode: int
    grads: dict[Node, Any]
    """Node of an op -> its cotangent so far; a list of them for a `JointNode`."""
    heap: list[tuple[int, Node]]
    owned: set[Node]
    """Nodes whose cotangent is an array made here, which nobody else has seen."""

    def __init__(
        self, space: VSpace, own: TapeSet, wanted: dict[Node | None, Any], low: int, mode: int
    ) -> None:
        self.space = space
        self.own = own
        (self.ident,) = own.ids
        self.wanted = wanted
        self.low = low
        self.mode = mode
        self.grads = {}
        self.heap = []
        self.owned = set()

    def start(self, seeds: Sequence[tuple[Node, Any]]) -> None:
        """Begin at the seeds, targets with their cotangents."""
        own, ident, is_raw = self.own, self.ident, self.mode == RAW
        for node, ct in seeds:
            if node.serial >= self.low and (node.tapes is own or ident in node.tapes.ids):
                self.deliver(node, ct._value if is_raw and type(ct) is Tensor else ct)

    def finish_arrays(self) -> None:
        """Expand all nodes that wait, where cotangents are arrays."""
        while self.heap:
            node = heappop(self.heap)[1]
            left = WALKER[0](self.own, self.wanted, self.low, self.grads, self.heap, node)
            if left is not None:
                self.expand(left)

    def expand(self, node: Node) -> None:
        """Pass the cotangent of a node on to its parents."""
        ct = self.grads.pop(node)
        if node in self.wanted:
            self.wanted[node] = ct
        if node.rec is not self.own and self.ident not in node.rec.ids:
            return
        op: Any = node.op
        if op.joint_vjp is not None or type(node) is not Node:
            self.expand_joint(node, ct)
            return
        rules = op.vjps or self.missing(node)
        (ct,), saved = self.prepare(node, [ct])
        for parent, rule in zip(node.parents, rules):  # noqa: B905  # empty once released
            if rule is not None and self.leads_on(parent):
                assert parent is not None
                part = rule(ct, node.attrs, *saved)
                if part is not None:
                    self.deliver(parent, part)

    def deliver(self, node: Node, part: Any) -> None:
        """Add to the cotangent of a node. Leaves end here, so theirs stand among the wanted."""
        if node.op is None:
            if node in self.wanted:
                held = self.wanted[node]
                if held is None:
                    self.wanted[node] = part
                else:
                    self.accumulate(self.wanted, node, held, part)
            return
        held = self.grads.get(node)
        if held is not None:
            self.accumulate(self.grads, node, held, part)
            return
        self.grads[node] = part
        heappush(self.heap, (-node.serial, node))

    def accumulate(self, table: dict[Any, Any], node: Node, held: Any, part: Any) -> None:
        """Add to the cotangent that a node has in the table."""
        if node in self.owned and type(part) is _ndarray:  # a tensor has a history to keep
            held += part  # a buffer made here of the first two parts; nobody else has seen it
            return
        table[node] = total = self.add(held, part)
        if type(total) is _ndarray:
            self.owned.add(node)
        else:
            self.owned.discard(node)

    def add(self, held: Any, part: Any) -> Any:
        """The sum of two cotangents."""
        return self.space.add(held, part) if self.mode == _FOREIGN else add_up(held, part)

    def leads_on(self, node: Node | None) -> bool:
        """Whether a source may lie at the node or beyond."""
        return (
            node is not None
            and node.serial >= self.low
            and (node.tapes is self.own or self.ident in node.tapes.ids)
            and (node.op is not None or node in self.wanted)
        )

    def missing(self, node: Node) -> tuple[()]:
        """Complain about an op without gradient rules, if a source lies behind it."""
        if any(self.leads_on(parent) for parent in node.parents):
            assert node.op is not None
            _reject_missing(node.op)
        return ()

    def pick(self, node: PickNode, ct: Any) -> None:
        """Keep the cotangent of one output until all outputs of its op are through."""
        for joint in node.parents:
            assert type(joint) is JointNode
            if joint.serial < self.low:
                continue
            cts = self.grads.get(joint)
            if cts is None:
                cts = self.grads[joint] = [None] * len(joint.specs)
                heappush(self.heap, (-joint.serial, joint))
            held = cts[node.index]
            cts[node.index] = ct if held is None else self.add(held, ct)

    def expand_joint(self, node: Node, ct: Any) -> None:
        """Run the one rule that an op has for all its inputs."""
        if type(node) is PickNode:
            return self.pick(node, ct)
        op = node.op
        assert op is not None
        cts: list[Any] = ct if type(node) is JointNode else [ct]
        needed = tuple([self.leads_on(parent) for parent in node.parents])
        if not any(needed):
            return
        if op.joint_vjp is None:
            _reject_missing(op)
        if type(node) is JointNode and not op.accepts_none:
            for index, (shape, dtype) in enumerate(node.specs):
                if cts[index] is None:
                    cts[index] = self.zeros(shape, dtype)
        cts, saved = self.prepare(node, cts)
        parts = op.joint_vjp(tuple(cts), node.attrs, needed, *saved)
        if op.masks:
            STATE.masked = True
        if not isinstance(parts, tuple | list) or len(parts) != len(node.parents):
            reject_parts(op, parts, node.parents)
        for parent, part, is_needed in zip(node.parents, parts, needed, strict=True):
            if is_needed and part is not None:
                assert parent is not None
                self.deliver(parent, part)

    def zeros(self, shape: Shape, dtype: DType) -> Any:
        """What stands for the cotangent of an output that nothing depends on."""
        if self.mode == _FOREIGN:
            return self.space.zeros(shape, dtype)
        zeros = filled(0, shape, dtype)
        return zeros if self.mode == RAW else new_tensor(zeros)

    def prepare(self, node: Node, cts: list[Any]) -> tuple[list[Any], tuple[Any, ...]]:
        """The cotangents and saved values of a node in the form in which its rules shall run."""
        if self.mode == RAW:
            return cts, node.saved
        if STATE.handler is not None:
            STATE.handler.enter_gradient(node)
        if self.mode == _FOREIGN:
            return cts, node.saved
        if self.mode == _MIXED and self.is_private(node, cts):
            return [ct._value if type(ct) is Tensor else ct for ct in cts], node.saved
        if node.op is None or not node.op.traits & Trait.ROWS:
            cts = [densified(ct) for ct in cts]
        return [as_cotangent(ct) for ct in cts], _lift(node)

    def is_private(self, node: Node, cts: list[Any]) -> bool:
        """Whether no other tape could record what the rules of the node do."""
        own = self.own
        if node.tapes is not own:
            return False
        for parent in node.parents:
            if parent is not None and parent.tapes is not own:
                return False
        return all(type(ct) is not Tensor or ct._node is None for ct in cts)


def _lift(node: Node) -> tuple[Any, ...]:
    """What the node saved, as tensors with the nodes they had."""
    op, parents = node.op, node.parents
    assert op is not None
    lifted = []
    for item, value in zip(op.saves, node.saved, strict=True):
        if not isinstance(item, int):
            lifted.append(value)
        elif item >= 0:
            lifted.append(wrap(value, parents[item]))
        else:
            lifted.append(wrap(value, _output_node(node, OUT - item, value.dtype)))
    return tuple(lifted)


def _output_node(node: Node, index: int, dtype: DType) -> Node | None:
    """The node of one output of the op; a new one where the output's own has died."""
    if dtype.kind not in "fcV":
        return None
    if type(node) is not JointNode:
        return node
    found = node.outputs[index]()
    return new_pick(node, index, node.rec) if found is None else found


def reject_parts(op: Op, parts: Any, parents: Sequence[Any]) -> NoReturn:
    """Complain about a rule that does not give one part per input."""
    count = len(parts) if isinstance(parts, tuple | list) else 1
    raise GradientError(
        f"{op.name}: its gradient rule returned {count} cotangents for {len(parents)} inputs; "
        "return one, or None, per input"
    )


def _reject_missing(op: Op) -> NoReturn:
    raise GradientError(
        f"{op.name}: the op has no gradient rule, but a source lies behind it; "
        "use tl.stop_gradient on its result if no gradient is meant to flow"
    )
