"""What a function sees of the world outside at each call."""

from __future__ import annotations

import gc
import warnings
from typing import Any

import numpy as np
import pytest
from tests.cases.comparing import assert_close, gradients, number, tensor

import tapeline as tl


def test_a_variable_is_read_at_each_call_and_kept_alive() -> None:
    def build() -> tuple[Any, tl.Variable]:
        v = tl.Variable(2.0)

        @tl.function
        def f(x: Any) -> Any:
            return x * v

        return f, v

    f, v = build()
    assert number(f(tensor(3.0))) == 6.0
    v.assign(5.0)
    assert number(f(tensor(3.0))) == 15.0
    assert f.trace_count == 1
    (slope,) = gradients(lambda _: f(tensor(3.0)), v)
    assert_close(slope, 3.0)
    del v
    gc.collect()
    assert number(f(tensor(3.0))) == 15.0


def test_an_array_of_outside_that_changed_in_place_has_its_new_values() -> None:
    shift, scale = np.array([1.0, 2.0]), tensor([1.0, 1.0])

    @tl.function
    def f(x: Any) -> Any:
        return x * scale + tl.asarray(shift)

    assert_close(f(tensor([1.0, 1.0])), [2.0, 3.0])
    shift[:] = 10.0
    scale[0] = 5.0
    assert_close(f(tensor([1.0, 1.0])), [15.0, 11.0])
    assert f.trace_count == 1


def test_a_list_filled_in_a_loop_over_rows_becomes_one_tensor() -> None:
    @tl.function
    def f(x: Any) -> Any:
        sums = []
        for row in x:
            sums.append(tl.sum(row * row))
        return tl.stack(sums)

    x = tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    assert_close(f(x), [5.0, 25.0, 61.0])
    (slopes,) = gradients(f, x)
    assert_close(slopes, 2.0 * x.numpy())


GAIN = 10.0


def test_a_global_number_is_seen_as_it_is_at_each_call(monkeypatch: pytest.MonkeyPatch) -> None:
    @tl.function
    def f(x: Any) -> Any:
        return x * GAIN

    assert number(f(tensor(1.0))) == 10.0
    monkeypatch.setitem(globals(), "GAIN", 20.0)
    assert number(f(tensor(1.0))) == 20.0


def test_a_variable_of_an_enclosing_loop_is_seen_as_it_is_at_each_call() -> None:
    n = 0

    @tl.function
    def f(x: Any) -> Any:
        return x * n

    seen = []
    for n in range(4):  # the function reads it
        seen.append(number(f(tensor(float(n)))))
    assert seen == [0.0, 1.0, 4.0, 9.0]


def test_a_number_in_an_outside_list_is_seen_as_it_is_at_each_call() -> None:
    scales = [1.0, 2.0]

    @tl.function
    def f(x: Any) -> Any:
        return x * scales[0] + scales[1]

    assert_close(f(tensor([1.0, 1.0])), [3.0, 3.0])
    scales[0] = 5.0
    assert_close(f(tensor([1.0, 1.0])), [7.0, 7.0])


class Layer:
    """Weights that may be replaced."""

    def __init__(self, w: Any) -> None:
        self.w = w

    @tl.function
    def call(self, x: Any) -> Any:
        return tl.matmul(x, self.w)


def test_an_attribute_that_was_replaced_is_seen_by_the_next_call() -> None:
    layer, x = Layer(tensor(np.ones((3, 2)))), tensor([[1.0, 2.0, 3.0]])
    assert_close(layer.call(x), [[6.0, 6.0]])
    layer.w = tensor([[1.0], [10.0], [100.0]])
    assert_close(layer.call(x), [[321.0]])


def test_another_variable_in_the_same_place_is_seen_by_the_next_call() -> None:
    box = {"v": tl.Variable(2.0)}

    @tl.function
    def f(x: Any) -> Any:
        return x * box["v"]

    assert number(f(tensor(3.0))) == 6.0
    box["v"] = tl.Variable(5.0)
    gc.collect()
    assert number(f(tensor(3.0))) == 15.0


def test_a_python_number_that_keeps_changing_becomes_an_input() -> None:
    @tl.function
    def f(x: Any, k: float) -> Any:
        return x * k + 1.0

    x = tensor([1.0, -2.0])
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for n in range(10):
            assert_close(f(x, 0.25 * n), [1.0 + 0.25 * n, 1.0 - 0.5 * n])
    assert f.trace_count <= 4
    assert not seen


def test_a_python_number_that_a_branch_asks_for_is_right_and_warned_of() -> None:
    @tl.function
    def f(x: Any, k: float) -> Any:
        return x * k + 1.0 if k < 100.0 else x

    x = tensor([1.0, -2.0])
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for n in range(10):
            assert_close(f(x, 0.25 * n), [1.0 + 0.25 * n, 1.0 - 0.5 * n])
    assert any("calls in a row" in str(w.message) and "k was" in str(w.message) for w in seen)
