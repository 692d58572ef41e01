"""How likely a hidden Markov model makes what was observed, and what to change to like it more."""

from typing import Any

import numpy as np

LARGE, SMALL = 5000, 11
STATES = 8
DIFFERENTIABLE = (1, 2)


def inputs(size: int) -> tuple[Any, ...]:
    rng = np.random.default_rng(5)
    move, show = rng.random((STATES, STATES)), rng.random((4, STATES))
    return (
        rng.integers(0, 4, size),
        move / move.sum(1, keepdims=True),
        show / show.sum(0),
        np.full(STATES, 1 / STATES),
    )


def program(seen: Any, move: Any, show: Any, belief: Any) -> Any:
    total = 0.0
    for t in range(len(seen)):
        belief = (belief @ move) * show[seen[t]]
        size = belief.sum()
        belief = belief / size
        total = total + np.log(size)
    return total


def plain(seen: Any, move: Any, show: Any, belief: Any) -> Any:
    """State by state."""
    total = 0.0
    n = len(belief)
    for t in range(len(seen)):
        following = belief * 0.0
        size = 0.0
        for j in range(n):
            arriving = 0.0
            for i in range(n):
                arriving += belief[i] * move[i, j]
            following[j] = arriving * show[seen[t], j]
            size += following[j]
        for j in range(n):
            belief[j] = following[j] / size
        total += np.log(size)
    return total


with_numpy = program
