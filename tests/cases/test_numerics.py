"""NaN, infinities, zeros of both signs, and sums that real-number algebra would get wrong."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from tests.cases.comparing import Program, assert_same_bits, both_modes, number, run_as, tensor

import tapeline as tl

NAN, INF = float("nan"), float("inf")


@pytest.fixture(autouse=True)
def _ignore_float_warnings() -> Iterator[None]:
    with np.errstate(all="ignore"):
        yield


NAN_TESTS: dict[str, Program] = {
    "isnan": lambda x: tl.isnan(x * 1.0),
    "unequal to itself": lambda x: x != x,
    "replaced": lambda x: tl.where(tl.isnan(x), tl.zeros_like(x), x),
}


@both_modes
@pytest.mark.parametrize("name", NAN_TESTS)
def test_nan_is_found_and_replaced(mode: str, name: str) -> None:
    x = tensor([NAN, 1.0, -1.0, NAN])
    want = [0.0, 1.0, -1.0, 0.0] if name == "replaced" else [True, False, False, True]
    assert_same_bits(run_as(mode, NAN_TESTS[name])(x), want)


@both_modes
@pytest.mark.parametrize("name", ["max", "min", "sum", "argmax", "argmin", "maximum"])
def test_nan_wins_in_reductions(mode: str, name: str) -> None:
    program = run_as(mode, getattr(tl, name))
    if name == "maximum":
        assert_same_bits(program(tensor([NAN, 1.0]), tensor([1.0, NAN])), [NAN, NAN])
        return
    for values in ([8.0, NAN], [NAN, 8.0], [4.0, 6.0, NAN] * 9, [NAN] * 3):
        assert_same_bits(program(tensor(values)), getattr(np, name)(np.array(values)))


SIGNS: dict[str, Program] = {
    "plus zero": lambda x, m: x + 0.0,
    "minus": lambda x, m: -x,
    "zero minus": lambda x, m: 0.0 - x,
    "times minus one": lambda x, m: x * -1.0,
    "minus zero": lambda x, m: x - 0.0,
    "reciprocal of ceil": lambda x, m: 1.0 / (m.ceil(x) + m.zeros_like(x)),
    "root of a zero": lambda x, m: m.sqrt(x * 0.0),
    "where equal": lambda x, m: m.where(x == 0.0, x, x),
    "twice negated": lambda x, m: m.negative(m.negative(x)),
    "zero times": lambda x, m: 0.0 * x,
}


@both_modes
@pytest.mark.parametrize("name", SIGNS)
def test_the_sign_of_zero_survives(mode: str, name: str) -> None:
    x = np.array([-0.0, 0.0, -0.5, 0.5, -1.0, 4.0])
    got = run_as(mode, lambda t: SIGNS[name](t, tl))(tensor(x))
    assert_same_bits(got, SIGNS[name](x, np))


@both_modes
def test_the_sign_of_a_zero_remainder_is_that_of_the_divisor(mode: str) -> None:
    a = np.array([-0.0, 0.0, -0.5, 0.5, -1.0, 4.0])
    b = np.array([1.0, -3.0, 1.0, -2.0, 1.0, -2.0])
    assert_same_bits(run_as(mode, lambda x, y: x % y)(tensor(a), tensor(b)), a % b)


ODD_VALUES: dict[str, Program] = {
    "minus itself": lambda x: x - x,
    "times zero": lambda x: x * 0.0,
    "over itself": lambda x: x / x,
    "times and over three": lambda x: (x * 3.0) / 3.0,
    "equal to itself": lambda x: x == x,
    "twice halved": lambda x: (x / 3.0) * 3.0,
    "plus and minus": lambda x: (x + 1e30) - 1e30,
}


@both_modes
@pytest.mark.parametrize("name", ODD_VALUES)
def test_no_rewrite_assumes_real_numbers(mode: str, name: str) -> None:
    x = np.array([INF, -INF, NAN, 0.0, 2.0, 0.1])
    assert_same_bits(run_as(mode, ODD_VALUES[name])(tensor(x)), ODD_VALUES[name](x))


@both_modes
def test_an_overflow_inside_a_formula_is_kept(mode: str) -> None:
    x = np.array([1e200, -1e200, 3.0])
    got = run_as(mode, lambda a: tl.sqrt(tl.abs(a * a)))(tensor(x))
    assert_same_bits(got, np.sqrt(np.abs(x * x)))
    a, b = np.array([1e30]), np.array([1.0])
    got = run_as(mode, lambda x, y: x - (x + y) + y)(tensor(a), tensor(b))
    assert_same_bits(got, a - (a + b) + b)


@both_modes
def test_a_large_masking_constant_does_not_swallow_the_scores(mode: str) -> None:
    def masked(scores: Any, mask: Any) -> Any:
        kept = scores + -1.0 * 1e30 * (1.0 - mask)
        return kept - tl.max(kept)

    scores, mask = tensor([0.9, 0.6], "f4"), tensor(1.0, "f4")
    want = np.array([0.0, np.float32(0.6) - np.float32(0.9)], "f4")
    assert_same_bits(run_as(mode, masked)(scores, mask), want)


@both_modes
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_the_mean_of_nothing_is_nan(mode: str) -> None:
    assert np.isnan(number(run_as(mode, tl.mean)(tensor(np.zeros(0)))))
