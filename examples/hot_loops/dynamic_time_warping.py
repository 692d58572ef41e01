"""The distance of two series where time may run faster or slower."""

from typing import Any

import numpy as np

LARGE, SMALL = 500, 66
DIFFERENTIABLE = (0, 1)


def inputs(size: int) -> tuple[Any, ...]:
    rng = np.random.default_rng(1)
    a, b = rng.standard_normal(size).cumsum(), rng.standard_normal(size).cumsum()
    table = np.full((size + 1, size + 1), np.inf)
    table[0, 0] = 0.0
    return a, b, table


def program(a: Any, b: Any, table: Any) -> Any:
    for i in range(1, len(a) + 1):
        for j in range(1, len(b) + 1):
            least = min(table[i - 1, j], table[i, j - 1], table[i - 1, j - 1])
            table[i, j] = abs(a[i - 1] - b[j - 1]) + least
    return table[len(a), len(b)]
