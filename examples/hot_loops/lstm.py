"""A recurrent network that reads a series of vectors; its last state, with gradients."""

from typing import Any

import numpy as np

LARGE, SMALL = 16, 3
TURNS, BATCH = 200, 8
DIFFERENTIABLE = (1, 2, 3)


def inputs(size: int) -> tuple[Any, ...]:
    rng = np.random.default_rng(7)
    xs = rng.standard_normal((TURNS, BATCH, size))
    wx, wh = (rng.standard_normal((size, 4 * size)) / size**0.5 for _ in range(2))
    return xs, wx, wh, np.zeros(4 * size), np.zeros((BATCH, size)), np.zeros((BATCH, size))


def program(xs: Any, wx: Any, wh: Any, b: Any, h: Any, c: Any) -> Any:
    n = wh.shape[0]
    for t in range(TURNS):
        z = xs[t] @ wx + h @ wh + b
        take, keep = 1 / (1 + np.exp(-z[:, :n])), 1 / (1 + np.exp(-z[:, n : 2 * n]))
        c = keep * c + take * np.tanh(z[:, 2 * n : 3 * n])
        h = np.tanh(c) / (1 + np.exp(-z[:, 3 * n :]))
    return h


def plain(xs: Any, wx: Any, wh: Any, b: Any, h: Any, c: Any) -> Any:
    """Number by number."""
    n = wh.shape[0]
    for t in range(TURNS):
        for k in range(BATCH):
            z = b.copy()
            for j in range(4 * n):
                for i in range(n):
                    z[j] += xs[t, k, i] * wx[i, j] + h[k, i] * wh[i, j]
            for j in range(n):
                take, keep = 1 / (1 + np.exp(-z[j])), 1 / (1 + np.exp(-z[n + j]))
                c[k, j] = keep * c[k, j] + take * np.tanh(z[2 * n + j])
                h[k, j] = np.tanh(c[k, j]) / (1 + np.exp(-z[3 * n + j]))
    return h


with_numpy = program
