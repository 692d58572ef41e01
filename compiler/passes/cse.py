"""Shares common subexpressions: pure nodes with the same op, inputs and attributes become one."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import cast

from tapeline.compiler.ir.graph import SMALL_CONSTANT_BYTES, Graph, attrs_key
from tapeline.compiler.passes.base import PassResult, Rebuild, rebuild
from tapeline.runtime.op import Trait


@dataclass(frozen=True, slots=True)
class CommonSubexpressions:
    """Also takes a commutative op with swapped inputs as the same, and big constants with the same
    bits.

    The first of equal nodes stays, with its location. A graph shares the plain cases by itself as
    it is built; passes that change inputs make new ones.
    """

    name: str = "cse"

    def run(self, graph: Graph, /) -> PassResult:
        """The graph with each pure value computed once."""
        swapped: dict[Hashable, int] = {}
        twins = _equal_constants(graph)

        def rewrite(work: Rebuild, node_id: int) -> int | None:
            twin = twins.get(node_id)
            if twin is not None:
                return cast(int, work.values[twin])
            op = graph.ops[node_id]
            if len(graph.inputs[node_id]) != 2 or not op.is_pure or not op.has(Trait.COMMUTATIVE):
                return None
            a, b = work.inputs(node_id)
            key = (op, min(a, b), max(a, b), attrs_key(graph.attrs[node_id]))
            found = swapped.get(key)
            if found is None:
                swapped[key] = len(work.target)
            return found

        return rebuild(graph, rewrite)


def _equal_constants(graph: Graph) -> dict[int, int]:
    """For each big constant that repeats an earlier one, that earlier one."""
    twins: dict[int, int] = {}
    alike: dict[Hashable, list[int]] = {}
    for i in range(len(graph)):
        array = graph.constant_value(i)
        if array is None or array.nbytes <= SMALL_CONSTANT_BYTES:
            continue
        bucket = alike.setdefault((array.shape, array.dtype, array[:1].tobytes()), [])
        for k in bucket:
            other = graph.constant_value(k)
            assert other is not None
            if array is other or array.tobytes() == other.tobytes():
                twins[i] = k
                break
        else:
            bucket.append(i)
    return twins
