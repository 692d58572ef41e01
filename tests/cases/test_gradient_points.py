"""Gradients where functions have kinks, ties, zeros or repeated elements."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from tests.cases.comparing import (
    Array,
    Program,
    assert_close,
    both_modes,
    derivatives,
    gradients,
    run_as,
    tensor,
)

import tapeline as tl


@both_modes
@pytest.mark.parametrize(
    ("exponent", "slope"), [(2.0, 0.0), (1.5, 0.0), (0.0, 0.0), (1.0, 1.0), (3, 0.0), (0, 0.0)]
)
def test_slope_of_a_power_at_zero(mode: str, exponent: Any, slope: float) -> None:
    (got,) = gradients(run_as(mode, lambda x: tl.sum(x**exponent)), tensor([0.0]))
    assert_close(got, [slope])


@both_modes
def test_slopes_of_a_power_in_base_and_exponent(mode: str) -> None:
    power = run_as(mode, lambda a, b: tl.sum(a**b))
    by_base, by_exponent = gradients(power, tensor([0.0, 3.0]), tensor([2.0, 2.0]))
    assert_close(by_base, [0.0, 6.0])
    assert_close(by_exponent, [0.0, 9.0 * math.log(3.0)])


@both_modes
def test_slope_of_an_odd_power_of_a_negative_number(mode: str) -> None:
    (got,) = gradients(run_as(mode, lambda x: tl.sum(x**3.0)), tensor([-2.0]))
    assert_close(got, [12.0])


@both_modes
def test_five_derivatives_of_a_fourth_power_at_zero(mode: str) -> None:
    got = derivatives(run_as(mode, lambda x: x**4), tensor(0.0), 5)
    assert got == [0.0, 0.0, 0.0, 0.0, 24.0, 0.0]


@both_modes
def test_equal_maxima_share_the_gradient(mode: str) -> None:
    (got,) = gradients(run_as(mode, lambda x: tl.max(x)), tensor([7.0, 2.0, 7.0, 1.0]))
    assert_close(got, [0.5, 0.0, 0.5, 0.0])
    for program in (lambda x: tl.max(tl.stack([x, x])), lambda x: tl.maximum(x, x)):
        (got,) = gradients(run_as(mode, program), tensor(2.0))
        assert_close(got, 1.0)
    (got,) = gradients(run_as(mode, lambda x: tl.sum(tl.max(x) + x)), tensor([2.0, 3.0]))
    assert_close(got, [1.0, 3.0])


KINKS: dict[str, Program] = {
    "relu": lambda x: tl.maximum(x, tl.zeros_like(x)),
    "abs": tl.abs,
    "minimum": lambda x: tl.minimum(x, -x),
    "max": lambda x: tl.max(tl.stack([x, -x, x])),
}


@pytest.mark.parametrize("name", KINKS)
def test_kinks_have_one_subgradient_eager_and_compiled(name: str) -> None:
    (eager,) = gradients(KINKS[name], tensor(0.0))
    (compiled,) = gradients(tl.function(KINKS[name]), tensor(0.0))
    assert eager is not None
    assert_close(compiled, eager)
    assert abs(eager) <= 1.0


@both_modes
def test_steps_add_no_gradient(mode: str) -> None:
    (got,) = gradients(run_as(mode, lambda x: tl.sum(x + tl.floor(x))), tensor([3.8, -0.5]))
    assert_close(got, [1.0, 1.0])


@both_modes
def test_a_guarded_branch_of_where_keeps_the_gradient_finite(mode: str) -> None:
    def program(x: Any) -> Any:
        guarded = tl.where(x < 1.0, tl.ones_like(x), x)
        return tl.sum(tl.where(x < 1.0, x, tl.sqrt(guarded)))

    (got,) = gradients(run_as(mode, program), tensor([0.0, 1e-9, 4.0]))
    assert_close(got, [1.0, 1.0, 0.25])


@both_modes
def test_gradient_of_a_norm(mode: str) -> None:
    (got,) = gradients(run_as(mode, lambda x: tl.sqrt(tl.sum(x * x))), tensor([3.0, 4.0]))
    assert_close(got, [0.6, 0.8])
    (got,) = gradients(run_as(mode, lambda x: tl.sum(x * x)), tensor([0.0, 0.0]))
    assert_close(got, [0.0, 0.0])


@both_modes
def test_gradient_of_distances_with_a_masked_diagonal(mode: str) -> None:
    def energy(points: Any) -> Any:
        apart = tl.reshape(points, (3, 1, 2)) - tl.reshape(points, (1, 3, 2))
        squares = tl.sum(apart * apart, axis=-1)
        others = tensor(1.0 - np.eye(3)) > 0.5
        distances = tl.sqrt(tl.where(others, squares, tl.ones_like(squares)))
        return tl.sum(tl.where(others, distances, tl.zeros_like(distances)))

    (got,) = gradients(run_as(mode, energy), tensor([[0.0, 0.0], [3.0, 4.0], [3.0, 0.0]]))
    assert_close(got, [[-3.2, -1.6], [1.2, 3.6], [2.0, -2.0]])


@both_modes
def test_gradients_of_repeated_indices_add_up(mode: str) -> None:
    two, four = tensor([0.75, 0.5]), tensor([1.0, 10.0, 100.0, 1000.0])
    twice, several = np.array([0, 0]), np.array([2, 0, -1, 2])
    (got,) = gradients(run_as(mode, lambda x: tl.sum(x[twice] * two)), tensor([4.0]))
    assert_close(got, [1.25])
    x = tensor([1.0, 2.0, 3.0])
    (got,) = gradients(run_as(mode, lambda x: tl.sum(x[several] * four)), x)
    assert_close(got, [10.0, 0.0, 1101.0])
    take = run_as(mode, lambda x: tl.sum(tl.take(x, tensor([2, 0, 2, 2], "int64")) * four))
    (got,) = gradients(take, x)
    assert_close(got, [10.0, 0.0, 1101.0])


SHAPES = [
    ((), (2,)), ((1,), ()), ((3, 4), (1, 4)), ((3, 1), (4,)), ((2, 3, 4), (3, 1)),
    ((1, 1), (2, 3, 4)), ((0, 3), (1, 3)),
]  # fmt: skip


@both_modes
@pytest.mark.parametrize(("a_shape", "b_shape"), SHAPES, ids=str)
def test_gradients_of_broadcast_operands_have_their_shapes(
    mode: str, a_shape: tuple[int, ...], b_shape: tuple[int, ...], rng: np.random.Generator
) -> None:
    a, b = np.asarray(rng.normal(size=a_shape)), np.asarray(rng.normal(size=b_shape))
    full = np.broadcast_shapes(a_shape, b_shape)

    def spread_back(gradient: Array, shape: tuple[int, ...]) -> Array:
        gradient = np.broadcast_to(gradient, full)
        gradient = gradient.sum(axis=tuple(range(len(full) - len(shape))))
        ones = tuple(i for i, n in enumerate(shape) if n == 1 and gradient.shape[i] != 1)
        return np.asarray(gradient.sum(axis=ones, keepdims=True).reshape(shape))

    by_a, by_b = gradients(run_as(mode, lambda x, y: tl.sum(x * y)), tensor(a), tensor(b))
    assert_close(by_a, spread_back(b, a_shape), rtol=1e-9, atol=1e-12)
    assert_close(by_b, spread_back(a, b_shape), rtol=1e-9, atol=1e-12)


@both_modes
@pytest.mark.filterwarnings("ignore:watch. int64 tensors have no gradient")
def test_integer_inputs_have_no_gradient_and_spoil_none(mode: str) -> None:
    program = run_as(mode, lambda x, n: tl.sum(x * n + x**n))
    x, n = tensor([1.0, 2.0]), tensor([3, 2], "int64")
    with tl.GradientTape() as tape:
        tape.watch(x)
        tape.watch(n)
        y = program(x, n)
    with pytest.warns(UserWarning, match="a source is of dtype int64"):
        by_x, by_n = tape.gradient(y, [x, n])
    assert_close(by_x, [6.0, 6.0])
    assert by_n is None


@both_modes
def test_third_derivative_through_a_call(mode: str) -> None:
    cube = run_as(mode, lambda x: x * x * x)
    assert derivatives(cube, tensor(2.0), 3) == [8.0, 12.0, 12.0, 6.0]


@both_modes
def test_second_derivative_by_a_variable_that_a_call_reads(mode: str) -> None:
    v = tl.Variable(2.0)
    fourth = run_as(mode, lambda: v * v * v * v)
    with tl.GradientTape() as outer:
        with tl.GradientTape() as inner:
            y = fourth()
        first = inner.gradient(y, v)
    assert_close(first, 32.0)
    assert_close(outer.gradient(first, v), 48.0)


def test_nested_tapes_inside_a_function() -> None:
    @tl.function
    def slopes(x: Any) -> Any:
        with tl.GradientTape() as outer:
            outer.watch(x)
            with tl.GradientTape() as inner:
                inner.watch(x)
                y = tl.sum(x * x * x)
            first = inner.gradient(y, x)
            total = tl.sum(first)
        return first, outer.gradient(total, x)

    first, second = slopes(tensor([1.0, 2.0]))
    assert_close(first, [3.0, 12.0])
    assert_close(second, [6.0, 12.0])
