"""How often a random reader meets each page."""

from __future__ import annotations

from typing import Any

import numpy as np


def program(links: Any) -> Any:
    """How often a random reader meets each page, in plain NumPy."""
    count = links.shape[0]
    follow = links / np.maximum(links.sum(axis=0), 1)
    rank = np.ones(count) / count
    for _ in range(20):
        rank = 0.15 / count + 0.85 * follow.dot(rank)
    return rank


def inputs(rng: np.random.Generator) -> tuple[Any, ...]:
    """What it runs on."""
    return (rng.integers(0, 2, (6, 6)).astype(float),)
