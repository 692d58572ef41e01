"""Backpropagation: from targets down a tape's nodes to the sources, youngest node first.

Serial order is an order of dependence, so every node is met once, after all that use it, and sums
are made in one fixed order. The walk is a loop: the length of a chain meets no recursion limit.

Gradient rules run on plain arrays where nothing could record them, on tensors where an outer tape
or a trace may. The rules are the same.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from heapq import heappop, heappush, heappushpop
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, NoReturn, TypeAlias

import numpy as np

from tapeline.runtime.dispatch import BUSY, GUARDED, STATE, guarding
from tapeline.runtime.errors import ArgumentError, GradientError, ShapeError
from tapeline.runtime.indexed_slices import densified
from tapeline.runtime.op import OUT, Op
from tapeline.runtime.record import JointNode, Node, PickNode, TapeSet, new_pick, source_nodes
from tapeline.runtime.spec import DType, Shape
from tapeline.runtime.tensor import Tensor, as_tensor, new_tensor, wrap

if TYPE_CHECKING:
    from tapeline.runtime.recorder import Tape

Unconnected: TypeAlias = Literal["none", "zero"]

_ndarray = np.ndarray


class VSpace(NamedTuple):
    """The vector space cotangents live in, so that the walk knows no tensor type."""

    add: Callable[[Any, Any], Any]
    zeros: Callable[[Shape, DType], Any]
    ones: Callable[[Shape, DType], Any]
    num_elements: Callable[[Any], int]


_CACHED: dict[tuple[int, Shape, DType], np.ndarray[Any, Any]] = {}


def _filled(number: int, shape: Shape, dtype: DType) -> np.ndarray[Any, Any]:
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
    zeros=lambda shape, dtype: new_tensor(_filled(0, shape, dtype)),
    ones=lambda shape, dtype: new_tensor(_filled(1, shape, dtype)),
    num_elements=lambda tensor: tensor.size,
)
"""The space of tensors, the default everywhere."""


_RAW, _MIXED, _TENSORS, _FOREIGN = range(4)
"""What cotangents are: arrays; arrays where only this tape looks; tensors; what a space makes."""


_BEYOND = 1 << 62
"""A serial that no node reaches."""


def _mode_of(space: VSpace, ident: int) -> int:
    """In which form cotangents go along in a walk over the tape `ident`."""
    active = STATE.active
    if space is not TENSOR_SPACE:
        return _FOREIGN
    if (
        STATE.sparse
        or STATE.callbacks
        or STATE.handler is not None
        or (active is not None and ident in active.ids)
    ):
        return _TENSORS
    return _RAW if active is None else _MIXED


class _Walk:
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
    """Node -> its cotangent so far; a list of them for a `JointNode`."""
    heap: list[tuple[int, Node]]
    owned: set[Node] | None
    """Nodes whose cotangent is an array made here, which nobody else has seen."""

    def run(
        self,
        space: VSpace,
        own: TapeSet,
        wanted: dict[Node | None, Any],
        seeds: Sequence[tuple[Node, Any]],
    ) -> None:
        """Start at the seeds, targets with their cotangents; leave in `wanted` the cotangent of
        each node there that the targets depend on."""
        # `leads_on` and `deliver` are spelled out, and there is no __init__: walks over small
        # arrays spend their time here
        low = _BEYOND
        for source in wanted:
            if source is not None and source.serial < low:
                low = source.serial
        (ident,) = own.ids
        self.space, self.own, self.ident, self.wanted, self.low = space, own, ident, wanted, low
        mode = self.mode = _mode_of(space, ident)
        grads = self.grads = {}
        heap = self.heap = []
        self.owned = None
        for node, ct in seeds:
            if node.serial >= low and (node.tapes is own or ident in node.tapes.ids):
                self.deliver(node, ct._value if mode == _RAW and type(ct) is Tensor else ct)
        next_node = heappop(heap)[1] if heap else None
        while next_node is not None:
            node = next_node
            ct = grads.pop(node)
            if node in wanted:
                wanted[node] = ct
            following = None
            if node.rec is own or ident in node.rec.ids:
                op: Any = node.op
                if type(node) is not Node or op.joint_vjp is not None:
                    self.expand_joint(node, ct)
                else:
                    attrs, saved = node.attrs, node.saved
                    if mode:
                        (ct,), saved = self.prepare(node, [ct])
                    for parent, rule in zip(node.parents, op.vjps or self.missing(node)):  # noqa: B905  # parents are empty once released
                        if (
                            parent is None
                            or rule is None
                            or parent.serial < low
                            or (parent.tapes is not own and ident not in parent.tapes.ids)
                            or (parent.op is None and parent not in wanted)
                        ):
                            continue
                        part = rule(ct, attrs, *saved)
                        if part is None:
                            continue
                        if parent in grads:
                            self.deliver(parent, part)
                            continue
                        grads[parent] = part
                        if parent.op is None:
                            continue
                        if following is None:
                            following = parent
                        else:
                            heappush(heap, (-parent.serial, parent))
            if following is None:
                next_node = heappop(heap)[1] if heap else None
            elif heap:
                next_node = heappushpop(heap, (-following.serial, following))[1]
            else:
                next_node = following
        for leaf in wanted:  # leaves do not go through the heap
            if leaf in grads:
                wanted[leaf] = grads[leaf]

    def deliver(self, node: Node, part: Any) -> None:
        """Add to the cotangent of a node."""
        grads = self.grads
        held = grads.get(node)
        if held is None:
            grads[node] = part
            if node.op is not None:
                heappush(self.heap, (-node.serial, node))
        elif self.owned is not None and node in self.owned:
            held += part  # a buffer made here of the first two parts; nobody else has seen it
        else:
            grads[node] = total = self.add(held, part)
            if type(total) is _ndarray:
                if self.owned is None:
                    self.owned = set()
                self.owned.add(node)

    def add(self, held: Any, part: Any) -> Any:
        """The sum of two cotangents."""
        if self.mode == _FOREIGN:
            return self.space.add(held, part)
        if (type(held) is Tensor) != (type(part) is Tensor):
            held, part = as_cotangent(held), as_cotangent(part)
        return held + part

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
        saved = node.saved
        if self.mode:
            cts, saved = self.prepare(node, cts)
        parts = tuple(op.joint_vjp(tuple(cts), node.attrs, needed, *saved))
        STATE.masked = True  # nobody knows what such a rule does
        if len(parts) != len(node.parents):
            raise GradientError(
                f"{op.name}: its gradient rule returned {len(parts)} cotangents for "
                f"{len(node.parents)} inputs; return one, or None, per input"
            )
        for parent, part, is_needed in zip(node.parents, parts, needed, strict=True):
            if is_needed and part is not None:
                assert parent is not None
                self.deliver(parent, part)

    def zeros(self, shape: Shape, dtype: DType) -> Any:
        """What stands for the cotangent of an output that nothing depends on."""
        if self.mode == _FOREIGN:
            return self.space.zeros(shape, dtype)
        zeros = _filled(0, shape, dtype)
        return zeros if self.mode == _RAW else new_tensor(zeros)

    def prepare(self, node: Node, cts: list[Any]) -> tuple[list[Any], tuple[Any, ...]]:
        """The cotangents and saved values of a node in the form in which its rules shall run."""
        if STATE.handler is not None:
            STATE.handler.enter_gradient(node)
        if self.mode == _FOREIGN:
            return cts, node.saved
        if self.mode == _MIXED and self.is_private(node, cts):
            return [ct._value if type(ct) is Tensor else ct for ct in cts], node.saved
        return [as_cotangent(densified(ct)) for ct in cts], _lift(node)

    def is_private(self, node: Node, cts: list[Any]) -> bool:
        """Whether no other tape could record what the rules of the node do."""
        own = self.own
        if node.tapes is not own:
            return False
        for parent in node.parents:
            if parent is not None and parent.tapes is not own:
                return False
        return all(type(ct) is not Tensor or ct._node is None for ct in cts)


def as_cotangent(part: Any) -> Any:
    """An array as a tensor; tensors, None and cotangents of other kinds as they are."""
    if type(part) is _ndarray:
        return new_tensor(part)
    return new_tensor(np.asarray(part)) if isinstance(part, np.generic) else part


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
    if dtype.kind not in "fc":
        return None
    if type(node) is not JointNode:
        return node
    found = node.outputs[index]()
    return new_pick(node, index, node.rec) if found is None else found


def _reject_missing(op: Op) -> NoReturn:
    raise GradientError(
        f"{op.name}: the op has no gradient rule, but a source lies behind it; "
        "use tl.stop_gradient on its result if no gradient is meant to flow"
    )


def imperative_grad(
    vspace: VSpace | None,
    tape: Tape,
    targets: Sequence[Any],
    sources: Sequence[Any],
    output_gradients: Sequence[Any] | None = None,
    unconnected_gradients: Unconnected = "none",
    sparse: bool = False,
) -> list[Any]:
    """The gradients of the sum of the targets with respect to each source.

    Parameters
    ----------
    vspace : VSpace or None
        Where the cotangents live; None is `TENSOR_SPACE`.
    tape : Tape
        The tape that recorded the targets. Unless it is persistent it ends here.
    targets, sources : sequence of Tensor or Variable
        A source names the value that it had when the tape watched it.
    output_gradients : sequence, optional
        One cotangent, or None for ones, per target.
    unconnected_gradients : "none" or "zero"
        What stands for the gradient of a source that no target depends on.
    sparse : bool
        Whether the gradient of rows that were looked up in a source comes as `IndexedSlices`.

    Returns
    -------
    list
        A cotangent, or None, per source.

    Raises
    ------
    TapeError
        If the tape was used already and is not persistent, or recorded nothing yet.
    """
    if unconnected_gradients not in ("none", "zero"):
        raise ArgumentError(
            f"gradient: unconnected_gradients must be 'none' or 'zero', "
            f"got {unconnected_gradients!r}"
        )
    space = TENSOR_SPACE if vspace is None else vspace
    seeds = _seeds(space, targets, output_gradients)
    own = tape.begin_walk()
    try:
        found = walk_from(space, own, source_nodes(own, sources), seeds, sparse)
    finally:
        tape.end_walk()
    if unconnected_gradients == "zero":
        found = [
            space.zeros(source.shape, source.dtype) if part is None else part
            for source, part in zip(sources, found, strict=True)
        ]
    return found


def walk_from(
    space: VSpace,
    own: TapeSet,
    nodes: Sequence[Node | None],
    seeds: Sequence[tuple[Node, Any]],
    sparse: bool = False,
) -> list[Any]:
    """The cotangent, or None, of each of the nodes, for these cotangents of the targets."""
    wanted: dict[Node | None, Any] = dict.fromkeys(nodes)
    before = STATE.masked, STATE.sparse
    STATE.masked, STATE.sparse = False, sparse
    _Walk().run(space, own, wanted, seeds)
    if STATE.masked and GUARDED[0] and space is TENSOR_SPACE and _any_nan(wanted):
        wanted = dict.fromkeys(nodes)
        with guarding(), np.errstate(all="ignore"):
            _Walk().run(space, own, wanted, seeds)
    STATE.masked, STATE.sparse = STATE.masked or before[0], before[1]
    found: list[Any] = []
    for node in nodes:
        part = wanted[node]
        if space is TENSOR_SPACE and type(part) is not Tensor:
            part = wrap(part) if type(part) is _ndarray and not BUSY[0] else as_cotangent(part)
        found.append(part)
    return found


def _any_nan(found: dict[Node | None, Any]) -> bool:
    """Whether a NaN is among these cotangents; symbols have no value to ask for."""
    for part in found.values():
        array = part._value if type(part) is Tensor else part
        if type(array) is not _ndarray:
            continue
        if array.flags.c_contiguous:
            flat = array.reshape(-1)
            total = flat.dot(flat)  # cheaper than to ask each element
            if total == total:
                continue
        distinct = array[tuple([slice(None) if s else slice(1) for s in array.strides])]
        if np.isnan(distinct).any():
            return True
    return False


def _seeds(
    space: VSpace, targets: Sequence[Any], output_gradients: Sequence[Any] | None
) -> list[tuple[Node, Any]]:
    """The nodes of the targets that have one, each with its cotangent."""
    if output_gradients is not None and len(output_gradients) != len(targets):
        raise ArgumentError(
            f"gradient: {len(output_gradients)} output_gradients for {len(targets)} targets; "
            "give one, or None, per target"
        )
    seeds: list[tuple[Node, Any]] = []
    for index, target in enumerate(targets):
        node = target._node
        given = None if output_gradients is None else output_gradients[index]
        if given is None:
            if node is not None and space is TENSOR_SPACE:
                value = target._value
                seeds.append((node, _filled(1, value.shape, value.dtype)))
            elif node is not None:
                seeds.append((node, space.ones(target.shape, target.dtype)))
            continue
        if space is TENSOR_SPACE:
            given = as_tensor(given, target.dtype, "output_gradients")
        _check_size(space, given, target)
        if node is not None:
            seeds.append((node, given))
    return seeds


def _check_size(space: VSpace, given: Any, target: Any) -> None:
    shape = target.shape
    fits = given.shape == shape if space is TENSOR_SPACE else True
    if not fits or space.num_elements(given) != math.prod(shape):
        raise ShapeError(
            f"gradient: an output gradient of {space.num_elements(given)} elements, {given!r}, "
            f"does not fit its target of shape {shape}"
        )
