"""What functions tell about their traces, logs, and tracebacks."""

from __future__ import annotations

import os
import subprocess
import sys
import traceback
from typing import Any

import pytest

import tapeline as tl
from tapeline.runtime.errors import EndlessTraceError


def test_explanations_count_time_and_calls() -> None:
    f = tl.function(lambda x: tl.sum(tl.tanh(x) * 2))
    x, y = tl.asarray([1.0, 2.0]), tl.asarray(1.0)
    for _ in range(10):
        f(x)
    for _ in range(3):
        f(y)
    with tl.GradientTape() as tape:
        tape.watch(x)
        z = f(x)
    tape.gradient(z, x)
    first, second = f.explain()
    assert (first.calls, second.calls) == (11, 3)
    for record in (first, second):
        assert min(record.seconds, record.optimizing, record.compiling) > 0.0
        assert f"served {record.calls} calls" in str(f.explain())
    assert "compiling" in f.explain()._repr_html_()


def test_a_trace_with_open_sizes_counts_all_of_them() -> None:
    f = tl.function(lambda x: x * 2)
    for n in range(2, 8):
        f(tl.ones(n))
    assert [record.calls for record in f.explain()] == [1, 5]


def test_assert_traces_says_why_there_are_others() -> None:
    f = tl.function(lambda x: x * 2)
    f(tl.asarray(1.0))
    f(tl.asarray([1.0]))
    tl.testing.assert_traces(f, 2)
    with pytest.raises(AssertionError, match=r"expected 1 traces, got 2:(.|\n)*x was float64\[\]"):
        tl.testing.assert_traces(f, 1)


def test_log_lines_on_request() -> None:
    program = (
        "import tapeline as tl\n"
        "f = tl.function(lambda x: x * 2, name='double')\n"
        "f(tl.asarray([1.0])), f(tl.asarray(1.0))\n"
    )

    def lines(topics: str) -> list[str]:
        made = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=True,
            env={**os.environ, "TAPELINE_LOG": topics},
        )  # fmt: skip
        return made.stderr.splitlines()

    found = lines("retrace,compile,kernels")
    assert found[0] == "tapeline retrace: double: first call"
    assert any(line.startswith("tapeline compile: double:") for line in found)
    assert any(line.startswith("tapeline kernels: double: k0") for line in found)
    assert any("x was float64[1], is float64[]" in line for line in found)
    assert lines("") == []


def test_tracebacks_show_the_users_lines_unless_all_are_asked_for() -> None:
    @tl.function
    def f(x: Any) -> Any:
        return helper(x)

    def helper(x: Any) -> Any:
        raise KeyError("mine")

    def frames() -> list[str]:
        with pytest.raises(KeyError) as caught:
            f(tl.asarray(1.0))
        return [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]

    folded = frames()
    assert folded[-2:] == ["f", "helper"]
    assert "run_converted" not in folded
    with tl.config.full_traceback(True):
        assert "run_converted" in frames()
    assert frames() == folded


def test_recursion_that_ends_by_a_python_number_works_with_gradients() -> None:
    @tl.function
    def power(x: Any, n: int) -> Any:
        return x * 0 + 1 if n == 0 else x * power(x, n - 1)

    @tl.function
    def even(x: Any, n: int) -> Any:
        return x if n == 0 else odd(x * 2, n - 1)

    @tl.function
    def odd(x: Any, n: int) -> Any:
        return x * 100 if n == 0 else even(x + 1, n - 1)

    x = tl.asarray(2.0)
    for _ in range(2):
        with tl.GradientTape() as tape:
            tape.watch(x)
            y = power(x, 5)
        assert (y.item(), tape.gradient(y, x).item()) == (32.0, 80.0)
    assert even(x, 4).item() == 11.0
    assert odd(x, 4).item() == 1400.0
    assert tl.grad(lambda x: even(x, 4))(x).item() == 4.0


def test_tracing_without_end_is_a_recursion_error_that_says_so() -> None:
    @tl.function
    def endless(x: Any, n: int) -> Any:
        return endless(x, n + 1) + 1

    def plain(x: Any) -> Any:
        return plain(x) + 1

    calls: list[tuple[Any, Any]] = [(endless, (1.0, 0)), (tl.function(plain), (tl.asarray(1.0),))]
    for function, args in calls:
        with pytest.raises(EndlessTraceError, match="trace does not end") as caught:
            function(*args)
        assert isinstance(caught.value, RecursionError)
    assert tl.function(lambda x: x + 1)(tl.asarray(1.0)).item() == 2.0
    assert tl.executing_eagerly()
