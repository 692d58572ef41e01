"""How many turns each point of the plane stays near, by a masked loop over the whole picture."""

from typing import Any

import numpy as np

LARGE, SMALL = 320, 12
TURNS = 200


def inputs(size: int) -> tuple[Any, ...]:
    x, y = np.meshgrid(np.linspace(-2.0, 0.6, size), np.linspace(-1.3, 1.3, size))
    return x, y, np.zeros((size, size), np.int64)


def program(cr: Any, ci: Any, count: Any) -> Any:
    zr, zi = cr * 0.0, ci * 0.0
    for _ in range(TURNS):
        re, im = zr * zr, zi * zi
        near = re + im <= 4.0
        zi = np.where(near, 2.0 * zr * zi + ci, zi)
        zr = np.where(near, re - im + cr, zr)
        count = count + np.where(near, 1, 0)
    return count


def plain(cr: Any, ci: Any, count: Any) -> Any:
    """Point by point, each until it is gone."""
    for i in range(cr.shape[0]):
        for j in range(cr.shape[1]):
            zr, zi, n = 0.0, 0.0, 0
            while n < TURNS and zr * zr + zi * zi <= 4.0:
                zr, zi = zr * zr - zi * zi + cr[i, j], 2.0 * zr * zi + ci[i, j]
                n += 1
            count[i, j] = n
    return count


with_numpy = program
