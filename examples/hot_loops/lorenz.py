"""The Lorenz system by Runge-Kutta steps, and how its end depends on where it begins."""

from typing import Any

import numpy as np

LARGE, SMALL = 20_000, 60
DIFFERENTIABLE = (0, 1, 2)


def inputs(size: int) -> tuple[Any, ...]:
    return np.float64(1.0), np.float64(1.0), np.float64(1.0), np.int64(size)


def program(x: Any, y: Any, z: Any, steps: Any) -> Any:
    dt, sigma, rho, beta = 0.001, 10.0, 28.0, 8.0 / 3.0
    for _ in range(steps):
        a1, b1, c1 = sigma * (y - x), x * (rho - z) - y, x * y - beta * z
        p, q, r = x + dt / 2 * a1, y + dt / 2 * b1, z + dt / 2 * c1
        a2, b2, c2 = sigma * (q - p), p * (rho - r) - q, p * q - beta * r
        p, q, r = x + dt / 2 * a2, y + dt / 2 * b2, z + dt / 2 * c2
        a3, b3, c3 = sigma * (q - p), p * (rho - r) - q, p * q - beta * r
        p, q, r = x + dt * a3, y + dt * b3, z + dt * c3
        a4, b4, c4 = sigma * (q - p), p * (rho - r) - q, p * q - beta * r
        x = x + dt / 6 * (a1 + 2 * a2 + 2 * a3 + a4)
        y = y + dt / 6 * (b1 + 2 * b2 + 2 * b3 + b4)
        z = z + dt / 6 * (c1 + 2 * c2 + 2 * c3 + c4)
    return x, y, z
