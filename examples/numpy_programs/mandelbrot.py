"""How long points of the plane stay near zero."""

from __future__ import annotations

from typing import Any

import numpy as np


def program(points: Any) -> Any:
    """How long points of the plane stay near zero, in plain NumPy."""
    place = np.zeros_like(points)
    turns = np.zeros(points.shape, dtype=int)
    for _ in range(15):
        inside = np.abs(place) <= 2
        place = np.where(inside, place * place + points, place)
        turns = turns + inside
    return turns


def inputs(_rng: np.random.Generator) -> tuple[Any, ...]:
    """What it runs on."""
    return (np.linspace(-2, 1, 7)[:, None] + 1j * np.linspace(-1, 1, 5),)
