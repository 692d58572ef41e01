"""The methods of NumPy's ufuncs do with tensors what they do with arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapeline as tl
from tapeline.runtime.errors import ArgumentTypeError, IndexOutOfRangeError
from tapeline.testing import check_gradients

RNG = np.random.default_rng(4)
X = RNG.normal(size=(5, 4))
V = RNG.normal(size=7)
ROWS = np.asarray([0, 3, 3, -1, 0, 2, 3])


def adding_at(ufunc: np.ufunc, key: Any, values: Any) -> Callable[[Any], Any]:
    def program(x: Any) -> Any:
        y = x + 0
        ufunc.at(y, key, values)
        return y

    return program


def _negative_at(x: Any) -> Any:
    y = x + 0
    np.negative.at(y, [0, 2, 2, 2])
    return y


PROGRAMS: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "sum": (np.add.reduce, X),
    "sum of an axis": (lambda x: np.add.reduce(x, axis=1, keepdims=True), X),
    "sum in another dtype": (lambda x: np.add.reduce(x, dtype=np.float32), X),
    "product": (lambda x: np.multiply.reduce(x, 1), X),
    "largest": (lambda x: np.maximum.reduce(x, axis=None), X),
    "smallest": (np.minimum.reduce, X),
    "all": (lambda x: np.logical_and.reduce(x > 0, axis=1), X),
    "any": (lambda x: np.logical_or.reduce(x > 1, axis=1), X),
    "running sum": (np.add.accumulate, X),
    "running product": (lambda x: np.multiply.accumulate(x, axis=1), X),
    "running maximum": (np.maximum.accumulate, V),
    "running minimum": (lambda x: np.minimum.accumulate(x, axis=-1), X),
    "running and": (lambda x: np.logical_and.accumulate(x < 0.5), X),
    "outer sum": (lambda x: np.add.outer(x, V), X),
    "outer difference": (lambda x: np.subtract.outer(V, x), V),
    "outer comparison": (lambda x: np.less.outer(x, x), V),
    "add at": (adding_at(np.add, ROWS, np.arange(7.0)[:, None]), X),
    "add one at": (adding_at(np.add, ROWS, 1), X),
    "subtract at": (adding_at(np.subtract, (ROWS, ROWS), V), X),
    "add at a slice": (adding_at(np.add, (slice(1, 3), [1, 1]), 2.0), X),
    "add to ints": (adding_at(np.add, ROWS, 1), np.zeros(4, np.int64)),
    "largest at": (adding_at(np.maximum, ROWS, np.arange(7.0)[:, None] - 3), X),
    "multiply at": (adding_at(np.multiply, ROWS, 3.0), X),
    "power at": (adding_at(np.power, ROWS, 2), np.arange(5)),
    "negative at": (lambda x: _negative_at(x), V),
    "sums of runs": (lambda x: np.add.reduceat(x, [0, 3, 4]), X),
    "largest of runs": (lambda x: np.maximum.reduceat(x, [0, 2], axis=1), X),
    "smallest ints of runs": (lambda x: np.minimum.reduceat(x, [0, 2]), np.arange(5)),
    "runs backward": (lambda x: np.multiply.reduceat(x, [0, 4, 1, 5, 2, 6]), V),
    "all of runs": (lambda x: np.logical_and.reduceat(x > 0, [0, 2, 5]), V),
    "log of sums": (lambda x: np.logaddexp.reduce(x, axis=1), X),
    "log of all sums": (lambda x: np.logaddexp.reduce(x, axis=None, keepdims=True), X),
    "bits": (np.bitwise_xor.reduce, np.arange(2, 9)),
    "largest numbers": (lambda x: np.fmax.reduce(x, axis=(0, 1)), X),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_value_and_dtype_are_numpys(name: str) -> None:
    program, x = PROGRAMS[name]
    expected = program(x)
    for found in (program(tl.asarray(x)), tl.function(program)(tl.asarray(x))):
        assert isinstance(found, tl.Tensor)
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(found.numpy(), expected, rtol=1e-6)


def test_gradients() -> None:
    def f(x: Any, change: Any) -> Any:
        y = x * 2.0
        np.add.at(y, ROWS, change)
        return np.maximum.accumulate(y) * np.add.outer(change, change).sum()

    check_gradients(f, (V, np.linspace(0.1, 0.9, 7)), order=2)


def test_gradients_of_runs_and_of_changes_in_turn() -> None:
    def f(x: Any, change: Any) -> Any:
        y = x * 2.0
        np.multiply.at(y, ROWS, change)
        return np.multiply.reduceat(y, [0, 3, 5]) + np.add.reduceat(y * y, [1, 2, 6])

    check_gradients(f, (V, np.linspace(0.1, 0.9, 7)))


def test_at_changes_arrays_of_numpy_with_tensors_that_have_values() -> None:
    total = np.zeros(4)
    np.add.at(total, tl.asarray([1, 1, 3]), tl.asarray([1.0, 2.0, 4.0]))
    np.testing.assert_array_equal(total, [0.0, 3.0, 0.0, 4.0])


def test_reduceat_refuses_places_out_of_range() -> None:
    with pytest.raises(IndexOutOfRangeError, match="7"):
        np.add.reduceat(tl.asarray(V), [0, 7])


def test_what_cannot_be_added_leaves_the_tensor_as_it_was() -> None:
    x = tl.zeros(3)
    with pytest.raises(IndexOutOfRangeError, match="3"):
        np.add.at(x, [0, 3], 1.0)
    with pytest.raises(ArgumentTypeError, match=r"np.add.at: .* convert it with"):
        tl.function(lambda v: np.add.at(np.zeros(3), [0], v))(tl.ones(1))
    with pytest.raises(ArgumentTypeError, match=r"np.power.reduceat has no counterpart"):
        np.power.reduceat(x, [0])
    np.testing.assert_array_equal(x.numpy(), 0)
