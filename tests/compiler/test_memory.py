"""Nothing grows: not with calls, not with traces, not with tapes, not with errors."""

from __future__ import annotations

import gc
import resource
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapeline as tl

PAGE = resource.getpagesize()
ALLOWED = 6 << 20
"""Bytes that the process may grow by: allocators keep some."""


def resident() -> int:
    """Bytes of the process in memory now."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * PAGE


def growth(work: Callable[[], Any], rounds: int, warm: int) -> int:
    """How many bytes the process grows by in `rounds` of work after a warm-up."""
    for _ in range(warm):
        work()
    gc.collect()
    before = resident()
    for _ in range(rounds):
        work()
    gc.collect()
    return resident() - before


@pytest.mark.slow
def test_200_000_calls_leave_memory_flat() -> None:
    v = tl.Variable(np.zeros(8))
    outside = tl.asarray(np.ones(8))

    @tl.function
    def f(x: Any, scale: float) -> Any:
        v.assign_add(x)
        return x * outside + scale, {"v": v * 2}

    x = tl.asarray(np.ones(8))

    def work() -> None:
        for _ in range(1000):
            f(x, 2.0)
            f(x, 1.0)

    assert growth(work, 100, 3) < ALLOWED


@pytest.mark.slow
def test_calls_under_tapes_leave_memory_flat() -> None:
    f = tl.function(lambda x, w: tl.tanh(x * w) * w)
    x, w = tl.asarray(np.ones(8)), tl.asarray(np.ones(8))

    def work() -> None:
        for _ in range(100):
            with tl.GradientTape() as tape:
                tape.watch(w)
                y = f(x, w)
            tape.gradient(y, w)

    assert growth(work, 50, 3) < ALLOWED


@pytest.mark.slow
def test_2_000_traces_leave_memory_flat() -> None:
    x = tl.asarray(np.ones(8))

    def work() -> None:
        for k in range(20):
            tl.function(lambda t, k=k: tl.exp(t * k) + tl.sum(t))(x)

    assert growth(work, 100, 10) < 4 * ALLOWED


def test_a_dropped_function_is_freed_with_its_graph_and_captures() -> None:
    class Big:
        pass

    def make() -> tuple[Any, list[Any]]:
        big, outside = Big(), tl.asarray(np.ones(8))

        @tl.function
        def f(x: Any) -> Any:
            assert big is not None
            return x * outside

        for _ in range(3):
            f(tl.asarray(np.ones(8)))
        return f, [weakref.ref(o) for o in (f, f.concrete_functions[0], outside, big)]

    function, dead = make()
    assert None not in [ref() for ref in dead]
    del function
    gc.collect()
    assert [ref() for ref in dead] == [None] * 4


def test_arguments_and_results_are_not_kept() -> None:
    f = tl.function(lambda x: x * 2)
    x = tl.asarray(np.ones(8))
    for _ in range(3):
        y = f(x)
    dead = weakref.ref(x), weakref.ref(y)
    del x, y
    gc.collect()
    assert dead[0]() is None
    assert dead[1]() is None


def test_failed_traces_leave_nothing_behind() -> None:
    class Thing:
        pass

    refs = []

    @tl.function
    def f(x: Any) -> Any:
        thing = Thing()
        refs.append(weakref.ref(thing))
        raise ValueError("no")

    for _ in range(3):
        with pytest.raises(ValueError, match="no"):
            f(tl.asarray(1.0))
    gc.collect()
    assert [ref() for ref in refs] == [None] * 3
