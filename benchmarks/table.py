"""Prints what was measured as a table: times, ratios within one run, goals."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from benchmarks.case import EAGER, JAX, NUMBA, NUMPY, OURS, TENSORFLOW, TORCH, time_text

PEERS = (NUMPY, EAGER, JAX, TORCH, TENSORFLOW, NUMBA)
MARKS = {True: "yes", False: "NO", None: "-"}


def _pair(timing: dict[str, float]) -> str:
    return f"{time_text(timing['min'])} / {time_text(timing['median'])}"


def _cells(name: str, case: dict[str, Any]) -> list[str]:
    """One line: the case, our times, and what each other takes relative to ours."""
    seconds = case["seconds"]
    subject = OURS if OURS in seconds else EAGER
    ours = seconds[subject]
    cells = [name, _pair(ours)]
    for peer in PEERS:
        if peer == subject:
            cells.append("(us)")
        elif peer not in seconds:
            cells.append("")
        else:
            ratio = seconds[peer]["median"] / ours["median"]
            cells.append(f"{time_text(seconds[peer]['median'])} {ratio:.2f}x")
    goals = [f"{goal['goal']}: {MARKS[goal['reached']]}" for goal in case["goals"]]
    return [*cells, ", ".join(goals)]


def _aligned(rows: list[list[str]]) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for number, row in enumerate(rows):
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        yield "  ".join(cells).rstrip()
        if number == 0:
            yield "  ".join("-" * width for width in widths)


def group_means(report: dict[str, Any]) -> dict[str, float]:
    """The geometric mean of NumPy's median over ours, for each group of cases."""
    logs: dict[str, list[float]] = {}
    for case in report["cases"].values():
        seconds = case.get("seconds", {})
        if case.get("group") and OURS in seconds and NUMPY in seconds:
            ratio = seconds[NUMPY]["median"] / seconds[OURS]["median"]
            logs.setdefault(case["group"], []).append(math.log(ratio))
    return {group: math.exp(sum(values) / len(values)) for group, values in logs.items()}


def print_table(report: dict[str, Any]) -> None:
    """The table of one run."""
    known = ", ".join(f"{name} {version}" for name, version in report["versions"].items())
    print(f"\n{report['threads']} thread(s); {known}; load {report['load']:.1f}")
    heads = [
        name if name in report["versions"] or name in (NUMPY, EAGER) else f"{name}: not installed"
        for name in PEERS
    ]
    rows = [["case", "ours min / median", *heads, "goals"]]
    failed = []
    for name, case in report["cases"].items():
        if "error" in case:
            failed.append(f"{name} failed: {case['error']}")
        else:
            rows.append(_cells(name, case))
    print("\n".join(_aligned(rows)))
    print("ratios: how many times our median the other's median is; above 1 we are faster")
    for group, mean in group_means(report).items():
        print(f"{group}: numpy takes {mean:.2f} times ours in geometric mean")
    print("\n".join(failed), end="\n" if failed else "")
