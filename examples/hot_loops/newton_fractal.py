"""How fast Newton's method for z**3 = 1 settles, from each point of a grid."""

from typing import Any

import numpy as np

LARGE, SMALL = 256, 9


def inputs(size: int) -> tuple[Any, ...]:
    line = np.linspace(-2.0, 2.0, size) + 0.01
    x, y = np.meshgrid(line, line)
    return np.ascontiguousarray(x.ravel()), np.ascontiguousarray(y.ravel()), np.zeros(size * size)


def program(xs: Any, ys: Any, turns: Any) -> Any:
    for k in range(len(xs)):
        x, y, n = xs[k], ys[k], 0
        far = True
        while far and n < 40:
            re, im = x * x - y * y, 2.0 * x * y
            size = 3.0 * (re * re + im * im)
            down_x, down_y = re / size, -im / size
            dx, dy = (x - down_x) / 3.0, (y - down_y) / 3.0
            x, y = x - dx, y - dy
            far = dx * dx + dy * dy > 1e-16
            n += 1
        turns[k] = n
    return turns


def with_numpy(xs: Any, ys: Any, turns: Any) -> Any:
    x, y, far = xs.copy(), ys.copy(), np.ones(len(xs), bool)
    for _ in range(40):
        re, im = x * x - y * y, 2.0 * x * y
        size = 3.0 * (re * re + im * im)
        dx, dy = (x - re / size) / 3.0, (y + im / size) / 3.0
        x, y = np.where(far, x - dx, x), np.where(far, y - dy, y)
        turns += far
        far &= dx * dx + dy * dy > 1e-16
    return turns
