"""Cube roots of two, from several starts."""

from __future__ import annotations

from typing import Any

import numpy as np


def program(x: Any) -> Any:
    """Cube roots of two, from several starts, in plain NumPy."""
    for _ in range(8):
        x = x - (x**3 - 2) / (3 * x**2)
    return x


def inputs(_rng: np.random.Generator) -> tuple[Any, ...]:
    """What it runs on."""
    return (np.array([1.0, 2.0, 3.0]),)
