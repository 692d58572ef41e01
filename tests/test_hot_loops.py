"""The hot loops of the examples give the numbers of plain Python, and right gradients."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tapeline as tl

FOLDER = Path(__file__).resolve().parent.parent / "examples/hot_loops"
PROGRAMS = sorted(path for path in FOLDER.glob("*.py") if not path.stem.startswith("_"))
STEP = 1e-6


def load(path: Path) -> dict[str, Any]:
    """The names of a program, and its small inputs as `given`."""
    scope = runpy.run_path(str(path))
    return {**scope, "given": scope["inputs"](scope["SMALL"])}


def copies(values: Sequence[Any]) -> list[Any]:
    return [x.copy() if isinstance(x, np.ndarray) else x for x in values]


def parts(result: Any) -> list[Any]:
    """The results as arrays."""
    return [np.asarray(part) for part in (result if isinstance(result, tuple) else (result,))]


def total(function: Callable[..., Any], values: Sequence[Any]) -> float:
    """The sum of all floats that plain Python gives."""
    found = parts(function(*copies(values)))
    return float(sum(part.sum() for part in found if part.dtype.kind == "f"))


def test_there_are_thirteen_programs_and_the_page_lists_them() -> None:
    page = (FOLDER / "README.md").read_text()
    assert len(PROGRAMS) == 13
    assert all(f"`{path.name}`" in page for path in PROGRAMS)


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_program_gives_the_numbers_of_plain_python(path: Path) -> None:
    scope = load(path)
    plain = scope.get("plain", scope["program"])
    expected = parts(plain(*copies(scope["given"])))
    compiled = tl.function(scope["program"])
    for _ in range(3):  # by way of Python, and by the native entry
        found = parts(compiled(*map(tl.asarray, copies(scope["given"]))))
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)
    assert compiled.trace_count == 1
    if "with_numpy" in scope:
        for a, b in zip(parts(scope["with_numpy"](*copies(scope["given"]))), expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_gradient_agrees_with_finite_differences(path: Path) -> None:
    scope = load(path)
    wanted = scope.get("DIFFERENTIABLE", ())
    given = scope["given"]
    plain = scope.get("plain", scope["program"])

    @tl.function
    def slopes(*values: Any) -> Any:
        with tl.GradientTape() as tape:
            sources = [values[k] for k in wanted]
            inputs = list(values)
            for k in wanted:
                tape.watch(values[k])
                inputs[k] = values[k] * 1.0  # the program writes to some of its arguments
            results = scope["program"](*inputs)
            results = results if isinstance(results, tuple) else (results,)
            sums = [tl.sum(part) for part in results if part.dtype.kind == "f"]
            goal = sum(sums[1:], sums[0])
        return tape.gradient(goal, sources)

    if not wanted:
        assert not {"lorenz", "lstm", "n_body"} & {path.stem}
        return
    found = slopes(*map(tl.asarray, copies(given)))
    rng = np.random.default_rng(0)
    for k, slope in zip(wanted, found, strict=True):
        direction = rng.standard_normal(np.shape(given[k]))
        up, down = copies(given), copies(given)
        up[k] = given[k] + STEP * direction
        down[k] = given[k] - STEP * direction
        expected = (total(plain, up) - total(plain, down)) / (2 * STEP)
        assert float((slope.numpy() * direction).sum()) == pytest.approx(
            expected, rel=2e-5, abs=1e-6
        )


def test_the_chart_is_printed_and_drawn(tmp_path: Path) -> None:
    source = str(Path(tl.__file__).parent.parent)
    done = subprocess.run(
        [sys.executable, str(FOLDER), "--small", "collatz", "n_body"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": source},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "collatz" in done.stdout
    assert "speed against Python" in done.stdout
    drawn = ElementTree.parse(tmp_path / "hot_loops.svg").getroot()
    bars = [node for node in drawn.iter() if node.tag.endswith("title")]
    assert len(bars) >= 4
