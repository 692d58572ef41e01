"""The part of a module's `run` that notes what each step takes: the text of it.

The ticks of a clock are read before each step and at the end, into a table on the stack. When the
last step is done, `note` adds the differences to the counts of the module and writes one record
into the trace. Both are memory from outside, under the symbols `timing` and `trace`; any number of
threads may be at it. A run that ends early notes nothing.

`timing` is an array of int64: a number that says whose it is, the runs so far, then the ticks of
each step so far. `trace` is one too: how many words are taken, how many there are, then the words.
A record is the number of its times, the number from `timing`, the thread, and the times in ticks;
the first word is written last.
"""

from __future__ import annotations

import functools
import platform
import time
from pathlib import Path

OF_TIMING = 2
"""Words of `timing` before those of the steps."""
OF_TRACE = 2
"""Words of `trace` before the records."""
OF_RECORD = 3
"""Words of a record before the times."""


@functools.cache
def has_steady_counter() -> bool:
    """Whether the processor counts time in a register, at one rate whatever it does: that is read
    in half the time of asking the system."""
    if platform.machine().lower() not in ("x86_64", "amd64"):
        return False
    try:
        flags = Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace")
    except OSError:
        return False
    return " constant_tsc" in flags and " nonstop_tsc" in flags


def ticks_text(linkage: str = "internal ") -> str:
    """The function `ticks`, with what it needs."""
    if has_steady_counter():
        return f"""
declare i64 @llvm.readcyclecounter()
define {linkage}i64 @ticks() alwaysinline nounwind {{
  %count = call i64 @llvm.readcyclecounter()
  ret i64 %count
}}
"""
    return f"""
declare i32 @clock_gettime(i32, ptr)
define {linkage}i64 @ticks() nounwind {{
  %both = alloca [2 x i64], align 16
  %status = call i32 @clock_gettime(i32 {time.CLOCK_MONOTONIC}, ptr %both)
  %rest_place = getelementptr i64, ptr %both, i64 1
  %seconds = load i64, ptr %both, align 8
  %rest = load i64, ptr %rest_place, align 8
  %whole = mul i64 %seconds, 1000000000
  %now = add i64 %whole, %rest
  ret i64 %now
}}
"""


def marks_text(n_steps: int) -> str:
    """The table on the stack."""
    return f"  %marks = alloca [{n_steps + 1} x i64], align 16"


def mark_text(number: int) -> str:
    """Reads the clock before step `number`."""
    read = "@llvm.readcyclecounter" if has_steady_counter() else "@ticks"
    return (
        f"  %mark{number} = getelementptr i64, ptr %marks, i64 {number}\n"
        f"  %tick{number} = call i64 {read}()\n"
        f"  store i64 %tick{number}, ptr %mark{number}, align 8"
    )


def note_text(n_steps: int) -> str:
    """The function `note`, which takes the table, and what it needs."""
    n_words = OF_RECORD + n_steps + 1
    return f"""
{ticks_text()}
declare ptr @pthread_self()
@timing = external global i64
@trace = external global i64
define internal void @note(ptr %marks) nounwind {{
entry:
  %number = load i64, ptr @timing, align 8
  %runs = getelementptr i64, ptr @timing, i64 1
  %before = atomicrmw add ptr %runs, i64 1 monotonic
  %thread = call ptr @pthread_self()
  %start = atomicrmw add ptr @trace, i64 {n_words} monotonic
  %end = add i64 %start, {n_words}
  %limit_place = getelementptr i64, ptr @trace, i64 1
  %limit = load i64, ptr %limit_place, align 8
  %has_room = icmp sle i64 %end, %limit
  %from = add i64 %start, {OF_TRACE}
  %record = getelementptr i64, ptr @trace, i64 %from
  %times = getelementptr i64, ptr %record, i64 {OF_RECORD}
  br label %loop
loop:
  %k = phi i64 [ 0, %entry ], [ %next, %kept ]
  %last = phi i64 [ 0, %entry ], [ %now, %kept ]
  %now_place = getelementptr i64, ptr %marks, i64 %k
  %now = load i64, ptr %now_place, align 8
  br i1 %has_room, label %write, label %count
write:
  %time_place = getelementptr i64, ptr %times, i64 %k
  store i64 %now, ptr %time_place, align 8
  br label %count
count:
  %is_first = icmp eq i64 %k, 0
  br i1 %is_first, label %kept, label %add
add:
  %took = sub i64 %now, %last
  %step = add i64 %k, {OF_TIMING - 1}
  %step_place = getelementptr i64, ptr @timing, i64 %step
  %old = atomicrmw add ptr %step_place, i64 %took monotonic
  br label %kept
kept:
  %next = add i64 %k, 1
  %is_done = icmp eq i64 %next, {n_steps + 1}
  br i1 %is_done, label %finish, label %loop
finish:
  br i1 %has_room, label %head, label %out
head:
  %number_place = getelementptr i64, ptr %record, i64 1
  store i64 %number, ptr %number_place, align 8
  %thread_place = getelementptr i64, ptr %record, i64 2
  store ptr %thread, ptr %thread_place, align 8
  store atomic i64 {n_steps + 1}, ptr %record release, align 8
  br label %out
out:
  ret void
}}
"""
