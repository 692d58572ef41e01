"""Functions of Python's `math` in a traced function: the values of Python, also where the argument
is a tensor, and gradients."""

import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapeline as tl

ONE_ARGUMENT = {
    math.acos: 0.3, math.acosh: 1.7, math.asin: 0.3, math.asinh: -0.7, math.atan: 2.0,
    math.atanh: 0.3, math.cbrt: 5.0, math.cos: 2.0, math.cosh: 0.7, math.degrees: 0.3,
    math.erf: 0.4, math.erfc: 0.4, math.gamma: 3.7, math.lgamma: 3.7,
    math.exp: 0.7, math.exp2: 0.7, math.expm1: 0.01, math.fabs: -2.5,
    math.log: 0.7, math.log10: 0.7, math.log1p: 0.01, math.log2: 0.7, math.radians: 30.0,
    math.sin: 2.0, math.sinh: 0.7, math.sqrt: 2.0, math.tan: 0.4, math.tanh: 0.3,
}  # fmt: skip


@pytest.mark.parametrize("function", ONE_ARGUMENT, ids=lambda f: f.__name__)
def test_is_python_s_function_of_a_tensor_of_one_element(function: Callable[[Any], Any]) -> None:
    value = ONE_ARGUMENT[function]
    compiled = tl.function(lambda x: function(x))
    for given in (value, np.array([value])):
        np.testing.assert_allclose(compiled(tl.asarray(given)), function(value), rtol=4e-16)
    x = tl.asarray(value)
    with tl.GradientTape() as tape:
        tape.watch(x)
        y = compiled(x)
    step = 1e-6
    slope = (function(value + step) - function(value - step)) / (2 * step)
    np.testing.assert_allclose(tape.gradient(y, x), slope, rtol=1e-7)


@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        (math.atan2, (1.0, -2.0)), (math.copysign, (3.0, -0.0)), (math.fmod, (-7.5, 2.0)),
        (math.hypot, (3.0, 4.0)), (math.hypot, (1.0, 2.0, 2.0)), (math.log, (8.0, 2.0)),
        (math.pow, (2.0, 0.5)), (math.nextafter, (1.0, 2.0)),
    ],
)  # fmt: skip
def test_takes_a_tensor_for_any_argument(
    function: Callable[..., Any], arguments: tuple[float, ...]
) -> None:
    compiled = tl.function(lambda *x: function(*x))
    for position in range(len(arguments)):
        given: list[Any] = list(arguments)
        given[position] = tl.asarray(given[position])
        np.testing.assert_allclose(compiled(*given), function(*arguments), rtol=4e-16)


@pytest.mark.parametrize("function", [math.floor, math.ceil, math.trunc], ids=lambda f: f.__name__)
@pytest.mark.parametrize("value", [2.5, -2.5, 3.0])
def test_whole_numbers_index_and_promote_like_ints(
    function: Callable[[float], int], value: float
) -> None:
    rows = np.arange(20.0, dtype=np.float32)

    @tl.function
    def pick(x: Any, rows: Any) -> Any:
        k = function(x)
        return rows[k], rows[:2] * k

    picked, scaled = pick(tl.asarray(value), rows)
    assert picked.item() == rows[function(value)]
    assert scaled.dtype == np.float32


@pytest.mark.parametrize("value", [0.0, math.inf, -math.inf, math.nan])
@pytest.mark.parametrize("function", [math.isnan, math.isinf, math.isfinite])
def test_questions_decide_branches(function: Callable[[Any], bool], value: float) -> None:
    @tl.function
    def f(x: Any) -> Any:
        return x * 0 + 1 if function(x) else x * 0 + 2

    np.testing.assert_array_equal(np.isnan(f(tl.asarray(value))), not math.isfinite(value))
    assert bool(tl.function(lambda x: function(x))(tl.asarray(value))) == function(value)


def test_common_divisors_and_multiples() -> None:
    compiled: Any = tl.function(
        lambda a, b: (math.gcd(a, b), math.lcm(a, b), math.gcd(a), math.gcd(a, 6, b))
    )
    for a, b in ((12, 18), (-12, 18), (0, 5), (7, 1)):
        wanted = math.gcd(a, b), math.lcm(a, b), math.gcd(a), math.gcd(a, 6, b)
        assert [y.item() for y in compiled(tl.asarray(a), tl.asarray(b))] == list(wanted)
    with pytest.raises(TypeError, match=r"math\.gcd: expected ints, got a tensor of float64"):
        compiled(tl.asarray(1.0), tl.asarray(2))


def test_sums_and_products_of_sequences() -> None:
    @tl.function
    def f(x: Any) -> Any:
        numbers = [x, 2.0, x * 3]
        return math.fsum(numbers), math.prod(numbers), math.dist([x, 1.0], (2.0, x))

    x = 1.5
    wanted = math.fsum([x, 2.0, x * 3]), math.prod([x, 2.0, x * 3]), math.dist([x, 1.0], (2.0, x))
    np.testing.assert_allclose([y.item() for y in f(tl.asarray(x))], wanted, rtol=1e-15)


@pytest.mark.parametrize("other", [1.0, 1.0 + 1e-10, 1.1, math.inf, -math.inf, math.nan])
def test_isclose(other: float) -> None:
    compiled = tl.function(lambda a, b: math.isclose(a, b))
    for first in (1.0, math.inf):
        assert bool(compiled(tl.asarray(first), other)) == math.isclose(first, other)


def test_a_result_promotes_like_a_python_number() -> None:
    @tl.function
    def scaled(x: Any, length: Any) -> Any:
        return x / math.sqrt(length)

    assert scaled(np.ones(3, np.float32), tl.asarray(4.0)).dtype == np.float32


def test_python_numbers_stay_python_s() -> None:
    seen = []

    @tl.function
    def f(x: Any) -> Any:
        seen.append(math.sqrt(9.0))
        return x

    f(tl.asarray(1.0))
    assert seen == [3.0]
    assert type(seen[0]) is float


def test_a_sweep_over_floats_keeps_one_trace() -> None:
    @tl.function
    def decayed(x: Any, rate: float, scale: float) -> Any:
        return x * math.tanh(-rate) + math.sqrt(scale)

    x = np.array([1.0, 2.0])
    for k in range(1, 40):
        got = decayed(x, 0.1 * k, 0.5 * k)
        np.testing.assert_allclose(got, x * math.tanh(-0.1 * k) + math.sqrt(0.5 * k), rtol=1e-14)
    assert decayed.trace_count <= 3


def test_runs_in_loops_and_under_vmap() -> None:
    @tl.function
    def newton(a: Any) -> Any:
        x = a
        while math.fabs(x * x - a) > 1e-12:
            x = 0.5 * (x + a / x)
        return math.log(x)

    values = np.array([2.0, 9.0, 0.25])
    np.testing.assert_allclose(tl.vmap(newton)(values), np.log(np.sqrt(values)), atol=1e-11)
    np.testing.assert_allclose(newton(tl.asarray(2.0)), math.log(math.sqrt(2.0)), atol=1e-11)


def test_an_array_is_refused() -> None:
    compiled = tl.function(lambda x: math.sqrt(x))
    with pytest.raises(ValueError, match=re.escape("math.sqrt(x): only a tensor of one element")):
        compiled(np.ones(3))
