"""Many random programs, for a machine with time: 10,000 of them, or as many as are asked for.

    python -m tests.compiler.frontend.convert.nightly [--first SEED] [--count N]

Prints each program whose ways to run it disagree, and exits with 1 if there is one.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable

from tests.compiler.frontend.convert.random_arrays import check_arrays
from tests.compiler.frontend.convert.random_loops import check_loops
from tests.compiler.frontend.convert.random_names import check_names
from tests.compiler.frontend.convert.test_random_programs import check_numbers, check_tensors

CHECKS: tuple[Callable[[int], None], ...] = (
    check_arrays, check_loops, check_names, check_tensors, check_numbers,
)  # fmt: skip


def run(first: int, count: int) -> int:
    """How many of the programs failed."""
    failed = 0
    for seed in range(first, first + count):
        check = CHECKS[seed % len(CHECKS)]
        try:
            check(seed)
        except Exception as error:
            failed += 1
            print(f"{check.__name__}({seed}): {type(error).__name__}: {error}", flush=True)
        if (seed - first + 1) % 500 == 0:
            print(f"{seed - first + 1} programs, {failed} failed", flush=True)
    return failed


def main() -> int:
    """Runs what the command line says."""
    parser = argparse.ArgumentParser(description="random programs: compiled, eager and plain")
    parser.add_argument("--first", type=int, default=100_000, help="the first seed")
    parser.add_argument("--count", type=int, default=10_000, help="how many programs")
    given = parser.parse_args()
    failed = run(given.first, given.count)
    print(f"{given.count} programs, {failed} failed")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
