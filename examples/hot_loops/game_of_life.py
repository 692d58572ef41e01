"""Conway's game of life on a torus, for some generations."""

from typing import Any

import numpy as np

LARGE, SMALL = 128, 8
GENERATIONS = 100


def inputs(size: int) -> tuple[Any, ...]:
    return ((np.random.default_rng(0).random((size, size)) < 0.3).astype(np.int64),)


def program(alive: Any) -> Any:
    for _ in range(GENERATIONS):
        rows = np.roll(alive, 1, 0) + alive + np.roll(alive, -1, 0)
        around = np.roll(rows, 1, 1) + rows + np.roll(rows, -1, 1) - alive
        alive = np.where((around == 3) | ((around == 2) & (alive == 1)), 1, 0)
    return alive


def plain(alive: Any) -> Any:
    """Cell by cell."""
    n, m = alive.shape
    for _ in range(GENERATIONS):
        following = alive.copy()
        for i in range(n):
            for j in range(m):
                around = -alive[i, j]
                for di in range(-1, 2):
                    for dj in range(-1, 2):
                        around += alive[(i + di) % n, (j + dj) % m]
                if around == 3 or (around == 2 and alive[i, j] == 1):
                    following[i, j] = 1
                else:
                    following[i, j] = 0
        alive = following
    return alive


with_numpy = program
