"""`tl.function(fastmath=True)` fuses and regroups, and nothing else does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapeline as tl


def chained(x: Any, y: Any) -> Any:
    return x * y + x * 3.0 - y


def looped(x: Any) -> Any:
    for _ in tl.range(40):
        x = x * 0.75 + tl.sin(x) * 0.5
    return x


@pytest.mark.parametrize("shape", [(), (5,), (1000,)])
def test_products_are_added_unrounded_only_where_it_is_allowed(shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(1)
    x, y = tl.asarray(rng.standard_normal(shape)), tl.asarray(rng.standard_normal(shape))
    strict, fast = tl.function(chained), tl.function(chained, fastmath=True)
    np.testing.assert_array_equal(strict(x, y).numpy(), chained(x, y).numpy())
    np.testing.assert_allclose(fast(x, y).numpy(), chained(x, y).numpy(), rtol=1e-12, atol=1e-13)
    text = fast.get_concrete_function(x, y).llvm_ir()
    assert "contract" in text
    assert "contract" not in strict.get_concrete_function(x, y).llvm_ir()


def test_math_functions_are_as_accurate_as_ever() -> None:
    x = tl.asarray(np.linspace(-20, 20, 4001))
    for name in ("exp", "sin", "tanh", "log1p", "erf", "log"):
        op = getattr(tl, name)
        strict = tl.function(op)(abs(x)).numpy()
        np.testing.assert_array_equal(tl.function(op, fastmath=True)(abs(x)).numpy(), strict)


def test_totals_keep_their_error_compensation() -> None:
    x = np.full(1 << 20, 0.1)
    x[0] = 1e8
    found = tl.function(tl.sum, fastmath=True)(tl.asarray(x))
    np.testing.assert_array_equal(found.numpy(), tl.function(tl.sum)(tl.asarray(x)).numpy())


def test_gradients_of_loops_and_nan_and_infinity() -> None:
    def slope(x: Any) -> Any:
        with tl.GradientTape() as tape:
            tape.watch(x)
            total = tl.sum(looped(x))
        return tape.gradient(total, x)

    x = tl.asarray(np.linspace(-1, 1, 11))
    fast = tl.function(slope, fastmath=True)
    np.testing.assert_allclose(fast(x).numpy(), slope(x).numpy(), rtol=1e-9)
    with tl.GradientTape() as tape:
        tape.watch(x)
        total = tl.sum(tl.function(looped, fastmath=True)(x))
    np.testing.assert_allclose(tape.gradient(total, x).numpy(), slope(x).numpy(), rtol=1e-9)
    odd = tl.asarray(np.array([np.nan, np.inf, -np.inf, 0.0, -0.0]))
    found = tl.function(lambda v: v * 2.0 + v, fastmath=True)(odd).numpy()
    np.testing.assert_array_equal(found, (odd * 2.0 + odd).numpy())
    assert np.signbit(found[4])
