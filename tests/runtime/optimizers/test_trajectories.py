"""Optimizers against those of PyTorch and Optax, by what `trajectories` wrote down step by step."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.runtime.optimizers.trajectories import (
    BETAS,
    CASES,
    FILE,
    LABELS,
    LBFGS_CASES,
    LBFGS_FILE,
    LION_CASES,
    LION_FILE,
    POINTS,
    START,
    WEIGHTS,
)

import tapeline as tl

RECORDED: dict[str, list[list[float]]] = json.loads(FILE.read_text())
RECORDED |= json.loads(LION_FILE.read_text())
LBFGS: dict[str, list[list[float]]] = json.loads(LBFGS_FILE.read_text())

OURS: dict[str, Callable[[], tl.optimizers.Optimizer]] = {
    "sgd": lambda: tl.optimizers.SGD(0.02),
    "sgd momentum": lambda: tl.optimizers.SGD(0.02, 0.9),
    "sgd nesterov": lambda: tl.optimizers.SGD(0.02, 0.9, nesterov=True),
    "sgd decay": lambda: tl.optimizers.SGD(0.02, 0.8, weight_decay=0.1),
    "adam": lambda: tl.optimizers.Adam(0.05),
    "adam betas": lambda: tl.optimizers.Adam(0.05, *BETAS, epsilon=1e-6),
    "adam decay": lambda: tl.optimizers.Adam(0.05, weight_decay=0.1),
    "adamw": lambda: tl.optimizers.AdamW(0.05, weight_decay=0.1),
    "rmsprop": lambda: tl.optimizers.RMSprop(0.05, 0.9),
    "rmsprop momentum": lambda: tl.optimizers.RMSprop(0.05, 0.9, 0.5),
    "rmsprop centered": lambda: tl.optimizers.RMSprop(0.05, 0.9, centered=True),
    "lion": lambda: tl.optimizers.Lion(0.05),
    "lion betas": lambda: tl.optimizers.Lion(0.05, 0.8, 0.95),
    "lion decay": lambda: tl.optimizers.Lion(0.05, 0.5, weight_decay=0.2),
    "adagrad": lambda: tl.optimizers.Adagrad(0.1, initial=0.1),
}


def test_every_case_is_recorded_and_compared() -> None:
    assert set(RECORDED) == {*CASES, *LION_CASES} == set(OURS)
    assert set(LBFGS) == set(LBFGS_CASES)


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("name", OURS)
def test_each_step_is_that_of_the_other_library(name: str, compiled: bool) -> None:
    optimizer, x = OURS[name](), tl.Variable(np.array(START))
    weights = np.array(WEIGHTS)

    def step() -> None:
        with tl.GradientTape() as tape:
            value: Any = tl.sum(x * x * weights) - tl.sum(x)
        optimizer.apply([tape.gradient(value, x)], [x])

    run = tl.function(step) if compiled else step
    for want in RECORDED[name]:
        run()
        np.testing.assert_allclose(x.numpy().ravel(), want, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("name", LBFGS_CASES)
def test_each_step_of_lbfgs_is_that_of_pytorch(name: str) -> None:
    points, labels = np.array(POINTS), np.array(LABELS)

    @tl.function
    def loss(x: tl.Tensor) -> tl.Tensor:
        scores = points @ x
        return tl.sum(tl.nn.softplus(scores) - labels * scores) + 0.1 * tl.sum(x * x)

    for count, want in enumerate(LBFGS[name], 1):
        found = tl.optimizers.minimize(
            loss, np.zeros(2), tolerance=0.0, max_steps=count, memory=LBFGS_CASES[name]
        )
        assert found.steps == count
        np.testing.assert_allclose(found.x.numpy(), want, rtol=1e-7, atol=1e-12)
