"""Writes `trajectories.json`: what PyTorch's optimizers do to two rows of numbers, step by step.

    python -m tests.runtime.optimizers.trajectories

Needs PyTorch, which the tests do not: they read the file.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_suffix(".json")
START = [[1.0, -2.0, 0.5], [3.0, 0.25, -1.5]]
WEIGHTS = [1.0, 10.0, 0.1]
STEPS = 5
BETAS = (0.8, 0.95)

CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "sgd": ("SGD", {"lr": 0.02}),
    "sgd momentum": ("SGD", {"lr": 0.02, "momentum": 0.9}),
    "sgd nesterov": ("SGD", {"lr": 0.02, "momentum": 0.9, "nesterov": True}),
    "sgd decay": ("SGD", {"lr": 0.02, "momentum": 0.8, "weight_decay": 0.1}),
    "adam": ("Adam", {"lr": 0.05}),
    "adam betas": ("Adam", {"lr": 0.05, "betas": BETAS, "eps": 1e-6}),
    "adam decay": ("Adam", {"lr": 0.05, "weight_decay": 0.1}),
    "adamw": ("AdamW", {"lr": 0.05, "weight_decay": 0.1}),
    "rmsprop": ("RMSprop", {"lr": 0.05, "alpha": 0.9}),
    "rmsprop momentum": ("RMSprop", {"lr": 0.05, "alpha": 0.9, "momentum": 0.5}),
    "rmsprop centered": ("RMSprop", {"lr": 0.05, "alpha": 0.9, "centered": True}),
    "adagrad": ("Adagrad", {"lr": 0.1, "initial_accumulator_value": 0.1}),
}


def trajectory(name: str, options: dict[str, Any]) -> list[list[float]]:
    """The values after each step, both rows as one."""
    import torch  # type: ignore[import-not-found, unused-ignore]  # not needed to test

    x = torch.tensor(START, dtype=torch.float64, requires_grad=True)
    weights = torch.tensor(WEIGHTS, dtype=torch.float64)
    optimizer = getattr(torch.optim, name)([x], **options)
    found = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        ((x * x * weights).sum() - x.sum()).backward()
        optimizer.step()
        found.append(x.detach().reshape(-1).tolist())
    return found


if __name__ == "__main__":
    lines = [f'"{name}": {json.dumps(trajectory(*case))}' for name, case in CASES.items()]
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n")
