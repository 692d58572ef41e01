"""What this machine can do at most, measured once per process: bytes and element operations per
second."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

STREAM_BYTES = 1 << 26
"""The size of the array that is copied: beyond the caches."""
PRODUCT_SIDE = 384
ROUNDS = 9
SECONDS = 0.15
"""A measurement lasts at least so long: other programs disturb it less."""


@dataclass(frozen=True, slots=True)
class Machine:
    """The speed of this machine.

    Attributes
    ----------
    bandwidth : float
        Bytes per second that a copy of a large array reads and writes.
    flops : float
        float32 operations per second of a matrix product.
    cores : int
        Cores that this process may use.
    """

    bandwidth: float
    flops: float
    cores: int

    def __str__(self) -> str:
        return (
            f"{self.bandwidth / 1e9:.1f} GB/s of memory, {self.flops / 1e9:.0f} Gflop/s in a "
            f"matrix product, {self.cores} cores"
        )


def _best(run: Callable[[], object]) -> float:
    """The shortest of some runs, in seconds."""
    times: list[float] = []
    while len(times) < ROUNDS or sum(times) < SECONDS:
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return min(times)


@lru_cache(maxsize=1)
def measure_machine() -> Machine:
    """The machine's speed; takes some tenths of a second at the first call."""
    source = np.ones(STREAM_BYTES // 8)
    target = np.zeros_like(source)
    copied = _best(lambda: np.copyto(target, source))
    side = np.ones((PRODUCT_SIDE, PRODUCT_SIDE), np.float32)
    out = np.empty_like(side)
    multiplied = _best(lambda: np.matmul(side, side, out))
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return Machine(2 * source.nbytes / copied, 2 * PRODUCT_SIDE**3 / multiplied, cores or 1)
