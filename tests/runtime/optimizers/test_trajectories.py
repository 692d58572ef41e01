"""Optimizers against PyTorch's, step by step: `trajectories` wrote down what those do."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.runtime.optimizers.trajectories import BETAS, CASES, FILE, START, WEIGHTS

import tapeline as tl

RECORDED: dict[str, list[list[float]]] = json.loads(FILE.read_text())

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
    "adagrad": lambda: tl.optimizers.Adagrad(0.1, initial=0.1),
}


def test_every_case_is_recorded_and_compared() -> None:
    assert set(RECORDED) == set(CASES) == set(OURS)


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("name", OURS)
def test_each_step_is_that_of_pytorch(name: str, compiled: bool) -> None:
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
