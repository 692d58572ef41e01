"""Loops whose turns are independent are shared among threads; all others run on one."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapeline as tl
from tapeline.compiler.codegen.lower import lower_graph
from tapeline.compiler.codegen.module import assemble
from tapeline.compiler.codegen.pool import default_thread_count, is_pool_supported
from tapeline.compiler.codegen.target import host_target

pytestmark = pytest.mark.skipif(
    default_thread_count() < 2 or not is_pool_supported(), reason="needs two threads"
)


def is_shared(function: Callable[..., Any], *args: Any) -> bool:
    """Whether threads share the turns of a loop of the function."""
    text = tl.function(function).get_concrete_function(*args).llvm_ir()
    return "@tapeline_parallel(ptr @control" in text


def halvings(xs: Any, counts: Any) -> Any:
    """How often each number can be halved until it is below one."""
    for k in range(len(xs)):
        x, n = xs[k], 0
        while x >= 1.0:
            x = x * 0.5
            n += 1
        counts[k] = n
    return counts


def test_loop_with_a_loop_inside_writes_its_own_elements() -> None:
    xs = np.random.default_rng(0).uniform(0, 1e6, 20_000)
    assert is_shared(halvings, tl.asarray(xs), tl.zeros(20_000))
    expected = np.maximum(np.floor(np.log2(xs)) + 1, 0)
    for _ in range(3):
        found = tl.function(halvings)(tl.asarray(xs), tl.zeros(20_000))
        np.testing.assert_array_equal(found.numpy(), expected)


def test_counter_that_begins_elsewhere_and_goes_in_steps() -> None:
    def run(xs: Any, out: Any) -> Any:
        for k in tl.range(7, 39_007, 3):
            x = xs[k]
            while x >= 1.0:
                x = x * 0.5
            out[k] = x + out[k]
        return out

    xs, start = np.random.default_rng(1).uniform(1, 1e6, 40_000), np.arange(40_000.0)
    assert is_shared(run, tl.asarray(xs), tl.asarray(start))
    expected = start.copy()
    places = np.arange(7, 39_007, 3)
    expected[places] += xs[places] / 2.0 ** (np.floor(np.log2(xs[places])) + 1)
    found = tl.function(run)(tl.asarray(xs), tl.asarray(start)).numpy()
    np.testing.assert_array_equal(found, expected)


def rows_of(x: Any) -> Any:
    def one(row: Any) -> Any:
        start = (row, tl.asarray(0))
        return tl.while_loop(
            lambda y, n: tl.sum(y * y) > 1e-2,
            lambda y, n: (tl.sin(y) * 0.5 + tl.flip(y) * 0.25, n + 1),
            start,
        )

    return tl.map_fn(one, x)


def test_map_fn_over_rows() -> None:
    x = tl.asarray(np.random.default_rng(2).standard_normal((3000, 20)))
    assert is_shared(rows_of, x)
    y, n = tl.function(rows_of)(x)
    some, turns = rows_of(x[:40])
    np.testing.assert_allclose(y.numpy()[:40], some.numpy(), rtol=1e-12)
    np.testing.assert_array_equal(n.numpy()[:40], turns.numpy())


def test_number_of_threads_changes_no_bit() -> None:
    code = (
        "import sys; sys.path.insert(0, 'tests/compiler/codegen')\n"
        "import numpy as np, tapeline as tl, test_control_chunks as t\n"
        "x = tl.asarray(np.random.default_rng(2).standard_normal((3000, 20)))\n"
        "y, n = tl.function(t.rows_of)(x)\n"
        "print(hash(y.numpy().tobytes()), int(n.numpy().sum()))"
    )
    printed = set()
    for threads in ("1", "2", "5"):
        environment = {**os.environ, "TAPELINE_NUM_THREADS": threads, "PYTHONHASHSEED": "0"}
        done = subprocess.run(
            [sys.executable, "-c", code], env=environment, capture_output=True, text=True,
            check=True,
        )  # fmt: skip
        printed.add(done.stdout)
    assert len(printed) == 1


def test_turns_that_need_one_another_or_may_fail_are_not_shared() -> None:
    def chained(xs: Any, out: Any) -> Any:
        for k in tl.range(1, 20_000):
            x = out[k - 1]
            while x < xs[k]:
                x = x + 0.25
            out[k] = x
        return out

    def summed(xs: Any, out: Any) -> Any:
        total = 0.0
        for k in tl.range(20_000):
            x = xs[k]
            while x >= 1.0:
                x = x * 0.5
            total = total + x
            out[k] = x
        return out, total

    def looked_up(xs: Any, out: Any) -> Any:
        for k in tl.range(20_000):
            x = xs[k]
            while x >= 1.0:
                x = x - xs[tl.astype(x, tl.int64)]
            out[k] = x
        return out

    xs, out = tl.ones(20_000), tl.zeros(20_000)
    for function in (chained, summed, looked_up):
        assert not is_shared(function, xs, out)


def test_code_without_python_shares_nothing() -> None:
    concrete = tl.function(halvings).get_concrete_function(tl.ones(20_000), tl.zeros(20_000))
    for standalone in (False, True):
        target = host_target()._replace(standalone=standalone)
        text = assemble(lower_graph(concrete.optimized_graph, target), target).text
        assert ("@tapeline_parallel" in text) != standalone


def test_few_turns_are_not_shared() -> None:
    assert not is_shared(halvings, tl.ones(100), tl.zeros(100))
