"""The largest eigenvalue of a symmetric matrix."""

from __future__ import annotations

from typing import Any

import numpy as np


def program(matrix: Any) -> Any:
    """The largest eigenvalue of a symmetric matrix, in plain NumPy."""
    vector = np.ones(matrix.shape[0])
    for _ in range(30):
        vector = matrix @ vector
        vector /= np.linalg.norm(vector)
    return vector @ matrix @ vector


def inputs(rng: np.random.Generator) -> tuple[Any, ...]:
    """What it runs on."""
    half = rng.normal(size=(4, 4))
    return (half + half.T,)
