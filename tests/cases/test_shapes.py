"""Tensors without elements, and without dimensions."""

from __future__ import annotations

import numpy as np
import pytest
from tests.cases.comparing import (
    Program,
    assert_same_bits,
    both_modes,
    gradients,
    run_as,
    tensor,
)

import tapeline as tl

EMPTY, ROWS = np.zeros((0,)), np.zeros((0, 3))
PROGRAMS: dict[str, tuple[Program, np.ndarray[tuple[int, ...], np.dtype[np.float64]]]] = {
    "sum": (lambda x: x.sum(), EMPTY),
    "arithmetic": (lambda x: x * 2.0 + 1.0, ROWS),
    "sum over no rows": (lambda x: x.sum(axis=0), ROWS),
    "sums of no rows": (lambda x: x.sum(axis=1), ROWS),
    "product over no rows": (lambda x: x.prod(axis=0), ROWS),
    "matrix product": (lambda x: x @ x.T, ROWS),
    "outer product of nothing": (lambda x: x.T @ x, ROWS),
    "reshape": (lambda x: x.reshape((3, 0)) + 1.0, ROWS),
}


@both_modes
@pytest.mark.parametrize("name", PROGRAMS)
def test_empty_tensors_give_what_numpy_gives(mode: str, name: str) -> None:
    program, array = PROGRAMS[name]
    assert_same_bits(run_as(mode, program)(tensor(array)), program(array))


@both_modes
@pytest.mark.parametrize("name", ["max", "min", "argmax", "argmin"])
def test_the_largest_of_nothing_is_an_error(mode: str, name: str) -> None:
    with pytest.raises(ValueError, match=rf"{name}: no elements"):
        run_as(mode, getattr(tl, name))(tensor(EMPTY))


@both_modes
def test_a_tensor_without_dimensions_stays_one(mode: str) -> None:
    assert run_as(mode, lambda x: tl.sum(x))(tensor(5.0)).shape == ()
    got = run_as(mode, lambda x: tl.max(x) + tl.reshape(x, (1,)))(tensor(5.0))
    assert_same_bits(got, [10.0])


@both_modes
@pytest.mark.parametrize("shape", [(0,), (0, 3), (2, 0, 1)], ids=str)
def test_gradients_of_empty_tensors_have_their_shape(mode: str, shape: tuple[int, ...]) -> None:
    (got,) = gradients(run_as(mode, lambda x: tl.sum(x * x)), tensor(np.zeros(shape)))
    assert got is not None
    assert got.shape == shape


def test_tensors_made_of_constants_have_values_while_tracing() -> None:
    def program(x: tl.Tensor) -> tl.Tensor:
        count = tl.prod(tl.asarray([2, 3]))
        assert np.asarray(count) == count.numpy() == count.item() == 6
        assert tl.asarray([1, 2]).tolist() == [1, 2]
        return x * np.asarray(count + 1)

    np.testing.assert_array_equal(tl.function(program)(tl.asarray([1.0])).numpy(), [7.0])
