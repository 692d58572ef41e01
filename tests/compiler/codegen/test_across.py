"""Clusters over short rows, with rows in lanes, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from tests.compiler.codegen import harness
from tests.compiler.codegen.test_rows import softmax_nest

from tapeline.compiler.codegen.nest import Nest, Step
from tapeline.compiler.codegen.target import Target

each_target = pytest.mark.parametrize("target", harness.TARGETS, ids=lambda t: t.cpu)


@each_target
@pytest.mark.parametrize("shape", [(257, 2), (300, 8), (401, 10), (3, 256, 33), (256, 48)])
def test_softmax_of_short_rows(shape: tuple[int, ...], target: Target) -> None:
    x = harness.guarded(np.random.default_rng(0).standard_normal(shape).astype(np.float32))
    out = harness.guarded(np.zeros(shape, np.float32))
    runner = harness.Runner(softmax_nest(x, out, len(shape) - 1), target)
    assert runner.kernel.strategy == "across"
    runner.run([x, out])
    e = harness.power(x - x.max(-1, keepdims=True))
    np.testing.assert_allclose(out, e / e.sum(-1, keepdims=True), rtol=1e-5)
    first = out.copy()
    runner.run([x, out], harness.odd_chunks)
    assert np.array_equal(first, out)


@each_target
def test_one_hot_comparison_sees_positions(target: Target) -> None:
    rng = np.random.default_rng(1)
    x = harness.guarded(rng.standard_normal((300, 10)))
    labels = harness.guarded(rng.integers(0, 10, (300, 1)))
    out = np.zeros(300)
    steps = (
        Step("index", np.dtype(np.int64), axis=1),
        harness.map_step(bool, (2, 1), lambda b, i, t: b.compare("eq", i, t), "eq"),
        harness.map_step(np.float64, (3, 0), lambda b, c, v: b.select(c, v, b.const(0, v)), "pick"),
        Step("sum", np.dtype(np.float64), (4,)),
    )
    operands = tuple(harness.operand_of(a, x.shape) for a in (x, labels))
    operands += (harness.operand_of(out, x.shape, (1,)),)
    runner = harness.Runner(Nest(x.shape, (1,), operands, 2, steps, (5,)), target)
    runner.run([x, labels, out])
    assert runner.kernel.strategy == "across"
    assert np.array_equal(out, np.take_along_axis(x, labels, 1)[:, 0])
