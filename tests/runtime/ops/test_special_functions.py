"""`tl.special`, held to exact values, to its own derivatives and to SciPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest
import scipy.special
from tests.runtime.ops import special_fits

import tapeline as tl
from tapeline.runtime import series
from tapeline.runtime.op import get_op

Array = np.ndarray[Any, np.dtype[Any]]


def _ndtr(x: Any) -> Any:
    return mpmath.erfc(-x / mpmath.sqrt(2)) / 2


def _ndtri(p: Any) -> Any:
    """By Newton's method from SciPy's value."""
    y = mpmath.mpf(float(scipy.special.ndtri(float(p))))
    for _ in range(4):
        y -= (_ndtr(y) - p) * mpmath.exp(y * y / 2) * mpmath.sqrt(2 * mpmath.pi)
    return y


def _zeta(s: Any, q: Any) -> Any:
    """mpmath's is off by as much as if the result were 1."""
    with mpmath.workdps(120):
        return mpmath.zeta(s, q)


EXACT: dict[str, Callable[..., Any]] = {
    "erfc": mpmath.erfc,
    "erfcx": lambda x: mpmath.exp(x * x) * mpmath.erfc(x),
    "erfinv": mpmath.erfinv,
    "ndtr": _ndtr,
    "log_ndtr": lambda x: mpmath.log(_ndtr(x)) if x < 0 else mpmath.log1p(-_ndtr(-x)),
    "ndtri": _ndtri,
    "gammaln": lambda x: mpmath.re(mpmath.loggamma(x)),
    "gamma": mpmath.gamma,
    "digamma": mpmath.digamma,
    "i0": lambda x: mpmath.besseli(0, x),
    "i0e": lambda x: mpmath.exp(-abs(x)) * mpmath.besseli(0, x),
    "i1": lambda x: mpmath.besseli(1, x),
    "i1e": lambda x: mpmath.exp(-abs(x)) * mpmath.besseli(1, x),
    "entr": lambda x: -x * mpmath.log(x),
    "logit": lambda p: mpmath.log(p) - mpmath.log1p(-p),
    "log1mexp": lambda x: mpmath.log1p(-mpmath.exp(-x)) if x > 1 else mpmath.log(-mpmath.expm1(-x)),
}
LINE = ("erfc", "erfcx", "ndtr", "log_ndtr", "i0", "i0e", "i1", "i1e")
OPS = {"gamma": "gamma_function"}
UNIT = ("erfinv", "ndtri", "logit")


def points(name: str, rng: np.random.Generator) -> Array:
    """Arguments all over the domain, and close to where formulas change or roots are."""
    small = 10.0 ** rng.uniform(-20, 0, 60)
    if name in UNIT:
        near_1 = 1.0 - 10.0 ** rng.uniform(-15, -1, 40)
        return np.concatenate([rng.uniform(0, 1, 200), small, near_1, [0.25, 0.5, 0.75]])
    if name in LINE:
        edges = np.array([0.3, -0.5, 8.0])
        both = [rng.uniform(-8, 8, 200), rng.uniform(-25, 26, 100), small, -small, edges]
        return np.concatenate(both)
    parts = [rng.uniform(0, 10, 200), rng.uniform(1, 3, 100), rng.uniform(1.4, 1.5, 30), small]
    return np.concatenate([*parts, rng.uniform(10, 170, 60), [7.999999, 8.0]])


def errors(got: Array, exact: list[Any], floor: float = 0.0) -> Array:
    """Distances in units of the last place of the exact values, or of `floor` where that is
    more."""
    rounded = np.maximum(np.abs(np.array([float(x) for x in exact])), floor).astype(got.dtype)
    units = np.spacing(rounded).tolist()
    found = [
        float(abs(mpmath.mpf(float(a)) - b) / mpmath.mpf(u))
        for a, b, u in zip(got, exact, units, strict=True)
    ]
    return np.array(found)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", EXACT)
def test_values_are_within_the_stated_distance(
    name: str, dtype: str, rng: np.random.Generator
) -> None:
    x = points(name, rng).astype(dtype)
    x = x[np.isfinite(x) & ((x > 0) & (x < 1) if name in UNIT else x != 0)]
    if dtype == "float32":
        x = x[(x < 30) & (x > (-9 if name == "erfcx" else -30))]
    with mpmath.workdps(40):
        exact = [EXACT[name](mpmath.mpf(float(argument))) for argument in x]
        function = getattr(tl.special, name)
        for got in (function(x).numpy(), tl.function(function)(tl.asarray(x)).numpy()):
            assert got.dtype == dtype
            off = errors(got, exact)
            worst = int(np.argmax(off))
            assert off[worst] <= get_op(OPS.get(name, name)).ulp[dtype == "float64"], x[worst]


@pytest.mark.parametrize("name", ["gammaln", "gamma", "digamma"])
def test_values_below_0_are_exact_but_for_what_roots_lose(
    name: str, rng: np.random.Generator
) -> None:
    x = -np.concatenate([rng.uniform(0.01, 12, 300), 10.0 ** rng.uniform(-20, 0, 50), [1.5, 7.25]])
    with mpmath.workdps(40):
        exact = [EXACT[name](mpmath.mpf(float(argument))) for argument in x]
        off = errors(getattr(tl.special, name)(x).numpy(), exact, 0.0 if name == "gamma" else 4.0)
        assert np.max(off) <= 8.0, x[np.argmax(off)]


PAIRS: dict[str, Callable[..., Any]] = {
    "betaln": lambda a, b: mpmath.log(mpmath.beta(a, b)),
    "beta_function": mpmath.beta,
    "zeta": _zeta,
    "xlogy": lambda x, y: x * mpmath.log(y),
    "xlog1py": lambda x, y: x * mpmath.log1p(y),
    "rel_entr": lambda x, y: x * mpmath.log(x / y),
    "kl_div": lambda x, y: x * mpmath.log(x / y) - x + y,
}
FURTHER = {"beta_function": 80.0, "betaln": 64.0, "zeta": 24.0, "kl_div": 8.0}
"""Units in the last place of the result, or of 1, that functions of several terms may be off."""


@pytest.mark.parametrize("name", PAIRS)
def test_values_of_two_arguments_are_exact(name: str, rng: np.random.Generator) -> None:
    low, high = (1.01, 30.0) if name == "zeta" else (0.05, 40.0)
    x, y = rng.uniform(low, high, 150), np.exp(rng.uniform(-3, 4, 150))
    if name in ("betaln", "rel_entr"):
        x[:20], y[:20] = 10.0 ** rng.uniform(-8, 8, (2, 20))
    with mpmath.workdps(40):
        exact = [PAIRS[name](mpmath.mpf(a), mpmath.mpf(b)) for a, b in zip(x, y, strict=True)]
        function = getattr(tl.special, name.removesuffix("_function"))
        for got in (function(x, y), tl.function(function)(tl.asarray(x), tl.asarray(y))):
            off = errors(got.numpy(), exact, 1.0 if name in ("betaln", "kl_div") else 0.0)
            worst = int(np.argmax(off))
            assert off[worst] <= FURTHER.get(name, 4.0), (x[worst], y[worst])


@pytest.mark.parametrize("n", [0, 1, 2, 3, 8])
def test_polygamma_is_exact(n: int, rng: np.random.Generator) -> None:
    x = np.concatenate([rng.uniform(0, 12, 80), rng.uniform(-5, 0, 40), [1e-8, 1e4]])
    with mpmath.workdps(40):
        exact = [mpmath.polygamma(n, mpmath.mpf(float(argument))) for argument in x]
        off = errors(tl.special.polygamma(n, x).numpy(), exact, 4.0)
        assert np.max(off) <= 40.0, x[np.argmax(off)]


EDGES = np.array([0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 0.5, 1e300, -1e300, np.inf, -np.inf, np.nan])
ALIKE = (
    "erfc", "erfcx", "erfinv", "ndtr", "log_ndtr", "ndtri", "gamma", "digamma", "i0e", "i1e",
    "entr", "logit",
)  # fmt: skip


@pytest.mark.parametrize("mode", ["eager", "compiled"])
@pytest.mark.parametrize("name", ALIKE)
def test_edges_are_those_of_scipy(name: str, mode: str) -> None:
    function = getattr(tl.special, name)
    if mode == "compiled":
        function = tl.function(function)
    got = function(tl.asarray(EDGES)).numpy()
    want = getattr(scipy.special, name)(EDGES)
    np.testing.assert_allclose(got, want, rtol=1e-14)


def test_bessel_functions_grow_without_bound() -> None:
    x = np.array([0.0, 713.0, 1e300, np.inf, np.nan])
    for order, function in enumerate((tl.special.i0, tl.special.i1)):
        large = float(mpmath.besseli(order, 713))
        want = np.array([1.0 - order, large, np.inf, np.inf, np.nan])
        np.testing.assert_allclose(function(x).numpy(), want, rtol=1e-14)


def test_edges_of_gammaln_are_those_of_the_c_library() -> None:
    got = tl.special.gammaln(EDGES).numpy()
    inf = np.inf
    want = [inf, inf, 0, inf, 0, inf, 0.5723649429247001, inf, inf, inf, inf, np.nan]
    want[7] = scipy.special.gammaln(1e300)
    np.testing.assert_allclose(got, want, rtol=1e-14)


@pytest.mark.parametrize("mode", ["eager", "compiled"])
@pytest.mark.parametrize("name", ["xlogy", "xlog1py", "rel_entr", "kl_div"])
def test_edges_of_pairs_are_those_of_scipy(name: str, mode: str) -> None:
    values = np.array([0.0, 1.0, 0.5, -0.5, -1.0, 1e-100, 1e200, np.nan])
    x, y = (part.ravel() for part in np.meshgrid(values, values))
    function = getattr(tl.special, name)
    if mode == "compiled":
        function = tl.function(function)
    got = function(tl.asarray(x), tl.asarray(y)).numpy()
    np.testing.assert_allclose(got, getattr(scipy.special, name)(x, y), rtol=1e-14)


def test_digamma_of_a_negative_zero_is_on_its_own_side() -> None:
    np.testing.assert_array_equal(tl.special.digamma([0.0, -0.0]).numpy(), [-np.inf, np.inf])


@pytest.mark.parametrize("mode", ["eager", "compiled"])
def test_derivatives_of_gammaln_are_polygammas(mode: str) -> None:
    def third(x: tl.Tensor) -> tl.Tensor:
        order: Any = tl.special.gammaln
        for _ in range(3):
            order = tl.grad(order)
        result: tl.Tensor = order(x)
        return result

    function = tl.function(third) if mode == "compiled" else third
    for x in (0.7, 1.46, 5.5, 20.0, -2.3):
        got = float(function(tl.asarray(x)))
        np.testing.assert_allclose(got, float(mpmath.polygamma(2, x)), rtol=1e-12)


def test_second_derivatives_at_0_are_exact() -> None:
    for name, want in {"i0": 0.5, "i1": 0.0, "sinc": -(np.pi**2) / 3, "erfinv": 0.0}.items():
        second = tl.grad(tl.grad(getattr(tl.special, name)))(tl.asarray(0.0))
        np.testing.assert_allclose(float(second), want, atol=1e-14, err_msg=name)


def test_xlogy_has_gradients_where_it_is_0() -> None:
    with tl.GradientTape() as tape:
        x, y = tl.asarray([0.0, 0.0, 2.0]), tl.asarray([0.0, 3.0, 4.0])
        tape.watch([x, y])
        result = tl.special.xlogy(x, y)
    by_x, by_y = tape.gradient(result, [x, y])
    np.testing.assert_allclose(by_x.numpy(), [0.0, np.log(3.0), np.log(4.0)], rtol=1e-15)
    np.testing.assert_array_equal(by_y.numpy(), [0.0, 0.0, 0.5])


def test_functions_map_over_examples(rng: np.random.Generator) -> None:
    x, y = rng.uniform(0.5, 4, (3, 4)), rng.uniform(0.5, 4, 4)
    got = tl.vmap(lambda row: tl.special.betaln(row, y) + tl.special.gammaln(row))(tl.asarray(x))
    want = scipy.special.betaln(x, y) + scipy.special.gammaln(x)
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize("n", [-1, 1.5, True, "1"])
def test_polygamma_rejects_what_is_no_order(n: Any) -> None:
    with pytest.raises(tl.runtime.errors.ArgumentError, match="polygamma: n must be an int"):
        tl.special.polygamma(n, 1.0)


@pytest.mark.parametrize("name", ["gamma", "erfinv", "i0"])
def test_fits_can_be_repeated(name: str) -> None:
    np.testing.assert_array_equal(special_fits.fit(name), series.POLYNOMIALS[name])


def test_root_of_digamma_is_that_of_the_table() -> None:
    assert special_fits.digamma_root() == series.DIGAMMA_ROOT


@pytest.mark.parametrize("name", ["gammaln", "psi", "expit", "ndtr", "erf"])
def test_ufuncs_of_scipy_take_tensors(name: str) -> None:
    function = getattr(scipy.special, name)
    x = tl.asarray([0.5, 1.25, 3.0])
    want = function(x.numpy())
    for found in (function(x), tl.function(lambda t: function(t))(x)):
        assert type(found) is tl.Tensor
        np.testing.assert_allclose(found.numpy(), want, rtol=1e-14)
    slope = tl.grad(lambda t: tl.sum(function(t)))(x).numpy()
    difference = (function(x.numpy() + 1e-5) - function(x.numpy() - 1e-5)) / 2e-5
    np.testing.assert_allclose(slope, difference, rtol=1e-7)


def test_ufuncs_of_scipy_without_a_counterpart_say_so() -> None:
    with pytest.raises(TypeError, match="jv has no counterpart"):
        scipy.special.jv(1.0, tl.asarray([1.0]))


@pytest.mark.parametrize("d", [1, 2, 5])
def test_multigammaln_is_that_of_scipy(d: int) -> None:
    x = np.array([3.0, 4.5, 20.0])
    got = tl.function(lambda a: tl.special.multigammaln(a, d))(tl.asarray(x)).numpy()
    want = [scipy.special.multigammaln(float(a), d) for a in x]
    np.testing.assert_allclose(got, want, rtol=1e-14)
    with pytest.raises(ValueError, match="multigammaln: d must be an int"):
        tl.special.multigammaln(x, 0)
