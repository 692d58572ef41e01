"""power: NumPy's special exponents, ints, and gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapeline as tl
from tapeline.runtime.errors import ArgumentError

ODD = np.array([-np.inf, -2.0, -0.0, 0.0, 0.5, 3.0, np.inf, np.nan])


@pytest.mark.parametrize("exponent", [2, 2.0, 0.5, -1, -1.0, 1, 1.0, 0, 3, -2, 1.5], ids=repr)
def test_python_exponents_give_the_bits_of_numpy(exponent: Any) -> None:
    with np.errstate(all="ignore"):
        want = ODD**exponent
        got = (tl.asarray(ODD) ** exponent).numpy()
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(np.signbit(got), np.signbit(want))


@pytest.mark.parametrize(
    ("exponent", "op"), [(2, "square"), (0.5, "sqrt"), (-1, "reciprocal"), (3, "power")]
)
def test_simple_exponents_become_simpler_ops(exponent: Any, op: str) -> None:
    x = tl.asarray(2.0)
    with tl.GradientTape() as tape:
        tape.watch(x)
        y = x**exponent
    assert [entry.op for entry in tape.export()] == [op]
    del y


def test_int_powers_wrap_around() -> None:
    x = np.array([3, -7, 10], np.int8)
    np.testing.assert_array_equal((tl.asarray(x) ** 5).numpy(), x**5)


def test_ints_refuse_negative_exponents() -> None:
    x = tl.asarray([1, 2])
    with pytest.raises(ArgumentError, match="negative int -1; use a float exponent"):
        x**-1
    with pytest.raises(ValueError, match="negative integer powers"):
        x ** tl.asarray([-1, 1])
    assert (x**-1.0).tolist() == [1.0, 0.5]


def test_power_changes_the_cell_in_place() -> None:
    x = tl.asarray([2.0, 3.0])
    same = x
    x **= 2
    assert same is x
    assert x.tolist() == [4.0, 9.0]


def test_a_number_to_the_power_of_a_tensor() -> None:
    assert (2 ** tl.asarray([1.0, 3.0])).tolist() == [2.0, 8.0]


def test_power_with_what_is_no_operand_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="unsupported operand"):
        tl.asarray(1.0) ** object()


@pytest.mark.parametrize(
    ("exponent", "slope"), [(0.0, 0.0), (0, 0.0), (1.0, 1.0), (1.5, 0.0), (2.0, 0.0), (3, 0.0)]
)
def test_slope_of_a_power_at_zero_is_that_of_the_curve(exponent: float, slope: float) -> None:
    x, y = tl.asarray([0.0]), tl.asarray([float(exponent)])
    with tl.GradientTape(persistent=True) as tape:
        tape.watch([x, y])
        by_number, by_tensor = x**exponent, x**y
    assert tape.gradient(by_number, x).tolist() == [slope]
    assert tape.gradient(by_tensor, [x, y])[0].tolist() == [slope]
    assert tape.gradient(by_tensor, y).tolist() == [0.0]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_hypot_neither_overflows_nor_vanishes(dtype: str) -> None:
    big, small = np.finfo(dtype).max / 4, np.finfo(dtype).tiny * 4
    x = np.array([3 * big / 4, 3 * small, np.inf, np.nan], dtype)
    y = np.array([big, 4 * small, np.nan, 1.0], dtype)
    np.testing.assert_allclose(tl.hypot(x, y).numpy(), np.hypot(x, y), rtol=1e-6)
