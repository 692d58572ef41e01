"""Samples of a distribution with two peaks, by proposals that are taken or left."""

from typing import Any

import numpy as np

LARGE, SMALL = 50_000, 40


def inputs(size: int) -> tuple[Any, ...]:
    rng = np.random.default_rng(6)
    return rng.standard_normal(size), np.log(rng.random(size)), np.zeros(size)


def program(moves: Any, chances: Any, samples: Any) -> Any:
    x, level, taken = 0.0, -8.0, 0
    for t in range(len(moves)):
        y = x + moves[t]
        gap = y * y - 4.0
        following = -0.5 * gap * gap
        if chances[t] < following - level:
            x, level = y, following
            taken += 1
        samples[t] = x
    return samples, taken
