"""`python -m benchmarks`: starts one clean process per number of threads, prints, writes JSON."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.table import print_table

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
SLOWING = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE", "PYTHONDONTWRITEBYTECODE")
"""Settings that some machines carry: they make NumPy's BLAS slower than it is, and let Python
compile all sources in each process."""
THREAD_SETTINGS = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NPROC",
    "TAPELINE_NUM_THREADS",
)


def child_environment(threads: int) -> dict[str, str]:
    """The environment of a run: no settings that slow a peer down, and so many threads."""
    environment = {key: value for key, value in os.environ.items() if key not in SLOWING}
    environment.update(dict.fromkeys(THREAD_SETTINGS, str(threads)))
    environment["JAX_PLATFORMS"] = "cpu"
    return environment


def pin_to_one_core() -> None:
    """One thread means one core: some peers obey nothing else."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


def run(threads: int, only: str, seconds: float) -> dict[str, Any]:
    """The report of a fresh process."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "report.json"
        command = [sys.executable, "-m", "benchmarks.run", str(file), "--threads", str(threads)]
        command += ["--only", only, "--seconds", str(seconds)]
        done = subprocess.run(
            command,
            cwd=ROOT,
            env=child_environment(threads),
            preexec_fn=pin_to_one_core if threads == 1 else None,
        )
        if done.returncode:
            sys.exit(done.returncode)  # it has said why
        report: dict[str, Any] = json.loads(file.read_text())
        return report


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--threads", default="1,2", help="numbers of threads, one run each")
    parser.add_argument("--only", default="", help="words; cases whose name holds one of them")
    parser.add_argument("--seconds", type=float, default=1.0, help="time for each case")
    parser.add_argument("--json", type=Path, help="where to write (default: benchmarks/results)")
    options = parser.parse_args()
    reports = []
    for threads in map(int, options.threads.split(",")):
        reports.append(run(threads, options.only, options.seconds))
        print_table(reports[-1])
    path = options.json or RESULTS / f"{time.strftime('%Y-%m-%d-%H%M%S')}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"date": time.strftime("%Y-%m-%d"), "runs": reports}, indent=1))
    print(f"\nwritten to {path}")


if __name__ == "__main__":
    main()
