"""Random functions of three float tensors, well behaved: for what is written out and read back.

Each is a list of steps, drawn once, so that a trace and an eager run do the same. Some steps are
choices and loops.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import tapeline as tl
from tapeline.runtime.errors import TapelineError

Step = Callable[[list[Any], int, int], Any]

SHAPES = ((4, 3), (3,), (3, 3))


def _matrix(x: Any) -> Any:
    """Three columns, whatever came."""
    return tl.reshape(x, (-1, 3)) if x.size % 3 == 0 else tl.broadcast_to(tl.mean(x), (2, 3))


def _turns(x: Any) -> Any:
    state = tl.scan(lambda c, row: (tl.tanh(c + row), c * row), x[0], x)
    return state[1] + state[0]


def _halved(x: Any) -> Any:
    return tl.while_loop(lambda v: tl.max(tl.abs(v)) > 0.5, lambda v: (v * 0.5,), (x,))[0]


UNARY: tuple[Callable[[Any], Any], ...] = (
    tl.tanh, tl.sin, tl.cos, tl.atan, tl.abs, tl.sigmoid, tl.nn.gelu, tl.nn.softplus, tl.erf,
    lambda x: tl.exp(-tl.abs(x)), lambda x: tl.log1p(x * x), lambda x: tl.sqrt(1 + x * x),
    lambda x: tl.floor(x * 3), lambda x: tl.transpose(_matrix(x)), lambda x: tl.flip(_matrix(x)),
    lambda x: _matrix(x)[::2], lambda x: tl.sum(_matrix(x), axis=0),
    lambda x: tl.max(_matrix(x), axis=1, keepdims=True), lambda x: tl.mean(x),
    lambda x: tl.nn.softmax(_matrix(x)), lambda x: tl.sort(_matrix(x), axis=1),
    lambda x: tl.cumulative_sum(_matrix(x), axis=0), lambda x: tl.pad(_matrix(x), 1)[:, :3],
    lambda x: tl.take(_matrix(x), tl.argmax(_matrix(x), axis=1), axis=1)[:, :3],
    lambda x: tl.cond(tl.sum(x) > 0, lambda: tl.tanh(x), lambda: x * 0.5),
    lambda x: _turns(_matrix(x)), _halved,
)  # fmt: skip
BINARY: tuple[Callable[[Any, Any], Any], ...] = (
    lambda x, y: x + y, lambda x, y: x - y, lambda x, y: x * y, tl.maximum, tl.minimum,
    lambda x, y: x / (1 + y * y), lambda x, y: _matrix(x) @ tl.transpose(_matrix(y)),
    lambda x, y: tl.where(x > y, x, -y), lambda x, y: tl.concat([_matrix(x), _matrix(y)]),
    lambda x, y: tl.atan2(x, y + 3), lambda x, y: tl.hypot(x, y),
)  # fmt: skip


class RandomFunction:
    """A function of `SHAPES`, and inputs for it."""

    def __init__(self, seed: int, dtype: str = "float64", steps: int = 12) -> None:
        rng = np.random.default_rng(seed)
        self.arrays = [rng.uniform(-1, 1, shape).astype(dtype) for shape in SHAPES]
        self._steps: list[tuple[Any, int, int]] = []
        for _ in range(steps):
            several = rng.random() < 0.45
            table: tuple[Any, ...] = BINARY if several else UNARY
            one = table[int(rng.integers(len(table)))]
            self._steps.append((one, int(rng.exponential(2)), int(rng.exponential(3))))
        self.__name__ = f"random{seed}"

    def __call__(self, a: Any, b: Any, c: Any) -> tuple[Any, Any]:
        values = [a, b, c]
        for function, first, second in self._steps:
            x, y = (values[-1 - min(k, len(values) - 1)] for k in (first, second))
            try:
                values.append(function(x, y) if function in BINARY else function(x))
            except TapelineError:
                continue  # shapes that do not go together
        return values[-1], tl.sum(tl.tanh(values[-2])) + tl.mean(a) * tl.mean(b) + tl.mean(c)

    def function(self) -> Any:
        """The function, to be compiled."""

        def program(a: Any, b: Any, c: Any) -> tuple[Any, Any]:
            return self(a, b, c)

        program.__name__ = self.__name__
        return tl.function(autograph=False)(program)
