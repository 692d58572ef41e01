"""Writes `trajectories.json`: what PyTorch's optimizers do to two rows of numbers, step by step,
and `sparse_trajectories.json`: what they do to a table of which each step looks up some rows.

    python -m tests.runtime.optimizers.trajectories

Needs PyTorch, which the tests do not: they read the file.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_suffix(".json")
SPARSE_FILE = FILE.with_name("sparse_trajectories.json")
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

TABLE = [[1.0, -2.0], [0.5, 3.0], [0.25, -1.5], [2.0, 0.75], [-1.0, 0.125]]
LOOK_UPS = [[1, 3, 1], [0, 1, 1], [3, 2, 0], [1, 1, 1], [2, 0, 3]]
"""The rows that each step looks up; the last row is never used."""
NO_EPSILON = 1e-30
"""So small that it does not matter to which root it is added, where PyTorch's two Adams differ."""
SPARSE_CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "sgd": ("SGD", {"lr": 0.02}),
    "adam": ("SparseAdam", {"lr": 0.05, "eps": NO_EPSILON}),
    "adam betas": ("SparseAdam", {"lr": 0.05, "betas": BETAS, "eps": NO_EPSILON}),
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


def sparse_trajectory(name: str, options: dict[str, Any]) -> list[list[float]]:
    """The table after each step."""
    import torch  # type: ignore[import-not-found, unused-ignore]  # not needed to test

    table = torch.nn.Embedding.from_pretrained(
        torch.tensor(TABLE, dtype=torch.float64), freeze=False, sparse=True
    )
    optimizer = getattr(torch.optim, name)(table.parameters(), **options)
    found = []
    for rows in LOOK_UPS:
        optimizer.zero_grad()
        taken = table(torch.tensor(rows))
        ((taken * taken).sum() - taken.sum()).backward()
        optimizer.step()
        found.append(table.weight.detach().reshape(-1).tolist())
    return found


def write(file: Path, cases: dict[str, Any], run: Callable[..., Any]) -> None:
    lines = [f'"{name}": {json.dumps(run(*case))}' for name, case in cases.items()]
    file.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    write(FILE, CASES, trajectory)
    write(SPARSE_FILE, SPARSE_CASES, sparse_trajectory)
