"""Which nodes are computed together: from a graph to clusters, each of which becomes one loop nest.

A cluster has an iteration space; every fused value has a map from its own dimensions to that space.
Nodes
that cannot be fused (matrix products, host calls) are clusters of their own. The result is a list
of clusters
in an order in which they can run. Nothing here emits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tapeline.compiler.codegen.values import is_supported
from tapeline.compiler.codegen.views import dimension_map
from tapeline.compiler.codegen.words import has_words
from tapeline.compiler.ir.graph import Graph
from tapeline.compiler.ir.structure_ops import CONSTANT, PICK, PLACEHOLDER
from tapeline.runtime.op import IndexMap, Pointwise, Reduction
from tapeline.runtime.spec import Shape, TensorSpec

MAX_STEPS = 96
"""A nest with more steps spills registers and compiles slowly."""
MAX_ROW = 1 << 16
"""Rows longer than this are not kept hot between the passes over them."""
MAX_NEEDS = 8
"""A cluster that waits for more others, say for all gradients of a weight that many layers use,
would keep all their results in memory until the last one is there."""
SEARCH_LIMIT = 256
"""How many clusters a search for a cycle visits before it gives up and assumes one."""

_BY_PARTS = ("sum", "any", "all")
"""Reductions of complex numbers that are those of their parts."""

DimensionMap = tuple[int, ...]
"""Per dimension of a value the axis of the iteration space, -1 where the value has one element."""


@dataclass(slots=True)
class Cluster:
    """Nodes computed together. `space` is None for a node that stands alone."""

    number: int
    nodes: list[int]
    space: Shape | None = None
    axes: tuple[int, ...] | None = None
    maps: dict[int, DimensionMap] = field(default_factory=dict)
    phases: dict[int, int] = field(default_factory=dict)
    """How many reductions lie before a value; the elements of phase 1 wait for a row's first
    reduction."""
    varies: dict[int, frozenset[int]] = field(default_factory=dict)
    """The axes of the space along which a value changes."""
    arguments: dict[int, DimensionMap] = field(default_factory=dict)
    """The map of what a reduction reduces."""
    needs: set[int] = field(default_factory=set)
    """Clusters whose results this one reads."""

    @property
    def is_fused(self) -> bool:
        """Whether the cluster becomes a loop nest."""
        return self.space is not None


def _static(spec: TensorSpec | tuple[TensorSpec, ...]) -> TensorSpec:
    assert isinstance(spec, TensorSpec)
    return spec


def is_view(graph: Graph, node: int) -> bool:
    """Whether a node is a view of its input."""
    return isinstance(graph.ops[node].lowering, IndexMap)


def is_source(graph: Graph, node: int) -> bool:
    """Whether a node's value is given: an input of the graph or a constant."""
    return graph.ops[node] is PLACEHOLDER or graph.ops[node] is CONSTANT


def is_fusible(graph: Graph, node: int) -> bool:
    """Whether a node can be part of a loop nest."""
    lowering = graph.ops[node].lowering
    if not isinstance(lowering, Pointwise | Reduction):
        return False
    spec = graph.specs[node]
    if not isinstance(spec, TensorSpec):
        return False
    dtypes = (spec.dtype, *[_static(graph.specs[i]).dtype for i in graph.inputs[node]])
    if all(is_supported(dtype) for dtype in dtypes):
        return True
    if isinstance(lowering, Reduction):
        return "c" not in (dtype.kind for dtype in dtypes) or lowering.kind in _BY_PARTS
    return has_words(graph.ops[node], graph.attrs[node], dtypes[1:], dtypes[0])


class ClusterBuilder:
    """Forms clusters in one walk over the graph; `form_clusters` is the way in."""

    def __init__(
        self,
        graph: Graph,
        alone: Callable[[int], bool] | None = None,
        after: Mapping[int, Sequence[int]] | None = None,
    ) -> None:
        self.graph = graph
        self.alone = alone
        """Which nodes are not to be fused, or None."""
        self.after = after or {}
        """Nodes that must not run before others, though they do not take their values."""
        self.clusters: dict[int, Cluster] = {}
        self.home: dict[int, int] = {}
        """Cluster of each computed node; inputs, constants and views have none."""
        self.stored: set[int] = set()
        self.last_alone = -1
        """The last node so far that is not fused."""
        self._bases: list[int] = []
        for node in range(len(graph.ops)):
            is_own = not is_view(graph, node)
            self._bases.append(node if is_own else self._bases[graph.inputs[node][0]])
        self._fusible = [
            is_fusible(graph, node) and not (alone is not None and alone(node))
            for node in range(len(graph.ops))
        ]
        self._takers: dict[int, set[int]] = {}
        """By number, the clusters that need a cluster."""

    def run(self) -> list[Cluster]:
        """All clusters, in an order in which they can run."""
        graph = self.graph
        self.stored = self._stored()
        for node in range(len(graph.ops)):
            if is_source(graph, node) or is_view(graph, node):
                continue
            if graph.ops[node] is PICK:
                self.home[node] = self.home[graph.inputs[node][0]]
                continue
            if not (self._fusible[node] and self._place(node)):
                self._open(node)
        return self._ordered()

    # ---- homes

    def base(self, value: int) -> int:
        """The node whose buffer a value lies in: itself, or what it is a view of."""
        return self._bases[value]

    def _producers(self, node: int) -> set[int]:
        homes = (self.home.get(self.base(value)) for value in self.graph.inputs[node])
        return {home for home in homes if home is not None}

    def _open(self, node: int) -> None:
        cluster = Cluster(node, [], needs=self._producers(node))
        for earlier in self.after.get(node, ()):
            if earlier in self.home:
                cluster.needs.add(self.home[earlier])
        self.clusters[cluster.number] = cluster
        self._note_needs(cluster, cluster.needs)
        if self._fusible[node]:
            lowering = self.graph.ops[node].lowering
            shaped_like = self.graph.inputs[node][0] if isinstance(lowering, Reduction) else node
            cluster.space = _static(self.graph.specs[shaped_like]).static_shape
            placed = self._try_join(cluster, node)
            assert placed, "a node always fits a cluster made for it"
        else:
            cluster.nodes.append(node)
            self.home[node] = cluster.number
            self.last_alone = node

    def _place(self, node: int) -> bool:
        producers = self._producers(node)
        candidates = [self.clusters[c] for c in producers if self.clusters[c].is_fused]
        candidates.sort(key=lambda c: (-len(c.maps), -c.number))
        for candidate in candidates:
            others = producers - {candidate.number}
            if len(candidate.needs | others) > MAX_NEEDS and not others <= candidate.needs:
                continue
            if self._can_wait(candidate, node):
                continue
            if self._reaches(others, candidate.number):
                continue
            if self._try_join(candidate, node):
                candidate.needs |= others
                self._note_needs(candidate, others)
                self._absorb(candidate, others)
                return True
        return False

    def _can_wait(self, candidate: Cluster, node: int) -> bool:
        """Whether the node is as well computed later, where it is used: what it takes from the
        cluster is stored anyway, and something that is not fused comes between. So the slope of an
        activation is not kept from the forward half on beside the activation."""
        if isinstance(self.graph.ops[node].lowering, Reduction):
            return False
        if self.last_alone < max(candidate.nodes):
            return False
        return all(
            self.base(value) in self.stored
            for value in self.graph.inputs[node]
            if self.home.get(self.base(value)) == candidate.number
        )

    def _stored(self) -> set[int]:
        """The values that are written to memory in any case: results, and what nodes that are not
        fused take."""
        found = {self.base(node) for node in self.graph.outputs}
        for node in range(len(self.graph.ops)):
            if not is_view(self.graph, node) and not self._fusible[node]:
                found.update(self.base(value) for value in self.graph.inputs[node])
        return found

    def _absorb(self, into: Cluster, others: Iterable[int]) -> None:
        """Merges further producers over the same space that feed only `into`, whose new node then
        reads no memory."""
        for number in sorted(others):
            other = self.clusters[number]
            if not other.is_fused or other.space != into.space:
                continue
            if len(other.nodes) + len(into.nodes) > MAX_STEPS:
                continue
            if other.axes is not None and into.axes is not None and other.axes != into.axes:
                continue
            if not self._same_directions(into, other):
                continue
            if not (self._reads_alike(into, other) and self._reads_alike(other, into)):
                continue
            if self._reaches(into.needs - {number}, number) or self._reaches(
                other.needs - {into.number}, into.number
            ):
                continue
            self._merge(into, other)

    def _same_directions(self, into: Cluster, other: Cluster) -> bool:
        """Whether both clusters see the values that one takes from the other along the same
        axes."""
        if not (self._reads_along(into, other) and self._reads_along(other, into)):
            return False
        axes = into.axes if into.axes is not None else other.axes
        if axes is None or self._rows_fit(into, axes):
            return True
        varies = {**other.varies, **into.varies}
        phases = self._phases_of(into, other)
        return not any(phase > 0 and (varies[node] & set(axes)) for node, phase in phases.items())

    def _reads_along(self, reader: Cluster, maker: Cluster) -> bool:
        """Whether all that the reader takes from the maker lies in both along the same axes."""
        for node in reader.nodes:
            for value in self.graph.inputs[node]:
                if self.home.get(self.base(value)) != maker.number:
                    continue
                seen = self._map_inside(maker, value)
                if seen is None:
                    return False
                own = self._aligned(reader.arguments.get(node, reader.maps[node]), len(seen))
                if any(a != b for a, b in zip(seen, own, strict=True) if a >= 0 and b >= 0):
                    return False
        return True

    def _phases_of(self, into: Cluster, other: Cluster) -> dict[int, int]:
        """How many reductions lie before each value, were the clusters one."""
        phases: dict[int, int] = {}
        for node in sorted({*into.nodes, *other.nodes}):
            bases = (self.base(value) for value in self.graph.inputs[node])
            phases[node] = max((phases[base] for base in bases if base in phases), default=0)
            cluster = into if node in into.maps else other
            if isinstance(self.graph.ops[node].lowering, Reduction):
                reduced = {a for a in cluster.arguments[node] if a >= 0}
                phases[node] += reduced > {a for a in cluster.maps[node] if a >= 0}
        return phases

    def _reads_alike(self, reader: Cluster, source: Cluster) -> bool:
        """Whether what one cluster reads of another, such as a flipped value, is at each point of
        the space what the other computes there."""
        for node in reader.nodes:
            for value in self.graph.inputs[node]:
                if self.home.get(self.base(value)) != source.number:
                    continue
                seen = self._map_inside(source, value)
                own = reader.arguments.get(node, reader.maps[node])
                if seen is None or any(
                    a not in (-1, b)
                    for a, b in zip(seen, self._aligned(own, len(seen)), strict=True)
                ):
                    return False
        return True

    def _merge(self, into: Cluster, other: Cluster) -> None:
        into.nodes = sorted({*into.nodes, *other.nodes})
        into.maps = {**other.maps, **into.maps}
        into.arguments = {**other.arguments, **into.arguments}
        into.phases = self._phases_of(into, other)
        into.varies = {**other.varies, **into.varies}
        into.axes = into.axes if into.axes is not None else other.axes
        into.needs = (into.needs | other.needs) - {into.number, other.number}
        for value in other.nodes:
            self.home[value] = into.number
        del self.clusters[other.number]
        self._note_needs(into, into.needs)
        for number in self._takers.pop(other.number, ()):
            cluster = self.clusters.get(number)
            if cluster is not None and other.number in cluster.needs:
                cluster.needs.discard(other.number)
                cluster.needs.add(into.number)
                self._note_needs(cluster, (into.number,))

    def _note_needs(self, cluster: Cluster, numbers: Iterable[int]) -> None:
        """Remembers by whom these clusters are needed."""
        for number in numbers:
            self._takers.setdefault(number, set()).add(cluster.number)

    def _reaches(self, start: Iterable[int], goal: int) -> bool:
        """Whether any cluster of `start` needs `goal`, directly or not. Gives up, saying yes, after
        a limit."""
        stack, seen = list(start), set(start)
        while stack:
            if len(seen) > SEARCH_LIMIT:
                return True
            number = stack.pop()
            if number == goal:
                return True
            fresh = self.clusters[number].needs - seen
            seen |= fresh
            stack.extend(fresh)
        return False

    # ---- does a node fit into a cluster?

    def _map_inside(self, cluster: Cluster, value: int) -> DimensionMap | None:
        """The dimension map of a value computed in the cluster, or of a view of one; None if it has
        none."""
        known = cluster.maps.get(value)
        if known is not None or not is_view(self.graph, value):
            return known
        source = self.graph.inputs[value][0]
        inner = self._map_inside(cluster, source)
        if inner is None:
            return None
        taken = dimension_map(
            self.graph.ops[value],
            self.graph.attrs[value],
            _static(self.graph.specs[source]).static_shape,
            _static(self.graph.specs[value]).static_shape,
        )
        if taken is None:
            return None
        return tuple(-1 if k < 0 else inner[k] for k in taken)

    def _aligned(self, dimensions: DimensionMap, ndim: int) -> DimensionMap:
        return dimensions[len(dimensions) - ndim :] if ndim else ()

    def _try_join(self, cluster: Cluster, node: int) -> bool:
        if len(cluster.nodes) >= MAX_STEPS:
            return False
        inside: dict[int, DimensionMap] = {}
        for value in self.graph.inputs[node]:
            if self.home.get(self.base(value)) == cluster.number:
                found = self._map_inside(cluster, value)
                if found is None:
                    return False
                inside[value] = found
        if isinstance(self.graph.ops[node].lowering, Reduction):
            return self._join_reduction(cluster, node, inside)
        return self._join_pointwise(cluster, node, inside)

    def _join_pointwise(self, cluster: Cluster, node: int, inside: dict[int, DimensionMap]) -> bool:
        shape = _static(self.graph.specs[node]).static_shape
        dimensions = self._match(cluster, shape, inside)
        if dimensions is None:
            return False
        phase = 0
        varies: set[int] = set()
        for value in self.graph.inputs[node]:
            if value in inside:
                base = self.base(value)
                phase = max(phase, cluster.phases[base])
                varies |= cluster.varies[base]
            else:
                own = _static(self.graph.specs[value]).static_shape
                aligned = self._aligned(dimensions, len(own))
                varies |= {
                    a for a, extent in zip(aligned, own, strict=True) if extent > 1 and a >= 0
                }
        axes = cluster.axes or ()
        if phase and (varies & set(axes)) and not self._rows_fit(cluster, axes):
            return False
        return self._accept(cluster, node, dimensions, phase, frozenset(varies))

    def _match(
        self, cluster: Cluster, shape: Shape, inside: dict[int, DimensionMap]
    ) -> DimensionMap | None:
        """A map for a value of this shape that agrees with the values it is computed from."""
        assert cluster.space is not None
        result = [-1] * len(shape)
        for value, dimensions in inside.items():
            own = _static(self.graph.specs[value]).static_shape
            offset = len(shape) - len(own)
            for d, axis in enumerate(dimensions):
                if axis < 0 or own[d] == 1:
                    continue
                if result[offset + d] not in (-1, axis):
                    return None
                result[offset + d] = axis
        shift = len(cluster.space) - len(shape)
        for d, extent in enumerate(shape):
            if extent == 1 or result[d] >= 0:
                continue
            free = [a for a, e in enumerate(cluster.space) if e == extent and a not in result]
            if not free:
                return None
            result[d] = d + shift if d + shift in free else free[-1]
        used = [axis for axis in result if axis >= 0]
        if len(set(used)) != len(used):
            return None
        fits = all(
            axis < 0 or cluster.space[axis] == extent
            for axis, extent in zip(result, shape, strict=True)
        )
        return tuple(result) if fits else None

    def _join_reduction(self, cluster: Cluster, node: int, inside: dict[int, DimensionMap]) -> bool:
        (value,) = self.graph.inputs[node]
        shape = _static(self.graph.specs[value]).static_shape
        dimensions = self._match(cluster, shape, inside)
        if dimensions is None:
            return False
        reduced, keepdims = self.graph.attrs[node]
        assert isinstance(reduced, tuple)
        axes = tuple(sorted(dimensions[d] for d in reduced if shape[d] != 1))
        phase, varies = 0, {a for a in dimensions if a >= 0}
        if value in inside:
            base = self.base(value)
            phase, varies = cluster.phases[base], set(cluster.varies[base])
        kept = tuple(
            -1 if d in reduced else a
            for d, a in enumerate(dimensions)
            if keepdims or d not in reduced
        )
        if not axes:  # over extents of one: nothing is reduced
            cluster.arguments[node] = dimensions
            return self._accept(cluster, node, kept, phase, frozenset(varies))
        if cluster.axes is not None and cluster.axes != axes:
            return False
        if not set(axes) <= varies and cluster.nodes:
            return False
        late = phase or any(
            p > 0 and (cluster.varies[v] & set(axes)) for v, p in cluster.phases.items()
        )
        if late and not self._rows_fit(cluster, axes):
            return False
        cluster.axes = axes
        cluster.arguments[node] = dimensions
        return self._accept(cluster, node, kept, phase + 1, frozenset(varies - set(axes)))

    def _rows_fit(self, cluster: Cluster, axes: tuple[int, ...]) -> bool:
        """Whether the reduced axes are rows: the last ones of the space, and short enough to stay
        in cache."""
        assert cluster.space is not None
        ndim = len(cluster.space)
        length = 1
        for axis in axes:
            length *= cluster.space[axis]
        return axes == tuple(range(ndim - len(axes), ndim)) and length <= MAX_ROW

    def _accept(
        self,
        cluster: Cluster,
        node: int,
        dimensions: DimensionMap,
        phase: int,
        varies: frozenset[int],
    ) -> bool:
        cluster.nodes.append(node)
        cluster.maps[node] = dimensions
        cluster.phases[node] = phase
        cluster.varies[node] = varies
        self.home[node] = cluster.number
        return True

    # ---- order

    def _ordered(self) -> list[Cluster]:
        """Clusters in dependency order; among ready ones the oldest first, effects in program
        order."""
        last_effect: int | None = None
        for number in sorted(self.clusters):
            cluster = self.clusters[number]
            if any(not self.graph.ops[n].is_pure for n in cluster.nodes):
                if last_effect is not None:
                    cluster.needs.add(last_effect)
                last_effect = number
        result: list[Cluster] = []
        done: set[int] = set()
        for root in sorted(self.clusters, key=lambda c: self.clusters[c].nodes[0]):
            stack = [root]
            while stack:
                number = stack[-1]
                missing = [n for n in self.clusters[number].needs if n not in done]
                if missing:
                    stack.extend(sorted(missing, reverse=True))
                    continue
                stack.pop()
                if number not in done:
                    done.add(number)
                    result.append(self.clusters[number])
        return result


def form_clusters(graph: Graph) -> list[Cluster]:
    """The clusters of an optimized graph, in an order in which they can run.

    Every node that is no input, constant or view is in exactly one of them.
    """
    return ClusterBuilder(graph).run()
