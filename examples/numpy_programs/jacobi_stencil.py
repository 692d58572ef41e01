"""Heat on a plate with a fixed rim."""

from __future__ import annotations

from typing import Any

import numpy as np


def program(plate: Any) -> Any:
    """Heat on a plate with a fixed rim, in plain NumPy."""
    for _ in range(10):
        new = plate.copy()
        new[1:-1, 1:-1] = 0.25 * (
            plate[:-2, 1:-1] + plate[2:, 1:-1] + plate[1:-1, :-2] + plate[1:-1, 2:]
        )
        plate = new
    return plate


def inputs(rng: np.random.Generator) -> tuple[Any, ...]:
    """What it runs on."""
    return (rng.normal(size=(6, 7)),)
