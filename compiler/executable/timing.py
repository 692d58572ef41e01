"""Whether executables run code that notes what their steps take, and what that code counted.

While nobody wants to know, each executable runs its plain code. `begin` puts other code in the
place of that, in all executables of the process, and `end` takes it back; entries and Python find
the code by a word of memory, so no call goes another way than otherwise. Code that notes times is
compiled at the first run of an executable that finds none.
"""

from __future__ import annotations

import ctypes
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np

from tapeline.compiler.codegen.engine import CompiledModule, get_engine
from tapeline.compiler.codegen.module import Module
from tapeline.compiler.codegen.step_clock import OF_RECORD, OF_TIMING, OF_TRACE, ticks_text
from tapeline.compiler.ir.graph import Graph

if TYPE_CHECKING:
    import numpy.typing as npt

TRACE_WORDS = 1 << 19
"""Memory for single runs, some 200,000 steps; later ones are only counted."""

Words: TypeAlias = "npt.NDArray[np.int64]"


@dataclass(frozen=True, slots=True, eq=False)
class Timing:
    """What the steps of an executable took since its code began to note times."""

    graph: Graph
    module: Module
    code: CompiledModule
    words: Words
    """Its number among all, how often it ran, then ticks per step."""

    @property
    def address(self) -> int:
        """Where the code is."""
        return self.code.address("run")

    def read(self) -> Words:
        """How often it ran, then ticks per step."""
        return self.words[1:].copy()


class Timed(Protocol):
    """An executable, as far as it matters here."""

    timing: Timing | None

    def note_times(self, wanted: bool) -> None:
        """Runs code that notes times from now on, or plain code."""
        ...


_LOCK = threading.RLock()
_LIVE: weakref.WeakSet[Any] = weakref.WeakSet()
_WANTED = [0]
"""How many want times now."""
_NUMBERED: dict[int, Timing] = {}
"""By number, while times are wanted: those that may have counted something."""
_COUNT = [0]
_TRACE: list[Words] = []
compile_seconds = [0.0]
"""Spent so far in making code that notes times."""


def trace() -> Words:
    """Where runs leave their records: one array for the whole process."""
    with _LOCK:
        if not _TRACE:
            _TRACE.append(np.zeros(OF_TRACE + TRACE_WORDS, np.int64))
            _TRACE[0][1] = TRACE_WORDS
        return _TRACE[0]


def words_for(n_steps: int) -> Words:
    """Counts for an executable with so many steps."""
    with _LOCK:
        _COUNT[0] += 1
        words = np.zeros(OF_TIMING + n_steps, np.int64)
        words[0] = _COUNT[0]
        return words


def register(executable: Timed) -> None:
    """Tells of a new executable."""
    with _LOCK:
        _LIVE.add(executable)
        if _WANTED[0]:
            executable.note_times(True)


def made(executable: Timed, timing: Timing) -> None:
    """Tells that an executable has code that notes times now."""
    with _LOCK:
        executable.timing = timing
        if _WANTED[0]:
            _NUMBERED[int(timing.words[0])] = timing
            executable.note_times(True)


class Clock:
    """The clock that code reads, against nanoseconds of Python's."""

    def __init__(self) -> None:
        self._code = get_engine().compile_module(ticks_text(""), {}, ["ticks"])
        self._read: Callable[[], int] = ctypes.CFUNCTYPE(ctypes.c_int64)(
            self._code.address("ticks")
        )
        self.first = self.read()

    def read(self) -> tuple[int, int]:
        """Ticks, and nanoseconds of `time.monotonic_ns`, of the same moment: of a few readings
        the one that was least disturbed."""
        best = (1 << 62, 0, 0)
        for _ in range(5):
            before = time.monotonic_ns()
            ticks = self._read()
            after = time.monotonic_ns()
            best = min(best, (after - before, ticks, (before + after) // 2))
        return best[1], best[2]

    def nanoseconds_per_tick(self) -> float:
        """The rate from the first reading of this process to now."""
        ticks, now = self.read()
        return (now - self.first[1]) / max(ticks - self.first[0], 1)


_CLOCK: list[Clock] = []


def clock() -> Clock:
    """The clock of this process."""
    with _LOCK:
        if not _CLOCK:
            _CLOCK.append(Clock())
        return _CLOCK[0]


def begin() -> int:
    """From now on times are noted; where in the trace what follows begins."""
    with _LOCK:
        _WANTED[0] += 1
        if _WANTED[0] == 1:
            words = trace()
            words[OF_TRACE : OF_TRACE + words[0]] = 0
            words[0] = 0
            for executable in list(_LIVE):
                if executable.timing is not None:
                    _NUMBERED[int(executable.timing.words[0])] = executable.timing
                executable.note_times(True)
        return int(trace()[0])


def end() -> None:
    """Times are no longer noted, unless somebody else wants them."""
    with _LOCK:
        _WANTED[0] -= 1
        if not _WANTED[0]:
            _NUMBERED.clear()
            for executable in list(_LIVE):
                executable.note_times(False)


def timings() -> dict[int, Timing]:
    """Those that may have counted something, by number."""
    with _LOCK:
        return dict(_NUMBERED)


def records(start: int) -> Iterator[tuple[int, int, Words]]:
    """The runs in the trace from there on: number, thread, and ticks before each step and at
    the end."""
    words = trace()[OF_TRACE:]
    stop = min(int(trace()[0]), len(words))
    while start < stop and (n_times := int(words[start])):
        times = words[start + OF_RECORD : start + OF_RECORD + n_times].copy()
        yield int(words[start + 1]), int(words[start + 2]), times
        start += OF_RECORD + n_times
