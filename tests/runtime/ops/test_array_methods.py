"""Methods that tensors share with NumPy's arrays do what those do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapeline as tl
from tapeline.runtime.errors import ArgumentError

X = np.random.default_rng(6).normal(size=(3, 4))


def _changed(x: Any) -> Any:
    x = x * 1
    x.flat[5] = 9.0
    x.flat[[0, -1]] = [7.0, 8.0]
    return x


def _sorted(x: Any) -> Any:
    x = x * 1
    x.sort(axis=0)
    return x


def _filled(x: Any) -> Any:
    x = x * 1
    x.fill(2)
    return x


PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "element of flat": lambda x: x.flat[5],
    "elements of flat": lambda x: x.flat[2:9:3],
    "writes to flat": _changed,
    "loop over flat": lambda x: sum(abs(v) for v in x.flat),
    "trace": lambda x: x.trace(1),
    "trace of other axes": lambda x: x.reshape(3, 2, 2).trace(axis1=1, axis2=2),
    "compress": lambda x: x.compress([True, False, True], axis=0),
    "reshape by columns": lambda x: x.reshape((2, 6), order="F"),
    "reshape by columns, one open": lambda x: x.reshape(6, -1, order="F"),
    "reshape of a row by columns": lambda x: np.reshape(x[0], (2, 2), order="F"),
    "ravel by columns": lambda x: np.ravel(x, order="F") + x.flatten("F") + x.ravel(order="F"),
    "sort in place": _sorted,
    "fill": _filled,
    "windows": lambda x: np.lib.stride_tricks.sliding_window_view(x, (2, 3)),
    "windows of one axis": lambda x: np.lib.stride_tricks.sliding_window_view(x, 2, axis=1),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_values_are_numpys(name: str) -> None:
    program = PROGRAMS[name]
    expected = program(X)
    for run in (program, tl.function(program)):
        found = run(tl.asarray(X))
        assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
        np.testing.assert_allclose(found.numpy(), expected, rtol=1e-12)


def test_reshape_refuses_an_order_that_numpy_does_not_know() -> None:
    with pytest.raises(ArgumentError, match="order must be 'C', 'F', 'A' or 'K', got 'Q'"):
        tl.zeros(4).reshape((2, 2), order="Q")


def test_questions_about_arrays_are_tensors_in_a_trace_and_bools_eagerly() -> None:
    def ask(x: Any) -> Any:
        return np.array_equal(x, x), np.allclose(x, x + 1e-12), np.array_equiv(x, x[:1])

    assert ask(tl.asarray(X)) == (True, True, False)
    assert [bool(found) for found in tl.function(ask)(tl.asarray(X))] == [True, True, False]


def test_place_goes_through_its_values_in_turn() -> None:
    def program(x: Any) -> Any:
        x = x * 1
        np.place(x, x > 0, [5.0, 6.0])
        return x

    for run in (program, tl.function(program)):
        np.testing.assert_array_equal(run(tl.asarray(X)).numpy(), program(X))
