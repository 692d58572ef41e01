"""Prices of options to buy a share."""

from __future__ import annotations

from typing import Any

import numpy as np


def program(price: Any, strike: Any, years: Any) -> Any:
    """Prices of options to buy a share, in plain NumPy."""

    def below(x: Any) -> Any:
        return 0.5 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))

    first = (np.log(price / strike) + (0.05 + 0.02) * years) / (0.2 * np.sqrt(years))
    second = first - 0.2 * np.sqrt(years)
    return price * below(first) - strike * np.exp(-0.05 * years) * below(second)


def inputs(_rng: np.random.Generator) -> tuple[Any, ...]:
    """What it runs on."""
    return np.array([90.0, 100.0, 110.0]), np.array([100.0]), np.array([1.0])
