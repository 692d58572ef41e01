"""Times the kernels of compiled graphs while a block runs, and holds them against what the machine
can do."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tapeline.compiler.executable import timing
from tapeline.compiler.executable.timing import Timing, Words
from tapeline.compiler.inspect.code import locations_of_step, source_line
from tapeline.compiler.inspect.cost import time_text
from tapeline.compiler.inspect.kernels import KernelInfo, describe_kernels
from tapeline.compiler.inspect.machine import Machine, measure_machine
from tapeline.compiler.inspect.summary import WIDTH
from tapeline.compiler.ir.location import Location
from tapeline.runtime.tables import Table, Tabular

CACHED_BYTES = 1 << 20
"""Kernels that touch less than this may run from a cache, faster than memory."""


@dataclass(slots=True)
class KernelTime:
    """What one kernel of one compiled graph took.

    Attributes
    ----------
    graph : str
        The graph that it belongs to.
    number : int
        Its place among the kernels of that graph.
    kernel : KernelInfo
        What it does.
    locations : list of Location
        The source lines that it comes from, each as often as it has nodes from there.
    calls : int
        How often it ran.
    nanoseconds : int
        How long that took in all.
    """

    graph: str
    number: int
    kernel: KernelInfo
    locations: list[Location] = field(default_factory=list)
    calls: int = 0
    nanoseconds: int = 0

    @property
    def seconds(self) -> float:
        """How long it ran in all."""
        return self.nanoseconds / 1e9

    @property
    def bandwidth(self) -> float:
        """Bytes per second that it read and wrote."""
        return self.calls * self.kernel.nbytes / max(self.seconds, 1e-12)

    @property
    def flops(self) -> float:
        """Element operations per second."""
        return self.calls * self.kernel.flops / max(self.seconds, 1e-12)

    def verdict(self, machine: Machine) -> str:
        """How near it comes to what limits it."""
        if self.kernel.kind in ("NumPy call", "control"):
            return self.kernel.kind
        if self.kernel.kind == "product":
            return f"{min(100 * self.flops / machine.flops, 100):.0f}% of arithmetic speed"
        moving = self.bandwidth / machine.bandwidth
        if self.kernel.nbytes < CACHED_BYTES and moving > 1:
            return f"{moving:.1f}x memory speed (cache)"
        return f"{100 * moving:.0f}% of memory speed"


def _kernel_times(timed: Timing, counted: Words, rate: float) -> list[KernelTime]:
    """What each kernel of a compiled graph took, by what was counted: runs, then ticks, which are
    so many nanoseconds."""
    graph, module = timed.graph, timed.module
    infos = describe_kernels(graph, module)
    calls, *ticks = counted.tolist()
    found = []
    for number, step in enumerate(module.program.steps):
        places = [graph.locations[node] for node in step.nodes if node >= 0]
        locations = [place for place in places if place is not None]
        locations = locations or locations_of_step(graph, step)
        found.append(
            KernelTime(
                graph.name, number, infos[number], locations, calls, round(ticks[number] * rate)
            )
        )
    return found


class Profile(Tabular):
    """Times every kernel of every compiled call in a `with` block, in all threads.

    Operations that run eagerly are not timed one by one; they are in `wall_seconds`. Code that
    notes times is compiled at the first call of a graph in the block, and that is not counted as
    the time of a kernel. From then on calls go their usual way, and reading the clock between
    kernels costs some ten nanoseconds each. Prints as a table by kernel; see also `by_line` and
    `save_trace`.

    Attributes
    ----------
    kernels : list of KernelTime
        The slowest first.
    wall_seconds : float
        How long the block ran.
    compile_seconds : float
        How much of that went into making code that notes times.

    Examples
    --------
    >>> import tapeline as tl
    >>> f = tl.function(lambda x: tl.sum(tl.exp(x)))
    >>> with tl.debugging.profile() as profile:
    ...     y = f(tl.zeros(1000)), f(tl.ones(1000))
    >>> [(one.kernel.kind, one.calls) for one in profile.kernels]
    [('loop', 2)]
    """

    def __init__(self) -> None:
        self._before: dict[int, Words] = {}
        self._found: dict[int, list[KernelTime]] = {}
        """By number of the executable; complete when the block has ended."""
        self._events: list[tuple[int, int, Words]] = []
        self._is_running = False
        self._trace_start = 0
        self._start = 0
        self._ticks_at_start = 0, 0
        self._compile_start = 0.0
        self.wall_seconds = 0.0
        self.compile_seconds = 0.0
        self._machine: Machine | None = None

    def __enter__(self) -> Profile:
        self._trace_start = timing.begin()
        self._before = {number: one.read() for number, one in timing.timings().items()}
        self._compile_start = timing.compile_seconds[0]
        self._is_running = True
        self._ticks_at_start = timing.clock().read()
        self._start = self._ticks_at_start[1]
        return self

    def __exit__(self, *_: object) -> None:
        self.wall_seconds = (time.monotonic_ns() - self._start) / 1e9
        self._look()
        self._is_running = False
        timing.end()

    def _look(self) -> None:
        """Takes in what has been counted since the block began."""
        self.compile_seconds = timing.compile_seconds[0] - self._compile_start
        rate = timing.clock().nanoseconds_per_tick()
        found = {}
        for number, one in timing.timings().items():
            counted = one.read()
            if number in self._before:
                counted -= self._before[number]
            if counted[0]:
                found[number] = _kernel_times(one, counted, rate)
        self._found = found
        ticks, nanoseconds = self._ticks_at_start
        self._events = [
            (number, thread, (nanoseconds + (times - ticks) * rate).astype(np.int64))
            for number, thread, times in timing.records(self._trace_start)
            if number in found
        ]

    @property
    def machine(self) -> Machine:
        """What this machine can do, measured once when first asked for."""
        if self._machine is None:
            self._machine = measure_machine()
        return self._machine

    @property
    def kernels(self) -> list[KernelTime]:
        """What each kernel took, the slowest first."""
        if self._is_running:
            self._look()
        found = [one for times in self._found.values() for one in times]
        return sorted(found, key=lambda one: -one.nanoseconds)

    # ---- reports

    def __repr__(self) -> str:
        return f"<profile of {time_text(self.wall_seconds)}: {len(self.kernels)} kernels>"

    def __str__(self) -> str:
        return "\n".join(line[:WIDTH].rstrip() for line in self._table())

    def table(self) -> Table:
        """Title, head and rows by kernel, the slowest first."""
        total = sum(one.nanoseconds for one in self.kernels) / 1e9 or 1.0
        rows: list[tuple[str, ...]] = [
            (
                f"{one.graph}/{one.number}", f"{100 * one.seconds / total:.1f}%",
                time_text(one.seconds), f"{one.calls}",
                time_text(one.seconds / max(one.calls, 1)), f"{one.bandwidth / 1e9:.1f} GB/s",
                one.verdict(self.machine), one.kernel.location, _ops(one),
            )
            for one in self.kernels
        ]  # fmt: skip
        head = ("kernel", "share", "time", "runs", "each", "moves", "verdict", "line", "computes")
        return f"profile: {time_text(self.wall_seconds)}", head, rows

    def _table(self) -> Iterator[str]:
        kernels = self.kernels
        total = sum(one.nanoseconds for one in kernels) / 1e9
        rest = max(self.wall_seconds - self.compile_seconds - total, 0.0)
        yield (
            f"profile: {time_text(self.wall_seconds)}, of them {time_text(total)} in "
            f"{len(kernels)} kernels, {time_text(rest)} around them,"
        )
        yield f"  {time_text(self.compile_seconds)} to compile code that notes times"
        yield f"  this machine: {self.machine}"
        for one in kernels:
            share = 100 * one.seconds / total if total else 0.0
            name = f"{one.graph}/{one.number}"
            each = time_text(one.seconds / max(one.calls, 1))
            yield (
                f"  {share:5.1f}%  {time_text(one.seconds):>8}  {one.calls:>6} x "
                f"{each:>8}  {one.bandwidth / 1e9:6.1f} GB/s  "
                f"{one.verdict(self.machine)}"
            )
            yield f"          {name:<22.22}  {one.kernel.location:<18.18}  {_ops(one)}"

    def by_line(self) -> str:
        """The time by source line, slowest first: a kernel's time is shared among the lines of its
        operations."""
        times: dict[Location, float] = {}
        for one in self.kernels:
            for location in one.locations:
                share = one.seconds / len(one.locations)
                times[location] = times.get(location, 0.0) + share
        total = sum(times.values()) or 1.0
        lines = []
        for location, seconds in sorted(times.items(), key=lambda item: -item[1]):
            lines.append(
                f"  {100 * seconds / total:5.1f}%  {time_text(seconds):>8}  {location!s:<22}  "
                f"{source_line(location)}"
            )
        return "\n".join(line[:WIDTH].rstrip() for line in lines)

    def chrome_trace(self) -> dict[str, Any]:
        """The runs of kernels as a dict in Chrome's trace format."""
        process = os.getpid()
        threads = {thread: k for k, thread in enumerate(dict.fromkeys(e[1] for e in self._events))}
        events: list[dict[str, Any]] = []
        for number, thread, marks in self._events:
            starts, ends = marks[:-1].tolist(), marks[1:].tolist()
            for one, start, end in zip(self._found[number], starts, ends, strict=True):
                kernel = one.kernel
                arguments = {
                    "operations": ", ".join(kernel.ops), "line": kernel.location,
                    "bytes": kernel.nbytes, "flops": kernel.flops, "strategy": kernel.strategy,
                    "shape": list(kernel.shape),
                }  # fmt: skip
                events.append(
                    {
                        "name": f"{one.graph}/{one.number} {kernel.kind}", "cat": kernel.kind,
                        "ph": "X", "pid": process, "tid": threads[thread], "args": arguments,
                        "ts": (start - self._start) / 1e3, "dur": (end - start) / 1e3,
                    }
                )  # fmt: skip
        return {"traceEvents": events, "displayTimeUnit": "ns"}

    def save_trace(self, path: str | os.PathLike[str]) -> None:
        """Writes a file that Perfetto (ui.perfetto.dev) and Chrome's `about:tracing` show.

        Parameters
        ----------
        path : str or path
            Where to; an existing file is replaced.
        """
        Path(path).write_text(json.dumps(self.chrome_trace()), encoding="utf-8")


def _ops(one: KernelTime) -> str:
    names = list(dict.fromkeys(one.kernel.ops))
    return ", ".join(names)
