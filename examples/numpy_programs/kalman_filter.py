"""A position and its speed from noisy readings."""

from __future__ import annotations

from typing import Any

import numpy as np


def program(readings: Any, step: Any, view: Any, drift: Any, noise: Any) -> Any:
    """A position and its speed from noisy readings, in plain NumPy."""
    state = np.zeros(step.shape[0])
    spread = np.eye(step.shape[0])
    found = []
    for reading in readings:
        state = step @ state
        spread = step @ spread @ step.T + drift
        gain = spread @ view.T @ np.linalg.inv(view @ spread @ view.T + noise)
        state = state + gain @ (reading - view @ state)
        spread = (np.eye(step.shape[0]) - gain @ view) @ spread
        found.append(state)
    return np.stack(found)


def inputs(rng: np.random.Generator) -> tuple[Any, ...]:
    """What it runs on."""
    step = np.array([[1.0, 0.1], [0.0, 1.0]])
    view = np.array([[1.0, 0.0]])
    return rng.normal(size=(6, 1)), step, view, np.eye(2) * 0.01, np.eye(1) * 0.1
