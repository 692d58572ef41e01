"""Functions in basic arithmetic: near the exact values, and the same bits when compiled."""

from __future__ import annotations

from typing import Any

import mpmath
import numpy as np
import pytest

import tapeline as tl
from tapeline.runtime.dispatch import bind
from tapeline.runtime.errors import DTypeError
from tapeline.runtime.op import get_op
from tapeline.runtime.tensor import wrap

EXACT: dict[str, Any] = {
    "exact_log": mpmath.log,
    "cosine_of_turns": lambda x: mpmath.cos(2 * mpmath.pi * x),
    "sine_of_turns": lambda x: mpmath.sin(2 * mpmath.pi * x),
}
EDGES = [2.0**-53, 2.0**-54, 1.0, 0.5, 0.25, 0.125, 0.75, 1 - 2.0**-53, 0.7071067811865476, 37.0]


@pytest.mark.parametrize("name", EXACT)
def test_values_are_near_the_exact_ones(name: str) -> None:
    rng = np.random.default_rng(0)
    x = np.concatenate([1.0 - rng.random(3000), EDGES[:-1], [1.0 - 2.0**-k for k in range(2, 53)]])
    x = np.append(x, EDGES[-1]) if name == "exact_log" else x
    got = get_op(name).kernel(x)
    with mpmath.workprec(120):
        for value, point in zip(got, x, strict=True):
            want = EXACT[name](mpmath.mpf(point))
            scale = abs(float(want)) if name == "exact_log" else 1.0
            assert abs(float(mpmath.mpf(value) - want)) <= 2 * np.spacing(scale), point


@pytest.mark.parametrize("name", EXACT)
def test_compiled_code_takes_the_same_steps(name: str) -> None:
    op = get_op(name)
    x = wrap(1.0 - np.random.default_rng(1).random(100_003))
    found = tl.function(lambda x: bind(op, (x,)))(x)
    np.testing.assert_array_equal(found.numpy(), op.kernel(x.numpy()))


def test_other_dtypes_are_refused() -> None:
    with pytest.raises(DTypeError, match="expected float64"):
        tl.function(lambda x: bind(get_op("exact_log"), (x,)))(tl.ones(3, dtype="float32"))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ["uniform", "normal", "exponential", "gumbel"])
def test_long_draws_have_the_same_bits_eagerly_and_compiled(name: str, dtype: str) -> None:
    draw = getattr(tl.random, name)
    for shape in (100_003, (7, 3), ()):
        run = tl.function(lambda key, shape=shape: draw(key, shape, dtype=dtype))
        key = tl.random.key(11)
        np.testing.assert_array_equal(run(key).numpy(), draw(key, shape, dtype=dtype).numpy())
