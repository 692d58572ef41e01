"""A population that limits itself, for several rates."""

from __future__ import annotations

from typing import Any

import numpy as np


def program(rate: Any) -> Any:
    """A population that limits itself, for several rates, in plain NumPy."""
    share = np.full_like(rate, 0.5)
    for _ in range(50):
        share = rate * share * (1 - share)
    return share


def inputs(_rng: np.random.Generator) -> tuple[Any, ...]:
    """What it runs on."""
    return (np.linspace(2.5, 3.5, 5),)
