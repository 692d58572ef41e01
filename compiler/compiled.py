"""A graph that can be called on arrays, compiled on demand: an executable per layout of its inputs.

`differentiable` makes of it an op that tapes record.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from tapeline.compiler.codegen.layout import native_entry_allowed
from tapeline.compiler.codegen.native_call import (
    NativeCallable,
    NativeEntry,
    enable_native_calls,
    set_entry,
)
from tapeline.compiler.codegen.target import PLAIN, Manner
from tapeline.compiler.codegen.views import layout_of
from tapeline.compiler.frontend.logs import is_logged, log
from tapeline.compiler.frontend.replay import trace_into
from tapeline.compiler.ir.graph import Graph
from tapeline.compiler.loading import without_collections
from tapeline.compiler.passes.pipeline import default_passes, run_pipeline
from tapeline.runtime.dispatch import change_busy

if TYPE_CHECKING:
    import numpy.typing as npt

    from tapeline.compiler.executable.executable import Executable

Array: TypeAlias = "npt.NDArray[Any]"

_PASSES = default_passes(trace_into)
_LAST_PASSES = default_passes(trace_into, differentiated=True)


def optimize(graph: Graph) -> Graph:
    """The graph after all passes; it may still be differentiated."""
    return run_pipeline(graph, _PASSES)


class Observer(Protocol):
    """Who runs compiled graphs in the place of their executables, to see what they do."""

    def run(self, compiled: Compiled, arrays: Sequence[Array]) -> Sequence[Array]:
        """The outputs of the graph for these arrays."""
        ...


OBSERVER: list[Observer | None] = [None]
"""The observer of this process. Whoever sets it keeps fast paths away with `change_busy`."""


def set_observer(observer: Observer | None) -> Observer | None:
    """Makes `observer` the one of this process and returns the former one."""
    before = OBSERVER[0]
    change_busy((observer is not None) - (before is not None))
    OBSERVER[0] = observer
    return before


class Compiled(NativeCallable):
    """A graph and its native code, one executable per layout of the inputs.

    It is called with arrays, one per placeholder, and returns a tuple of arrays, or one array where
    the graph has one output. So it is an op's kernel.

    Parameters
    ----------
    graph : Graph
        A traced graph; it is optimized and compiled at the first run.
    manner : Manner
        How its code is made.
    """

    __slots__ = (
        "__dict__",
        "__weakref__",
        "_calls",
        "_entry",
        "_executables",
        "_lock",
        "_optimized",
        "_slow",
        "graph",
        "manner",
    )  # fmt: skip

    def __init__(self, graph: Graph, manner: Manner = PLAIN) -> None:
        self.graph = graph
        self.manner = manner
        self._entry: NativeEntry | None = None
        self._calls = 0
        self._lock = threading.RLock()
        self._optimized: Graph | None = None
        self._executables: dict[Any, Executable] = {}
        self.optimizing = self.compiling = 0.0
        """Seconds spent in the passes, and from there to machine code."""

    @property
    def optimized(self) -> Graph:
        """The graph after all passes."""
        with self._lock:
            if self._optimized is None:
                start = time.perf_counter()
                self._optimized = run_pipeline(self.graph, _LAST_PASSES)
                self.optimizing += time.perf_counter() - start
            return self._optimized

    def executable(self, arrays: Sequence[Array] | None = None) -> Executable:
        """The native code for inputs laid out like these arrays (None: all C-contiguous)."""
        key = None
        if arrays is not None and not all(a.flags.c_contiguous for a in arrays):
            key = tuple(layout_of(array) for array in arrays)
        found = self._executables.get(key)
        if found is None:
            with self._lock:
                found = self._executables.get(key)
                if found is None:
                    with without_collections():  # loads LLVM
                        from tapeline.compiler.executable.executable import Executable

                    graph, start = self.optimized, time.perf_counter()
                    found = self._executables[key] = Executable(graph, key, manner=self.manner)
                    spent = time.perf_counter() - start
                    self.compiling += spent
                    _log(found, spent)
        return found

    def __call__(self, *arrays: Array) -> Any:
        """A call by way of Python; the third one adds a native entry. (After the second one a
        function often has an entry of its own and does not come here again.)"""
        observer = OBSERVER[0]
        if observer is not None:
            outputs = observer.run(self, arrays)
            return outputs[0] if len(outputs) == 1 else tuple(outputs)
        self._calls += 1
        if self._calls == 3:
            self._add_entry()
        outputs = self.executable(arrays)(arrays)
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    def _add_entry(self) -> None:
        with self._lock:
            if self._entry is None and native_entry_allowed():
                from tapeline.compiler.native import array_entry  # loads LLVM

                set_entry(self, array_entry(self.executable()))


enable_native_calls(Compiled)


def _log(executable: Executable, seconds: float) -> None:
    """Log lines about code that was just made."""
    name = executable.graph.name
    log("compile", f"{name}: {len(executable.graph)} nodes in {1e3 * seconds:.1f} ms")
    if is_logged("kernels"):
        for number, kernel in enumerate(executable.module.kernels):
            log("kernels", f"{name}: k{number} {kernel.strategy if kernel else 'NumPy call'}")
