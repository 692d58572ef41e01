"""The number below a limit whose Collatz chain is longest, and how long it is."""

from typing import Any

import numpy as np

LARGE, SMALL = 20_000, 60


def inputs(size: int) -> tuple[Any, ...]:
    return (np.int64(size),)


def program(limit: Any) -> Any:
    best, longest = 1, 0
    for start in range(1, limit + 1):
        n, steps = start, 0
        while n != 1:
            n = n // 2 if n % 2 == 0 else 3 * n + 1
            steps += 1
        if steps > longest:
            best, longest = start, steps
    return best, longest


def with_numpy(limit: Any) -> Any:
    """All chains side by side; those that are done wait."""
    n = np.arange(1, limit + 1)
    steps = np.zeros_like(n)
    while (going := n != 1).any():
        n = np.where(going, np.where(n % 2 == 0, n // 2, 3 * n + 1), n)
        steps += going
    best = steps.argmax()
    return best + 1, steps[best]
