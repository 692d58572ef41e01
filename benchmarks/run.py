"""Runs the cases in this process, with as many threads as the environment allows.

Started by `python -m benchmarks` as `python -m benchmarks.run FILE`, after the environment is set.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path
from typing import Any

from benchmarks.case import NUMPY, Case
from benchmarks.measure import Timing, time_in_turns, worst_difference


def all_cases() -> list[Case]:
    from benchmarks import (
        gradients,
        kernels,
        loop_forms,
        loops,
        overheads,
        profiling,
        signatures,
        sweeps,
        training,
    )

    groups = (
        overheads, signatures, sweeps, kernels, loops, loop_forms, training, gradients, profiling,
    )  # fmt: skip
    return [case for group in groups for case in group.CASES]


def chosen(cases: Iterable[Case], only: str) -> list[Case]:
    """The cases whose name holds one of the words."""
    words = [word for word in only.split(",") if word]
    return [case for case in cases if not words or any(word in case.name for word in words)]


def measure(case: Case, seconds: float) -> dict[str, Timing]:
    """The timings of one case, after the results have been compared."""
    if case.once is not None:
        return case.once()
    assert case.build is not None
    calls = case.build()
    results = {name: call() for name, call in calls.items()}
    reference = NUMPY if NUMPY in results else next(iter(results))
    for name, result in results.items():
        apart = worst_difference(result, results[reference])
        if not apart <= case.tolerance:
            raise ValueError(f"{name} differs from {reference} by {apart:.1e}")
    del results
    return time_in_turns(calls, seconds)


def record(case: Case, timings: dict[str, Timing]) -> dict[str, Any]:
    """A case's timings and goals, as JSON has it."""
    return {
        "what": case.what,
        "group": case.group,
        "seconds": {
            name: {"min": timing.minimum, "median": timing.median, "rounds": timing.rounds}
            for name, timing in timings.items()
        },
        "goals": [
            {"goal": str(goal), "who": goal.who, "reached": goal.is_reached(timings)}
            for goal in case.goals
        ],
    }


def versions() -> dict[str, str]:
    """The versions of what takes part; a package that is not installed is left out."""
    found = {"python": platform.python_version()}
    for name in ("numpy", "llvmlite", "jax", "torch", "numba", "autograd"):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("file", type=Path)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--only", default="")
    parser.add_argument("--seconds", type=float, default=1.0)
    options = parser.parse_args()
    cases = chosen(all_cases(), options.only)
    if not cases:
        names = ", ".join(case.name for case in all_cases())
        parser.error(
            f"argument --only: no case has a name with {options.only!r}; there are {names}"
        )
    report: dict[str, Any] = {
        "threads": options.threads,
        "versions": versions(),
        "load": os.getloadavg()[0],
        "cases": {},
    }
    for case in cases:
        print(f"{options.threads} thread(s): {case.name}", file=sys.stderr, flush=True)
        try:
            report["cases"][case.name] = record(case, measure(case, options.seconds))
        except Exception as error:
            message = f"{type(error).__name__}: {error}"
            report["cases"][case.name] = {"what": case.what, "error": message}
            print(f"  {message}", file=sys.stderr, flush=True)
        options.file.write_text(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
