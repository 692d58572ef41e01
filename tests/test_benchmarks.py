"""The benchmarks run, check what they time, and report."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


def python(*arguments: str) -> subprocess.CompletedProcess[str]:
    """A Python process in the root folder, where the benchmarks are importable."""
    return subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )


@pytest.mark.slow
def test_benchmarks_print_a_table_and_write_json(tmp_path: Path) -> None:
    file = tmp_path / "report.json"
    options = ["--threads", "1", "--only", "eager_add", "--seconds", "0.01", "--json", str(file)]
    done = python("-m", "benchmarks", *options)
    assert done.returncode == 0, done.stderr
    assert "eager_add" in done.stdout
    (run,) = json.loads(file.read_text())["runs"]
    timing = run["cases"]["eager_add"]["seconds"]["numpy"]
    assert 0 < timing["min"] <= timing["median"]


def test_a_name_that_no_benchmark_has_is_told_with_those_that_there_are() -> None:
    done = python("-m", "benchmarks", "--threads", "1", "--only", "no_such_case")
    assert done.returncode == 2
    assert "no case has a name with 'no_such_case'; there are call, call_taped" in done.stderr
    assert "Traceback" not in done.stderr


def test_benchmarks_do_not_let_settings_slow_numpy_down() -> None:
    code = (
        "import os; os.environ['OPENBLAS_CORETYPE'] = 'Prescott'; "
        "from benchmarks.__main__ import child_environment; e = child_environment(2); "
        "print('OPENBLAS_CORETYPE' in e, e['OMP_NUM_THREADS'])"
    )
    assert python("-c", code).stdout.split() == ["False", "2"]


def test_goals_compare_medians_and_say_when_a_peer_is_missing() -> None:
    code = (
        "from benchmarks.case import Below, Faster; from benchmarks.measure import Timing; "
        "t = {'tapeline': Timing(1e-6, 2e-6, 9), 'numpy': Timing(3e-6, 5e-6, 9)}; "
        "print(*(g.is_reached(t) for g in (Faster(2.5, 'numpy'), Faster(2.6, 'numpy'), "
        "Faster(1, 'jax'), Below(1.5e-6), Below(0.5e-6))))"
    )
    assert python("-c", code).stdout.split() == ["True", "False", "None", "True", "False"]


def test_table_says_which_peers_are_not_installed() -> None:
    code = (
        "from benchmarks.table import print_table; "
        "s = {'tapeline': {'min': 1e-6, 'median': 2e-6}, 'numpy': {'min': 1e-6, 'median': 5e-6}}; "
        "case = {'seconds': s, 'goals': [{'goal': '2x numpy', 'reached': True}], 'group': ''}; "
        "versions = {'python': '3', 'numpy': '2', 'jax': '1'}; "
        "print_table({'threads': 1, 'load': 0.0, 'versions': versions, 'cases': {'a': case}})"
    )
    done = python("-c", code)
    assert done.returncode == 0, done.stderr
    assert "torch: not installed" in done.stdout
    assert "jax: not installed" not in done.stdout
    assert "2.50x" in done.stdout
    assert "2x numpy: yes" in done.stdout


@pytest.mark.slow
def test_sweep_sets_functions_beside_numpys() -> None:
    options = ["exp", "atan2", "bitwise_left_shift", "sum of rows", "--budget", "0.001"]
    done = python("-m", "benchmarks.op_sweep", *options)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert [line.split("few:")[0].strip() for line in lines[:-1]] == options[:4]
    assert lines[-1].endswith("functions miss the goal")


def test_sweep_compares_functions_that_agree() -> None:
    code = (
        "import numpy as np, tapeline as tl\n"
        "from benchmarks.op_sweep import all_cases, inputs_of\n"
        "for name, (ours, numpys, count) in all_cases().items():\n"
        "    arrays = inputs_of(name, count, 10)\n"
        "    got = np.asarray(ours(*map(tl.asarray, arrays)))\n"
        "    np.testing.assert_allclose(got, numpys(*arrays), rtol=1e-6, err_msg=name)\n"
        "print(len(all_cases()))"
    )
    done = python("-c", code)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 90


def test_results_are_not_tracked() -> None:
    if not (ROOT / ".git").exists() or os.name == "nt":
        pytest.skip("not a checkout")
    ignored = ROOT / ".gitignore"
    assert "/benchmarks/results/" in ignored.read_text().splitlines()
