"""Native branches and loops: what is emitted for them, and what they do at the edges."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapeline as tl
from tapeline.runtime.errors import IndexOutOfRangeError


def function_text(function: Any, *args: Any) -> str:
    """The LLVM text of the first loop or choice of a compiled function."""
    concrete = tl.function(function).get_concrete_function(*args)
    text = concrete.differentiable.compiled.executable().module.text
    start = text.index("define internal i64 @control0")
    return text[start : text.index("\n}", start)]


def test_numbers_that_a_loop_carries_are_phis_without_memory() -> None:
    def run(x: Any) -> Any:
        return tl.while_loop(lambda i, x: i < 9, lambda i, x: (i + 1, x * 1.5 + 1), (0, x))[1]

    text = function_text(run, tl.asarray(1.0))
    body = text[text.index("loop") :]
    assert body.count("phi i64") == 2  # at the head, and behind the loop
    assert body.count("phi double") == 2
    assert body.count("store") == 1
    assert "call" not in body.replace("call i64 @llvm.expect", "")


def test_array_that_a_loop_carries_is_in_two_buffers_that_take_turns() -> None:
    def run(x: Any) -> Any:
        return tl.while_loop(lambda i, x: i < 9, lambda i, x: (i + 1, x * x[0]), (0, x))[1]

    text = function_text(run, tl.zeros(400))
    assert text.count("phi ptr") == 3
    assert text.count("memcpy") == 2


def test_element_is_written_in_place() -> None:
    def run(x: Any) -> Any:
        def turn(i: Any, x: Any) -> Any:
            x[i] = x[i - 1] + 1
            return i + 1, x

        return tl.while_loop(lambda i, x: i < 4, turn, (1, x))[1]

    text = function_text(run, tl.zeros(4))
    assert "phi ptr" not in text
    assert text.count("memcpy") == 1
    np.testing.assert_array_equal(tl.function(run)(tl.zeros(4)).numpy(), [0.0, 1.0, 2.0, 3.0])


def test_array_whose_old_value_is_still_read_is_copied() -> None:
    def run(x: Any) -> Any:
        def turn(i: Any, x: Any) -> Any:
            y = x * 1
            x[i] = 5.0
            return i + 1, x + y

        return tl.while_loop(lambda i, x: i < 3, turn, (0, x))[1]

    expected = run(tl.ones(3)).numpy()
    np.testing.assert_array_equal(tl.function(run)(tl.ones(3)).numpy(), expected)


def test_arrays_that_change_places() -> None:
    def run(x: Any, y: Any) -> Any:
        return tl.while_loop(lambda i, x, y: i < 3, lambda i, x, y: (i + 1, y, x), (0, x, y))[1:]

    a, b = tl.function(run)(tl.zeros(3), tl.ones(3))
    np.testing.assert_array_equal(a.numpy(), np.ones(3))
    np.testing.assert_array_equal(b.numpy(), np.zeros(3))


@pytest.mark.parametrize("start", [0, -7, 2])
def test_index_out_of_range_is_an_error_that_names_it(start: int) -> None:
    def run(x: Any, i: Any) -> Any:
        return tl.while_loop(lambda i, s: i < 9, lambda i, s: (i + 1, s + x[i]), (i, 0.0))[1]

    x, i = tl.asarray([1.0, 2.0, 3.0]), tl.asarray(start)
    bad = 3 if start >= 0 else start
    message = f"index {bad} is out of range for axis 0 with size 3"
    for function in (run, tl.function(run)):
        with pytest.raises(IndexOutOfRangeError, match=message):
            function(x, i)


def test_elements_of_several_axes_are_read_and_written() -> None:
    def run(x: Any) -> Any:
        def turn(i: Any, x: Any) -> Any:
            x[i, 2 - i] = x[i, i] * 10
            return i + 1, x

        return tl.while_loop(lambda i, x: i < 3, turn, (0, x))[1]

    x = tl.asarray(np.arange(9.0).reshape(3, 3))
    np.testing.assert_array_equal(tl.function(run)(x).numpy(), run(x).numpy())


def test_rows_and_products_in_a_loop() -> None:
    def run(x: Any, w: Any) -> Any:
        def turn(h: Any, row: Any) -> Any:
            h = tl.tanh(row @ w + h)
            return h, h.sum(-1)

        return tl.scan(turn, tl.zeros((2, 3)), x)

    rng = np.random.default_rng(0)
    x, w = tl.asarray(rng.standard_normal((4, 2, 3))), tl.asarray(rng.standard_normal((3, 3)))
    for a, b in zip(run(x, w), tl.function(run)(x, w), strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-13)


def test_host_call_in_a_loop_works_and_its_error_comes_out() -> None:
    def run(x: Any) -> Any:
        return tl.while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, tl.linalg.inv(-x)), (0, x))[1]

    x = tl.asarray([[3.0, 1.0], [2.0, 1.0]])
    np.testing.assert_array_equal(tl.function(run)(x).numpy(), run(x).numpy())


def test_strided_inputs_are_read_where_they_lie() -> None:
    def run(x: Any, y: Any) -> Any:
        return tl.scan(lambda c, row: (c + row * y, c), y, x)

    base = np.arange(24.0).reshape(4, 6)
    x, y = base.T[::2], base[0, ::2][:4]
    y = np.ascontiguousarray(np.broadcast_to(y[:1], 4)) + 1
    found = tl.function(run)(x, y)
    for a, b in zip(run(tl.asarray(x), tl.asarray(y)), found, strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())


@pytest.mark.parametrize("dtype", ["float32", "int32", "uint8", "bool", "complex128"])
def test_states_of_all_kinds(dtype: str) -> None:
    def run(x: Any, y: Any) -> Any:
        def turn(i: Any, x: Any, y: Any) -> Any:
            return i + 1, tl.where(i % 2 == 0, y[1], x), tl.where(i % 2 == 0, y, x)

        return tl.while_loop(lambda i, x, y: i < 5, turn, (0, x, y))[1:]

    x, y = tl.asarray(np.array(1, dtype)), tl.asarray(np.array([0, 1, 1], dtype))
    for a, b in zip(run(x, y), tl.function(run)(x, y), strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())
        assert a.dtype == b.dtype


def test_loop_without_a_turn_gives_what_it_was_given() -> None:
    def run(n: Any, x: Any) -> Any:
        return tl.while_loop(lambda i, x: i < n, lambda i, x: (i + 1, x * 2), (0, x))

    i, x = tl.function(run)(tl.asarray(0), tl.ones(3))
    assert int(i) == 0
    np.testing.assert_array_equal(x.numpy(), np.ones(3))


def test_big_states_do_not_live_on_the_stack() -> None:
    def run(x: Any) -> Any:
        return tl.while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x + x.max() + 1), (0, x))[1]

    np.testing.assert_array_equal(
        tl.function(run)(tl.zeros(500_000)).numpy(), np.full(500_000, 7.0)
    )


def test_choice_between_a_few_steps_on_ints_is_no_branch() -> None:
    def run(n: Any) -> Any:
        steps = 0
        while n != 1:
            n = n // 2 if n % 2 == 0 else 3 * n + 1
            steps += 1
        return steps

    text = function_text(run, tl.asarray(27))
    assert "select i1" in text
    assert "then" not in text
    assert int(tl.function(run)(tl.asarray(27))) == 111
    text = function_text(run, tl.asarray(27.0))
    assert "then" in text


def test_choice_of_ints_that_divides_or_reads_stays_a_branch() -> None:
    def run(n: Any, table: Any) -> Any:
        for _ in tl.range(20):
            n = n // 3 if n > 50 else n + table[n]
        return n

    table = tl.asarray(np.arange(60))
    assert "then" in function_text(run, tl.asarray(7), table)
    expected, numbers = 7, list(range(60))
    for _ in range(20):
        expected = expected // 3 if expected > 50 else expected + numbers[expected]
    assert int(tl.function(run)(tl.asarray(7), table)) == expected


def test_index_that_cannot_leave_the_array_is_not_checked() -> None:
    def run(x: Any) -> Any:
        for i in tl.range(1, 99):
            x[i] = x[i - 1] * 0.5 + x[i + 1]
        return x

    assert "stop" not in function_text(run, tl.zeros(100))
    assert "stop" in function_text(run, tl.zeros(99))
    with pytest.raises(IndexError, match="99"):
        tl.function(run)(tl.zeros(99))


def test_a_step_on_floats_that_elements_decide_is_no_branch() -> None:
    """No processor guesses what an element will be."""

    def run(x: Any, least: Any) -> Any:
        total = 0.0
        for i in range(100):
            if x[i] > least:
                total = total + x[i]
        return total

    x = np.random.default_rng(0).random(100)
    text = function_text(run, tl.asarray(x), tl.asarray(0.5))
    assert "select i1" in text
    assert "then" not in text
    found = tl.function(run)(tl.asarray(x), tl.asarray(0.5))
    assert float(found) == sum(v for v in x.tolist() if v > 0.5)

    def first_below(x: Any) -> Any:  # here it is what the loop computed that decides
        total = 0.0
        for i in range(100):
            if total < 3.0:
                total = total + x[i]
        return total

    assert "then" in function_text(first_below, tl.asarray(x))


@pytest.mark.parametrize("dtype", [np.int64, np.float64])
def test_a_choice_between_arrays_that_are_there_takes_the_right_one(dtype: Any) -> None:
    def run(x: Any, a: Any, b: Any) -> Any:
        kept = a
        for i in range(100):
            if x[i] > 50:  # noqa: SIM108  # the statement is what is meant
                kept = b
            else:
                kept = a
        return kept

    x = np.arange(100).astype(dtype)
    a, b = np.zeros(20, dtype), np.ones(20, dtype)
    for values, expected in ((x, b), (x[::-1].copy(), a)):
        found = tl.function(run)(*[tl.asarray(v) for v in (values, a, b)])
        np.testing.assert_array_equal(found.numpy(), expected)


def test_division_by_an_int_that_the_call_gives() -> None:
    """As NumPy divides: rounded down, 0 by 0, and wrapped around."""
    wide_step = tl.asarray(1 << 61)

    def run(x: Any, k: Any) -> Any:
        rest, quotient = tl.zeros(9, tl.int64), tl.zeros(9, tl.int64)
        for i in tl.range(9):
            rest[i] = x[i] % k + (i * wide_step) % k
            quotient[i] = x[i] // k + i // k
        return rest, quotient

    least, most = np.iinfo(np.int64).min, np.iinfo(np.int64).max
    x = np.array([least, least + 1, -7, -1, 0, 1, 7, most - 1, most])
    i = np.arange(9)
    compiled = tl.function(run)
    for k in (3, 1, 0, -1, -4, most, least):
        with np.errstate(all="ignore"):
            wide = (i * (1 << 61)) % np.int64(k)
            expected = x % np.int64(k) + wide, x // np.int64(k) + i // np.int64(k)
        for a, b in zip(compiled(tl.asarray(x), tl.asarray(k)), expected, strict=True):
            np.testing.assert_array_equal(a.numpy(), b, err_msg=f"k = {k}")


@pytest.mark.parametrize("size", [1, 7])
def test_indices_of_either_sign(size: int) -> None:
    """Each is used twice, and what is computed of the first use holds for the second."""

    def run(x: Any, places: Any) -> Any:
        for k in tl.range(40):
            x[places[k]] = x[places[k]] * 0.5 + k
        return x

    rng = np.random.default_rng(size)
    places = rng.integers(-size, size, 40)
    start = rng.standard_normal(size)
    expected = start.copy()
    for k in range(40):
        expected[places[k]] = expected[places[k]] * 0.5 + k
    compiled = tl.function(run)
    found = compiled(tl.asarray(start), tl.asarray(places)).numpy()
    np.testing.assert_array_equal(found, expected)
    ends = np.iinfo(np.int64)
    for bad in (size, -size - 1, 3 * size, ends.max, ends.max - size + 1, ends.min):
        places[25] = bad
        shown = bad if abs(bad) < 1 << 39 else r"-?\d+"
        with pytest.raises(
            IndexOutOfRangeError, match=f"index {shown} is out of range.*size {size}"
        ):
            compiled(tl.asarray(start), tl.asarray(places))


@pytest.mark.parametrize("place", [0, 1, 3])
@pytest.mark.parametrize("condition", [1.0, -1.0])
def test_elements_of_arrays_around_go_into_array_steps_of_a_choice(
    place: int, condition: float
) -> None:
    def run(x: Any, c: Any) -> Any:
        element, last = x[place], x[-1]
        return x * element - last if c > 0 else tl.sum(x) + element * x[::-1]

    x = np.array([1.0, 20.0, 300.0, 4000.0])
    got = tl.function(run)(x, tl.asarray(condition))
    np.testing.assert_array_equal(got, run(x, condition))


def test_choices_one_after_the_other_over_elements() -> None:
    def run(x: Any) -> Any:
        total = tl.zeros(2)
        for i in range(4):
            total = total + x[i] if x[i] > 0 else total * x[i]
        return total

    for x in ([1.0, 2.0, 3.0, 4.0], [3.0, -2.0, 5.0, -7.0]):
        np.testing.assert_array_equal(tl.function(run)(tl.asarray(x)), run(np.array(x)))
