"""Classes from features, by gradients worked out by hand."""

from __future__ import annotations

from typing import Any

import numpy as np


def program(features: Any, classes: Any, weights: Any) -> Any:
    """Classes from features, by gradients worked out by hand, in plain NumPy."""
    for _ in range(10):
        scores = features @ weights
        chances = np.exp(scores - scores.max(axis=1, keepdims=True))
        chances /= chances.sum(axis=1, keepdims=True)
        weights = weights - 0.1 * features.T @ (chances - classes) / len(features)
    return weights


def inputs(rng: np.random.Generator) -> tuple[Any, ...]:
    """What it runs on."""
    classes = np.eye(2)[rng.integers(0, 2, 10)]
    return rng.normal(size=(10, 3)), classes, np.zeros((3, 2))
