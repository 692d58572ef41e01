"""Reductions down wide columns, streamed by rows, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.compiler.codegen import harness
from tests.compiler.codegen.test_reduce import reduced
from tests.compiler.codegen.test_rows import softmax_nest

from tapeline.compiler.codegen.nest import Nest, Step
from tapeline.compiler.codegen.target import Target

Array = np.ndarray[Any, Any]
each_target = pytest.mark.parametrize("target", harness.TARGETS, ids=lambda t: t.cpu)


def normal(rows: int, columns: int) -> Array:
    values = np.random.default_rng(rows).standard_normal((rows, columns))
    return harness.guarded(values.astype(np.float32))


@each_target
@pytest.mark.parametrize("shape", [(512, 512), (515, 1030), (1003, 2049)])
def test_wide_columns(shape: tuple[int, int], target: Target) -> None:
    x = normal(*shape)
    x[7, 9] = np.nan
    strategy, found = reduced("max", x, (0,), target)
    assert strategy == "sheet"
    assert np.array_equal(found, x.max(0), equal_nan=True)
    assert np.array_equal(reduced("argmin", x, (0,), target)[1], x.argmin(0))
    x[7, 9] = 0
    total = reduced("sum", x, (0,), target)[1]
    np.testing.assert_allclose(total, x.sum(0, dtype=np.float64), rtol=1e-6, atol=2e-5)


@each_target
def test_several_reductions_with_row_values_and_maps(target: Target) -> None:
    x, shift = normal(600, 700), normal(1, 700)
    outs = [np.zeros(700, np.float32), np.zeros(700, np.float32)]
    f4 = np.dtype(np.float32)
    steps = (
        harness.map_step(f4, (0, 1), lambda b, v, s: b.sub(v, s), "sub"),
        Step("sum", f4, (2,)),
        harness.map_step(f4, (2, 2), lambda b, v, w: b.mul(v, w), "mul"),
        Step("sum", f4, (4,)),
        harness.map_step(f4, (5, 1), lambda b, v, s: b.add(b.sqrt(v), s), "sqrt_add"),
    )
    operands = tuple(harness.operand_of(a, x.shape) for a in (x, shift))
    operands += tuple(harness.operand_of(a, x.shape, (0,)) for a in outs)
    runner = harness.Runner(Nest(x.shape, (0,), operands, 2, steps, (3, 6)), target)
    assert runner.kernel.strategy == "sheet"
    runner.run([x, shift, *outs])
    wide = x.astype(np.float64) - shift
    np.testing.assert_allclose(outs[0], wide.sum(0), rtol=1e-5, atol=1e-4)
    np.testing.assert_allclose(outs[1], np.sqrt((wide**2).sum(0)) + shift[0], rtol=1e-5)


@each_target
def test_clusters_over_wide_columns_are_peeled(target: Target) -> None:
    x, out = normal(520, 600), np.zeros((520, 600), np.float32)
    runner = harness.Runner(softmax_nest(x, out, 0), target)
    assert runner.kernel.strategy == "sheet, sheet, elementwise"
    runner.run([x, out])
    e = harness.power(x - x.max(0))
    np.testing.assert_allclose(out, e / e.sum(0), rtol=1e-5)


@each_target
def test_points_are_stored_while_columns_are_summed(target: Target) -> None:
    x, scale = normal(600, 700), normal(600, 1)
    product, total = np.zeros_like(x), np.zeros(700, np.float32)
    f4 = np.dtype(np.float32)
    steps = (
        harness.map_step(f4, (0, 1), lambda b, v, s: b.mul(v, s), "mul"),
        Step("sum", f4, (2,)),
    )
    operands = tuple(harness.operand_of(a, x.shape) for a in (x, scale, product))
    operands += (harness.operand_of(total, x.shape, (0,)),)
    runner = harness.Runner(Nest(x.shape, (0,), operands, 2, steps, (2, 3)), target)
    assert runner.kernel.strategy == "sheet"
    for split in (None, harness.odd_chunks):
        runner.run([x, scale, product, total], split)
        assert np.array_equal(product, x * scale)
        exact = (x * scale).sum(0, dtype=np.float64)
        np.testing.assert_allclose(total, exact, rtol=1e-5, atol=1e-5)
