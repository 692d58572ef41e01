"""Writes what optimizers of others do, step by step: `trajectories.json` to two rows of numbers,
`sparse_trajectories.json` to a table of which each step looks up some rows, by PyTorch's;
`lion_trajectories.json` by Optax's Lion, which PyTorch has not; `lbfgs_trajectories.json` to the
parameters of a regression, by PyTorch's L-BFGS.

    python -m tests.runtime.optimizers.trajectories [torch] [optax]

Needs PyTorch and Optax, which the tests do not: they read the files.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_suffix(".json")
SPARSE_FILE = FILE.with_name("sparse_trajectories.json")
LION_FILE = FILE.with_name("lion_trajectories.json")
LBFGS_FILE = FILE.with_name("lbfgs_trajectories.json")
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

LION_CASES: dict[str, dict[str, float]] = {
    "lion": {"learning_rate": 0.05},
    "lion betas": {"learning_rate": 0.05, "b1": 0.8, "b2": 0.95},
    "lion decay": {"learning_rate": 0.05, "b1": 0.5, "weight_decay": 0.2},
}
LION_STEPS = 25

POINTS = [[0.5, -1.0], [1.5, 0.25], [-0.75, 2.0], [-1.25, -0.5], [0.1, 0.9]]
LABELS = [1.0, 1.0, 0.0, 0.0, 1.0]
LBFGS_CASES: dict[str, int] = {"lbfgs": 10, "lbfgs of two pairs": 2}
"""How many pairs are kept."""
LBFGS_STEPS = 7

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


def lion_trajectory(options: dict[str, float]) -> list[list[float]]:
    """The values after each step of Optax's Lion."""
    import jax  # type: ignore[import-not-found, unused-ignore]  # not needed to test
    import optax  # type: ignore[import-not-found, unused-ignore]  # not needed to test

    jax.config.update("jax_enable_x64", True)
    x = jax.numpy.array(START)
    weights = jax.numpy.array(WEIGHTS)
    optimizer = optax.lion(**{"weight_decay": 0.0, **options})
    state = optimizer.init(x)
    found = []
    for _ in range(LION_STEPS):
        updates, state = optimizer.update(2 * x * weights - 1, state, x)
        x = optax.apply_updates(x, updates)
        found.append(x.reshape(-1).tolist())
    return found


def lbfgs_trajectory(memory: int) -> list[list[float]]:
    """The parameters after each step of PyTorch's L-BFGS, which always takes the whole step."""
    import torch  # type: ignore[import-not-found, unused-ignore]  # not needed to test

    x = torch.zeros(2, dtype=torch.float64, requires_grad=True)
    points = torch.tensor(POINTS, dtype=torch.float64)
    labels = torch.tensor(LABELS, dtype=torch.float64)
    optimizer = torch.optim.LBFGS(
        [x], lr=1.0, max_iter=1, history_size=memory, tolerance_grad=0.0, tolerance_change=0.0
    )

    def loss() -> Any:
        optimizer.zero_grad()
        scores = points @ x
        value = (torch.nn.functional.softplus(scores) - labels * scores).sum() + 0.1 * (x * x).sum()
        value.backward()
        return value

    found = []
    for _ in range(LBFGS_STEPS):
        optimizer.step(loss)
        found.append(x.detach().tolist())
    return found


def write(file: Path, cases: dict[str, Any], run: Callable[..., Any]) -> None:
    lines = [f'"{name}": {json.dumps(run(*case))}' for name, case in cases.items()]
    file.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    if "torch" in sys.argv[1:]:
        write(FILE, CASES, trajectory)
        write(SPARSE_FILE, SPARSE_CASES, sparse_trajectory)
        write(LBFGS_FILE, {name: (case,) for name, case in LBFGS_CASES.items()}, lbfgs_trajectory)
    if "optax" in sys.argv[1:]:
        write(LION_FILE, {name: (case,) for name, case in LION_CASES.items()}, lion_trajectory)
