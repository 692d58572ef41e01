"""Python numbers that vary become inputs, unless the program asks for their value."""

from __future__ import annotations

import math
import random
import warnings
from typing import Any

import numpy as np
import pytest

import tapeline as tl

X = tl.asarray(np.linspace(-1.0, 2.0, 6, dtype="float32"))
FLOATS = [0.1 * k for k in range(1, 20)] + [0.0, -0.5, -0.25, -3.0, math.inf, math.nan, -0.0]


def check(function: Any, numbers: Any, traces: int, x: Any = X) -> None:
    """Compiled as eagerly for each number, with at most so many traces."""
    compiled = tl.function(function)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for number in numbers:
            try:
                expected = function(x, number)
            except (ArithmeticError, ValueError) as error:
                with pytest.raises(type(error)):
                    compiled(x, number)
                continue
            found = compiled(x, number)
            for one, other in zip(tl.nest.flatten(found), tl.nest.flatten(expected), strict=True):
                assert type(one) is type(other)
                if isinstance(other, tl.Tensor):
                    assert one.dtype == other.dtype
                    np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=3e-6, atol=1e-7)
                else:
                    assert one == other or one != one
    assert compiled.trace_count <= traces


def test_a_sweep_over_floats_takes_three_traces() -> None:
    check(lambda x, lr: x - lr * x, [0.01 * k for k in range(1, 500)], 3)


OPEN: list[Any] = [
    lambda x, a: x * a,
    lambda x, a: a - x,
    lambda x, a: x / (a + 1) * 2.0,
    lambda x, a: tl.exp(x * (1 - a)) + a * a - a**2,
    lambda x, a: tl.where(x > a, x, a),
    lambda x, a: tl.maximum(x, a),
    lambda x, a: x**2 * -a + 0.5**a,
    lambda x, a: tl.full((2,), a),
    lambda x, a: tl.asarray(a) * x,
    lambda x, a: x + (a if isinstance(a, float) else 7.0),
    lambda x, a: tl.where(a < x, x, -x) + (a >= x),
    lambda x, a: x * a if a > 0 else x - a,
    lambda x, a: x if a is None or a == "auto" or a != 0 else x + 1,
    lambda x, a: x * abs(a) if a else x,
]


@pytest.mark.parametrize("number", range(len(OPEN)))
def test_arithmetic_beside_tensors_leaves_them_open(number: int) -> None:
    check(OPEN[number], FLOATS, 12)


ASKING: list[Any] = [
    lambda x, a: x * a if a > 0.5 else x + a,
    lambda x, a: x * math.sqrt(abs(a)),
    lambda x, a: x * {0.5: 2.0}.get(a, 3.0),
    lambda x, a: x * round(a, 1),
    lambda x, a: x * float(f"{a:.1f}"),
    lambda x, a: x * (1 / (a - 0.1)),
    lambda x, a: x * a**0.5 if isinstance(a**0.5, float) else x,
    lambda x, a: x * a if a == np.float32(0.5) else x,
    lambda x, a: x * (1 if a * -1 < 0 else 2),
    lambda x, a: (x, a**3, 2.0**a),
    lambda x, a: x + a // 0.25,
]


@pytest.mark.parametrize("number", range(len(ASKING)))
def test_a_question_makes_them_constants(number: int) -> None:
    check(ASKING[number], FLOATS, len(FLOATS))


INTS = [1, 2, 3, 4, 5, 6, -1, -2, -3, -4, 0, True, 1 << 40]


@pytest.mark.parametrize(
    "function",
    [
        lambda x, n: x * n + n / 2,
        lambda x, n: tl.reshape(x, (2, 3))[n % 2],
        lambda x, n: x[: n % 4],
        lambda x, n: tl.sum(tl.stack([x * k for k in range(n % 5 + 1)]), axis=0),
        lambda x, n: x * (n * n + n // 2),
    ],
)
def test_ints(function: Any) -> None:
    check(function, INTS, len(INTS))


def test_ints_are_indices_and_have_arithmetic_of_their_own() -> None:
    def f(x: Any, n: int) -> Any:
        assert n >= 1
        assert not n < 1
        row = x[n % 3, (n + 1) // 2 % 5] * n
        x = x + 0
        x[-n % 3] = (2 * n - 1) / (3 + n)
        return row, x, x[0] + (n * n - n // 3), tl.arange(5) <= n, x * (7 // n)

    check(f, range(1, 40), 3, tl.asarray(np.arange(15.0).reshape(3, 5)))


def test_an_index_out_of_range_is_an_error_when_the_program_runs() -> None:
    f = tl.function(lambda x, n: x[n])
    for n in range(1, 6):
        assert f(X, n).item() == X[n].item()
    with pytest.raises(IndexError, match="6"):
        f(X, 6)
    assert f(X, -1).item() == X[-1].item()


def test_numbers_come_back_as_numbers() -> None:
    check(lambda x, a: (x, a), FLOATS, 12)
    check(lambda x, a: {"x": x * a, "half": a / 2 - 0.1, "square": a**2}, FLOATS, 12)
    check(lambda x, n: [n + 1, (n, n % 3), x, n / 7, n**2 // 5], range(1, 30), 3)


def test_a_counter_in_the_state_of_a_loop_takes_no_further_traces() -> None:
    @tl.function
    def update(state: Any, gradient: Any) -> Any:
        count = state["count"] + 1
        return {"w": state["w"] - gradient / count, "count": count}

    state = {"w": X, "count": 0}
    for _ in range(30):
        state = update(state, X)
    assert state["count"] == 30
    assert type(state["count"]) is int
    assert update.trace_count <= 4


def test_numbers_that_come_back_to_a_trace_are_constants_of_it() -> None:
    inner = tl.function(lambda x, a: (x * a, a + 1.0))

    def outer(x: Any, a: float) -> Any:
        y, b = inner(x, a)
        return y * (2.0 if b > 1.2 else 3.0)

    for numbers in ([0.1 * k for k in range(1, 6)], [0.2 * k for k in range(1, 6)]):
        for a in numbers:
            b = inner(X, a)[1]
            assert (type(b), b) == (float, a + 1.0)
        for a in numbers:
            np.testing.assert_allclose(
                tl.function(outer)(X, a).numpy(), outer(X, a).numpy(), rtol=1e-6
            )


def test_numbers_come_back_under_a_tape() -> None:
    f = tl.function(lambda x, a: (tl.sum(x * a), a * 2.0))
    for k in range(1, 6):
        with tl.GradientTape() as tape:
            tape.watch(X)
            y, b = f(X, 0.5 * k)
        assert b == k
        np.testing.assert_allclose(tape.gradient(y, X).numpy(), 0.5 * k)


def test_products_of_ints_that_may_not_fit_are_constants() -> None:
    numbers = [1, 2, 3, 1 << 20, (1 << 31) - 1, (1 << 31) - 3]
    check(lambda x, n: x + n * n, numbers, 3)
    check(lambda x, n: x + n * n / 3, numbers, 6)
    check(lambda x, n: x + n * n * n, numbers, 6)
    check(lambda x, n: x.astype("int64") + (n + (1 << 70)) // (1 << 60), numbers, 6)


def test_ints_beside_small_ints_still_overflow() -> None:
    x = tl.asarray(np.arange(3, dtype="int8"))
    check(lambda x, n: x + n, [1, 2, 3, 4, 5, 127, 128, 300, -1, -2, -3, -200], 12, x)
    check(lambda x, n: x * n, [1, 2, 3, 4, 5], 5, tl.asarray(np.arange(3, dtype="int64")))


def test_numbers_inside_of_containers() -> None:
    def f(x: Any, options: Any) -> Any:
        return x * options["rates"][1] + options["bias"]

    compiled = tl.function(f)
    for k in range(1, 12):
        given = {"rates": (0.5, 0.1 * k), "bias": 1.5 * k}
        np.testing.assert_allclose(
            compiled(X, given).numpy(), f(X, dict(reversed(given.items()))).numpy(), rtol=1e-6
        )
    assert compiled.trace_count == 3


def test_numbers_as_defaults_and_keywords() -> None:
    def f(x: Any, *, rate: float = 0.5, count: int = 2) -> Any:
        return x * rate + count

    compiled = tl.function(f)
    for k in range(1, 10):
        np.testing.assert_allclose(
            compiled(X, rate=0.1 * k).numpy(), f(X, rate=0.1 * k).numpy(), rtol=1e-6
        )
    assert compiled.trace_count == 3


def test_gradients_flow_past_open_numbers() -> None:
    f = tl.function(lambda x, a: tl.sum(tl.sin(x) * a))
    for k in range(1, 8):
        with tl.GradientTape() as tape:
            tape.watch(X)
            y = f(X, 0.5 * k)
        found = tape.gradient(y, X)
        np.testing.assert_allclose(found.numpy(), np.cos(X.numpy()) * 0.5 * k, rtol=1e-6)
    assert f.trace_count == 3


def test_sizes_and_numbers_together() -> None:
    def f(x: Any, a: float) -> Any:
        return tl.sum(x) * a / x.shape[0]

    compiled = tl.function(f)
    for n in range(2, 12):
        x = tl.asarray(np.arange(n, dtype="float64"))
        np.testing.assert_allclose(compiled(x, 0.3 * n).numpy(), f(x, 0.3 * n).numpy(), rtol=1e-12)
    assert compiled.trace_count <= 4


def test_a_compiled_function_called_with_an_open_number() -> None:
    inner = tl.function(lambda x, a: x * a)
    f = tl.function(lambda x, a: inner(x, a) + inner(x, a * 2))
    for k in range(1, 8):
        np.testing.assert_allclose(f(X, 0.5 * k).numpy(), X.numpy() * 1.5 * k, rtol=1e-6)
    assert f.trace_count == 3


def test_without_reducing_each_number_is_a_trace() -> None:
    f = tl.function(lambda x, a: x * a, reduce_retracing=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for k in range(5):
            f(X, float(k))
    assert f.trace_count == 5


class RandomNumbers:
    """Random arithmetic of an int `n`, a float `a` and constants, as Python text."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)

    def value(self, depth: int) -> str:
        """An expression."""
        rng = self.rng
        if depth == 0 or rng.random() < 0.2:
            return rng.choice(["n", "n", "a", "a", "2", "3", "-1", "0.5", "7", "-0.25"])
        if rng.random() < 0.2:
            kind = rng.choice(["-({})", "abs({})", "({}) ** 2", "({}) ** 3"])
            return kind.format(self.value(depth - 1))
        sign = rng.choice(["+", "-", "*", "/", "//", "%", "+", "-", "*"])
        return f"({self.value(depth - 1)} {sign} {self.value(depth - 1)})"

    def condition(self, depth: int) -> str:
        """A question about an expression."""
        sign = self.rng.choice(["<", "<=", ">", ">=", "==", "!="])
        return f"{self.value(depth)} {sign} {self.rng.choice(['0', '1', '0.0', 'n', 'x[1]'])}"


@pytest.mark.filterwarnings("ignore:.* was traced in 5 calls")
@pytest.mark.parametrize("seed", range(40))
def test_random_arithmetic_is_pythons(seed: int) -> None:
    made = RandomNumbers(seed)
    text = (
        f"lambda x, n, a: (x * ({made.value(3)}), {made.value(3)}, "
        f"tl.where({made.condition(1)}, x, {made.value(2)}), [{made.value(1)}, {made.value(2)}])"
    )
    function = eval(text, {"tl": tl})
    compiled = tl.function(function)
    pairs = [(k, 0.75 * k) for k in range(1, 9)] + [(-k, 0.5 * k) for k in range(1, 7)]
    for n, a in pairs:
        try:
            expected = function(X, n, a)
        except ZeroDivisionError:
            with pytest.raises(ZeroDivisionError):
                compiled(X, n, a)
            continue
        for one, other in zip(
            tl.nest.flatten(compiled(X, n, a)), tl.nest.flatten(expected), strict=True
        ):
            assert type(one) is type(other), text
            if isinstance(other, tl.Tensor):
                assert one.dtype == other.dtype, text
                np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-6, err_msg=text)
            else:
                assert one == other, text
