"""Operators as Python sees them: NumPy's protocols, in-place forms, errors, kinks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapeline as tl
from tapeline.runtime.errors import DTypeError, ShapeError


def test_numpy_functions_on_tensors_give_tensors() -> None:
    x = tl.asarray([0.5, 1.5])
    for got, want in (
        (np.sin(x), tl.sin(x)),
        (np.add(x, 1), x + 1),
        (np.maximum(x, np.array([1.0, 1.0])), tl.maximum(x, 1.0)),
        (np.where(x > 1, x, 0.0), tl.where(x > 1, x, 0.0)),
        (np.clip(x, 0, 1), tl.clip(x, 0, 1)),
        (np.power(x, 2), x**2),
        (np.array([1.0, 2.0]) - x, [1.0, 2.0] - x),
    ):
        assert type(got) is tl.Tensor
        np.testing.assert_array_equal(got.numpy(), want.numpy())


def test_arrays_and_numpy_scalars_defer_to_tensors() -> None:
    x = tl.asarray([1.0, 2.0])
    for other in (np.array([3.0, 4.0]), np.float32(3), 3, [3.0, 4.0]):
        assert type(other + x) is tl.Tensor
        assert type(other < x) is tl.Tensor
        assert type(other == x) is tl.Tensor


@pytest.mark.parametrize("sign", ["+", "-", "*", "/", "//", "%", "**"])
def test_operators_in_place_change_the_cell_and_no_other(sign: str) -> None:
    scope = {"x": tl.asarray([7.0, 9.0])}
    scope["other"], scope["cell"] = tl.identity(scope["x"]), scope["x"]
    exec(f"x {sign}= 2", scope)
    assert scope["cell"] is scope["x"]
    assert scope["other"].tolist() == [7.0, 9.0]
    assert scope["x"].tolist() == eval(f"np.array([7.0, 9.0]) {sign} 2", {"np": np}).tolist()


def test_an_int_tensor_refuses_floats_in_place() -> None:
    x = tl.asarray([1, 2])
    with pytest.raises(DTypeError, match="int64 cannot hold"):
        x += 0.5
    with pytest.raises(DTypeError, match="int64 cannot hold"):
        x /= 2
    assert x.tolist() == [1, 2]


def test_operands_that_do_not_broadcast_are_named() -> None:
    with pytest.raises(ValueError, match="broadcast"):
        tl.asarray([1.0, 2.0]) + tl.asarray([1.0, 2.0, 3.0])


def test_what_is_no_operand_is_a_type_error() -> None:
    for other in (None, "text", object()):
        with pytest.raises(TypeError):
            tl.asarray(1.0) + other
        with pytest.raises(TypeError):
            other * tl.asarray(1.0)
        assert bool(tl.asarray(1.0) == other) is False


def test_ints_beyond_the_dtype_are_an_error() -> None:
    x = tl.asarray(np.array([1], np.uint8))
    for number in (300, -1):
        with pytest.raises(OverflowError, match="out of bounds for uint8"):
            x + number


def test_difference_of_bools_is_an_error() -> None:
    with pytest.raises(DTypeError, match="subtract: dtype bool is not supported"):
        tl.asarray([True]) - tl.asarray([True])


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "float32", "float64"])
def test_division_rounds_down_and_the_rest_has_the_divisors_sign(dtype: str) -> None:
    a = np.array([-8, 8, -9, 9, -1, 0, 6], dtype)
    b = np.array([5, -5, 4, -4, 7, -3, 6], dtype)
    np.testing.assert_array_equal((tl.asarray(a) // tl.asarray(b)).numpy(), a // b)
    rest = (tl.asarray(a) % tl.asarray(b)).numpy()
    np.testing.assert_array_equal(rest, a % b)
    np.testing.assert_array_equal(np.signbit(rest), np.signbit(a % b))


def test_divmod_gives_quotient_and_rest() -> None:
    x = tl.asarray([7.0, -7.0])
    assert [part.tolist() for part in divmod(x, 2)] == [[3.0, -4.0], [1.0, 1.0]]
    assert [part.tolist() for part in divmod(9, x)] == [[1.0, -2.0], [2.0, -5.0]]


def test_int_division_by_zero_gives_zero_and_numpys_warning() -> None:
    with pytest.warns(RuntimeWarning, match="divide by zero"):
        assert (tl.asarray([1, -1]) // 0).tolist() == [0, 0]


def test_sum_of_broadcast_operands_sums_their_gradients() -> None:
    a, b = tl.ones((2, 3)), tl.ones((3,))
    with tl.GradientTape() as tape:
        tape.watch([a, b])
        y = a * 2.0 + b
    da, db = tape.gradient(y, [a, b])
    assert da.tolist() == [[2.0] * 3] * 2
    assert db.tolist() == [2.0] * 3


@pytest.mark.parametrize(
    ("function", "want"), [(tl.abs, [-1.0, 0.0, 1.0]), (tl.sign, [0.0, 0.0, 0.0])]
)
def test_gradient_at_a_kink_is_zero(function: Any, want: list[float]) -> None:
    x = tl.asarray([-2.0, 0.0, 2.0])
    with tl.GradientTape() as tape:
        tape.watch(x)
        y = function(x)
    assert tape.gradient(y, x).tolist() == want


def test_round_is_half_to_even_and_takes_digits() -> None:
    x = np.array([0.5, 1.5, 2.5, -0.5, 1234.5678])
    for decimals in (0, 1, 3, -2):
        np.testing.assert_array_equal(tl.round(x, decimals).numpy(), np.round(x, decimals))
    assert tl.round([5, 15], 1).tolist() == [5, 15]
    whole = np.array([25, 35, -15, 1234, -(2**40)], np.int64)
    for ints in (whole, whole[:3].astype(np.int8), whole[:2].astype(np.uint8)):
        for decimals in (1, -1, -2):
            for found in (tl.round(ints, decimals), tl.function(tl.round)(ints, decimals)):
                np.testing.assert_array_equal(found.numpy(), np.round(ints, decimals), strict=True)


def test_public_functions_name_themselves_in_errors() -> None:
    with pytest.raises(DTypeError, match="bitwise_and: dtype float64 is not supported"):
        tl.asarray([1.0]) & 1
    with pytest.raises(TypeError, match="exp: expected a tensor"):
        tl.exp(None)  # type: ignore[arg-type]
    with pytest.raises(ShapeError, match="tril: x has shape"):
        tl.tril([1.0])
