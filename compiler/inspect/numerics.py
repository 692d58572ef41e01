"""Finds the op that first makes a NaN or an infinity: eager ops as they run, compiled graphs node
by node."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from tapeline.compiler.compiled import Array, Compiled, Observer, set_observer
from tapeline.compiler.frontend.location import user_location
from tapeline.compiler.inspect.code import source_line
from tapeline.compiler.ir.graph import Graph
from tapeline.compiler.ir.interpret import run_graph, watching
from tapeline.compiler.ir.location import Location
from tapeline.runtime.callbacks import op_callback
from tapeline.runtime.errors import NumericsError
from tapeline.runtime.tensor import Tensor


class CheckNumerics:
    """A block of this thread in which an op that makes a NaN or an infinity is an error.

    See `tapeline.debugging.check_numerics`.
    """

    def __init__(self, infinities: bool = True) -> None:
        self.infinities = infinities
        self._thread = 0
        self._before: Observer | None = None
        self._callback: Any = None
        self._quiet = np.errstate(all="ignore")

    def __enter__(self) -> None:
        self._thread = threading.get_ident()
        self._callback = op_callback(self._check_op)
        self._callback.__enter__()
        self._quiet.__enter__()
        self._before = set_observer(self)

    def __exit__(self, *details: Any) -> None:
        set_observer(self._before)
        self._quiet.__exit__(*details)
        self._callback.__exit__(*details)

    def run(self, compiled: Compiled, arrays: Sequence[Array]) -> Sequence[Array]:
        """Runs a compiled graph node by node in the thread of the block, as usual in others."""
        if threading.get_ident() != self._thread:
            return compiled.executable(arrays)(arrays)
        with watching(self._check_node):
            return run_graph(compiled.graph, arrays)

    def _check_op(
        self, name: str, _: dict[str, Any], inputs: Sequence[Tensor], outputs: Sequence[Tensor]
    ) -> None:
        given = [tensor._value for tensor in inputs]
        results = [tensor._value for tensor in outputs]
        if all(type(value) is np.ndarray for value in (*given, *results)):
            self._check(name, given, results, None, None)

    def _check_node(self, graph: Graph, node: int, inputs: Sequence[Any], value: Any) -> None:
        given = [x for one in inputs for x in (one if isinstance(one, tuple) else (one,))]
        results = value if isinstance(value, tuple) else (value,)
        self._check(graph.ops[node].name, given, results, graph, graph.locations[node])

    def _check(
        self, name: str, given: Sequence[Any], results: Sequence[Any], graph: Graph | None,
        location: Location | None,
    ) -> None:  # fmt: skip
        bad = [value for value in map(np.asarray, results) if self._count(value)]
        if not bad or not given or any(self._count(np.asarray(value)) for value in given):
            return
        if graph is None:
            location = user_location()
        where = "" if location is None else f" at {location} in {location.function}"
        inside = "" if graph is None else f" (graph {graph.name})"
        lines = [f"check_numerics: {name} gives {_bad_text(bad[0])}{where}{inside}"]
        if location is not None and source_line(location):
            lines.append(f"    {source_line(location)}")
        lines += [f"  input {k}: {_input_text(np.asarray(v))}" for k, v in enumerate(given)]
        raise NumericsError("\n".join(lines))

    def _count(self, value: Array) -> int:
        """How many values are not allowed."""
        if value.dtype.kind not in "fc":
            return 0
        bad = ~np.isfinite(value) if self.infinities else np.isnan(value)
        return int(np.count_nonzero(bad))


def _bad_text(value: Array) -> str:
    nans, infinities = int(np.isnan(value).sum()), int(np.isinf(value).sum())
    parts = [f"{nans} NaN"] if nans else []
    parts += [f"{infinities} infinite"] if infinities else []
    return f"{' and '.join(parts)} of {value.size} values"


def _input_text(value: Array) -> str:
    text = f"{value.dtype.name}{list(value.shape)}"
    if value.dtype.kind in "iuf" and value.size:
        text += f", from {value.min():.6g} to {value.max():.6g}"
    return text
