"""The most likely states behind a series of signs."""

from __future__ import annotations

from typing import Any

import numpy as np


def program(start: Any, change: Any, show: Any, signs: Any) -> Any:
    """The most likely states behind a series of signs, in plain NumPy."""
    score = np.log(start) + np.log(show[:, signs[0]])
    before = []
    for sign in signs[1:]:
        total = score[:, None] + np.log(change)
        before.append(np.argmax(total, axis=0))
        score = np.max(total, axis=0) + np.log(show[:, sign])
    path = [np.argmax(score)]
    for source in reversed(before):
        path.append(source[path[-1]])
    return np.stack(path[::-1]), np.max(score)


def inputs(_rng: np.random.Generator) -> tuple[Any, ...]:
    """What it runs on."""
    change = np.array([[0.7, 0.3], [0.4, 0.6]])
    show = np.array([[0.5, 0.4, 0.1], [0.1, 0.3, 0.6]])
    return np.array([0.6, 0.4]), change, show, np.array([0, 1, 2, 1])
