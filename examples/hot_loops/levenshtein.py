"""How many letters must be changed, added or left out to make one word of another."""

from typing import Any

import numpy as np

LARGE, SMALL = 1000, 66


def inputs(size: int) -> tuple[Any, ...]:
    rng = np.random.default_rng(2)
    a, b = rng.integers(0, 4, size), rng.integers(0, 4, size)
    return a, b, np.arange(size + 1)


def program(a: Any, b: Any, row: Any) -> Any:
    for i in range(len(a)):
        corner, row[0] = row[0], i + 1
        for j in range(len(b)):
            above = row[j + 1]
            changed = corner + (0 if a[i] == b[j] else 1)
            row[j + 1] = min(changed, above + 1, row[j] + 1)
            corner = above
    return row[len(b)]
