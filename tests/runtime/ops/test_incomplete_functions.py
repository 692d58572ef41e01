"""The incomplete gamma and beta functions, held to mpmath and to differences of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest
import scipy.special

import tapeline as tl


def _gammainc(a: Any, x: Any) -> Any:
    return mpmath.gammainc(a, 0, x, regularized=True)


def _gammaincc(a: Any, x: Any) -> Any:
    return mpmath.gammainc(a, x, mpmath.inf, regularized=True)


def _betainc(a: Any, b: Any, x: Any) -> Any:
    return mpmath.betainc(a, b, 0, x, regularized=True)


EXACT: dict[str, Callable[..., Any]] = {
    "gammainc": _gammainc,
    "gammaincc": _gammaincc,
    "betainc": _betainc,
}


def _points(name: str, count: int, largest: float) -> list[Any]:
    """Parameters of all sizes, and places where the functions neither vanish nor are 1."""
    rng = np.random.default_rng(5)
    a = 10.0 ** rng.uniform(-2, np.log10(largest), count)
    if name != "betainc":
        return [a, a * (1 + rng.normal(size=count) / np.sqrt(a)).clip(0.02)]
    b = 10.0 ** rng.uniform(-2, np.log10(largest), count)
    mean = a / (a + b)
    spread = np.sqrt(mean * (1 - mean) / (a + b + 1))
    return [a, b, np.clip(mean + rng.normal(size=count) * spread, 1e-6, 1 - 1e-6)]


@pytest.mark.parametrize("name", EXACT)
def test_values_are_exact_to_the_last_digits(name: str) -> None:
    points = _points(name, 60, 1000.0)
    found = getattr(tl.special, name)(*points).numpy()
    with mpmath.workdps(30):
        exact = [float(EXACT[name](*map(float, row))) for row in zip(*points, strict=True)]
    np.testing.assert_allclose(found, exact, rtol=5e-13)
    narrow = [x.astype(np.float32) for x in points]
    single = getattr(tl.special, name)(*narrow)
    assert single.dtype == np.float32
    wide = getattr(tl.special, name)(*[x.astype(np.float64) for x in narrow]).numpy()
    np.testing.assert_array_equal(single.numpy(), wide.astype(np.float32))


def test_small_parameters_keep_their_digits_in_the_complement() -> None:
    a = np.array([1e-12, 1e-8, 1e-3, 0.19, 0.21, 0.9])
    x = np.array([0.5, 1e-5, 1.0, 0.3, 0.7, 1.05])
    exact = [float(_gammaincc(mpmath.mpf(p), mpmath.mpf(q))) for p, q in zip(a, x, strict=True)]
    np.testing.assert_allclose(tl.special.gammaincc(a, x).numpy(), exact, rtol=1e-14)


@pytest.mark.parametrize("name", EXACT)
def test_gradients_are_derivatives_of_mpmaths(name: str) -> None:
    points = _points(name, 8, 60.0)
    places = tuple(range(len(points)))
    function = getattr(tl.special, name)
    eager = tl.grad(lambda *args: tl.sum(function(*args)), places)
    for gradient in (eager, tl.function(eager)):
        found = [one.numpy() for one in gradient(*map(tl.asarray, points))]
        for row in range(8):
            given = [float(x[row]) for x in points]
            for place in places:
                with mpmath.workdps(30):
                    order = [int(place == k) for k in places]
                    exact = float(mpmath.diff(EXACT[name], given, order))
                assert found[place][row] == pytest.approx(exact, rel=1e-9, abs=1e-13)


def test_second_derivatives_by_place() -> None:
    def slope(a: Any, x: Any) -> Any:
        return tl.grad(lambda x: tl.sum(tl.special.gammainc(a, x)))(x)

    def both(a: Any, x: Any) -> Any:
        return tl.sum(slope(a, x))

    a, x = tl.asarray([0.7, 4.0]), tl.asarray([0.4, 6.0])
    by_a, by_x = tl.grad(both, (0, 1))(a, x)
    density = np.exp(-x.numpy()) * x.numpy() ** (a.numpy() - 1) / scipy.special.gamma(a.numpy())
    factor = np.log(x.numpy()) - scipy.special.digamma(a.numpy())
    np.testing.assert_allclose(by_a.numpy(), density * factor, rtol=1e-12)
    np.testing.assert_allclose(
        by_x.numpy(), density * ((a.numpy() - 1) / x.numpy() - 1), rtol=1e-12
    )


def test_second_derivatives_by_parameters() -> None:
    def exact(order: tuple[int, int]) -> float:
        with mpmath.workdps(40):
            return float(mpmath.diff(lambda a, b: _betainc(a, b, 0.3), (1.5, 4.0), order))

    hessian = tl.hessian(lambda p: tl.special.betainc(p[0], p[1], 0.3))(tl.asarray([1.5, 4.0]))
    wanted = [[exact((2, 0)), exact((1, 1))], [exact((1, 1)), exact((0, 2))]]
    np.testing.assert_allclose(hessian.numpy(), wanted, rtol=1e-8)
    curve = tl.grad(tl.grad(lambda a: tl.special.gammainc(a, 2.0)))(tl.asarray(1.5))
    with mpmath.workdps(40):
        second = float(mpmath.diff(lambda a: _gammainc(a, 2.0), 1.5, 2))
    assert curve.item() == pytest.approx(second, rel=1e-8)


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("gammainc", ([1.0, 1.0, 1.0, -1.0, np.nan, np.inf], [0.0, np.inf, -1.0, 1.0, 1.0, 2.0])),
        ("gammaincc", ([1.0, 1.0, 1.0, -1.0, np.nan, np.inf], [0.0, np.inf, -1.0, 1.0, 1.0, 2.0])),
        ("betainc", ([2.0, 2.0, 2.0, -1.0], 3.0, [0.0, 1.0, 1.5, 0.5])),
    ],
)
def test_ends_and_beyond(name: str, args: tuple[Any, ...]) -> None:
    found = getattr(tl.special, name)(*args).numpy()
    np.testing.assert_allclose(found, getattr(scipy.special, name)(*args), rtol=1e-14)


def test_scipys_functions_of_tensors_give_tensors() -> None:
    found = scipy.special.gammainc(tl.asarray([2.0]), 1.0)
    assert isinstance(found, tl.Tensor)
    assert found.item() == pytest.approx(0.26424111765711533, rel=1e-14)
