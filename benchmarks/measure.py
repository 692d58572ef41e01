"""Times competing calls side by side, so that their ratios come from the same moments."""

from __future__ import annotations

import gc
import math
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

Call = Callable[[], Any]

BLOCK_SECONDS = 2e-3
"""A block of calls lasts at least so long: reading the clock costs nothing then, and what others
left in the caches little."""
LEAST_ROUNDS = 7
WARM_CALLS = 5
"""So often a call is made before its time counts: the first few compile."""


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds per call: the fastest block and the block in the middle."""

    minimum: float
    median: float
    rounds: int


def block_size(call: Call) -> int:
    """How many calls make a block; warms the call up on the way."""
    for _ in range(WARM_CALLS):
        call()
    number = 1
    while True:
        start = time.perf_counter()
        for _ in range(number):
            call()
        spent = time.perf_counter() - start
        if spent >= BLOCK_SECONDS or number >= 1 << 20:
            return number
        number = min(number * 8, max(number + 1, math.ceil(number * BLOCK_SECONDS / spent)))


def settle() -> None:
    """Waits until no thread of this process works any more: those of some libraries go on spinning
    for milliseconds when a call is over, on a core that the next contender needs."""
    for _ in range(100):
        before = time.process_time()
        time.sleep(1e-3)
        if time.process_time() - before < 3e-4:
            return


def time_block(call: Call, number: int) -> float:
    """Seconds per call of one block, after a call that wakes what it needs."""
    settle()
    call()
    repeat = range(number)
    start = time.perf_counter()
    for _ in repeat:
        call()
    return (time.perf_counter() - start) / number


def time_in_turns(calls: Mapping[str, Call], seconds: float) -> dict[str, Timing]:
    """The timing of each call, one block of each in turn, for about so many seconds in all."""
    sizes = {name: block_size(call) for name, call in calls.items()}
    times: dict[str, list[float]] = {name: [] for name in calls}
    gc.collect()
    gc.disable()
    try:
        end = time.perf_counter() + seconds
        rounds = 0
        while rounds < LEAST_ROUNDS or time.perf_counter() < end:
            for name, call in calls.items():
                times[name].append(time_block(call, sizes[name]))
            rounds += 1
    finally:
        gc.enable()
    return {name: summarize(values) for name, values in times.items()}


def summarize(values: list[float]) -> Timing:
    return Timing(min(values), statistics.median(values), len(values))


def flat_arrays(result: Any) -> list[np.ndarray[Any, Any]]:
    """The arrays in what a call returned, in order, whatever library made them."""
    if isinstance(result, tuple | list):
        return [array for item in result for array in flat_arrays(item)]
    if hasattr(result, "detach"):
        result = result.detach().numpy()
    return [np.asarray(result)]


def worst_difference(result: Any, expected: Any) -> float:
    """How far a result is from the expected one, relative to the largest expected value."""
    worst = 0.0
    pairs = zip(flat_arrays(result), flat_arrays(expected), strict=True)
    for found, wanted in pairs:
        if found.shape != wanted.shape:
            return math.inf
        if not wanted.size:
            continue
        scale = float(np.abs(wanted).max()) or 1.0
        worst = max(worst, float(np.abs(np.float64(found) - wanted).max()) / scale)
    return worst
