"""The mean of each five neighbours, by running sums."""

from __future__ import annotations

from typing import Any

import numpy as np


def program(series: Any) -> Any:
    """The mean of each five neighbours, by running sums, in plain NumPy."""
    sums = np.cumsum(np.insert(series, 0, 0.0))
    return (sums[5:] - sums[:-5]) / 5


def inputs(rng: np.random.Generator) -> tuple[Any, ...]:
    """What it runs on."""
    return (rng.normal(size=20),)
