"""The programs in `examples/` that are one function of arrays, with inputs to run them on."""

from __future__ import annotations

import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
FOLDERS = ("numpy_programs", "hot_loops")
PROGRAMS = sorted(
    path
    for folder in FOLDERS
    for path in (EXAMPLES / folder).glob("*.py")
    if not path.stem.startswith("_")
)


def name_of(path: Path) -> str:
    """Folder and file of a program."""
    return f"{path.parent.name}/{path.stem}"


def load_program(path: Path) -> tuple[Callable[..., Any], list[Any]]:
    """The function, and small inputs."""
    scope = runpy.run_path(str(path))
    seed = scope["SMALL"] if "SMALL" in scope else np.random.default_rng(0)
    return scope["program"], [np.asarray(x) for x in scope["inputs"](seed)]


def results_of(program: Callable[..., Any], given: list[Any]) -> list[Any]:
    """What a program gives for inputs that stay as they are, then the arrays that it wrote to."""
    arrays = [x.copy() for x in given]
    found = program(*arrays)
    written = [a for a, x in zip(arrays, given, strict=True) if not np.array_equal(a, x)]
    return [*(found if isinstance(found, tuple) else (found,)), *written]
