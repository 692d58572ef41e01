"""Programs of many steps: nothing recurses, and time grows with the number of steps."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest
from tests.cases.comparing import assert_close, tensor

import tapeline as tl


def test_gradient_and_release_of_a_chain_of_20_000_ops() -> None:
    x = tensor([1.0, 2.0])
    with tl.GradientTape() as tape:
        tape.watch(x)
        y = x
        for _ in range(20_000):
            y = y * 1.0001
        total = tl.sum(y)
    gradient = tape.gradient(total, x)
    assert_close(gradient, np.full(2, 1.0001**20_000), rtol=1e-9)
    del tape, y, total, gradient


def test_a_chain_that_is_dropped_without_a_gradient_is_freed() -> None:
    x = tensor([1.0, 2.0])
    with tl.GradientTape() as tape:
        tape.watch(x)
        y = x
        for _ in range(20_000):
            y = y + x
    del y
    assert tape.export() == []


def first_gradient_seconds(steps: int) -> float:
    """How long it takes to trace, differentiate and compile a loop of so many steps."""

    @tl.function
    def f(x: Any) -> Any:
        for k in range(steps):
            x = tl.sin(x) * 1.01 + 0.001 * k
        return tl.sum(x)

    x = tensor([0.1, 0.2])
    start = time.perf_counter()
    with tl.GradientTape() as tape:
        tape.watch(x)
        y = f(x)
    assert np.isfinite(tape.gradient(y, x).numpy()).all()
    return time.perf_counter() - start


@pytest.mark.slow
def test_compile_time_grows_no_faster_than_the_program() -> None:
    first_gradient_seconds(20)
    short, long = first_gradient_seconds(100), first_gradient_seconds(400)
    assert long < 10 * short + 2.0, f"100 steps {short:.2f} s, 400 steps {long:.2f} s"
