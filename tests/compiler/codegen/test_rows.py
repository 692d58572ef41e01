"""Row-wise and lane-wise kernels against NumPy: several passes, any layout, any chunks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.compiler.codegen import harness

from tapeline.compiler.codegen.nest import Nest, Step
from tapeline.compiler.codegen.target import Target

Array = np.ndarray[Any, Any]


def softmax_nest(x: Array, out: Array, axis: int) -> Nest:
    f4 = x.dtype
    steps = (
        Step("max", f4, (0,)),
        harness.map_step(f4, (0, 1), lambda b, p, m: harness.power_emit(b, b.sub(p, m)), "power"),
        Step("sum", f4, (2,)),
        harness.map_step(f4, (2, 3), lambda b, e, s: b.div(e, s), "div"),
    )
    operands = (harness.operand_of(x, x.shape), harness.operand_of(out, x.shape))
    return Nest(x.shape, (axis,), operands, 1, steps, (4,))


@pytest.mark.parametrize("target", harness.TARGETS, ids=lambda t: t.cpu)
@pytest.mark.parametrize(
    ("shape", "axis"),
    [((3, 17), 1), ((17, 40), 0), ((5, 3000), 1), ((4, 7, 33), 1), ((40, 10), 1), ((90, 1000), 1)],
)
def test_softmax_agrees_with_numpy(shape: tuple[int, ...], axis: int, target: Target) -> None:
    rng = np.random.default_rng(0)
    x = harness.guarded(rng.standard_normal(shape).astype(np.float32))
    out = harness.guarded(np.zeros(shape, np.float32))
    runner = harness.Runner(softmax_nest(x, out, axis), target)
    runner.run([x, out])
    e = harness.power(x - x.max(axis, keepdims=True))
    np.testing.assert_allclose(out, e / e.sum(axis, keepdims=True), rtol=1e-5, atol=1e-7)
    first = out.copy()
    runner.run([x, out], harness.odd_chunks)
    assert (first == out).all()


@pytest.mark.parametrize("shape", [(5, 40), (40, 5)])
def test_a_row_input_is_read_before_an_output_overwrites_it(shape: tuple[int, int]) -> None:
    rng = np.random.default_rng(2)
    x, scale, other = rng.random(shape), rng.random(shape[0]), np.zeros(shape[0])
    f8 = np.dtype(np.float64)
    steps = (
        Step("sum", f8, (0,)),
        harness.map_step(f8, (1, 1), lambda b, s, t: b.mul(s, t), "square"),
    )
    rows = harness.operand_of(scale, shape, (1,))
    operands = (harness.operand_of(x, shape), rows, rows, rows)
    nest = Nest(shape, (1,), operands, 2, steps, (2, 3), ((1, 2),))
    squared = scale**2
    harness.Runner(nest).run([x, scale, scale, other])
    np.testing.assert_allclose(scale, x.sum(1))
    np.testing.assert_allclose(other, squared)
