"""Python in the middle of compiled functions, constants on purpose, and checks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapeline as tl
from tapeline.runtime.errors import CheckError, ShapeError

PAIR = tl.TensorSpec([2], "float64")


def test_python_runs_once_a_call_with_values_in_order_with_other_effects() -> None:
    seen: list[Any] = []

    def note(name: str) -> Any:
        return lambda x: seen.append((name, x.tolist()))

    @tl.function
    def f(x: Any) -> Any:
        tl.py_function(note("first"), [x], None)
        y = tl.py_function(lambda x: np.sort(x.numpy()), [x], PAIR)
        tl.py_function(note("second"), [y], None)
        tl.py_function(lambda x: note("unused")(x) or x, [x], PAIR)
        return y * 2

    for k in range(3):
        assert f(tl.asarray([3.0, 1.0 + k])).tolist() == [2.0 + 2 * k, 6.0]
        values = [3.0, 1.0 + k]
        assert seen == [("first", values), ("second", values[::-1]), ("unused", values)]
        seen.clear()
    assert f.trace_count == 1


@pytest.mark.parametrize("compiled", [False, True])
def test_gradients_come_from_the_run_that_was_recorded(compiled: bool) -> None:
    runs = []

    def python(x: Any, n: Any) -> Any:
        runs.append(x.tolist())
        return {"y": x * x * 3, "n": n}

    def f(x: Any, n: Any) -> Any:
        found = tl.py_function(python, [x, n], {"y": PAIR, "n": tl.int64})
        return tl.sum(found["y"] * 2) + tl.astype(found["n"], "float64")

    function = tl.function(f) if compiled else f
    for k in range(3):
        x = tl.asarray([1.0, 2.0 + k])
        with tl.GradientTape() as tape:
            tape.watch(x)
            y = function(x, tl.asarray(5))
        np.testing.assert_array_equal(tape.gradient(y, x).numpy(), 12 * x.numpy())
        assert y.item() == (6 * x.numpy() ** 2).sum() + 5
        assert len(runs) == k + 1


def test_a_gradient_within_a_compiled_function_runs_python_once() -> None:
    runs = []

    def python(x: Any) -> Any:
        runs.append(1)
        return tl.exp(x)

    @tl.function
    def slope(x: Any) -> Any:
        with tl.GradientTape() as tape:
            tape.watch(x)
            y = tl.py_function(python, [x], PAIR)
        return tape.gradient(y, x)

    np.testing.assert_allclose(slope(tl.asarray([0.0, 1.0])).numpy(), np.exp([0.0, 1.0]))
    assert runs == [1]


@pytest.mark.parametrize("compiled", [False, True])
def test_a_stated_gradient_wins(compiled: bool) -> None:
    def f(x: Any) -> Any:
        return tl.py_function(
            lambda x: np.exp(x.numpy()), [x], PAIR, gradient=lambda ct, x: ct * x * 100
        )

    function = tl.function(f) if compiled else f
    x = tl.asarray([1.0, 2.0])
    with tl.GradientTape() as tape:
        tape.watch(x)
        y = function(x)
    np.testing.assert_array_equal(tape.gradient(y, x).numpy(), [100.0, 200.0])


@pytest.mark.parametrize("stated", [False, True])
@pytest.mark.parametrize("compiled", [False, True])
def test_python_is_differentiated_to_any_order(compiled: bool, stated: bool) -> None:
    def product(x: Any, count: Any, y: Any) -> Any:
        return x**3 * y * int(count), y

    def slopes(ct: Any, _: Any, x: Any, count: Any, y: Any) -> Any:
        return ct * 3 * x**2 * y * int(count), None, ct * x**3 * int(count)

    def f(x: Any, y: Any) -> Any:
        spec = tl.TensorSpec([3])
        gradient = slopes if stated else None
        inputs = [x, tl.asarray(2), y]
        return tl.sum(tl.py_function(product, inputs, (spec, spec), gradient)[0])

    x, y = tl.asarray([1.0, 2.0, -3.0]), tl.asarray([0.5, 2.0, 4.0])
    g: Any = tl.function(f) if compiled else f

    def first(x: Any, y: Any) -> Any:
        return tl.sum(tl.grad(g)(x, y))

    def second(x: Any, y: Any) -> Any:
        return tl.sum(tl.grad(first)(x, y))

    if compiled:
        first, second = tl.function(first), tl.function(second)
    np.testing.assert_allclose(tl.grad(g)(x, y), 6 * x.numpy() ** 2 * y.numpy())
    for got, expected in (
        (tl.grad(first, (0, 1))(x, y), (12 * x.numpy() * y.numpy(), 6 * x.numpy() ** 2)),
        (tl.grad(second, (0, 1))(x, y), (12 * y.numpy(), 12 * x.numpy())),
    ):
        np.testing.assert_allclose(got[0], expected[0])
        np.testing.assert_allclose(got[1], expected[1])


def test_what_python_raises_or_gives_wrongly_reaches_the_caller_and_the_next_call_works() -> None:
    def python(x: Any) -> Any:
        if x[0] < 0:
            raise KeyError("negative")
        return x[:1] if x[0] > 10 else x

    f = tl.function(lambda x: tl.py_function(python, [x], PAIR))
    with pytest.raises(KeyError, match="negative"):
        f(tl.asarray([-1.0, 2.0]))
    with pytest.raises(ShapeError, match=r"gave float64 of shape \(1,\)"):
        f(tl.asarray([11.0, 2.0]))
    assert f(tl.asarray([1.0, 2.0])).tolist() == [1.0, 2.0]


def test_python_in_a_loop_runs_at_each_turn() -> None:
    seen: list[float] = []

    def python(k: Any) -> Any:
        seen.append(k.item())
        return k * 2.0

    @tl.function
    def f(n: Any) -> Any:
        total = tl.asarray(0.0)
        for k in tl.range(n):
            total += tl.py_function(python, [k], tl.float64)
        return total

    assert f(tl.asarray(4)).item() == 12.0
    assert seen == [0, 1, 2, 3]


class Settings:
    scale = 2.0
    table = np.array([1.0, 2.0])


def test_a_constant_is_not_looked_at_again() -> None:
    settings, v = Settings(), tl.Variable([10.0, 20.0])
    settings.table = np.array([1.0, 2.0])

    @tl.function
    def f(x: Any) -> Any:
        return x * tl.constant(settings.scale) + tl.constant(settings.table) + tl.constant(v)

    x = tl.asarray([1.0, 1.0])
    for _ in range(3):
        assert f(x).tolist() == [13.0, 24.0]
        settings.scale += 1.0
        settings.table[0] += 1.0
        v.assign_add([1.0, 1.0])
    assert f.trace_count == 1
    concrete = f.get_concrete_function(PAIR)
    assert (concrete.captures, concrete.variables) == ((), ())


def test_a_constant_leaves_other_reads_of_the_place_watched() -> None:
    settings = Settings()

    @tl.function
    def f(x: Any) -> Any:
        return x * tl.constant(settings.scale) + settings.scale

    assert f(tl.asarray(1.0)).item() == 4.0
    settings.scale = 3.0
    assert f(tl.asarray(1.0)).item() == 6.0


def test_constants_outside_of_a_trace() -> None:
    array = np.array([1.0, 2.0])
    made = tl.constant(array)
    array[0] = 5.0
    assert made.tolist() == [1.0, 2.0]
    assert tl.constant(2) == 2
    assert tl.constant(2, "float32").dtype == tl.float32
    assert tl.constant([1, 2]).dtype == tl.int64
    text = object()
    assert tl.constant(text) is text


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize(
    ("check", "good", "bad", "shown"),
    [
        (lambda x: tl.Assert(tl.sum(x) > 0, ["sum", x]), [1.0, 2.0], [-1.0, -2.0], "sum: .* -2"),
        (lambda x: tl.debugging.assert_equal(x, 1.0), [1.0, 1.0], [1.0, 2.0], r"x == y .*\(1,\)"),
        (lambda x: tl.debugging.assert_none_equal(x, 1.0), [0.0, 2.0], [1.0, 2.0], "x != y"),
        (lambda x: tl.debugging.assert_less(x, 5.0), [1.0, 2.0], [7.0, 5.0], "x < y .*7"),
        (lambda x: tl.debugging.assert_less_equal(x, 5.0), [1.0, 5.0], [7.0, 5.0], "x <= y"),
        (lambda x: tl.debugging.assert_greater(x, 0.0, "up"), [1.0, 2.0], [0.0, 5.0], "up: x > y"),
        (lambda x: tl.debugging.assert_greater_equal(x, 0.0), [0.0, 2.0], [-1.0, 5.0], "x >= y"),
        (lambda x: tl.debugging.assert_near(x, 1.0), [1.0, 1.0 + 1e-9], [1.0, 1.1], "x near y"),
        (tl.debugging.assert_positive, [1.0, 2.0], [0.0, np.nan], "x > 0"),
        (tl.debugging.assert_negative, [-1.0, -2.0], [0.0, -1.0], "x < 0"),
        (tl.debugging.assert_non_negative, [0.0, 2.0], [-1.0, 1.0], "x >= 0"),
        (tl.debugging.assert_non_positive, [0.0, -2.0], [-1.0, 1.0], "x <= 0"),
        (tl.debugging.assert_all_finite, [0.0, -2.0], [np.inf, 1.0], "x finite .*inf"),
    ],
)
def test_checks_hold_or_raise_with_the_values(
    check: Any, good: Any, bad: Any, shown: str, compiled: bool
) -> None:
    def f(x: Any) -> Any:
        check(x)
        return x * 2

    function = tl.function(f) if compiled else f
    for _ in range(2):
        assert function(tl.asarray(good)).tolist() == [2 * x for x in good]
        with pytest.raises(CheckError, match=shown):
            function(tl.asarray(bad))
    with pytest.raises(AssertionError):
        function(tl.asarray(bad))


def test_checks_that_hold_call_no_python() -> None:
    @tl.function
    def f(x: Any) -> Any:
        tl.debugging.assert_all_finite(x)
        total, k = tl.asarray(0.0), 0
        while k < tl.astype(x[0], "int64"):
            assert total < 100.0, "too much"
            total = total + x[1]
            k = k + 1
        return total

    for _ in range(2):
        assert f(tl.asarray([5.0, 2.0])).item() == 10.0
        with pytest.raises(CheckError, match="x finite does not hold; at"):
            f(tl.asarray([5.0, np.inf]))
        with pytest.raises(AssertionError, match="too much"):
            f(tl.asarray([5.0, 40.0]))
    (concrete,) = f.concrete_functions
    assert "NumPy call" not in {kernel.kind for kernel in concrete.kernels()}
    assert "call i64 @host" in concrete.llvm_ir()


def test_checks_of_shapes_speak_when_a_function_is_traced() -> None:
    @tl.function
    def f(x: Any) -> Any:
        tl.debugging.assert_shape(x, [2, None])
        tl.debugging.assert_rank(x, 2)
        return x

    assert f(tl.zeros((2, 5))).shape == (2, 5)
    with pytest.raises(ShapeError, match=r"must have shape \(2, None\), got"):
        f(tl.zeros((3, 5)))
    with pytest.raises(ShapeError, match="must have 1 dimensions, got 2"):
        tl.debugging.assert_rank(tl.zeros((3, 5)), 1)
