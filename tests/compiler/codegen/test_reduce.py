"""Reductions against NumPy: every kind, over rows, columns, everything and nothing, in parts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.compiler.codegen import harness

from tapeline.compiler.codegen.nest import Nest, Step, StepKind
from tapeline.compiler.codegen.target import Target

Array = np.ndarray[Any, Any]
each_target = pytest.mark.parametrize("target", harness.TARGETS, ids=lambda t: t.cpu)


def reduced(kind: StepKind, x: Array, axes: tuple[int, ...], target: Target) -> tuple[str, Array]:
    """The strategy and the result; chunked runs must give the same bits."""
    dtype = np.dtype(np.int64) if kind.startswith("arg") else x.dtype
    kept = tuple(n for d, n in enumerate(x.shape) if d not in axes)
    out = np.full(kept, 77).astype(dtype)
    operands = (harness.operand_of(x, x.shape), harness.operand_of(out, x.shape, axes))
    nest = Nest(x.shape, axes, operands, 1, (Step(kind, dtype, (0,)),), (1,))
    runner = harness.Runner(nest, target)
    runner.run([x, out])
    again = np.empty_like(out)
    runner.run([x, again], harness.odd_chunks)
    assert np.array_equal(out, again, equal_nan=x.dtype.kind == "f")
    return runner.kernel.strategy, out


@each_target
@pytest.mark.parametrize(
    ("shape", "axes", "strategy"),
    [
        ((100,), (0,), "rows"),
        ((20_000,), (0,), "rows"),
        ((200_001,), (0,), "rows in parts, rows"),
        ((400, 400), (0, 1), "rows in parts, rows"),
        ((70, 33), (1,), "rows"),
        ((3, 50_000), (1,), "rows in parts, rows"),
        ((500, 40), (0,), "lanes"),
        ((5000, 40), (0,), "lanes in parts, lanes"),
        ((20, 60, 40), (1,), "lanes"),
        ((4, 3, 5, 40), (1, 3), "rows"),
    ],
)
def test_sum_and_max_of_any_axes(
    shape: tuple[int, ...], axes: tuple[int, ...], strategy: str, target: Target
) -> None:
    x = harness.guarded(np.random.default_rng(0).standard_normal(shape).astype(np.float32))
    found, total = reduced("sum", x, axes, target)
    assert found == strategy
    exact = x.astype(np.float64).sum(axes)
    np.testing.assert_allclose(total, exact, rtol=1e-5, atol=1e-5 * float(np.abs(exact).max()))
    assert np.array_equal(reduced("max", x, axes, target)[1], x.max(axes))


@each_target
@pytest.mark.parametrize("code", ["i1", "u2", "i4", "i8", "u8"])
def test_integers_wrap_around(code: str, target: Target) -> None:
    rng = np.random.default_rng(1)
    bounds = np.iinfo(code)
    x = rng.integers(bounds.min, bounds.max, (9, 70), code, endpoint=True)
    kinds: dict[StepKind, Callable[..., Array]] = {
        "sum": np.sum, "prod": np.prod, "max": np.max, "min": np.min,
    }  # fmt: skip
    for kind, function in kinds.items():
        expected = function(x, axis=1, dtype=code) if kind in ("sum", "prod") else function(x, 1)
        assert np.array_equal(reduced(kind, x, (1,), target)[1], expected), kind


@each_target
@pytest.mark.parametrize("axis", [0, 1])
def test_extremes_meet_nan_as_numpy(axis: int, target: Target) -> None:
    x = np.random.default_rng(2).standard_normal((41, 45)).astype(np.float32)
    x[3, 5] = x[3, 40] = x[40, 7] = np.nan
    x[:, 9] = x[9, :] = -np.inf
    x[10, :] = np.inf
    kinds: dict[StepKind, Callable[..., Array]] = {
        "max": np.max, "min": np.min, "argmax": np.argmax, "argmin": np.argmin,
    }  # fmt: skip
    for kind, function in kinds.items():
        found = reduced(kind, x, (axis,), target)[1]
        assert np.array_equal(found, function(x, axis=axis), equal_nan=kind in ("max", "min")), kind


@each_target
@pytest.mark.parametrize("axis", [0, 1])
def test_argmax_takes_the_first_of_equals(axis: int, target: Target) -> None:
    x = np.random.default_rng(3).integers(0, 3, (150, 161)).astype(np.float64)
    assert np.array_equal(reduced("argmax", x, (axis,), target)[1], x.argmax(axis))
    assert np.array_equal(reduced("argmin", x > 1, (axis,), target)[1], (x > 1).argmin(axis))


@each_target
@pytest.mark.parametrize("axis", [0, 1])
def test_any_and_all(axis: int, target: Target) -> None:
    x = np.random.default_rng(4).random((33, 37)) < 0.05
    assert np.array_equal(reduced("any", x, (axis,), target)[1], x.any(axis))
    assert np.array_equal(reduced("all", ~x, (axis,), target)[1], (~x).all(axis))


@each_target
def test_sum_over_nothing_is_zero_and_of_negative_zeros_is_positive(target: Target) -> None:
    empty = np.zeros((3, 0), np.float32)
    assert np.array_equal(reduced("sum", empty, (1,), target)[1], np.zeros(3))
    assert reduced("sum", empty, (0,), target)[0] == "empty"
    for shape, axis in (((1, 5), 0), ((5, 1), 1), ((5, 40), 1)):
        total = reduced("sum", np.full(shape, -0.0, np.float32), (axis,), target)[1]
        assert not np.signbit(total).any()


def test_long_sums_are_as_exact_as_pairwise_ones() -> None:
    x = np.random.default_rng(5).random(3_000_001).astype(np.float32)
    total = reduced("sum", x, (0,), harness.HOST)[1]
    assert abs(float(total) / x.sum(dtype=np.float64) - 1) < 2e-7
    columns = reduced("sum", x[:3_000_000].reshape(-1, 3), (0,), harness.HOST)[1]
    exact = x[:3_000_000].reshape(-1, 3).sum(0, dtype=np.float64)
    np.testing.assert_allclose(columns, exact, rtol=3e-7)
    assert np.isinf(reduced("sum", np.full(9000, np.inf, np.float32), (0,), harness.HOST)[1])
