"""Sums over the columns of a table of pairs are sums over its rows, where the table is symmetric.

What is computed of `p[:, None] - p[None]` changes at most its sign when the two points change
places, and a gradient asks for sums along both axes. Both are then one sum, and the table need not
stand in memory. Products and sums of the same floats in another order of the factors have the same
bits, and so does a difference with its terms exchanged, but for the sign.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from tapeline.compiler.ir.graph import Graph
from tapeline.compiler.ir.structure_ops import CONSTANT
from tapeline.compiler.passes.base import PassResult, Rebuild
from tapeline.runtime.op import IndexMap, Pointwise, get_op
from tapeline.runtime.spec import TensorSpec

if TYPE_CHECKING:
    import numpy.typing as npt

FEWEST_ROWS = 32
"""Smaller tables are left as they are."""

MOST_LOOKED_AT = 1 << 18
"""Elements of a view whose places are compared."""

Signed = tuple[int, int]
"""A value: its number, and 1, or -1 for the negative of the one with that number."""

_UNSIGNED = ("square", "abs")
_PRODUCTS = ("multiply", "guarded_multiply", "guarded_product", "divide")


@dataclass(frozen=True, slots=True)
class Transposes:
    """Lets sums along the first axis be sums along the second one of what is there already."""

    name: str = "transposes"

    def run(self, graph: Graph, /) -> PassResult:
        """The graph with fewer sums."""
        columns = [node for node in range(len(graph)) if _sums_table(graph, node, (0,))]
        totals = [node for node in range(len(graph)) if _sums_table(graph, node, (0, 1))]
        rows = [node for node in range(len(graph)) if _sums_table(graph, node, (1,))]
        if not columns and not (totals and rows):
            return PassResult(graph, False)
        same = _found(graph, columns)
        shapes = {graph.spec(graph.inputs[node][0]).shape for node in (*rows, *same)}
        together = [n for n in totals if graph.spec(graph.inputs[n][0]).shape in shapes]
        if not same and not together:
            return PassResult(graph, False)
        kept = {graph.inputs[node][0]: graph.attrs[node][1] for node in rows}
        work = Rebuild(graph)
        for node in range(len(graph)):
            if node in same:
                table, sign = same[node]
                work.replace(_by_rows(work, node, table, sign, bool(kept.get(table))))
            elif node in together:
                work.replace(_in_two_steps(work, node))
            else:
                work.keep(node)
        return work.finish()


def _sums_table(graph: Graph, node: int, axes: tuple[int, ...]) -> bool:
    """Whether a node sums a float table of pairs over these axes."""
    op = graph.ops[node]
    if op is not get_op("sum") or graph.attrs[node][0] != axes:
        return False
    spec = graph.spec(graph.inputs[node][0])
    is_table = spec.ndim == 2 and spec.static_shape[0] == spec.static_shape[1] >= FEWEST_ROWS
    return is_table and spec.dtype.kind == "f" and spec.dtype == graph.spec(node).dtype


def _found(graph: Graph, columns: list[int]) -> dict[int, Signed]:
    """For sums along the first axis a node that is the transposed table, and the sign."""
    if not columns:
        return {}
    numbers = _Numbers(graph)
    first: dict[int, Signed] = {}
    for node in range(len(graph)):
        number, sign = numbers.plain[node]
        first.setdefault(number, (node, sign))
    found = {}
    for node in columns:
        table = graph.inputs[node][0]
        number, sign = numbers.transposed[table]
        if number in first and first[number][0] < node:
            other, own = first[number]
            if graph.spec(other) == graph.spec(table):
                found[node] = other, sign * own
    return found


def _by_rows(work: Rebuild, node: int, table: int, sign: int, keepdims: bool) -> int:
    """The sums of rows of a table, in the shape of a node. They may be there already, with or
    without the axis that is summed."""
    graph, target, location = work.source, work.target, work.source.locations[node]
    value, shape = cast(int, work.values[table]), graph.spec(node).static_shape
    total = target.add(get_op("sum"), (value,), ((1,), keepdims), location)
    if target.spec(total).shape != shape:
        total = target.add(get_op("reshape"), (total,), (shape,), location)
    return total if sign > 0 else target.add(get_op("negative"), (total,), (), location)


def _in_two_steps(work: Rebuild, node: int) -> int:
    """The sum of the sums of rows, which are computed together with others."""
    graph, target = work.source, work.target
    location, keepdims = graph.locations[node], graph.attrs[node][1]
    (value,) = work.inputs(node)
    rows = target.add(get_op("sum"), (value,), ((1,), keepdims), location)
    return target.add(get_op("sum"), (rows,), ((0,), keepdims), location)


@dataclass(slots=True)
class _Numbers:
    """Numbers of the values of all nodes, and of their transposes: equal ones are equal."""

    graph: Graph
    plain: list[Signed] = field(default_factory=list)
    transposed: list[Signed] = field(default_factory=list)
    known: dict[Hashable, int] = field(default_factory=dict)
    places: dict[int, tuple[int, npt.NDArray[Any]]] = field(default_factory=dict)
    """For views the array that is viewed, and which of its elements they show."""

    def __post_init__(self) -> None:
        for node in range(len(self.graph)):
            one, other = self._number(node)
            self.plain.append(one)
            self.transposed.append(other)

    def _new(self, *key: Hashable) -> int:
        return self.known.setdefault(key, len(self.known))

    def _number(self, node: int) -> tuple[Signed, Signed]:
        graph = self.graph
        op, spec = graph.ops[node], graph.specs[node]
        if not isinstance(spec, TensorSpec):
            return (self._new("parts", node), 1), (self._new("turned parts", node), 1)
        if spec.size == 1 and not spec.shape:
            constant = graph.constant_value(node) if op is CONSTANT else None
            key = node if constant is None else (spec.dtype.str, constant.tobytes())
            return (self._new("number", key), 1), (self._new("number", key), 1)
        if isinstance(op.lowering, Pointwise) and op.is_pure and self._is_even(node):
            attrs, inputs = graph.attrs[node], graph.inputs[node]
            return (
                self._made(op.name, attrs, [self.plain[i] for i in inputs]),
                self._made(op.name, attrs, [self.transposed[i] for i in inputs]),
            )
        shown = self._shown(node)
        if shown is not None and spec.ndim == 2:
            root, places = shown
            keys = [("view", root, x.shape, x.tobytes()) for x in (places, places.T)]
            return (self._new(*keys[0]), 1), (self._new(*keys[1]), 1)
        return (self._new("node", node), 1), (self._new("turned", node), 1)

    def _is_even(self, node: int) -> bool:
        """Whether all that a node takes is a number, or has as many axes as the node."""
        graph, ndim = self.graph, self.graph.spec(node).ndim
        is_float = graph.spec(node).dtype.kind == "f"
        return is_float and all(graph.spec(i).ndim in (0, ndim) for i in graph.inputs[node])

    def _made(self, name: str, attrs: Hashable, given: list[Signed]) -> Signed:
        """The number of what an op makes; signs are drawn out where that changes nothing."""
        if name == "negative":
            number, sign = given[0]
            return number, -sign
        if name in ("add", "subtract"):
            (a, s), (b, t) = given
            t = -t if name == "subtract" else t
            (a, s), (b, t) = sorted([(a, s), (b, t)])
            return self._new("sum", a, b, s * t), s
        if name in _PRODUCTS:
            (a, s), (b, t) = given
            numbers = tuple(sorted((a, b))) if name == "multiply" else (a, b)
            return self._new(name, attrs, *numbers), s * t
        if name in _UNSIGNED:
            return self._new(name, attrs, given[0][0]), 1
        return self._new(name, attrs, *given), 1

    def _shown(self, node: int) -> tuple[int, npt.NDArray[Any]] | None:
        """The array that a view is of, and which of its elements it shows."""
        graph, op = self.graph, self.graph.ops[node]
        if not isinstance(op.lowering, IndexMap):
            return None
        base = graph.inputs[node][0]
        if not isinstance(graph.specs[base], TensorSpec):
            return None
        size = graph.spec(base).size
        if max(size, graph.spec(node).size) > MOST_LOOKED_AT:
            return None
        root, places = self.places.get(base, (base, None))
        if places is None:
            places = np.arange(size).reshape(graph.spec(base).static_shape)
        found = root, np.ascontiguousarray(op.kernel(places, *graph.attrs[node]))
        self.places[node] = found
        return found
