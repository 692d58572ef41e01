"""The best score of a local alignment of two sequences."""

from typing import Any

import numpy as np

LARGE, SMALL = 800, 66


def inputs(size: int) -> tuple[Any, ...]:
    rng = np.random.default_rng(3)
    a, b = rng.integers(0, 4, size), rng.integers(0, 4, size)
    return a, b, np.zeros((size + 1, size + 1), np.int64)


def program(a: Any, b: Any, score: Any) -> Any:
    best = 0
    for i in range(1, len(a) + 1):
        for j in range(1, len(b) + 1):
            match = 3 if a[i - 1] == b[j - 1] else -3
            gap = max(score[i - 1, j], score[i, j - 1]) - 2
            found = max(0, score[i - 1, j - 1] + match, gap)
            score[i, j] = found
            best = max(best, found)
    return best
