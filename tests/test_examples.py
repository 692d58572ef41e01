"""The examples run, and say what they promise."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

import tapeline as tl

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"


def run(name: str, folder: Path) -> str:
    """What an example prints when it runs in an empty folder."""
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name)],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(Path(tl.__file__).parent.parent)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


def number(pattern: str, text: str) -> float:
    found = re.search(pattern, text)
    assert found, f"{pattern} not in\n{text}"
    return float(found[1])


def test_every_example_has_a_test() -> None:
    tested = Path(__file__).read_text()
    for path in EXAMPLES.glob("*.py"):
        assert f'run("{path.name}"' in tested


def test_mixing_agrees_with_central_differences(tmp_path: Path) -> None:
    printed = run("mixing.py", tmp_path)
    assert "the gradients agree" in printed
    assert number(r"traces of the compiled part: (\d+)", printed) == 1
    assert max(map(len, printed.splitlines())) <= 80


@pytest.mark.slow
def test_digits_learns_and_reports(tmp_path: Path) -> None:
    began = time.monotonic()
    printed = run("digits.py", tmp_path)
    assert time.monotonic() - began < 60
    assert number(r"held-out accuracy +([\d.]+)", printed) >= 0.96
    assert number(r"(\d+) traces", printed) == 2
    assert number(r"within ([\d.e+-]+) of the same training", printed) < 1e-3
    for name in ("eager", "compiled", "NumPy by hand"):
        assert number(rf"{name} +([\d.]+) us", printed) > 0
    assert "\r" not in printed
    assert max(map(len, printed.splitlines())) <= 80
    drawn = (tmp_path / "digits.svg").read_text()
    assert ElementTree.fromstring(drawn).tag.endswith("svg")
