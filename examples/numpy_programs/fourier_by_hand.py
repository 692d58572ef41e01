"""The discrete Fourier transform as a matrix product."""

from __future__ import annotations

from typing import Any

import numpy as np


def program(signal: Any) -> Any:
    """The discrete Fourier transform as a matrix product, in plain NumPy."""
    count = len(signal)
    steps = np.arange(count)
    return np.exp(-2j * np.pi * np.outer(steps, steps) / count) @ signal


def inputs(rng: np.random.Generator) -> tuple[Any, ...]:
    """What it runs on."""
    return (rng.normal(size=8),)
