"""Random compositions of ops: values, gradients and second derivatives against autograd.

A composition is drawn as a list of steps on a pool of arrays of shape (3, 4), and runs the same in
tapeline and in autograd.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import autograd
import autograd.numpy as anp
import autograd.scipy.special as asp
import numpy as np
import pytest
from tests.test_independent import THEIRS, weights_like

import tapeline as tl

COUNT = 160
STEPS = 7
RTOL = 1e-9

Unary = Callable[[Any, Any], Any]
Binary = Callable[[Any, Any, Any], Any]

UNARY: dict[str, Unary] = {
    "sin": lambda m, x: m.sin(x),
    "cos": lambda m, x: m.cos(x),
    "tanh": lambda m, x: m.tanh(x),
    "exp": lambda m, x: m.exp(-m.abs(x) - 0.1),
    "log": lambda m, x: m.log(x * x + 0.5),
    "log1p": lambda m, x: m.log1p(m.exp(x * 0.3)),
    "sqrt": lambda m, x: m.sqrt(x * x + 0.3),
    "reciprocal": lambda m, x: 1.0 / (x * x + 1.0),
    "sigmoid": lambda m, x: m.sigmoid(x),
    "erf": lambda m, x: m.erf(x),
    "atan": lambda m, x: m.atan(x),
    "asinh": lambda m, x: m.asinh(x),
    "square": lambda m, x: m.square(x) * 0.3,
    "cube": lambda m, x: x**3 * 0.1,
    "power": lambda m, x: m.pow(m.abs(x) + 0.4, 1.7),
    "negative": lambda m, x: -x,
    "clip": lambda m, x: m.clip(x, -1.1, 0.9),
    "relu": lambda m, x: m.maximum(x, 0.05 * x),
    "softmax": lambda m, x: m.softmax(x),
    "log_softmax": lambda m, x: m.log_softmax(x),
    "cumsum": lambda m, x: m.cumulative_sum(x, axis=1) * 0.4,
    "reverse rows": lambda m, x: x[::-1],
    "roll": lambda m, x: m.roll(x, 1, axis=1),
    "two transposes": lambda m, x: m.matmul(x, m.matmul(m.permute_dims(x, (1, 0)), x)) * 0.1,
    "reshape": lambda m, x: m.permute_dims(m.reshape(x, (4, 3)), (1, 0)),
    "gather": lambda m, x: x[np.array([2, 0, 0])],
    "slices": lambda m, x: m.concat([x[:, 2:], x[:, :2] * 0.5], axis=1),
    "centre": lambda m, x: x - m.mean(x, axis=0, keepdims=True),
    "scale": lambda m, x: x / (1.0 + m.sum(x * x, axis=1, keepdims=True)),
    "normalize": lambda m, x: x / m.sqrt(m.var(x, axis=1, keepdims=True) + 0.2),
    "largest": lambda m, x: x + m.max(x, axis=1, keepdims=True),
    "smallest": lambda m, x: x * m.min(x, axis=0, keepdims=True) * 0.5,
    "product": lambda m, x: m.prod(m.tanh(x) + 1.5, axis=0, keepdims=True) * 0.3 + x,
    "where": lambda m, x: m.where(x > 0.1, m.sin(x), x * x * 0.2),
}
BINARY: dict[str, Binary] = {
    "add": lambda m, x, y: x + y,
    "subtract": lambda m, x, y: x - 0.5 * y,
    "multiply": lambda m, x, y: x * y * 0.7,
    "divide": lambda m, x, y: x / (y * y + 0.8),
    "power": lambda m, x, y: m.pow(m.abs(x) + 0.5, m.tanh(y)),
    "maximum": lambda m, x, y: m.maximum(x, y),
    "minimum": lambda m, x, y: m.minimum(x, y + 0.2),
    "atan2": lambda m, x, y: m.atan2(x, y * y + 0.5),
    "logaddexp": lambda m, x, y: m.logaddexp(x, y),
    "matmul": lambda m, x, y: m.matmul(x, m.matmul(m.permute_dims(y, (1, 0)), x)) * 0.1,
    "outer row": lambda m, x, y: x * y[:1],
    "column": lambda m, x, y: x + m.sin(y[:, :1]),
    "where": lambda m, x, y: m.where(y > 0.0, x, m.tanh(y)),
    "stack": lambda m, x, y: m.sum(m.stack([x, y], axis=0) ** 2, axis=0) * 0.3,
}


class Step(NamedTuple):
    """One op on one or two arrays of the pool; its result joins the pool."""

    name: str
    arguments: tuple[int, ...]


def drawn(seed: int) -> list[Step]:
    """A composition of two arrays, in which each step uses the result of the one before."""
    rng = np.random.default_rng(seed)
    steps: list[Step] = []
    for k in range(STEPS):
        last = k + 1
        if rng.random() < 0.6:
            steps.append(Step(str(rng.choice(list(UNARY))), (last,)))
        else:
            other = int(rng.integers(0, last + 1))
            order = (last, other) if rng.random() < 0.5 else (other, last)
            steps.append(Step(str(rng.choice(list(BINARY))), order))
    return steps


def run(steps: list[Step], m: Any, x: Any, y: Any) -> Any:
    pool = [x, y]
    for step in steps:
        given = [pool[k] for k in step.arguments]
        if len(given) == 1:
            pool.append(UNARY[step.name](m, *given))
        else:
            pool.append(BINARY[step.name](m, *given))
    return pool[-1] + 0.1 * pool[0]


def totals(m: Any, steps: list[Step]) -> tuple[Any, Any]:
    """The weighted sum of a composition, and that of its gradients, in one of the systems."""
    grad = tl.grad if m is tl else autograd.grad
    add = tl.sum if m is tl else anp.sum

    def total(x: Any, y: Any) -> Any:
        return add(run(steps, m, x, y) * weights_like(np.zeros((3, 4))))

    def slope(x: Any, y: Any) -> Any:
        parts = grad(total, (0, 1))(x, y)
        return sum(add(part * weights_like(np.zeros((3, 4)))) for part in parts)

    return total, slope


@pytest.mark.filterwarnings("ignore:Output seems independent of input")
@pytest.mark.parametrize("seed", range(COUNT))
def test_composition_agrees_with_autograd(seed: int) -> None:
    steps = drawn(seed)
    rng = np.random.default_rng(1000 + seed)
    x, y = rng.uniform(-1.5, 1.5, (2, 3, 4))
    total, slope = totals(tl, steps)
    their_total, their_slope = totals(THEIRS, steps)
    wanted = [
        np.asarray(their_total(x, y)),
        *autograd.grad(their_total, (0, 1))(x, y),
        *autograd.grad(their_slope, (0, 1))(x, y),
    ]

    def all_of(x: Any, y: Any) -> list[Any]:
        first = tl.grad(total, (0, 1))(x, y)
        return [total(x, y), *first, *tl.grad(slope, (0, 1))(x, y)]

    ways = {"eager": all_of}
    if seed % 4 == 0:
        ways["compiled"] = tl.function(all_of)
    else:
        compiled = tl.function(total)
        ways["compiled call"] = lambda x, y: [compiled(x, y), *tl.grad(compiled, (0, 1))(x, y)]
    for way, compute in ways.items():
        found = compute(tl.asarray(x), tl.asarray(y))
        for got, want in zip(found, wanted, strict=False):
            scale = max(1.0, float(np.max(np.abs(want))))
            np.testing.assert_allclose(
                got.numpy(), want, rtol=RTOL, atol=1e-11 * scale, err_msg=f"{way}: {steps}"
            )


def test_every_step_is_drawn() -> None:
    used = {step.name for seed in range(COUNT) for step in drawn(seed)}
    assert used == set(UNARY) | set(BINARY)
    assert asp.erf is THEIRS.erf
