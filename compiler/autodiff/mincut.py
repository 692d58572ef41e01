"""Which values to keep between a forward and a backward computation: a minimum cut on int lists.

Every value is a node of a flow network, split in two with an arc of its size between the halves.
The source feeds the values that cannot be computed again, the sink drinks from the values that the
backward computation takes, and arcs without bound lead from each value to its users. The values
whose arcs a minimum cut crosses are the cheapest ones to keep: from them everything else that the
backward computation takes can be computed again.

Of the minimum cuts we take the one nearest to the sink. It is unique, so the answer does not depend
on the order of anything, and among equally cheap choices it computes the least again. Sizes are
ints: with floats the cut is not exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tapeline.runtime.errors import GraphError

GREEDY_ABOVE = 300_000
"""A component with more values than this gets the better of two simple cuts instead."""


@dataclass(frozen=True, slots=True)
class CutProblem:
    """Values 0, 1, ... in topological order: every user comes after what it uses.

    Attributes
    ----------
    sizes : sequence of int or None
        What it costs to keep each value; 0 is free, None cannot be kept.
    users : sequence of list of int
        The values computed from each value.
    fixed : sequence of bool
        Values that cannot be computed again.
    wanted : sequence of bool
        Values that the backward computation takes.
    labels : sequence, optional
        How an error names the values.
    """

    sizes: Sequence[int | None]
    users: Sequence[Sequence[int]]
    fixed: Sequence[bool]
    wanted: Sequence[bool]
    labels: Sequence[object] | None = None


def minimum_cut(problem: CutProblem, greedy_above: int = GREEDY_ABOVE) -> tuple[int, ...]:
    """The values to keep, ascending: each path from a fixed to a wanted value crosses one.

    Raises
    ------
    GraphError
        If there is a path on which nothing can be kept; the message shows it.
    """
    users = _users_without_fixed(problem)
    kept = {v for v, size in enumerate(problem.sizes) if size == 0}
    for v, fixed in enumerate(problem.fixed):
        if fixed and problem.wanted[v]:
            if problem.sizes[v] is None:
                raise _uncuttable(problem, [v])
            kept.add(v)
    active = _between(problem, users, kept)
    for component in _components(users, active):
        if len(component) > greedy_above:
            simple = _simple_cut(problem, component)
            if simple is not None:
                kept.update(simple)
                continue
        kept.update(_cut_component(problem, users, component))
    return _needed(problem, users, kept)


def _users_without_fixed(problem: CutProblem) -> list[list[int]]:
    """The users of each value once, without fixed ones: those never ask for what they use."""
    fixed = problem.fixed
    return [[u for u in dict.fromkeys(listed) if not fixed[u]] for listed in problem.users]


def _between(problem: CutProblem, users: list[list[int]], kept: set[int]) -> list[bool]:
    """The values on a path from a fixed to a wanted value that crosses no kept one."""
    count = len(users)
    reached = [fixed and v not in kept for v, fixed in enumerate(problem.fixed)]
    for v in range(count):
        if reached[v]:
            for u in users[v]:
                reached[u] = u not in kept
    active = [False] * count
    for v in range(count - 1, -1, -1):
        if reached[v]:
            active[v] = problem.wanted[v] or any(active[u] for u in users[v])
    return active


def _components(users: list[list[int]], active: list[bool]) -> list[list[int]]:
    """The active values in groups that no arc connects, each ascending."""
    count = len(users)
    sources: list[list[int]] = [[] for _ in range(count)]
    for v in range(count):
        if active[v]:
            for u in users[v]:
                if active[u]:
                    sources[u].append(v)
    seen = [not a for a in active]
    components = []
    for root in range(count):
        if seen[root]:
            continue
        seen[root] = True
        component = [root]
        for v in component:  # grows while it is walked
            for near in (users[v], sources[v]):
                for u in near:
                    if not seen[u]:
                        seen[u] = True
                        component.append(u)
        component.sort()
        components.append(component)
    return components


def _simple_cut(problem: CutProblem, component: list[int]) -> list[int] | None:
    """The cheaper of all fixed and all wanted values of the component; None where neither works."""
    best: list[int] | None = None
    best_cost = 0
    for flags in (problem.wanted, problem.fixed):
        chosen = [v for v in component if flags[v]]
        sizes = [problem.sizes[v] for v in chosen]
        cost = sum(size for size in sizes if size is not None)
        if None not in sizes and (best is None or cost < best_cost):
            best, best_cost = chosen, cost
    return best


def _cut_component(problem: CutProblem, users: list[list[int]], component: list[int]) -> list[int]:
    """The minimum cut of one component. Value k of it has the halves 2 k (in) and 2 k + 1 (out)."""
    position = {v: k for k, v in enumerate(component)}
    count = len(component)
    source, sink = 2 * count, 2 * count + 1
    unbounded = 1 + sum([problem.sizes[v] or 0 for v in component])
    network = _Network(2 * count + 2)
    for k, v in enumerate(component):
        size = problem.sizes[v]
        network.add_arc(2 * k, 2 * k + 1, unbounded if size is None else size)
        if problem.fixed[v]:
            network.add_arc(source, 2 * k, unbounded)
        if problem.wanted[v]:
            network.add_arc(2 * k + 1, sink, unbounded)
        for u in users[v]:
            at = position.get(u)
            if at is not None:
                network.add_arc(2 * k + 1, 2 * at, unbounded)
    if network.saturate(source, sink) >= unbounded:
        raise _uncuttable(problem, _open_path(problem, users, component))
    level = network.level
    return [v for k, v in enumerate(component) if level[2 * k] < 0 <= level[2 * k + 1]]


def _needed(problem: CutProblem, users: list[list[int]], kept: set[int]) -> tuple[int, ...]:
    """The kept values that a wanted value is, or is computed from without crossing another."""
    count = len(users)
    asked = list(problem.wanted)
    for v in range(count - 1, -1, -1):
        if not asked[v]:
            asked[v] = any(asked[u] and u not in kept for u in users[v])
    return tuple([v for v in range(count) if asked[v] and v in kept])


def _open_path(problem: CutProblem, users: list[list[int]], component: list[int]) -> list[int]:
    """A path from a fixed to a wanted value on which nothing can be kept."""
    inside = set(component)
    before: dict[int, int] = {}
    for v in component:
        if problem.sizes[v] is None and (problem.fixed[v] or v in before):
            before.setdefault(v, -1)
            if problem.wanted[v]:
                path = [v]
                while before[path[-1]] >= 0:
                    path.append(before[path[-1]])
                return path[::-1]
            for u in users[v]:
                if u in inside:
                    before.setdefault(u, v)
    return []


def _uncuttable(problem: CutProblem, path: list[int]) -> GraphError:
    labels = [str(v if problem.labels is None else problem.labels[v]) for v in path]
    return GraphError(
        f"nothing on the way {' -> '.join(labels)} can be kept for the backward computation, "
        f"and {labels[0] if labels else 'its start'} cannot be computed again"
    )


class _Network:
    """A flow network; arc 2 k and its reverse 2 k + 1 lie side by side.

    Attributes
    ----------
    level : list of int
        After `saturate`: how many arcs each node is from the sink in what is left; -1 where it
        cannot reach the sink. The arcs from -1 to the rest are the minimum cut nearest the sink.
    """

    __slots__ = ("arcs", "heads", "left", "level")

    def __init__(self, count: int) -> None:
        self.arcs: list[list[int]] = [[] for _ in range(count)]
        self.heads: list[int] = []
        self.left: list[int] = []
        self.level: list[int] = []

    def add_arc(self, tail: int, head: int, capacity: int) -> None:
        """A new arc, with a reverse arc of no capacity."""
        arc = len(self.heads)
        self.heads += (head, tail)
        self.left += (capacity, 0)
        self.arcs[tail].append(arc)
        self.arcs[head].append(arc + 1)

    def saturate(self, source: int, sink: int) -> int:
        """Pushes a maximum flow by Dinic's algorithm, without recursion; returns its value."""
        flow = 0
        while self._find_levels(source, sink):
            flow += self._block(source, sink)
        return flow

    def _find_levels(self, source: int, sink: int) -> bool:
        """Distances to the sink; false, and all distances found, where the source has none."""
        arcs, heads, left = self.arcs, self.heads, self.left
        level = self.level = [-1] * len(arcs)
        level[sink] = 0
        queue = [sink]
        for node in queue:  # grows while it is walked
            distance = level[node] + 1
            for arc in arcs[node]:
                near = heads[arc]
                if level[near] < 0 and left[arc ^ 1]:
                    level[near] = distance
                    queue.append(near)
            if 0 <= level[source] < distance:
                break
        return level[source] >= 0

    def _block(self, source: int, sink: int) -> int:
        """Pushes along shortest paths until every one of them has a full arc."""
        arcs, heads, left, level = self.arcs, self.heads, self.left, self.level
        next_arc = [0] * len(arcs)
        path: list[int] = []
        flow, node = 0, source
        while True:
            if node == sink:
                pushed = min([left[arc] for arc in path])
                flow += pushed
                full = -1
                for k, arc in enumerate(path):
                    left[arc] -= pushed
                    left[arc ^ 1] += pushed
                    if full < 0 and not left[arc]:
                        full = k
                node = heads[path[full] ^ 1]
                del path[full:]
                continue
            out, k, wanted = arcs[node], next_arc[node], level[node] - 1
            while k < len(out) and not (left[out[k]] and level[heads[out[k]]] == wanted):
                k += 1
            next_arc[node] = k
            if k < len(out):
                path.append(out[k])
                node = heads[out[k]]
            elif path:
                node = heads[path.pop() ^ 1]
                next_arc[node] += 1
            else:
                return flow
