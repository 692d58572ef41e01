"""Folds constants: runs what depends on constants only, now and by its NumPy kernel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from tapeline.compiler.ir.graph import Graph, NodeSpec
from tapeline.compiler.ir.structure_ops import CONSTANT, PICK, PLACEHOLDER
from tapeline.compiler.passes.base import PassResult, Rebuild, rebuild
from tapeline.runtime.op import Attrs, Op, Trait

if TYPE_CHECKING:
    import numpy.typing as npt


@dataclass(frozen=True, slots=True)
class Fold:
    """Folds a pure node if its inputs are constants and its output is small.

    Parameters
    ----------
    limit : int
        Most bytes of a folded value.
    free : int
        A value with more bytes than all the inputs together (a range, an outer product) is folded
        only up to this size: it is cheaper to make again than to store. A broadcast never is.
    """

    limit: int = 65536
    free: int = 256
    name: str = "fold"

    def run(self, graph: Graph, /) -> PassResult:
        """The graph with constants in place of what can be known now."""
        parts: dict[int, tuple[Any, ...]] = {}

        def rewrite(work: Rebuild, node_id: int) -> int | None:
            op = graph.ops[node_id]
            if op is PLACEHOLDER or op is CONSTANT:
                return None
            location = graph.locations[node_id]
            if op is PICK:
                values = parts.get(graph.inputs[node_id][0])
                if values is None:
                    return None
                part = values[cast(int, graph.attrs[node_id][0])]
                return work.target.add_constant(part, location)
            spec = graph.specs[node_id]
            value = self.fold(work.target, op, work.inputs(node_id), graph.attrs[node_id], spec)
            if value is None:
                return None
            if isinstance(spec, tuple):
                parts[node_id] = value
                return None
            return work.target.add_constant(value[0], location)

        return rebuild(graph, rewrite)

    def fold(
        self, graph: Graph, op: Op, inputs: Sequence[int], attrs: Attrs, spec: NodeSpec
    ) -> tuple[npt.NDArray[Any], ...] | None:
        """The values of an op on nodes of a graph; None where they are not to be known now."""
        arrays: list[npt.NDArray[Any]] = []
        for i in inputs:
            array = graph.constant_value(i)
            if array is None:
                return None
            arrays.append(array)
        if not op.is_pure or op.subgraphs or not self._is_worth_it(op, spec, arrays):
            return None
        return _run_kernel(op, arrays, attrs, spec)

    def _is_worth_it(self, op: Op, spec: NodeSpec, arrays: Sequence[npt.NDArray[Any]]) -> bool:
        specs = spec if isinstance(spec, tuple) else (spec,)
        if any(None in s.shape for s in specs):
            return False
        size = sum(s.nbytes for s in specs)
        given = sum(array.nbytes for array in arrays)
        if size <= given:
            return size <= self.limit
        return size <= self.free and not op.has(Trait.VIEW)


def _run_kernel(
    op: Op, arrays: Sequence[Any], attrs: tuple[Any, ...], spec: NodeSpec
) -> tuple[Any, ...] | None:
    """The values, or None where the kernel fails or does not keep to the spec: then the error, if
    any, comes when the graph runs."""
    try:
        with np.errstate(all="ignore"):
            result = op.kernel(*arrays, *attrs)
    except Exception:
        return None
    values = result if isinstance(spec, tuple) else (result,)
    values = tuple([np.asarray(value) for value in values])
    specs = spec if isinstance(spec, tuple) else (spec,)
    fits = all(
        v.shape == s.shape and v.dtype == s.dtype for v, s in zip(values, specs, strict=True)
    )
    return values if fits else None
