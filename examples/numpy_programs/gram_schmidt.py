"""Columns made orthonormal, one after the other."""

from __future__ import annotations

from typing import Any

import numpy as np


def program(columns: Any) -> Any:
    """Columns made orthonormal, one after the other, in plain NumPy."""
    basis = np.zeros_like(columns)
    for j in range(columns.shape[1]):
        rest = columns[:, j]
        for i in range(j):
            rest = rest - np.dot(basis[:, i], columns[:, j]) * basis[:, i]
        basis[:, j] = rest / np.linalg.norm(rest)
    return basis


def inputs(rng: np.random.Generator) -> tuple[Any, ...]:
    """What it runs on."""
    return (rng.normal(size=(5, 3)),)
