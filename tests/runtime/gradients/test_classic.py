"""Gradients of functions in the manner of early eager TensorFlow."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapeline as tl
from tapeline.runtime.dispatch import STATE
from tapeline.runtime.errors import ArgumentError, TapeError


def numbers(x: Any) -> Any:
    return [None if t is None else t.numpy().tolist() for t in x]


def test_make_vjp_gives_result_and_gradients() -> None:
    result, vjp = tl.make_vjp(lambda x, y: x * y)(2.0, 3.0)
    assert result.item() == 6.0
    assert numbers(vjp()) == [3.0, 2.0]
    assert numbers(vjp(dy=10.0)) == [30.0, 20.0]


def test_make_vjp_that_is_not_persistent_runs_once() -> None:
    _, vjp = tl.make_vjp(lambda x: x * x, persistent=False)(2.0)
    vjp()
    with pytest.raises(TapeError):
        vjp()


def test_make_vjp_takes_a_cotangent_per_result() -> None:
    result, vjp = tl.make_vjp(lambda x: {"a": x * x, "b": [x * 3.0]})(2.0)
    assert result["b"][0].item() == 6.0
    assert numbers(vjp()) == [7.0]
    assert numbers(vjp(dy={"a": 1.0, "b": [100.0]})) == [304.0]
    _, vjp = tl.make_vjp(lambda x: x * x)(tl.asarray([1.0, 2.0]))
    assert numbers(vjp(dy=[1.0, 10.0])) == numbers(vjp([tl.asarray([1.0, 10.0])])) == [[2.0, 40.0]]


@pytest.mark.parametrize("params", [["y"], [1], [-1]])
def test_params_choose_arguments_by_name_or_position(params: Any) -> None:
    assert numbers(tl.gradients_function(lambda x, y: x * y * y, params)(2.0, 3.0)) == [12.0]


def test_params_keep_their_order() -> None:
    assert numbers(tl.gradients_function(lambda x, y: x * y, ["y", "x"])(2.0, 3.0)) == [2.0, 3.0]


@pytest.mark.parametrize("params", [["z"], [2], ["x", 1]])
def test_params_that_name_no_argument_are_a_value_error(params: Any) -> None:
    with pytest.raises(ValueError, match=r"argument|params"):
        tl.gradients_function(lambda x, y: x * y, params)(2.0, 3.0)


def test_params_by_name_work_on_methods() -> None:
    class Scaled:
        def by(self, x: Any, y: Any) -> Any:
            return x * y

    assert numbers(tl.gradients_function(Scaled().by, ["x"])(2.0, 3.0)) == [3.0]


def test_keyword_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match="cannot receive keyword arguments"):
        tl.gradients_function(lambda x: x)(x=1.0)


def test_function_that_returns_none_is_named() -> None:
    def forgetful(x: Any) -> None:
        x * x

    with pytest.raises(ValueError, match="did you forget to return a value from forgetful"):
        tl.gradients_function(forgetful)(1.0)
    with pytest.raises(ValueError, match="forgetful"):
        tl.implicit_gradients(forgetful)(tl.Variable(1.0))
    assert STATE.open == ()


def test_same_tensor_passed_twice_counts_as_two() -> None:
    x = tl.asarray(3.0)
    assert numbers(tl.gradients_function(lambda a, b: a * b * b)(x, x)) == [9.0, 18.0]


def test_integer_argument_has_no_gradient() -> None:
    assert numbers(tl.gradients_function(lambda x, n: x * n)(2.0, 3)) == [3.0, None]


def test_value_and_gradients_take_a_cotangent() -> None:
    value, gradients = tl.value_and_gradients_function(lambda x: x * x)(3.0, dy=2.0)
    assert value.item() == 9.0
    assert numbers(gradients) == [12.0]


def test_gradients_function_nests() -> None:
    def slope(x: Any) -> Any:
        return tl.gradients_function(lambda t: t * t * t)(x)[0]

    assert numbers(tl.gradients_function(slope)(2.0)) == [12.0]
    twice = tl.gradients_function(lambda x: tl.gradients_function(slope)(x)[0])
    assert numbers(twice(2.0)) == [6.0]


def test_gradients_function_of_a_compiled_function_and_inside_one() -> None:
    cube = tl.function(lambda x: x * x * x)
    assert numbers(tl.gradients_function(cube)(2.0)) == [12.0]
    slope = tl.function(lambda x: tl.gradients_function(cube)(x)[0])
    assert slope(tl.asarray(2.0)).item() == 12.0
    assert numbers(tl.gradients_function(slope)(2.0)) == [12.0]


def test_implicit_gradients_come_in_order_of_creation() -> None:
    first, second = tl.Variable(2.0), tl.Variable(3.0)
    fixed = tl.Variable(5.0, trainable=False)
    value, pairs = tl.implicit_value_and_gradients(lambda: second * second * first * fixed)()
    assert value.item() == 90.0
    assert pairs[0][1] is first
    assert pairs[1][1] is second
    assert numbers([gradient for gradient, _ in pairs]) == [45.0, 60.0]


def test_implicit_gradients_take_arguments() -> None:
    v = tl.Variable([1.0, 2.0])
    [(gradient, variable)] = tl.implicit_gradients(lambda x, *, scale: v * x * scale)(
        3.0, scale=2.0
    )
    assert variable is v
    assert gradient.numpy().tolist() == [6.0, 6.0]


def test_implicit_gradients_need_a_variable() -> None:
    with pytest.raises(ArgumentError, match="no trainable variables were accessed"):
        tl.implicit_gradients(lambda x: x * x)(1.0)
    assert STATE.open == ()


def test_implicit_gradients_of_a_compiled_function_and_inside_one() -> None:
    v = tl.Variable(2.0)
    square = tl.function(lambda x: v * v * x)
    [(gradient, _)] = tl.implicit_gradients(square)(3.0)
    assert gradient.item() == 12.0
    inside = tl.function(lambda x: tl.implicit_gradients(lambda: v * v * x)()[0][0])
    assert inside(tl.asarray(3.0)).item() == 12.0
    with tl.GradientTape() as tape:
        found = inside(tl.asarray(3.0))
    assert np.isclose(tape.gradient(found, v).item(), 6.0)


def test_variable_passed_twice_counts_as_two() -> None:
    v = tl.Variable(3.0)
    assert numbers(tl.gradients_function(lambda x, y: x * y * y)(v, v)) == [9.0, 18.0]
