"""Places boxes in layers, with few crossings and short edges. Knows boxes, not graphs of ops.

The usual way for layered drawings: edges that pass a layer get a point of their own there, the
order inside a layer comes from the mean position of the neighbours, and coordinates are the
closest to where the neighbours want them that keep boxes apart.
"""

from __future__ import annotations

import itertools
from bisect import bisect_right, insort
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

Point: TypeAlias = tuple[float, float]
Edge: TypeAlias = tuple[int, int]

GAP_X = 28.0
GAP_Y = 34.0
PASSING_WIDTH = 10.0
ORDER_SWEEPS = 12
PLACE_SWEEPS = 40


@dataclass(frozen=True, slots=True)
class Layout:
    """Where everything goes: `corners[i]` is the top left of box i, `routes[e]` the points that
    edge e passes, from the bottom of its source to the top of its target."""

    corners: list[Point]
    routes: list[list[Point]]
    width: float
    height: float


def layer_numbers(count: int, edges: Sequence[Edge]) -> list[int]:
    """A layer for each box so that all edges go down; they go from lower to higher numbers.

    The longest way into a box decides, but a box that has users comes down to the first of them.
    """
    layers = [0] * count
    for source, target in sorted(edges, key=lambda edge: edge[1]):
        layers[target] = max(layers[target], layers[source] + 1)
    lowest = [count + 1] * count
    for source, target in sorted(edges, reverse=True):
        if lowest[target] <= count:
            layers[target] = lowest[target]
        lowest[source] = min(lowest[source], layers[target] - 1)
    return [low if low <= count else layer for low, layer in zip(lowest, layers, strict=True)]


def spine_weights(count: int, edges: Sequence[Edge]) -> list[float]:
    """How much an edge should be straight: from 1 to 10 for those on the longest way."""
    before, after = [0] * count, [0] * count
    for source, target in sorted(edges, key=lambda edge: edge[1]):
        before[target] = max(before[target], before[source] + 1)
    for source, target in sorted(edges, reverse=True):
        after[source] = max(after[source], after[target] + 1)
    through = [before[source] + 1 + after[target] for source, target in edges]
    longest = max(through, default=1)
    return [1 + 9 * (length / longest) ** 6 for length in through]


def place_in_order(
    wanted: Sequence[float], weights: Sequence[float], gaps: Sequence[float]
) -> list[float]:
    """The positions closest to the wanted ones (weighted least squares) that keep the order and
    lie at least `gaps[i]` after position i."""
    offsets = [0.0]
    for gap in gaps:
        offsets.append(offsets[-1] + gap)
    groups: list[tuple[float, float, int]] = []  # mean, weight, members
    for position, weight, offset in zip(wanted, weights, offsets, strict=True):
        mean, total, members = position - offset, weight, 1
        while groups and groups[-1][0] >= mean:
            before, heavy, many = groups.pop()
            mean = (mean * total + before * heavy) / (total + heavy)
            total, members = total + heavy, members + many
        groups.append((mean, total, members))
    means = [mean for mean, _, members in groups for _ in range(members)]
    return [mean + offset for mean, offset in zip(means, offsets, strict=True)]


class _Layers:
    """Boxes and the points of passing edges, by layer."""

    def __init__(
        self, sizes: Sequence[Point], edges: Sequence[Edge], layers: Sequence[int]
    ) -> None:
        self.widths = [width for width, _ in sizes]
        self.heights = [height for _, height in sizes]
        self.rows: list[list[int]] = [[] for _ in range(max(layers, default=-1) + 1)]
        self.layer = list(layers)
        for box, layer in enumerate(layers):
            self.rows[layer].append(box)
        self.chains = [self._chain(source, target) for source, target in edges]
        self.above: list[list[int]] = [[] for _ in self.widths]
        self.below: list[list[int]] = [[] for _ in self.widths]
        self.near: list[list[tuple[int, float]]] = [[] for _ in self.widths]
        for chain, weight in zip(self.chains, spine_weights(len(sizes), edges), strict=True):
            for upper, lower in itertools.pairwise(chain):
                self.below[upper].append(lower)
                self.above[lower].append(upper)
                self.near[upper].append((lower, weight))
                self.near[lower].append((upper, weight))
        self.rank = [0] * len(self.widths)

    def _chain(self, source: int, target: int) -> list[int]:
        chain = [source]
        for layer in range(self.layer[source] + 1, self.layer[target]):
            point = len(self.widths)
            self.widths.append(PASSING_WIDTH)
            self.heights.append(0.0)
            self.layer.append(layer)
            self.rows[layer].append(point)
            chain.append(point)
        return [*chain, target]

    def number(self) -> None:
        for row in self.rows:
            for rank, item in enumerate(row):
                self.rank[item] = rank

    def order(self) -> None:
        """Sorts each row by the mean rank of the neighbours, down and up, and keeps the best."""
        self.number()
        best, fewest = [list(row) for row in self.rows], self.crossings()
        for sweep in range(ORDER_SWEEPS):
            downwards = sweep % 2 == 0
            near = self.above if downwards else self.below
            for row in self.rows if downwards else reversed(self.rows):
                row.sort(key=lambda item: self._mean_rank(item, near[item]))
                for rank, item in enumerate(row):
                    self.rank[item] = rank
            crossings = self.crossings()
            if crossings < fewest:
                best, fewest = [list(row) for row in self.rows], crossings
            if not fewest:
                break
        self.rows = best
        self.number()

    def _mean_rank(self, item: int, near: Sequence[int]) -> float:
        if not near:
            return float(self.rank[item])
        return sum(self.rank[other] for other in near) / len(near)

    def crossings(self) -> int:
        total = 0
        for row in self.rows:
            ends = [sorted(self.rank[other] for other in self.below[item]) for item in row]
            seen: list[int] = []
            for end in (end for group in ends for end in group):
                total += len(seen) - bisect_right(seen, end)
                insort(seen, end)
        return total

    def place(self) -> list[float]:
        """The horizontal centre of everything."""
        centres = [0.0] * len(self.widths)
        for row in self.rows:
            start = 0.0
            for item in row:
                centres[item] = start + self.widths[item] / 2
                start += self.widths[item] + GAP_X
        for sweep in range(PLACE_SWEEPS):
            rows = self.rows if sweep % 2 == 0 else list(reversed(self.rows))
            for row in rows:
                self._place_row(row, centres)
        return centres

    def _place_row(self, row: Sequence[int], centres: list[float]) -> None:
        wanted, weights = [], []
        for item in row:
            total = sum(weight for _, weight in self.near[item])
            mean = sum(centres[other] * weight for other, weight in self.near[item])
            wanted.append(mean / total if total else centres[item])
            weights.append(1.0 + total)
        gaps = [
            (self.widths[left] + self.widths[right]) / 2 + GAP_X
            for left, right in itertools.pairwise(row)
        ]
        for item, centre in zip(row, place_in_order(wanted, weights, gaps), strict=True):
            centres[item] = centre


def layered_layout(sizes: Sequence[Point], edges: Sequence[Edge], layers: Sequence[int]) -> Layout:
    """Places boxes of the given sizes so that every edge goes down.

    Parameters
    ----------
    sizes : sequence of (width, height)
    edges : sequence of (source, target)
        Pairs of boxes; the target's layer is greater than the source's.
    layers : sequence of int
        The layer of each box, from 0 at the top.
    """
    work = _Layers(sizes, edges, layers)
    work.order()
    centres = work.place()
    left = min((c - w / 2 for c, w in zip(centres, work.widths, strict=True)), default=0.0)
    centres = [centre - left for centre in centres]
    tops, top = [], 0.0
    row_heights = [max((work.heights[item] for item in row), default=0.0) for row in work.rows]
    for height in row_heights:
        tops.append(top)
        top += height + GAP_Y

    def corner(box: int) -> Point:
        layer = work.layer[box]
        slack = row_heights[layer] - work.heights[box]
        return centres[box] - work.widths[box] / 2, tops[layer] + slack / 2

    def route(chain: Sequence[int]) -> list[Point]:
        source, target = chain[0], chain[-1]
        points = [(centres[source], corner(source)[1] + work.heights[source])]
        for point in chain[1:-1]:
            y = tops[work.layer[point]]
            points += [(centres[point], y), (centres[point], y + row_heights[work.layer[point]])]
        return [*points, (centres[target], corner(target)[1])]

    right = max((c + w / 2 for c, w in zip(centres, work.widths, strict=True)), default=0.0)
    return Layout(
        corners=[corner(box) for box in range(len(sizes))],
        routes=[route(chain) for chain in work.chains],
        width=right,
        height=max(top - GAP_Y, 0.0),
    )
