"""Captures of concrete functions: listed, replaced, and asked for at each call."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapeline as tl
from tapeline.runtime.deferred import Deferred
from tapeline.runtime.errors import ArgumentError, SignatureMismatchError

PAIR = tl.TensorSpec([2])


def test_captures_are_listed_and_replaced() -> None:
    w, b, count = tl.asarray([2.0, 3.0]), np.array([10.0, 20.0]), tl.Variable(0)

    @tl.function
    def f(x: Any) -> Any:
        count.assign_add(1)
        return x * w + b

    cf = f.get_concrete_function(PAIR)
    assert cf.captures[0] is w
    assert cf.captures[1] is b
    assert cf.variables == (count,)
    other_count = tl.Variable(100)
    made = cf.with_captures([(w, tl.asarray([5.0, 7.0])), (count, other_count)])
    x = np.array([1.0, 1.0])
    np.testing.assert_array_equal(made(x).numpy(), [15.0, 27.0])
    np.testing.assert_array_equal(cf(x).numpy(), [12.0, 23.0])
    assert (int(count), int(other_count)) == (1, 101)
    assert made.variables == (other_count,)
    variable = tl.Variable([1.0, 1.0])
    through = cf.with_captures([(w, variable)])
    with tl.GradientTape() as tape:
        y = tl.sum(through(x))
    np.testing.assert_array_equal(tape.gradient(y, variable).numpy(), x)


def test_replaced_captures_serve_open_sizes_too() -> None:
    w = tl.asarray(2.0)
    f = tl.function(lambda x: x * w)
    cf = f.get_concrete_function(tl.TensorSpec([None]))
    made = cf.with_captures([(w, tl.asarray(5.0))])
    for n in (2, 3):
        assert made(np.ones(n)).tolist() == [5.0] * n
        assert cf(np.ones(n)).tolist() == [2.0] * n


@pytest.mark.parametrize(
    "new", [np.ones(3), np.ones(2, "float32"), tl.asarray([1, 2]), "text", None], ids=str
)
def test_captures_of_another_kind_are_refused(new: Any) -> None:
    w, v = tl.asarray([2.0, 3.0]), tl.Variable([1.0, 2.0])
    f = tl.function(lambda x: v.assign(x * w))
    cf = f.get_concrete_function(PAIR)
    with pytest.raises(ArgumentError, match=r"for float64\[2\] the function takes the same"):
        cf.with_captures([(w, new)])
    with pytest.raises(ArgumentError, match="takes a Variable of the same"):
        cf.with_captures([(v, w)])
    with pytest.raises(ArgumentError, match="is not captured"):
        cf.with_captures([(tl.asarray(1.0), w)])


def test_deferred_values_are_asked_for_at_each_call() -> None:
    asked: list[float] = []

    def ask() -> float:
        asked.append(1.0 + len(asked))
        return asked[-1]

    @tl.function
    def f(x: Any) -> Any:
        return x * tl.deferred(ask, tl.TensorSpec([]))

    @tl.function
    def outer(x: Any) -> Any:
        total = f(x)
        for _ in tl.range(2):
            total = total + tl.deferred(ask, tl.TensorSpec([]))
        return total

    assert [f(tl.asarray(10.0)).item() for _ in range(4)] == [10.0, 20.0, 30.0, 40.0]
    assert f.trace_count == 1
    (capture,) = f.get_concrete_function(tl.TensorSpec([])).captures
    assert isinstance(capture, Deferred)
    asked.clear()
    assert outer(tl.asarray(10.0)).item() == 10.0 * 1 + 2 * 2
    assert outer(tl.asarray(10.0)).item() == 10.0 * 3 + 2 * 4
    assert tl.deferred(lambda: 3.0, tl.TensorSpec([])).item() == 3.0


def test_gradients_reach_deferred_tensors() -> None:
    current = [tl.Variable(2.0), tl.Variable(3.0)]
    f = tl.function(lambda x: x * tl.deferred(lambda: current[0], tl.TensorSpec([])))
    for k in range(2):
        with tl.GradientTape() as tape:
            y = f(tl.asarray(5.0))
        assert y.item() == 5.0 * (2 + k)
        assert tape.gradient(y, current[0]).item() == 5.0
        current.reverse()


def test_a_deferred_value_of_another_kind_is_refused_and_the_next_call_works() -> None:
    values = [1.0, [1.0, 2.0], np.float32(3.0), 4.0]
    f = tl.function(lambda x: x * tl.deferred(lambda: values.pop(0), tl.TensorSpec([])))
    x = tl.asarray(2.0)
    assert f(x).item() == 2.0
    with pytest.raises(
        SignatureMismatchError, match=r"deferred: the function gave float64 of shape \(2,\)"
    ):
        f(x)
    with pytest.raises(SignatureMismatchError, match="gave float32"):
        f(x)
    assert f(x).item() == 8.0


def test_one_key_is_one_deferred_value_and_the_first_function_wins() -> None:
    spec = tl.TensorSpec([])

    @tl.function
    def f(x: Any) -> Any:
        return x + tl.deferred(lambda: 1.0, spec, key="k") + tl.deferred(lambda: 5.0, spec, key="k")

    assert f(tl.asarray(0.0)).item() == 2.0
    assert len(f.get_concrete_function(spec).captures) == 1
