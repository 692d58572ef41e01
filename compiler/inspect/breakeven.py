"""After how many calls a compiled function has paid for its compilation, measured."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from tapeline.compiler.compiled import Array, Compiled
from tapeline.compiler.concrete import ConcreteFunction
from tapeline.compiler.inspect.cost import time_text
from tapeline.compiler.inspect.summary import WIDTH
from tapeline.compiler.ir.graph import Graph
from tapeline.compiler.ir.interpret import run_graph
from tapeline.compiler.open_function import OpenFunction
from tapeline.runtime.tables import Table, Tabular

_SECONDS = 0.05
"""How long each way is run."""


@dataclass(frozen=True, slots=True)
class TraceBreakeven:
    """What one trace costs and gains.

    Attributes
    ----------
    signature : str
        The arguments.
    trace_seconds : float
        How long the first call traced.
    compile_seconds : float
        How long its graph takes to optimize and compile, without the cache on disk.
    numpy_seconds, compiled_seconds : float
        What a call takes op by op in NumPy, and compiled; the shortest of several.
    calls : int or None
        From how many calls on compiling is the faster way; None where it never is.
    """

    signature: str
    trace_seconds: float
    compile_seconds: float
    numpy_seconds: float
    compiled_seconds: float

    @property
    def calls(self) -> int | None:
        """From how many calls on compiling is the faster way."""
        gain = self.numpy_seconds - self.compiled_seconds
        if gain <= 0:
            return None
        return max(1, int(np.ceil((self.trace_seconds + self.compile_seconds) / gain)))


class Breakeven(Tabular, Sequence[TraceBreakeven]):
    """The traces of a function with what they cost and gain; prints as a table."""

    def __init__(self, name: str, traces: Sequence[TraceBreakeven]) -> None:
        self.name = name
        self._traces = tuple(traces)

    def __len__(self) -> int:
        return len(self._traces)

    def __getitem__(self, index):  # type: ignore[no-untyped-def]  # as tuple's own
        return self._traces[index]

    def table(self) -> Table:
        """What each trace has cost and saves."""
        head = ("for", "to trace", "to compile", "call in NumPy", "call compiled", "after calls")
        return f"{self.name}: compiling pays off", head, self._rows()

    def _rows(self) -> list[tuple[str, ...]]:
        return [
            (
                one.signature, time_text(one.trace_seconds), time_text(one.compile_seconds),
                time_text(one.numpy_seconds), time_text(one.compiled_seconds),
                "never" if one.calls is None else f"{one.calls:,}",
            )
            for one in self._traces
        ]  # fmt: skip

    def __str__(self) -> str:
        lines = [f"{self.name}: compiling pays off"]
        for signature, traced, compiled, numpy, native, calls in self._rows():
            lines.append(f"  {signature}")
            when = "never" if calls == "never" else f"after {calls} calls"
            lines.append(f"    {when}: {traced} to trace, {compiled} to compile;")
            lines.append(f"    a call takes {numpy} in NumPy, {native} compiled")
        return "\n".join(line[:WIDTH].rstrip() for line in lines)

    def __repr__(self) -> str:
        return f"<breakeven of {self.name}: {[one.calls for one in self._traces]}>"


def measure_breakeven(concrete: ConcreteFunction, trace_seconds: float) -> TraceBreakeven:
    """The figures of a trace, for the traced sizes where it leaves some open, and of its stages
    together where it runs in stages; its effects are not carried out for good: Variables keep their
    values.

    Raises
    ------
    ValueError
        If it prints or checks, for then running it is noticed.
    """
    concrete = with_fixed_sizes(concrete)
    given = ", ".join(f"{spec.dtype.name}{list(spec.shape or ())}" for spec in concrete.inputs)
    if concrete.staged is not None:
        parts = [measure_breakeven(stage, 0.0) for stage in concrete.stages]
        compiling = sum(part.compile_seconds for part in parts)
        ways = [(part.numpy_seconds, part.compiled_seconds) for part in parts]
        numpy, native = (sum(way) for way in zip(*ways, strict=True))
        return TraceBreakeven(f"({given})", trace_seconds, compiling, numpy, native)
    graph = concrete.optimized_graph
    if not all(op.is_pure for op in graph.ops):
        raise ValueError(f"breakeven: {concrete.name} has effects; it cannot be run to be timed")
    arrays = sample_inputs(concrete)
    start = time.perf_counter()
    compiled = Compiled(concrete.graph)
    executable = compiled.executable()
    compile_seconds = time.perf_counter() - start
    with np.errstate(all="ignore"):
        native = shortest(lambda: executable(arrays))
        numpy = shortest(lambda: run_graph(concrete.graph, arrays))
    return TraceBreakeven(f"({given})", trace_seconds, compile_seconds, numpy, native)


def with_fixed_sizes(concrete: ConcreteFunction) -> ConcreteFunction:
    """The trace for the sizes that it was traced with, if it leaves some open."""
    if isinstance(concrete, OpenFunction):
        return concrete.at(concrete.sizes.values)
    return concrete


def shortest(run: Callable[[], object], seconds: float = _SECONDS) -> float:
    """The shortest of the runs that fit into so many seconds, at least three."""
    best, end, count = float("inf"), time.perf_counter() + seconds, 0
    while count < 3 or time.perf_counter() < end:
        start = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - start)
        count += 1
    return best


def sample_inputs(concrete: ConcreteFunction) -> list[Array]:
    """Made-up arguments, and the present values of what it takes besides."""
    graph = concrete.graph
    count = len(concrete.inputs)
    rng = np.random.default_rng(0)
    arrays = [_sample(graph, node, rng) for node in graph.placeholders[:count]]
    for _, source, _ in concrete.hidden_sources():
        value = source.numpy() if hasattr(source, "numpy") else source
        arrays.append(np.ascontiguousarray(value).reshape(np.shape(value)))
    return arrays


def _sample(graph: Graph, node: int, rng: np.random.Generator) -> Array:
    """Numbers from 0 to 1; zeros for ints, which may be indices."""
    spec = graph.spec(node)
    if spec.dtype.kind in "fc":
        return np.asarray(rng.random(spec.static_shape)).astype(spec.dtype)
    return np.zeros(spec.static_shape, spec.dtype)
