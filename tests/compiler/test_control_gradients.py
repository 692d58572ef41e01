"""Values and gradients of choices and loops: captured tensors, nested functions, any depth; and
what is kept for the gradient."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapeline as tl
from tapeline.runtime.errors import ArgumentError, ShapeError, TracingError


def values_of(f: Callable[..., Any], *args: Any) -> list[Any]:
    return [np.asarray(tl.asarray(x).numpy()) for x in tl.nest.flatten(f(*args))]


def check(f: Callable[..., Any], *args: Any, wrt: tuple[int, ...] = (0,)) -> None:
    """The same value and gradients eagerly, compiled, and with the gradient taken inside of a
    compiled function and of one in that."""
    given = [tl.asarray(x) for x in args]

    def total(*args: Any) -> Any:
        return sum(tl.sum(x) for x in tl.nest.flatten(f(*args)))

    compiled = tl.function(f)
    for a, b in zip(values_of(f, *given), values_of(compiled, *given), strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-12)
    expected = values_of(tl.grad(total, wrt), *given)
    inside = tl.function(tl.grad(total, wrt))
    twice = tl.function(lambda *args: inside(*args))
    for way in (tl.grad(tl.function(total), wrt), inside, twice):
        for a, b in zip(expected, values_of(way, *given), strict=True):
            np.testing.assert_allclose(b, a, rtol=1e-12, atol=1e-14)


# --- choices ----------------------------------------------------------------------------------


@pytest.mark.parametrize("holds", [True, False])
def test_branches_over_captured_tensors(holds: bool) -> None:
    def one_captures_each(x: Any, y: Any, c: Any) -> Any:
        return tl.cond(c, lambda: x * 2.0, lambda: y * 3.0)

    def several_results(x: Any, y: Any, c: Any) -> Any:
        return tl.cond(c, lambda: (x * y, x + y), lambda: (x - y, x / y))

    def one_constant(x: Any, y: Any, c: Any) -> Any:
        return tl.cond(c, lambda: x * y * 2.0, lambda: tl.asarray(1.5))

    def no_inputs(x: Any, y: Any, c: Any) -> Any:
        return tl.cond(c, lambda: tl.asarray(1.0), lambda: tl.asarray(2.0)) + 0 * x

    for f in (one_captures_each, several_results, one_constant, no_inputs):
        check(f, 1.5, 2.5, holds, wrt=(0, 1))
    untaken = tl.grad(tl.function(one_captures_each), (0, 1))(
        tl.asarray(1.0), tl.asarray(2.0), tl.asarray(holds)
    )
    assert [g.item() for g in untaken] == ([2.0, 0.0] if holds else [0.0, 3.0])


@pytest.mark.parametrize("flags", [(True, True), (True, False), (False, True), (False, False)])
def test_choices_and_functions_within_each_other(flags: tuple[bool, bool]) -> None:
    def in_one(x: Any, y: Any, c: Any, d: Any) -> Any:
        return tl.cond(c, lambda: tl.cond(d, lambda: x * y, lambda: x - y), lambda: y * 2.0)

    def in_both(x: Any, y: Any, c: Any, d: Any) -> Any:
        def inner(z: Any) -> Any:
            return tl.cond(d, lambda: z * x, lambda: z + x)

        return tl.cond(c, lambda: inner(x), lambda: inner(y))

    def of_functions(x: Any, y: Any, c: Any, d: Any) -> Any:
        @tl.function
        def third(z: Any) -> Any:
            return tl.cond(d, lambda: z * y, lambda: z / y)

        @tl.function
        def second(z: Any) -> Any:
            return third(z) * z

        return tl.cond(c, lambda: second(x), lambda: second(y))

    def three_deep(x: Any, y: Any, c: Any, d: Any) -> Any:
        if c:
            if d:  # noqa: SIM108  # a branch in a branch is what is tested
                z = x * y if x > y else x + y
            else:
                z = x
        else:
            z = y * y
        return z * x

    for f in (in_one, in_both, of_functions, three_deep):
        check(f, 1.5, 2.5, *flags, wrt=(0, 1))


def test_higher_derivatives_of_choices() -> None:
    def f(x: Any) -> Any:
        return tl.cond(x > 0, lambda: x**5, lambda: tl.sin(x))

    def case(x: Any, k: Any) -> Any:
        return tl.switch_case(k, [lambda: x**5, lambda: tl.sin(x), lambda: tl.exp(2 * x)])

    def derivative(g: Callable[..., Any], order: int) -> Callable[..., Any]:
        for _ in range(order):
            g = tl.grad(g)
        return g

    for order, right in enumerate((5 * 2.0**4, 20 * 2.0**3, 60 * 2.0**2, 120 * 2.0), start=1):
        assert derivative(tl.function(f), order)(tl.asarray(2.0)).item() == pytest.approx(right)
        for k, at in ((0, right), (2, 2.0**order * np.exp(4.0)), (7, 2.0**order * np.exp(4.0))):
            got = derivative(tl.function(case), order)(tl.asarray(2.0), tl.asarray(k)).item()
            assert got == pytest.approx(at)


def test_assignments_in_branches_keep_their_order() -> None:
    v, w = tl.Variable(1.0), tl.Variable(10.0)

    @tl.function
    def inner(x: Any) -> None:
        v.assign(v * x)

    @tl.function
    def f(c: Any) -> Any:
        v.assign_add(1.0)
        if c:
            inner(tl.asarray(3.0))
            w.assign(v + w)
        v.assign_add(w)
        return v.read_value()

    assert f(tl.asarray(True)).item() == 22.0
    assert f(tl.asarray(False)).item() == 39.0


def test_branches_of_different_structure_are_an_error() -> None:
    f = tl.function(lambda c: tl.cond(c, lambda: (1.0, 2.0), lambda: {"a": 1.0, "b": 2.0}))
    with pytest.raises(ArgumentError, match="structures differ"):
        f(tl.asarray(True))


# --- loops ------------------------------------------------------------------------------------


def test_loops_over_captured_tensors() -> None:
    def square_until(v: Any, limit: Any) -> Any:
        return tl.while_loop(lambda v: v < limit, lambda v: v * v, v)

    def with_invariant(x: Any, y: Any) -> Any:
        return tl.while_loop(lambda x, y: x * y < 9.0, lambda x, y: (x * y, y), (x, y))

    def of_functions(x: Any, y: Any) -> Any:
        body = tl.function(lambda v: v * x)
        return tl.while_loop(lambda v: v < 50.0 * y, body, y)

    def nested(x: Any, y: Any) -> Any:
        def outer(k: Any, v: Any) -> Any:
            inner = tl.while_loop(lambda i, u: i < k, lambda i, u: (i + 1, u * x), (0, v))[1]
            return k + 1, inner + y

        return tl.while_loop(lambda k, v: k < 4, outer, (0, y))[1]

    def identity(x: Any, y: Any) -> Any:
        return tl.while_loop(lambda v, u: v < 20.0, lambda v, u: (v * 2.0, +u), (x, y))

    for f, args in (
        (square_until, (2.0, 8.0)),
        (with_invariant, (1.5, 2.0)),
        (of_functions, (1.5, 2.0)),
        (nested, (1.1, 0.7)),
        (identity, (1.5, 2.0)),
    ):
        check(f, *args, wrt=(0, 1))
    assert tl.grad(tl.function(lambda v: square_until(v, 8.0)))(tl.asarray(2.0)).item() == 32.0


def test_state_of_one_item_comes_back_as_it_was_given() -> None:
    found = tl.function(lambda: tl.while_loop(lambda x: x < 3, lambda x: [x + 1], [0]))()
    assert isinstance(found, list)
    assert len(found) == 1


def test_condition_must_be_one_bool() -> None:
    with pytest.raises(ShapeError, match=r"while_loop: cond: expected one bool, got bool"):
        tl.function(lambda x: tl.while_loop(lambda x: x < 3.0, lambda x: x + 1, x))(tl.ones((1, 1)))

    @tl.function
    def statement(x: Any) -> Any:
        while x < 3.0:  # one element decides, whatever its shape
            x = x + 1
        return x

    assert statement(tl.ones((1, 1))).numpy().tolist() == [[3.0]]


def test_custom_gradient_in_a_body() -> None:
    v = tl.Variable(2.0)

    @tl.custom_gradient
    def scaled(x: Any) -> Any:
        def grad_fn(dy: Any, variables: Any = None) -> Any:
            return dy * 10.0, [dy * 100.0]

        return x * v, grad_fn

    @tl.function
    def f(x: Any) -> Any:
        return tl.while_loop(lambda k, y: k < 2, lambda k, y: (k + 1, scaled(y)), (0, x))[1]

    x = tl.asarray(3.0)
    with tl.GradientTape() as tape:
        tape.watch(x)
        y = f(x)
    assert y.item() == 12.0
    assert [g.item() for g in tape.gradient(y, [x, v])] == [100.0, 1100.0]


def test_loop_without_gradient() -> None:
    f = tl.function(lambda x: tl.stop_gradient(tl.while_loop(lambda v: v < 8, lambda v: v * v, x)))
    x = tl.asarray(2.0)
    with tl.GradientTape() as tape:
        tape.watch(x)
        y = f(x)
    assert tape.gradient(y, x) is None


def test_variables_assigned_in_loops_in_the_order_of_the_program() -> None:
    v = tl.Variable(1.0)

    @tl.function
    def f(n: Any) -> Any:
        k = 0
        while k < n:
            v.assign(v * 2.0)
            k += 1
        first = v.read_value()
        for _ in tl.range(3):
            v.assign_add(first)
        return first

    assert f(tl.asarray(3)).item() == 8.0
    assert v.numpy() == 32.0


def test_shapes_of_what_a_body_makes_are_known() -> None:
    shapes: list[Any] = []

    @tl.function
    def f(x: Any) -> Any:
        def body(k: Any, y: Any) -> Any:
            made = [tl.zeros(x.shape), tl.ones((2, *x.shape)), tl.full(x.shape, 3.0)]
            made.append(y.reshape((x.shape[1], x.shape[0])))
            shapes[:] = [part.shape for part in made]
            return k + 1, y + made[0] * made[2] + made[3].reshape(x.shape)

        return tl.while_loop(lambda k, y: k < 3, body, (0, x))[1]

    assert f(tl.ones((2, 3))).shape == (2, 3)
    assert shapes == [(2, 3), (2, 2, 3), (2, 3), (3, 2)]


# --- what is kept -----------------------------------------------------------------------------


def kept(f: Callable[..., Any], *args: Any) -> int:
    concrete = tl.function(f).get_concrete_function(*args)
    return concrete.gradient_memory()


def test_constants_and_invariants_are_not_kept_once_per_turn() -> None:
    big = tl.ones((100, 100))

    def f(x: Any, w: Any) -> Any:
        def body(y: Any, _: Any) -> Any:
            return tl.sin((w @ y) * 1.5 + tl.full((100,), 2.0)), None

        return tl.scan(body, x, length=50)[0].sum()

    assert kept(f, tl.ones(100), big) <= 2 * 50 * 100 * 8


def test_only_what_the_backward_needs_is_kept() -> None:
    def sums(x: Any) -> Any:
        return tl.scan(lambda y, _: (y + tl.sum(x * 2.0), None), x, length=50)[0].sum()

    def linear(x: Any) -> Any:
        return tl.cond(x[0] > 0, lambda: x * 3.0, lambda: x + 1.0).sum()

    assert kept(sums, tl.ones(1000)) < 1000
    assert kept(linear, tl.ones(1000)) < 100


def test_row_of_a_wrong_type_in_a_loop_names_the_variable() -> None:
    @tl.function
    def f(x: Any) -> Any:
        y = x
        for row in tl.range(5):
            y = y.astype("float32") + row
        return y

    with pytest.raises(TracingError, match=r"'y'.*float64.*float32"):
        f(tl.asarray(1.0))
