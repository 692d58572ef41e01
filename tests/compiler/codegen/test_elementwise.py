"""Elementwise nests against NumPy in every layout, at the edge of readable memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.compiler.codegen import harness

from tapeline.compiler.codegen.nest import Nest
from tapeline.compiler.codegen.target import Target

Array = np.ndarray[Any, Any]
each_target = pytest.mark.parametrize("target", harness.TARGETS, ids=lambda t: t.cpu)
SCALE = harness.map_step("f4", (0, 1), lambda b, x, y: b.add(b.mul(x, b.const(2, x)), y), "2x+y")


def double_plus(x: Array, y: Array, out: Array, target: Target) -> harness.Runner:
    """Checks 2 x + y; returns the runner."""
    operands = tuple(harness.operand_of(a, out.shape) for a in (x, y, out))
    runner = harness.Runner(Nest(out.shape, (), operands, 2, (SCALE,), (2,)), target)
    runner.run([x, y, out])
    assert np.array_equal(out, x * np.float32(2) + y)
    first = out.copy()
    out[...] = 0
    runner.run([x, y, out], harness.odd_chunks)
    assert np.array_equal(out, first)
    return runner


def normal(*shape: int) -> Array:
    values = np.random.default_rng(sum(shape)).standard_normal(shape)
    return harness.guarded(np.asarray(values, np.float32))


@each_target
@pytest.mark.parametrize("n", [1, 7, 16, 31, 32, 33, 1000])
def test_tails_read_and_write_nothing_beyond(n: int, target: Target) -> None:
    double_plus(normal(n), normal(n), normal(n), target)


@each_target
def test_no_dimensions_and_no_elements(target: Target) -> None:
    double_plus(normal(), normal(), normal(), target)
    empty = double_plus(normal(0, 3), normal(0, 3), normal(0, 3), target)
    assert empty.kernel.launches == ()


@each_target
def test_broadcasts(target: Target) -> None:
    out = normal(7, 5, 70)
    for y in (normal(70), normal(5, 1), normal(7, 1, 70), normal(1), normal(7, 1, 1)):
        double_plus(normal(7, 5, 70), y, out, target)


@each_target
def test_steps_and_reversals(target: Target) -> None:
    out = normal(9, 33)
    for x in (
        normal(9, 66)[:, ::2], normal(9, 97)[:, ::3], normal(9, 33)[:, ::-1], normal(9, 33)[::-1],
        normal(9, 65)[:, ::-2], normal(18, 99)[::-2, ::-3],
    ):  # fmt: skip
        double_plus(x, normal(9, 33), out, target)
        double_plus(normal(9, 33), normal(33), np.empty_like(x).reshape(9, 33), target)
    strided = np.zeros((9, 99), np.float32)[:, ::3]
    double_plus(normal(9, 33), normal(33), strided, target)


@each_target
@pytest.mark.parametrize("shape", [(64, 64), (70, 100), (129, 65), (3, 40, 33), (1030, 1001)])
def test_transposed_inputs_go_through_tiles(shape: tuple[int, ...], target: Target) -> None:
    x = normal(*shape[:-2], shape[-1], shape[-2]).swapaxes(-1, -2)
    runner = double_plus(x, normal(*shape), normal(*shape), target)
    assert runner.kernel.strategy == "tiles"
    runner = double_plus(x, normal(shape[-2], 1), normal(*shape), target)
    assert runner.kernel.strategy == "tiles"


@each_target
def test_output_may_be_an_input(target: Target) -> None:
    x, y = normal(100), normal(100)
    want = x * np.float32(2) + y
    operands = tuple(harness.operand_of(a, x.shape) for a in (x, y, x))
    harness.Runner(Nest(x.shape, (), operands, 2, (SCALE,), (2,), ((0, 2),)), target).run([x, y, x])
    assert np.array_equal(x, want)


def test_equal_keys_mean_equal_code_for_other_sizes() -> None:
    keys = set()
    for n in (1000, 2000):
        x = normal(n)
        operands = tuple(harness.operand_of(x, x.shape) for _ in range(3))
        runner = harness.Runner(Nest(x.shape, (), operands, 2, (SCALE,), (2,)))
        keys.add(runner.kernel.launches[0].function.key)
    assert len(keys) == 1


@each_target
@pytest.mark.parametrize("length", [2, 3, 7, 8])
def test_tiny_rows_run_together(length: int, target: Target) -> None:
    for rows in (64, 100, 333):
        for y in (normal(length), normal(rows, 1), normal(1), normal(rows, length)[:1]):
            out = normal(rows, length)
            runner = double_plus(normal(rows, length), y, out, target)
            if target.vector_bytes == 64:
                assert runner.kernel.strategy == ("elementwise" if y.size == 1 else "flat")
    out = normal(5, 64, length)
    double_plus(normal(5, 64, length), normal(5, 1, length), out, target)
