"""Bodies that attract one another, by leapfrog steps."""

from typing import Any

import numpy as np

LARGE, SMALL = 2000, 5
BODIES = 6
DIFFERENTIABLE = (0, 1)


def inputs(size: int) -> tuple[Any, ...]:
    rng = np.random.default_rng(4)
    shape = (BODIES, 3)
    mass = rng.uniform(0.5, 1.5, BODIES)
    return rng.standard_normal(shape), 0.1 * rng.standard_normal(shape), mass, np.int64(size)


def program(place: Any, speed: Any, mass: Any, steps: Any) -> Any:
    for _ in range(steps):
        apart = place[:, None, :] - place[None, :, :]
        near = ((apart * apart).sum(-1) + 0.01) ** -1.5
        pull = (apart * (near * mass)[:, :, None]).sum(1)
        speed = speed - 0.001 * pull
        place = place + 0.001 * speed
    return place, speed


def plain(place: Any, speed: Any, mass: Any, steps: Any) -> Any:
    """Pair by pair."""
    n = len(mass)
    for _ in range(steps):
        for i in range(n):
            for j in range(n):
                x = place[i, 0] - place[j, 0]
                y = place[i, 1] - place[j, 1]
                z = place[i, 2] - place[j, 2]
                near = 0.001 * mass[j] * (x * x + y * y + z * z + 0.01) ** -1.5
                speed[i, 0] -= near * x
                speed[i, 1] -= near * y
                speed[i, 2] -= near * z
        for i in range(n):
            for k in range(3):
                place[i, k] += 0.001 * speed[i, k]
    return place, speed


with_numpy = program
