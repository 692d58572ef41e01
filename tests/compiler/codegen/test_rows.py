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
    ("shape", "axis"), [((3, 17), 1), ((17, 40), 0), ((5, 3000), 1), ((4, 7, 33), 1), ((40, 10), 1)]
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
