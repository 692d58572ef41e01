"""Values that a trace computes of constants and sizes alone serve where Python wants numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapeline as tl
from tapeline.runtime.errors import ShapeError

api: Any = tl
"""Where tensors stand for ints, which annotations do not name."""
three = tl.asarray(3)
"""Read by traced functions, and so guarded."""


def stacked(x: Any) -> Any:
    return api.ones(tl.stack([tl.asarray(2), tl.asarray(x.shape)[0]])) * x[0, 0]


def reshaped(x: Any) -> Any:
    shape = tl.asarray(x.shape)
    return api.reshape(x, [shape[1], shape[0] // 2, -1])


def sliced(x: Any) -> Any:
    return x[: tl.asarray(x.shape)[0] - 1]


def counted(x: Any) -> Any:
    count = tl.asarray(1) + 2
    return api.arange(count) + api.eye(count) * api.linspace(0.0, 1.0, count) * x[0, 0]


def picked(x: Any) -> Any:
    return x * [1.0, 2.0, 4.0][tl.asarray(1) + 1]


def measured(x: Any) -> Any:
    rows = tl.prod(tl.asarray(np.asarray(x.shape[:1], np.int32)))
    return tl.map_fn(lambda k: api.ones(rows) * k, api.arange(rows), np.int64) * x[0, 0]


@pytest.mark.parametrize("f", [stacked, reshaped, sliced, counted, picked, measured])
@pytest.mark.parametrize("autograph", [True, False])
def test_known_numbers_are_numbers(f: Callable[[Any], Any], autograph: bool) -> None:
    traced = tl.function(f, autograph=autograph)
    for rows in (4, 6, 8):
        x = tl.asarray(np.arange(1.0, 1 + 3 * rows).reshape(rows, 3))
        np.testing.assert_array_equal(traced(x).numpy(), f(x).numpy())


def test_values_that_depend_on_arguments_are_open_sizes() -> None:
    f = tl.function(lambda x, n: api.ones(tl.stack([n, tl.asarray(2)])) * x)
    for n in (3, 5, 4):
        np.testing.assert_array_equal(f(tl.ones(2), tl.asarray(n)), np.ones((n, 2)))
    assert f.trace_count == 1
    with pytest.raises(ShapeError, match="shape must be ints"):
        tl.function(lambda x: api.ones(tl.stack([x, x])))(tl.asarray(2.0))


def test_arrays_that_others_have_are_read_at_each_call() -> None:
    sizes = np.asarray([2, 3])
    f = tl.function(lambda x: api.ones(tl.asarray(sizes)[0]) * x)
    half = tl.function(lambda x: api.ones(tl.asarray(sizes[:1])[0]) * x)
    for size in (2, 4, 3):
        sizes[0] = size
        for made in (f, half):
            np.testing.assert_array_equal(made(tl.asarray(1.0)), np.ones(size))


@tl.function
def filled(x: Any, shape: Any) -> Any:
    return api.broadcast_to(x, tl.concat([shape, tl.asarray([2])]))


def test_a_function_asks_for_what_its_caller_knows() -> None:
    @tl.function
    def caller(x: Any) -> Any:
        return filled(x, tl.asarray([3, 1])) + 1

    assert caller(tl.asarray([1.0, 2.0])).tolist() == [[[2.0, 3.0]]] * 3
    assert caller(tl.asarray([5.0, 6.0])).tolist() == [[[6.0, 7.0]]] * 3
    assert caller.trace_count == 1
    np.testing.assert_array_equal(filled(tl.ones(2), tl.asarray([3, 1])), np.ones((3, 1, 2)))
    slope = tl.grad(lambda x: tl.sum(caller(x) * caller(x)))(tl.asarray([1.0, 2.0]))
    assert slope.tolist() == [12.0, 18.0]


def test_a_global_that_a_callee_asks_for_is_guarded(monkeypatch: pytest.MonkeyPatch) -> None:
    @tl.function
    def of_three(x: Any, n: Any) -> Any:
        return api.ones((n,)) * x

    @tl.function
    def caller(x: Any) -> Any:
        return of_three(x, three)

    assert caller(tl.asarray(2.0)).tolist() == [2.0] * 3
    monkeypatch.setitem(globals(), "three", tl.asarray(4))
    assert caller(tl.asarray(2.0)).tolist() == [2.0] * 4
