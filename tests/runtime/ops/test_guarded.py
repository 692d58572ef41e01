"""No NaN comes out of a branch that was not taken, or out of a norm at the origin."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapeline as tl
from tapeline.runtime.dispatch import GUARDING
from tapeline.runtime.ops.guarded import GUARDED_DIVIDE, GUARDED_MULTIPLY, GUARDED_PRODUCT

Wrapper = Callable[[Callable[..., Any]], Callable[..., Any]]


def eager(f: Callable[..., Any]) -> Callable[..., Any]:
    return f


MODES = pytest.mark.parametrize("mode", [eager, tl.function], ids=["eager", "compiled"])

MASKED: dict[str, tuple[Callable[..., Any], list[float], list[float]]] = {
    "sqrt": (lambda x: tl.where(x > 0, tl.sqrt(x), 0.0), [0.0, -1.0, 4.0], [0.0, 0.0, 0.25]),
    "sinc": (lambda x: tl.where(x != 0, tl.sin(x) / x, 1.0), [0.0], [0.0]),
    "log": (lambda x: tl.where(x > 0, tl.log(x), x), [0.0, -2.0, 2.0], [1.0, 1.0, 0.5]),
    "exp overflow": (lambda x: tl.where(x < 9, tl.exp(x), 0.0), [1000.0, 0.0], [0.0, 1.0]),
    "times infinity": (lambda x: tl.where(x > 0, x * 0.0, x * np.inf), [1.0], [0.0]),
    "power": (lambda x: tl.where(x > 0, x**-0.5, 0.0), [0.0, 1.0], [0.0, -0.5]),
    "reciprocal": (lambda x: tl.where(x != 0, 1.0 / x, 0.0), [0.0, 2.0], [0.0, -0.25]),
    "rsqrt": (lambda x: tl.where(x > 0, tl.rsqrt(x), 0.0), [0.0, 1.0], [0.0, -0.5]),
    "asin": (lambda x: tl.where(tl.abs(x) < 1, tl.asin(x), x), [1.0, 2.0, 0.0], [1.0, 1.0, 1.0]),
    "acosh": (lambda x: tl.where(x > 1, tl.acosh(x), 0.0), [1.0, 0.5], [0.0, 0.0]),
    "atanh": (lambda x: tl.where(x < 1, tl.atanh(x), 0.0), [1.0, 0.0], [0.0, 1.0]),
    "missing data": (lambda x: tl.where(x == x, x * x, 0.0), [np.nan, 3.0], [0.0, 6.0]),
    "clip": (lambda x: tl.clip(tl.log(x), -1.0, 1.0), [0.0, 1.0, 100.0], [0.0, 1.0, 0.0]),
    "maximum": (lambda x: tl.maximum(tl.log(x), -1.0), [0.0, 1.0], [0.0, 1.0]),
    "taken elements": (lambda x: tl.take(tl.sqrt(x), [1]), [0.0, 4.0], [0.0, 0.25]),
    "sliced elements": (lambda x: tl.sqrt(x)[1:], [0.0, 4.0], [0.0, 0.25]),
    "largest": (lambda x: tl.max(tl.sqrt(x)), [0.0, 4.0], [0.0, 0.25]),
    "sorted": (lambda x: tl.sort(tl.sqrt(x))[1], [0.0, 4.0], [0.0, 0.25]),
    "norm": (lambda x: tl.sqrt(tl.sum(x * x)), [0.0, 0.0], [0.0, 0.0]),
    "norm by square": (lambda x: tl.sqrt(tl.sum(tl.square(x))), [0.0, 0.0], [0.0, 0.0]),
    "norm by power": (lambda x: tl.sum(x**2) ** 0.5, [0.0, 0.0], [0.0, 0.0]),
    "squared norm": (lambda x: tl.sqrt(tl.sum(x * x)) ** 2, [0.0, 0.0], [0.0, 0.0]),
    "standard deviation": (lambda x: tl.std(x), [3.0, 3.0], [0.0, 0.0]),
    "hypot": (lambda x: tl.hypot(x[0], x[1]), [0.0, 0.0], [0.0, 0.0]),
    "atan2": (lambda x: tl.atan2(x[0], x[1]), [0.0, 0.0], [0.0, 0.0]),
}  # fmt: skip


@MODES
@pytest.mark.parametrize("name", MASKED)
def test_gradient_is_that_of_the_branch_taken(mode: Wrapper, name: str) -> None:
    f, x, want = MASKED[name]
    with np.errstate(all="ignore"):
        found = mode(tl.grad(lambda x: tl.sum(f(x))))(tl.asarray(x))
        across = tl.grad(mode(lambda x: tl.sum(f(x))))(tl.asarray(x))
    np.testing.assert_allclose(found.numpy(), want, rtol=1e-12)
    np.testing.assert_allclose(across.numpy(), want, rtol=1e-12)
    assert GUARDING == [0]


@MODES
def test_second_derivative_is_that_of_the_branch_taken(mode: Wrapper) -> None:
    x = tl.asarray([0.0, -1.0, 4.0])
    with np.errstate(all="ignore"):
        f = mode(lambda x: tl.sum(tl.where(x > 0, tl.sqrt(x), x * x)))
        found = mode(tl.hvp)(f, [x], [tl.ones(3)])
        found2 = tl.jvp(tl.grad(f), [x], [tl.ones(3)])[1]
    np.testing.assert_allclose(found.numpy(), [2.0, 2.0, -0.25 / 8], rtol=1e-12)
    np.testing.assert_allclose(found2.numpy(), [2.0, 2.0, -0.25 / 8], rtol=1e-12)


@MODES
def test_second_derivative_where_the_first_is_zero(mode: Wrapper) -> None:
    f = mode(lambda x: (tl.sqrt(x) - 2.0) ** 2)  # least at 4, where its slope is 0
    assert mode(tl.grad(tl.grad(f)))(tl.asarray(4.0)).item() == pytest.approx(0.125)


@MODES
def test_singular_slope_that_is_asked_for_stays(mode: Wrapper) -> None:
    with np.errstate(all="ignore"):
        assert mode(tl.grad(tl.sqrt))(tl.asarray(0.0)).item() == np.inf
        assert mode(tl.grad(tl.log))(tl.asarray(0.0)).item() == np.inf
        assert np.isnan(mode(tl.grad(lambda x: x * x))(tl.asarray(np.nan)).item())
        assert mode(lambda x: tl.jvp(tl.sqrt, [x], [1.0])[1])(tl.asarray(0.0)).item() == np.inf


@MODES
def test_zeros_win_in_a_compiled_part_whose_mask_is_outside(mode: Wrapper) -> None:
    x = tl.asarray([1000.0, 0.0])
    power = tl.function(tl.exp)
    whole = mode(lambda x: tl.sum(tl.where(x < 9, power(x), 0.0)))
    with np.errstate(all="ignore"):
        assert tl.grad(whole)(x).numpy().tolist() == [0.0, 1.0]
        assert mode(tl.grad(whole))(x).numpy().tolist() == [0.0, 1.0]
        root = tl.function(tl.sqrt)
        norm = mode(lambda x: root(tl.sum(x * x)))
        assert tl.grad(norm)(tl.zeros(2)).numpy().tolist() == [0.0, 0.0]


@MODES
def test_zeros_win_in_a_loop(mode: Wrapper) -> None:
    def f(x: Any) -> Any:
        def turn(i: Any, y: Any) -> Any:
            return i + 1, tl.where(y < 9, tl.exp(y), 0.0)

        return tl.sum(tl.while_loop(lambda i, y: i < 2, turn, (0, x))[1])

    x = tl.asarray([1000.0, 0.0, 8.0])
    with np.errstate(all="ignore"):
        found = mode(tl.grad(f))(x).numpy()
        across = tl.grad(mode(f))(x).numpy()
    np.testing.assert_allclose(found, [0.0, np.e, 0.0])
    np.testing.assert_allclose(across, [0.0, np.e, 0.0])


def test_guard_costs_nothing_where_nothing_is_masked() -> None:
    gradient = tl.function(tl.grad(lambda x: tl.sum(tl.tanh(x * x) * x)))
    x = tl.asarray([1.0, 2.0])
    names = [op.name for op in gradient.get_concrete_function(x).optimized_graph.ops]
    assert not [name for name in names if name.startswith("guarded")]


def test_guard_can_be_turned_off() -> None:
    x = tl.asarray([0.0, 4.0])
    assert tl.config.guard_gradients(False)
    try:
        with np.errstate(all="ignore"):
            found = tl.grad(lambda x: tl.sum(tl.where(x > 0, tl.sqrt(x), 0.0)))(x)
            f = tl.function(lambda x: tl.sum(tl.where(x > 0, tl.sqrt(x), 0.0)))
            across = tl.function(tl.grad(f))(x)
    finally:
        assert not tl.config.guard_gradients(True)
    assert np.isnan(found.numpy()[0])
    assert np.isnan(across.numpy()[0])


def test_kernels_say_when_a_zero_wins() -> None:
    ct = np.array([0.0, 0.0, np.inf, np.nan, 2.0, np.nan])
    factor = np.array([np.inf, np.nan, 0.0, 0.0, 3.0, 1.0])
    np.testing.assert_array_equal(
        GUARDED_MULTIPLY.kernel(ct, factor), [0.0, 0.0, 0.0, np.nan, 6.0, np.nan]
    )
    np.testing.assert_array_equal(
        GUARDED_PRODUCT.kernel(ct, factor), [0.0, 0.0, 0.0, 0.0, 6.0, np.nan]
    )
    divisor = np.array([0.0, np.nan, np.inf, 0.0, 4.0, 1.0])
    np.testing.assert_array_equal(
        GUARDED_DIVIDE.kernel(ct, divisor), [0.0, 0.0, np.nan, np.nan, 0.5, np.nan]
    )


@MODES
def test_zeros_win_for_single_numbers_and_along_directions(mode: Wrapper) -> None:
    f = mode(lambda x: tl.where(x > 0, tl.sqrt(x), 0.0))
    sinc = mode(lambda x: tl.where(x != 0, tl.sin(x) / x, 1.0))
    norm = mode(lambda x: tl.sqrt(tl.sum(x * x)))
    zero, zeros = tl.asarray(0.0), tl.zeros(2)
    with np.errstate(all="ignore"):
        assert tl.grad(f)(zero).item() == 0.0
        assert tl.grad(f)(tl.asarray(-1.0)).item() == 0.0
        assert tl.grad(sinc)(zero).item() == 0.0
        assert tl.grad(mode(tl.std))(tl.asarray(3.5)).item() == 0.0
        for g, x in ((f, zero), (sinc, zero), (norm, zeros), (mode(tl.std), zeros)):
            assert tl.jvp(g, [x], [tl.ones_like(x)])[1].item() == 0.0


@MODES
@pytest.mark.parametrize("name", ["erf", "log", "sqrt", "asin", "atan", "log1p", "tanh"])
def test_zeros_win_in_third_derivatives(name: str, mode: Wrapper) -> None:
    x = np.array([0.3, np.inf, -np.inf, np.nan, 0.7])
    function = getattr(tl, name)

    def thrice(f: Callable[..., Any]) -> Callable[..., Any]:
        for _ in range(3):
            f = tl.grad(lambda x, f=f: tl.sum(f(x)))
        return f

    want = thrice(function)(tl.asarray(x[[0, 4]])).numpy()
    masked = mode(lambda x: tl.where(tl.isfinite(x), function(x), 0.0))
    with np.errstate(all="ignore"):
        for found in (thrice(masked)(tl.asarray(x)), mode(thrice(masked))(tl.asarray(x))):
            np.testing.assert_allclose(found.numpy()[[0, 4]], want, rtol=1e-12)
            assert not found.numpy()[1:4].any()
