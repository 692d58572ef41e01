"""A cubic through noisy points, by the normal equations."""

from __future__ import annotations

from typing import Any

import numpy as np


def program(x: Any, y: Any) -> Any:
    """A cubic through noisy points, by the normal equations, in plain NumPy."""
    powers = np.vander(x, 4)
    return np.linalg.solve(powers.T @ powers, powers.T @ y)


def inputs(rng: np.random.Generator) -> tuple[Any, ...]:
    """What it runs on."""
    return np.linspace(0, 1, 9), rng.normal(size=9)
