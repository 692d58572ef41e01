"""Arrays with a short last axis, such as the coordinates of points, become one array per entry.

`d = p[:, None] - p[None]` has rows of three numbers: too few for a vector, and a sum over them
stands between what comes before and what follows. Three arrays of differences instead are computed
along the long axis, together with all that is made of them, and never stand in memory.

This is done where the values come from small arrays and all that leaves the group of such arrays is
reduced. Sums over the short axis are then sums of a few arrays, in order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import cast

from tapeline.compiler.ir.graph import Graph
from tapeline.compiler.ir.structure_ops import PLACEHOLDER
from tapeline.compiler.passes.base import PassResult, Rebuild
from tapeline.compiler.passes.small_arrays import array_of, elements_of
from tapeline.runtime.op import Pointwise, Reduction, get_op
from tapeline.runtime.spec import TensorSpec

LONGEST = 4
"""Entries of a short axis."""

FEWEST_ROWS = 1 << 10
"""Smaller arrays are left as they are."""

SHRINKS = 8
"""What comes from outside, or leaves, has at most this part of the elements."""

_FOLDS = {"sum": "add", "prod": "multiply", "max": "maximum", "min": "minimum"}


@dataclass(frozen=True, slots=True)
class ShortAxis:
    """Splits such arrays, and runs `optimize` on what comes out."""

    optimize: Callable[[Graph], Graph]
    name: str = "short_axis"

    def run(self, graph: Graph, /) -> PassResult:
        """The graph with arrays of single entries in the place of those with a short axis."""
        group = _group(graph)
        if not group:
            return PassResult(graph, False)
        work = _Split(Rebuild(graph), group)
        for node in range(len(graph)):
            work.add(node)
        return PassResult(self.optimize(work.rebuild.finish().graph), True)


def _is_short(spec: object) -> bool:
    """Whether an array has many rows of few entries."""
    if not isinstance(spec, TensorSpec) or spec.ndim < 2:
        return False
    entries = spec.static_shape[-1]
    return 2 <= entries <= LONGEST and spec.size >= FEWEST_ROWS * entries


def _group(graph: Graph) -> set[int]:
    """The nodes to split: as many as fit together."""
    found = {
        node
        for node, op in enumerate(graph.ops)
        if isinstance(op.lowering, Pointwise) and op.is_pure and _is_short(graph.specs[node])
    }
    if not found:
        return found
    users, outputs = graph.users(), set(graph.outputs)
    pending = sorted(found)
    while pending:
        node = pending.pop()
        if node not in found:
            continue
        fits = node not in outputs and all(
            user in found or _is_sink(graph, node, user) for user in users[node]
        )
        fits = fits and all(i in found or _is_small(graph, node, i) for i in graph.inputs[node])
        if not fits:
            found.discard(node)
            pending += [*users[node], *graph.inputs[node]]
    return found if any(_is_fold(graph, user) for node in found for user in users[node]) else set()


def _is_small(graph: Graph, node: int, source: int) -> bool:
    """Whether entries of what a node takes can be had without reading a large array by strides."""
    given, made = graph.spec(source), graph.spec(node)
    if not given.shape or given.static_shape[-1] == 1:
        return True
    return given.size * SHRINKS <= made.size


def _without_last(graph: Graph, node: int) -> int | None:
    """What a node is but for a last axis with one entry."""
    if graph.ops[node] not in (get_op("expand_dims"), get_op("reshape")):
        return None
    (rows,) = graph.inputs[node]
    return rows if (*graph.spec(rows).shape, 1) == graph.spec(node).shape else None


def _is_sink(graph: Graph, node: int, user: int) -> bool:
    """Whether a node reduces what it takes, to little or over the short axis."""
    lowering, spec = graph.ops[user].lowering, graph.specs[user]
    if not isinstance(lowering, Reduction) or not isinstance(spec, TensorSpec):
        return False
    given = graph.spec(node)
    if lowering.kind not in _FOLDS or spec.dtype != given.dtype:
        return False
    return _is_fold(graph, user) or spec.size * SHRINKS <= given.size


def _is_fold(graph: Graph, node: int) -> bool:
    """Whether a node reduces the last axis of what it takes."""
    if not isinstance(graph.ops[node].lowering, Reduction):
        return False
    return graph.spec(graph.inputs[node][0]).ndim - 1 in cast(tuple[int, ...], graph.attrs[node][0])


@dataclass(slots=True)
class _Split:
    """The graph that is made, and the entries of the arrays that are split."""

    rebuild: Rebuild
    group: set[int]
    entries: dict[int, list[int]] = field(default_factory=dict)
    taken: dict[tuple[int, int], list[int]] = field(default_factory=dict)
    """Entries of arrays from outside the group, for so many axes."""

    def add(self, node: int) -> None:
        """Adds what stands for a node."""
        work, graph = self.rebuild, self.rebuild.source
        inputs = graph.inputs[node]
        if node in self.group:
            self.entries[node] = self._pointwise(node)
            work.replace(None)
        elif any(i in self.group for i in inputs) and graph.ops[node] is not PLACEHOLDER:
            work.replace(self._reduced(node, self.entries[inputs[0]]))
        else:
            work.keep(node)

    def _pointwise(self, node: int) -> list[int]:
        graph, target = self.rebuild.source, self.rebuild.target
        spec, op = graph.spec(node), graph.ops[node]
        columns = [self._entries_of(i, spec.static_shape[-1]) for i in graph.inputs[node]]
        return [
            target.add(op, row, graph.attrs[node], graph.locations[node])
            for row in zip(*columns, strict=True)
        ]

    def _entries_of(self, node: int, count: int) -> list[int]:
        """The entries of what a node of the group takes; equal ones where it has only one."""
        if node in self.group:
            return self.entries[node]
        work, target = self.rebuild, self.rebuild.target
        spec, value = work.source.spec(node), cast(int, work.values[node])
        if not spec.shape:
            return [value] * count
        rows = _without_last(work.source, node)
        if rows is not None:
            return [cast(int, work.values[rows])] * count
        known = self.taken.get((node, count))
        if known is None:
            leading = spec.ndim - 1
            known = elements_of(target, value, spec.static_shape[-1:], leading)
            known = self.taken[node, count] = known if len(known) == count else known * count
        return known

    def _reduced(self, node: int, entries: list[int]) -> int:
        """What stands for a reduction of an array that is split."""
        graph, target = self.rebuild.source, self.rebuild.target
        op, location, given = graph.ops[node], graph.locations[node], graph.inputs[node][0]
        axes, keepdims = cast(tuple[tuple[int, ...], bool], graph.attrs[node])
        last = graph.spec(given).ndim - 1
        kept = tuple(axis for axis in axes if axis != last)
        if last not in axes:
            parts = [target.add(op, (x,), (kept, keepdims), location) for x in entries]
            leading = target.spec(parts[0]).ndim
            return array_of(target, parts, (len(parts),), leading)
        lowering = graph.ops[node].lowering
        assert isinstance(lowering, Reduction)
        total, *others = entries
        for x in others:
            total = target.add(get_op(_FOLDS[lowering.kind]), (total, x), (), location)
        if kept:
            total = target.add(op, (total,), (kept, keepdims), location)
        if not keepdims:
            return total
        shape = graph.spec(node).static_shape
        return target.add(get_op("reshape"), (total,), (shape,), location)
