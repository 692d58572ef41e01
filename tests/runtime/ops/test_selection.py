"""maximum, minimum, clip, where: bounds, dtypes, and who gets the gradient."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapeline as tl
from tapeline.runtime.errors import DTypeError, ShapeError


def gradients(function: Callable[..., tl.Tensor], *inputs: Any) -> list[Any]:
    """The gradients of the sum of the result."""
    tensors = [tl.asarray(x) for x in inputs]
    with tl.GradientTape() as tape:
        tape.watch(tensors)
        result = function(*tensors)
    return [None if g is None else g.tolist() for g in tape.gradient(result, tensors)]


@pytest.mark.parametrize("function", [tl.maximum, tl.minimum])
def test_equal_rivals_share_the_gradient(function: Callable[..., tl.Tensor]) -> None:
    first, second = gradients(function, [1.0, 2.0], [1.0, 2.0])
    assert first == second == [0.5, 0.5]


def test_maximum_gives_the_gradient_to_the_larger() -> None:
    assert gradients(tl.maximum, [1.0, 5.0], 3.0) == [[0.0, 1.0], 1.0]


def test_clip_gives_the_gradient_to_elements_at_and_between_the_bounds() -> None:
    x, low, high = gradients(tl.clip, [-1.0, 0.0, 0.5, 1.0, 2.0], 0.0, 1.0)
    assert x == [0.0, 1.0, 1.0, 1.0, 0.0]
    assert low == high == 1.0


def test_clip_above_its_maximum_is_the_maximum() -> None:
    assert tl.clip([1.0, 5.0], 4.0, 2.0).tolist() == [2.0, 2.0]


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int64", "float32"])
def test_clip_without_a_bound_keeps_values_and_dtype(dtype: str) -> None:
    x = np.array([0, 100, 3], dtype)
    for got, want in (
        (tl.clip(tl.asarray(x), None, 3), np.array([0, 3, 3], dtype)),
        (tl.clip(tl.asarray(x), 3, None), np.array([3, 100, 3], dtype)),
        (tl.clip(tl.asarray(x), None, None), x),
    ):
        assert got.dtype == want.dtype
        np.testing.assert_array_equal(got.numpy(), want)


def test_clip_takes_int_bounds_beyond_the_dtype() -> None:
    x = tl.asarray(np.array([-100, 0, 100], np.int8))
    got = tl.clip(x, -1000, 50)
    assert got.dtype == np.int8
    assert got.tolist() == [-100, 0, 50]


def test_clip_promotes_as_numpy() -> None:
    x, low = np.array([1, 7], np.int16), np.array([2.5, 2.5], np.float32)
    assert tl.clip(tl.asarray(x), tl.asarray(low)).dtype == np.clip(x, low, None).dtype


def test_where_takes_numbers_in_the_dtype_of_the_other() -> None:
    x = tl.asarray(np.array([1, 2], np.float32))
    assert tl.where(x > 1, x, 0).dtype == np.float32
    assert tl.where(x > 1, 1, 2.5).dtype == np.float64
    assert tl.where([0, 3], 1, 2).tolist() == [2, 1]


def test_where_sends_each_branch_its_part_of_the_gradient() -> None:
    x, y = gradients(lambda x, y: tl.where([True, False, True], x, y), [1.0, 2.0, 3.0], 5.0)
    assert x == [1.0, 0.0, 1.0]
    assert y == 1.0


def test_where_rejects_shapes_that_do_not_broadcast() -> None:
    with pytest.raises(ShapeError, match=r"where: shapes .* do not broadcast"):
        tl.where([True, False], [1.0, 2.0, 3.0], 0.0)


def test_maximum_of_complex_numbers_is_an_error() -> None:
    with pytest.raises(DTypeError, match="maximum: dtype complex128 is not supported"):
        tl.maximum([1j], [2.0])


def test_copysign_turns_the_gradient_with_the_sign() -> None:
    x, sign = gradients(tl.copysign, [1.0, -2.0, 3.0], [-1.0, -1.0, 1.0])
    assert x == [-1.0, 1.0, 1.0]
    assert sign is None
