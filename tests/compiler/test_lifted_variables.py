"""Variables that compiled functions make when they first run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapeline as tl
from tapeline.runtime.errors import VariableCreationError


class Holder:
    """A place for a Variable."""

    v: tl.Variable | None = None


def test_a_first_value_may_depend_on_the_arguments_of_the_first_call() -> None:
    holder = Holder()

    @tl.function
    def f(x: Any) -> Any:
        if holder.v is None:
            holder.v = tl.Variable(2.0 * x)
        return holder.v * x

    assert [f(tl.asarray(x)).item() for x in (1.0, 3.0)] == [2.0, 6.0]
    assert holder.v is not None
    assert holder.v.numpy() == 2.0
    assert f.trace_count == 1
    f(tl.asarray([1.0, 2.0]))
    assert f.get_concrete_function(tl.TensorSpec([])).variables == (holder.v,)


def test_a_first_value_may_come_through_captures_variables_and_outer_functions() -> None:
    holder, scale, w = Holder(), tl.asarray([2.0, 3.0]), tl.Variable([5.0, 7.0])

    @tl.function
    def inner(x: Any) -> Any:
        if holder.v is None:
            holder.v = tl.Variable(x * scale + w)
        return holder.v + x

    @tl.function
    def outer(x: Any) -> Any:
        return inner(x + 1.0)

    np.testing.assert_array_equal(outer(tl.asarray(1.0)).numpy(), [11.0, 15.0])
    np.testing.assert_array_equal(outer(tl.asarray(1.0)).numpy(), [11.0, 15.0])
    assert holder.v is not None
    np.testing.assert_array_equal(holder.v.numpy(), [9.0, 13.0])


def test_a_function_as_first_value_runs_once_outside_of_the_trace() -> None:
    holder, calls = Holder(), []

    def first() -> Any:
        calls.append(tl.executing_eagerly())
        return np.ones(2)

    @tl.function
    def f(x: Any) -> Any:
        if holder.v is None:
            holder.v = tl.Variable(first)
        return holder.v.assign_add(x).read_value()

    assert f(1.0).tolist() == [2.0, 2.0]
    assert f(1.0).tolist() == [3.0, 3.0]
    assert calls == [True]


def test_random_first_values_differ_and_the_generator_moves_on() -> None:
    generator = tl.random.Generator(3)

    class Layer:
        w: tl.Variable | None = None

        @tl.function
        def __call__(self, x: Any) -> Any:
            if self.w is None:
                self.w = tl.Variable(generator.normal((2,)))
            return self.w * x

    first, second = Layer(), Layer()
    a, b = first(1.0).numpy(), second(1.0).numpy()
    expected = tl.random.Generator(3)
    np.testing.assert_array_equal(a, expected.normal((2,)).numpy())
    np.testing.assert_array_equal(b, expected.normal((2,)).numpy())
    np.testing.assert_array_equal(a, first(1.0).numpy())


def test_a_variable_made_at_each_call_is_refused() -> None:
    kept = []

    @tl.function
    def local(x: Any) -> Any:
        return tl.Variable(1.0) + x

    @tl.function
    def collecting(x: Any) -> Any:
        kept.append(tl.Variable(1.0))
        return kept[-1] + x

    for f in (local, collecting):
        with pytest.raises(VariableCreationError, match=r"makes a Variable each time"):
            f(1.0)
        with pytest.raises(ValueError, match="makes a Variable each time"):
            f(1.0)


def test_a_first_value_that_nobody_knows_is_refused_and_the_next_call_works() -> None:
    holder = Holder()

    @tl.function
    def f(x: Any) -> Any:
        if holder.v is None:
            holder.v = tl.Variable(x)
        return holder.v + x

    with pytest.raises(VariableCreationError, match="first value of a Variable depends on x"):
        f.get_concrete_function(tl.TensorSpec([]))
    assert holder.v is None
    assert f(3.0).item() == 6.0

    @tl.function
    def in_loop(x: Any) -> Any:
        for k in tl.range(3):
            if other.v is None:
                other.v = tl.Variable(tl.astype(k, "float64"))
            x = x + other.v
        return x

    other = Holder()
    with pytest.raises(VariableCreationError, match="has no value while"):
        in_loop(3.0)


def test_gradients_reach_a_variable_that_the_call_made() -> None:
    holder = Holder()

    @tl.function
    def f(x: Any) -> Any:
        if holder.v is None:
            holder.v = tl.Variable(3.0)
        return holder.v * x

    for _ in range(2):
        with tl.GradientTape() as tape:
            y = f(2.0)
        assert holder.v is not None
        assert tape.gradient(y, holder.v).item() == 2.0


def test_init_scope_runs_at_once_and_sees_present_values() -> None:
    v, seen = tl.Variable(1.0), []

    @tl.function
    def f(x: Any) -> Any:
        v.assign(x)
        with tl.init_scope():
            seen.append(v.numpy().item())
            v.assign_add(10.0)
        return v * 1.0

    assert not tl.function(tl.executing_eagerly)()
    assert f(5.0).item() == 5.0
    assert seen == [1.0]
    assert v.numpy() == 5.0


def test_tapes_do_not_see_an_init_scope() -> None:
    x = tl.asarray(2.0)
    with tl.GradientTape() as tape:
        tape.watch(x)
        with tl.init_scope():
            hidden = x * 3.0
        y = x * 5.0
    assert tape.gradient([hidden, y], x).item() == 5.0


def test_a_deleted_variable_is_an_error_that_names_the_attribute() -> None:
    class Model:
        def __init__(self) -> None:
            self.w = tl.Variable(2.0)

        @tl.function
        def scale(self, x: Any) -> Any:
            return x * self.w

    model = Model()
    assert model.scale(2.0).item() == 4.0
    del model.w
    with pytest.raises(AttributeError, match="w"):
        model.scale(2.0)
    model.w = tl.Variable(3.0)
    assert model.scale(2.0).item() == 6.0
