"""Random nests against NumPy, in processes of their own: a fault there is a failed test here."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("nest_fuzz.py")
ROOT = SCRIPT.parents[3]


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_random_nests_agree_with_numpy(seed: int) -> None:
    paths = [str(ROOT), str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]
    ran = subprocess.run(
        [sys.executable, str(SCRIPT), str(seed), "120"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-4000:]
