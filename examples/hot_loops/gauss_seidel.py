"""Poisson's equation on a line, solved by sweeps that use each new value at once."""

from typing import Any

import numpy as np

LARGE, SMALL = 1000, 68
SWEEPS = 100
DIFFERENTIABLE = (0, 1)


def inputs(size: int) -> tuple[Any, ...]:
    return np.zeros(size), np.sin(np.linspace(0.0, 3.0, size)) / size


def program(u: Any, f: Any) -> Any:
    for _ in range(SWEEPS):
        for i in range(1, len(f) - 1):
            u[i] = 0.5 * (u[i - 1] + u[i + 1] + f[i])
    return u
