from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tapeline.compiler.codegen.engine import CompiledModule, get_engine
from tapeline.compiler.codegen.pool import (
    MIN_PARALLEL_WORK,
    PARALLEL,
    chunk_limit,
    default_thread_count,
    is_pool_supported,
    pool_symbols,
)

pytestmark = pytest.mark.skipif(not is_pool_supported(), reason="no thread pool on this system")

# marks[i] += 1 for every index, and starts[low] = high for every chunk
KERNEL = """
define void @mark(ptr %slots, i64 %low, i64 %high) {
entry:
  %marks = load ptr, ptr %slots
  %second = getelementptr ptr, ptr %slots, i64 1
  %starts = load ptr, ptr %second
  %start = getelementptr i64, ptr %starts, i64 %low
  store i64 %high, ptr %start
  br label %head
head:
  %i = phi i64 [ %low, %entry ], [ %next, %body ]
  %more = icmp slt i64 %i, %high
  br i1 %more, label %body, label %done
body:
  %place = getelementptr i64, ptr %marks, i64 %i
  %old = load i64, ptr %place
  %new = add i64 %old, 1
  store i64 %new, ptr %place
  %next = add i64 %i, 1
  br label %head
done:
  ret void
}
"""
Array = np.ndarray[Any, np.dtype[np.int64]]


@pytest.fixture(scope="module")
def module() -> CompiledModule:
    return get_engine().compile_module(KERNEL, {}, ["mark"])


@pytest.fixture
def parallel(module: CompiledModule) -> Callable[..., tuple[Array, Array]]:
    symbols = pool_symbols()
    if not symbols:
        pytest.skip("one thread only")
    prototype = ctypes.CFUNCTYPE(
        None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64
    )
    call = prototype(symbols[PARALLEL])

    def run(extent: int, grain: int, limit: int, times: int = 1) -> tuple[Array, Array]:
        marks, starts = np.zeros(extent, np.int64), np.zeros(extent, np.int64)
        slots = (ctypes.c_int64 * 2)(marks.ctypes.data, starts.ctypes.data)
        for _ in range(times):
            call(module.address("mark"), ctypes.addressof(slots), extent, grain, limit)
        return marks, starts

    return run


@pytest.mark.parametrize("extent", [1, 7, 64, 1000, 100_003])
@pytest.mark.parametrize("grain", [1, 16, 48])
@pytest.mark.parametrize("limit", [1, 2, 5, 1000])
def test_every_index_runs_once(parallel: Any, extent: int, grain: int, limit: int) -> None:
    marks, starts = parallel(extent, grain, limit)
    assert (marks == 1).all()
    lows = np.flatnonzero(starts)
    assert (lows % grain == 0).all()
    assert len(lows) <= limit
    assert list(starts[lows][:-1]) == list(lows[1:])
    assert starts[lows][-1] == extent


def test_many_jobs_in_a_row(parallel: Any) -> None:
    marks, _ = parallel(4096, 16, 64, times=5000)
    assert (marks == 5000).all()


def test_callers_from_many_threads(parallel: Any) -> None:
    results: list[bool] = []

    def work() -> None:
        marks, _ = parallel(10_000, 16, 64, times=300)
        results.append(bool((marks == 300).all()))

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [True] * 6


def test_small_launches_are_not_split() -> None:
    assert chunk_limit(1000, 1, MIN_PARALLEL_WORK - 1) == 1
    assert chunk_limit(16, 16, 10 * MIN_PARALLEL_WORK) == 1
    assert chunk_limit(33, 16, 10 * MIN_PARALLEL_WORK) == 3
    assert chunk_limit(10**6, 1, MIN_PARALLEL_WORK) == 16


@pytest.mark.parametrize(("value", "count"), [("1", 1), ("3", 3), ("1000", 64)])
def test_environment_variable_sets_the_count(
    value: str, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TAPELINE_NUM_THREADS", value)
    assert default_thread_count() == count
    assert bool(pool_symbols()) == (count > 1)


def test_environment_variable_that_is_no_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAPELINE_NUM_THREADS", "many")
    assert default_thread_count() == min(64, len(os.sched_getaffinity(0)))


def test_a_forked_child_starts_its_own_workers() -> None:
    code = f"""
import ctypes, os, sys
import numpy as np
from tapeline.compiler.codegen.engine import get_engine
from tapeline.compiler.codegen.pool import PARALLEL, pool_symbols
module = get_engine().compile_module({KERNEL!r}, {{}}, ["mark"])
p, n = ctypes.c_void_p, ctypes.c_int64
call = ctypes.CFUNCTYPE(None, p, p, n, n, n)(pool_symbols()[PARALLEL])
def run():
    marks, starts = np.zeros(10000, np.int64), np.zeros(10000, np.int64)
    slots = (n * 2)(marks.ctypes.data, starts.ctypes.data)
    for _ in range(200):
        call(module.address("mark"), ctypes.addressof(slots), 10000, 16, 64)
    return bool((marks == 200).all())
assert run()
pid = os.fork()
good = run()
if pid == 0:
    os._exit(0 if good else 1)
sys.exit(os.waitpid(pid, 0)[1] or not good)
"""
    environment = {**os.environ, "TAPELINE_NUM_THREADS": "3"}
    done = subprocess.run([sys.executable, "-c", code], timeout=60, env=environment)
    assert done.returncode == 0


def test_exit_with_live_workers_is_clean() -> None:
    code = f"""
import ctypes
import numpy as np
from tapeline.compiler.codegen.engine import get_engine
from tapeline.compiler.codegen.pool import PARALLEL, pool_symbols
module = get_engine().compile_module({KERNEL!r}, {{}}, ["mark"])
p, n = ctypes.c_void_p, ctypes.c_int64
call = ctypes.CFUNCTYPE(None, p, p, n, n, n)(pool_symbols()[PARALLEL])
marks, starts = np.zeros(10000, np.int64), np.zeros(10000, np.int64)
slots = (n * 2)(marks.ctypes.data, starts.ctypes.data)
call(module.address("mark"), ctypes.addressof(slots), 10000, 16, 64)
"""
    environment = {**os.environ, "TAPELINE_NUM_THREADS": "4"}
    for _ in range(3):
        done = subprocess.run([sys.executable, "-c", code], timeout=60, env=environment)
        assert done.returncode == 0
