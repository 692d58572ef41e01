"""Programs in plain NumPy run unchanged on tensors, eagerly and traced, and give its numbers."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tapeline as tl

PROGRAMS = sorted((Path(__file__).resolve().parent.parent / "examples/numpy_programs").glob("*.py"))


def arrays_of(result: Any) -> list[Any]:
    """The results as arrays."""
    return [np.asarray(part) for part in (result if isinstance(result, tuple) else (result,))]


def tensors_of(result: Any) -> list[Any]:
    """The results, all of which are tensors."""
    parts = result if isinstance(result, tuple) else (result,)
    assert all(type(part) is tl.Tensor for part in parts)
    return [part.numpy() for part in parts]


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_program_gives_the_numbers_of_numpy(path: Path) -> None:
    scope = runpy.run_path(str(path))
    program = scope["program"]
    given = scope["inputs"](np.random.default_rng(0))
    want = arrays_of(program(*[x.copy() for x in given]))
    for run in (program, tl.function(program)):
        got = tensors_of(run(*[tl.asarray(x) for x in given]))
        for a, b in zip(got, want, strict=True):
            assert (a.shape, a.dtype) == (b.shape, b.dtype)
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)


def test_there_are_twenty_programs() -> None:
    assert len(PROGRAMS) == 20
