"""The swing of a pendulum, step by step."""

from __future__ import annotations

from typing import Any

import numpy as np


def program(state: Any) -> Any:
    """The swing of a pendulum, step by step, in plain NumPy."""

    def slope(state: Any) -> Any:
        return np.stack([state[1], -np.sin(state[0])])

    states = [state]
    for _ in range(10):
        first = slope(state)
        second = slope(state + 0.05 * first)
        third = slope(state + 0.05 * second)
        fourth = slope(state + 0.1 * third)
        state = state + 0.1 / 6 * (first + 2 * second + 2 * third + fourth)
        states.append(state)
    return np.stack(states)


def inputs(_rng: np.random.Generator) -> tuple[Any, ...]:
    """What it runs on."""
    return (np.array([1.0, 0.0]),)
