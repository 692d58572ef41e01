"""The native thread pool: runs a kernel's launch in chunks on several threads.

`tapeline_parallel(kernel, slots, extent, grain, chunks)` splits [0, extent) at multiples of `grain`
into at most `chunks` parts. Every thread takes the next part until none is left, and so does the
caller, which then waits only for threads that are inside the job: a thread that never got a core
costs nothing. A second caller meanwhile, from another Python thread or from a kernel, runs its
launch alone. Workers start at the first use, spin for a moment after a job, then sleep.

How many threads there are changes no result: kernels give the same bits at any split.
"""

from __future__ import annotations

import ctypes
import functools
import os
import platform
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tapeline.compiler.codegen.engine import CompiledModule

THREADS_VARIABLE = "TAPELINE_NUM_THREADS"
"""Environment variable with the number of threads; by default one per core the process may use."""

PARALLEL = "tapeline_parallel"
PARALLEL_DECLARATION = f"declare void @{PARALLEL}(ptr, ptr, i64, i64, i64)"

MIN_PARALLEL_WORK = 1 << 21
"""Launches below this `work` are not worth waking a thread for."""
MIN_CHUNK_WORK = 1 << 17

_MAX_THREADS = 64
_CHUNKS_PER_THREAD = 8
_SPINS = 2000
_FUTEX_NUMBER = {"x86_64": 202, "aarch64": 98}
_PAUSE = {
    "x86_64": ("llvm.x86.sse2.pause", "", ""),
    "aarch64": ("llvm.aarch64.hint", "i32", "i32 1"),
}


def default_thread_count() -> int:
    """The number of threads that the environment asks for, the caller's included."""
    given = os.environ.get(THREADS_VARIABLE, "")
    if given.isdigit() and int(given) > 0:
        return min(int(given), _MAX_THREADS)
    if not hasattr(os, "sched_getaffinity"):
        return 1
    return min(len(os.sched_getaffinity(0)), _MAX_THREADS)


def is_pool_supported() -> bool:
    """Whether this system has what the pool is made of."""
    return sys.platform == "linux" and platform.machine() in _FUTEX_NUMBER


def pool_symbols() -> dict[str, int]:
    """The address of `tapeline_parallel`, by name; empty where launches run on one thread."""
    if default_thread_count() < 2 or not is_pool_supported():
        return {}
    return {PARALLEL: _pool().address(PARALLEL)}


def chunk_limit(extent: int, grain: int, work: int) -> int:
    """Into how many chunks a launch may be split; 1 where it is not worth it."""
    if work < MIN_PARALLEL_WORK or extent <= grain:
        return 1
    return max(1, min(work // MIN_CHUNK_WORK, -(-extent // grain)))


@functools.cache
def _pool() -> CompiledModule:
    """The pool's code. It lives as long as the process, for workers may be anywhere in it."""
    from tapeline.compiler.codegen.engine import get_engine

    engine = get_engine()
    module = engine.compile_module(_pool_text(), {}, [PARALLEL, "forget_workers", "wanted"])
    for item in (engine, module):
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(item))
    ctypes.c_int32.from_address(module.address("wanted")).value = default_thread_count() - 1
    forget = ctypes.PYFUNCTYPE(None)(module.address("forget_workers"))
    os.register_at_fork(after_in_child=forget)
    return module


def _pool_text() -> str:
    machine = platform.machine()
    pause, pause_type, pause_argument = _PAUSE[machine]
    text = _POOL.replace("CHUNKS_PER_THREAD", str(_CHUNKS_PER_THREAD)).replace("SPINS", str(_SPINS))
    text = text.replace("FUTEX", str(_FUTEX_NUMBER[machine]))
    text = text.replace("PAUSE_DECLARATION", f"declare void @{pause}({pause_type})")
    return text.replace("PAUSE", f"call void @{pause}({pause_argument})")


# `generation` counts jobs and is what workers sleep on. A worker enters a job by raising `inside`
# first and looking at `open` second; the caller closes `open` first and waits for `inside` second.
_POOL = """
@wanted = global i32 0
@running = internal global i32 0
@taken = internal global i32 0, align 64
@generation = internal global i32 0, align 64
@sleepers = internal global i32 0, align 64
@open = internal global i32 0, align 64
@inside = internal global i32 0, align 64
@next = internal global i64 0, align 64
@job_kernel = internal global ptr null, align 64
@job_slots = internal global ptr null
@job_extent = internal global i64 0
@job_chunk = internal global i64 0

declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_detach(i64)
declare i64 @syscall(i64, ...)
declare i32 @sched_yield()
PAUSE_DECLARATION
declare i64 @llvm.umin.i64(i64, i64)
declare i64 @llvm.umax.i64(i64, i64)

define internal void @take_chunks() nounwind {
entry:
  %kernel = load ptr, ptr @job_kernel
  %slots = load ptr, ptr @job_slots
  %extent = load i64, ptr @job_extent
  %chunk = load i64, ptr @job_chunk
  br label %take
take:
  %number = atomicrmw add ptr @next, i64 1 monotonic
  %low = mul i64 %number, %chunk
  %left = icmp ult i64 %low, %extent
  br i1 %left, label %run, label %done
run:
  %end = add i64 %low, %chunk
  %high = call i64 @llvm.umin.i64(i64 %end, i64 %extent)
  call void %kernel(ptr %slots, i64 %low, i64 %high)
  br label %take
done:
  ret void
}

define internal ptr @worker(ptr %start) nounwind {
entry:
  %start64 = ptrtoint ptr %start to i64
  %first = trunc i64 %start64 to i32
  br label %wait
wait:
  %seen = phi i32 [ %first, %entry ], [ %newer, %leave ]
  br label %look
look:
  %count = phi i32 [ 0, %wait ], [ %more, %same ]
  %now = load atomic i32, ptr @generation acquire, align 4
  %changed = icmp ne i32 %now, %seen
  br i1 %changed, label %enter, label %same
same:
  PAUSE
  %more = add i32 %count, 1
  %spin = icmp slt i32 %more, SPINS
  br i1 %spin, label %look, label %doze
doze:
  %s0 = atomicrmw add ptr @sleepers, i32 1 seq_cst
  br label %sleep
sleep:
  %slept = call i64 (i64, ...) @syscall(
      i64 FUTEX, ptr @generation, i32 128, i32 %seen, ptr null, ptr null, i32 0)
  %then = load atomic i32, ptr @generation seq_cst, align 4
  %again = icmp eq i32 %then, %seen
  br i1 %again, label %sleep, label %awake
awake:
  %s1 = atomicrmw sub ptr @sleepers, i32 1 seq_cst
  br label %enter
enter:
  %newer = phi i32 [ %now, %look ], [ %then, %awake ]
  %i0 = atomicrmw add ptr @inside, i32 1 seq_cst
  %state = load atomic i32, ptr @open seq_cst, align 4
  %is_open = icmp eq i32 %state, 1
  br i1 %is_open, label %help, label %leave
help:
  call void @take_chunks()
  br label %leave
leave:
  %i1 = atomicrmw sub ptr @inside, i32 1 seq_cst
  br label %wait
}

define internal void @start_workers() nounwind {
entry:
  %thread = alloca i64
  %target = load i32, ptr @wanted
  %generation = load atomic i32, ptr @generation seq_cst, align 4
  %wide = zext i32 %generation to i64
  %start = inttoptr i64 %wide to ptr
  br label %check
check:
  %have = load i32, ptr @running
  %enough = icmp sge i32 %have, %target
  br i1 %enough, label %done, label %create
create:
  %failed = call i32 @pthread_create(ptr %thread, ptr null, ptr @worker, ptr %start)
  %bad = icmp ne i32 %failed, 0
  br i1 %bad, label %give_up, label %created
created:
  %id = load i64, ptr %thread
  %detached = call i32 @pthread_detach(i64 %id)
  %now = add i32 %have, 1
  store i32 %now, ptr @running
  br label %check
give_up:
  store i32 %have, ptr @wanted
  br label %done
done:
  ret void
}

define void @forget_workers() nounwind {
  store i32 0, ptr @running
  store i32 0, ptr @sleepers
  store i32 0, ptr @inside
  store i32 0, ptr @open
  store i32 0, ptr @taken
  ret void
}

define void @tapeline_parallel(ptr %kernel, ptr %slots, i64 %extent, i64 %grain, i64 %limit)
    nounwind {
entry:
  %helpers = load i32, ptr @wanted
  %alone = icmp slt i32 %helpers, 1
  br i1 %alone, label %serial, label %try
try:
  %pair = cmpxchg ptr @taken, i32 0, i32 1 seq_cst seq_cst
  %got = extractvalue { i32, i1 } %pair, 1
  br i1 %got, label %prepare, label %serial
serial:
  call void %kernel(ptr %slots, i64 0, i64 %extent)
  ret void

prepare:
  call void @start_workers()
  %workers = load i32, ptr @running
  %threads32 = add i32 %workers, 1
  %threads = zext i32 %threads32 to i64
  %many = mul i64 %threads, CHUNKS_PER_THREAD
  %fewer = call i64 @llvm.umin.i64(i64 %many, i64 %limit)
  %parts = call i64 @llvm.umax.i64(i64 %fewer, i64 1)
  %extent_up = add i64 %extent, %parts
  %extent_up1 = sub i64 %extent_up, 1
  %even = udiv i64 %extent_up1, %parts
  %even_up = add i64 %even, %grain
  %even_up1 = sub i64 %even_up, 1
  %grains = udiv i64 %even_up1, %grain
  %chunk = mul i64 %grains, %grain
  store ptr %kernel, ptr @job_kernel
  store ptr %slots, ptr @job_slots
  store i64 %extent, ptr @job_extent
  store i64 %chunk, ptr @job_chunk
  store atomic i64 0, ptr @next seq_cst, align 8
  store atomic i32 1, ptr @open seq_cst, align 4
  %g = atomicrmw add ptr @generation, i32 1 seq_cst
  %asleep = load atomic i32, ptr @sleepers seq_cst, align 4
  %any = icmp sgt i32 %asleep, 0
  br i1 %any, label %wake, label %work
wake:
  %woken = call i64 (i64, ...) @syscall(
      i64 FUTEX, ptr @generation, i32 129, i32 2147483647, ptr null, ptr null, i32 0)
  br label %work
work:
  call void @take_chunks()
  store atomic i32 0, ptr @open seq_cst, align 4
  br label %join
join:
  %count = phi i32 [ 0, %work ], [ %more, %again ]
  %others = load atomic i32, ptr @inside seq_cst, align 4
  %nobody = icmp eq i32 %others, 0
  br i1 %nobody, label %finish, label %pause
pause:
  PAUSE
  %more = add i32 %count, 1
  %long = icmp sgt i32 %more, 1000
  br i1 %long, label %yield, label %again
yield:
  %y = call i32 @sched_yield()
  br label %again
again:
  br label %join
finish:
  store atomic i32 0, ptr @taken seq_cst, align 4
  ret void
}
"""
