"""What a function sees of the world outside at each call."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
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
