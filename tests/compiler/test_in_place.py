"""Arguments that loops change are written over where nobody else holds their memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapeline as tl
from tapeline.runtime.errors import IndexOutOfRangeError

# Parts of tensors are meant as copies here.
pytestmark = pytest.mark.filterwarnings("ignore::tapeline.errors.ViewWriteWarning")

SIZE = 1000


def address(x: Any) -> int:
    place: int = x.numpy().__array_interface__["data"][0]
    return place


def numbers() -> Any:
    return np.random.default_rng(2).random(SIZE)


def counted(x: Any, n: Any) -> Any:
    for i in tl.range(n):
        x[i] = x[i] * 0.5 + 1.0
    return x


def running(x: Any, n: Any) -> Any:
    for i in tl.range(1, SIZE):
        x[i] = x[i] + x[i - 1] * 0.5
    return tl.sum(x) * 1.0


def table(x: Any, n: Any) -> Any:
    grid = tl.reshape(x, (40, 25))
    for i in tl.range(1, 40):
        for j in tl.range(1, 25):
            grid[i, j] = tl.minimum(grid[i - 1, j], grid[i, j - 1]) + 0.25
    return grid[39, 24]


def by_numpy(function: Callable[..., Any], x: Any, n: int) -> Any:
    """What the argument is afterwards."""
    x = x.copy()
    if function is counted:
        x[:n] = x[:n] * 0.5 + 1.0
    else:
        for i in range(1, SIZE):
            x[i] = x[i] + x[i - 1] * 0.5
    return x


@pytest.mark.parametrize("function", [counted, running])
@pytest.mark.parametrize("n", [SIZE, 777, 2, 0])
def test_argument_is_written_over(function: Any, n: int) -> None:
    compiled, x, count = tl.function(function), tl.asarray(numbers()), tl.asarray(n)
    expected = numbers()
    for _ in range(3):
        before = address(x)
        compiled(x, count)
        expected = by_numpy(function, expected, n)
        np.testing.assert_allclose(x.numpy(), expected, rtol=1e-14)
        if n > 3:  # a few turns may fail, for all that is known before them
            assert address(x) == before


@pytest.mark.parametrize("function", [counted, running])
def test_what_others_hold_stays_as_it_is(function: Any) -> None:
    compiled, count = tl.function(function), tl.asarray(SIZE)
    x = tl.asarray(numbers())
    view, before = x.numpy(), address(x)
    compiled(x, count)
    assert address(x) != before
    np.testing.assert_array_equal(view, numbers())
    np.testing.assert_allclose(x.numpy(), by_numpy(function, numbers(), SIZE), rtol=1e-14)

    x = tl.asarray(numbers())
    other = x[:]
    compiled(x, count)
    np.testing.assert_array_equal(other.numpy(), numbers())


def test_result_of_an_earlier_call_stays_as_it_is() -> None:
    compiled, count = tl.function(counted), tl.asarray(SIZE)
    x = tl.asarray(numbers())
    first = compiled(x, count)
    kept = first.numpy().copy()
    second = compiled(x, count)
    np.testing.assert_array_equal(first.numpy(), kept)
    np.testing.assert_array_equal(second.numpy(), x.numpy())


def test_call_that_fails_leaves_the_argument_as_it_was() -> None:
    compiled, x = tl.function(counted), tl.asarray(numbers())
    compiled(x, tl.asarray(0))
    before = x.numpy().copy()
    for n in (SIZE + 1, SIZE * 3):
        with pytest.raises(IndexOutOfRangeError, match=f"index {SIZE} is out of range"):
            compiled(x, tl.asarray(n))
        np.testing.assert_array_equal(x.numpy(), before)


def test_loop_that_may_fail_on_the_way_works_on_a_copy() -> None:
    def scattered(x: Any, places: Any) -> Any:
        for i in tl.range(40):
            x[places[i]] = x[i] + 1.0
        return tl.sum(x)

    compiled, places = tl.function(scattered), np.arange(40) * 7
    places[30] = SIZE + 5
    x = tl.asarray(numbers())
    with pytest.raises(IndexOutOfRangeError, match=f"index {SIZE + 5} is out of range"):
        compiled(x, tl.asarray(places))
    np.testing.assert_array_equal(x.numpy(), numbers())


def test_old_numbers_that_are_still_read() -> None:
    def changes(x: Any, n: Any) -> Any:
        old = x * 1.0
        kept = x[:]
        for i in tl.range(1, n):
            x[i] = x[i] + 1.0 + kept[SIZE - 1]
        return tl.sum(x - old), tl.sum(kept)

    compiled, x = tl.function(changes), tl.asarray(numbers())
    for _ in range(2):
        before = x.numpy().copy()
        change, total = compiled(x, tl.asarray(SIZE))
        np.testing.assert_allclose(total.numpy(), before.sum(), rtol=1e-13)
        np.testing.assert_allclose(change.numpy(), (SIZE - 1) * (1.0 + before[-1]), rtol=1e-10)


def test_one_tensor_as_two_arguments() -> None:
    def both(x: Any, y: Any) -> Any:
        for i in tl.range(1, SIZE):
            x[i] = y[i - 1] + 1.0
        return tl.sum(x)

    x, y = tl.asarray(numbers()), tl.asarray(numbers())
    tl.function(both)(x, y)
    np.testing.assert_allclose(x.numpy()[1:], numbers()[:-1] + 1.0, rtol=1e-14)
    same, eager = tl.asarray(numbers()), tl.asarray(numbers())
    tl.function(both)(same, same)
    for i in range(1, SIZE):
        eager[i] = eager[i - 1] + 1.0
    np.testing.assert_allclose(same.numpy(), eager.numpy(), rtol=1e-13)


def test_table_and_array_of_numpy() -> None:
    x, given = tl.asarray(numbers()), numbers()
    expected = numbers().reshape(40, 25)
    for i in range(1, 40):
        for j in range(1, 25):
            expected[i, j] = min(expected[i - 1, j], expected[i, j - 1]) + 0.25
    compiled = tl.function(table)
    assert compiled(x, 0).item() == expected[39, 24]
    run = tl.function(counted)
    run(given, tl.asarray(SIZE))
    np.testing.assert_array_equal(given, by_numpy(counted, numbers(), SIZE))


def test_gradients_see_the_numbers_before() -> None:
    compiled, x = tl.function(running), tl.asarray(numbers())
    compiled(x, 0)
    start = x.numpy().copy()
    with tl.GradientTape() as tape:
        tape.watch(x)
        y = x * x
        total = compiled(y, 0)
    slope = tape.gradient(total, x).numpy()
    weights = np.array([2.0 - 0.5 ** (SIZE - 1 - k) for k in range(SIZE)])
    np.testing.assert_allclose(slope, 2 * start * weights, rtol=1e-12)
    np.testing.assert_array_equal(x.numpy(), start)


def spread(x: Any, y: Any) -> Any:
    for i in tl.range(x.shape[0]):
        x[i] = tl.sin(x[i]) * 0.5 + y[i]
    return x


def whole(x: Any, y: Any) -> Any:
    x[...] = x * 0.5 + tl.cos(y)
    return x


def turned(x: Any, y: Any) -> Any:
    x[...] = x * 0.5 + y.T
    return tl.sum(x)


def with_another(x: Any, y: Any) -> Any:
    old = x * 2.0
    x[...] = x * 0.5 + y
    return old


def shifted(x: Any, y: Any) -> Any:
    x[...] = tl.concat((x[1:], x[:1])) + y
    return x


def summed(x: Any, y: Any) -> Any:
    x[...] = x - tl.sum(x, axis=-1, keepdims=True) + y
    return x


@pytest.mark.parametrize("shape", [(1003,), (8192,), (37, 53), (64, 64), (300_007,)])
@pytest.mark.parametrize("function", [spread, whole, turned, with_another, shifted, summed])
def test_arrays_changed_element_by_element(function: Any, shape: tuple[int, ...]) -> None:
    if function is spread and len(shape) > 1:
        return
    if function is turned and len(set(shape)) > 1:
        shape = (max(shape[0] % 100, 40),) * 2
    rng = np.random.default_rng(4)
    start, y = rng.random(shape), tl.asarray(rng.random(shape))
    compiled, x = tl.function(function), tl.asarray(start)
    expected = tl.asarray(start)
    for _ in range(3):
        before = address(x)
        expected = tl.asarray(expected.numpy())
        if function is spread:
            result = expected = tl.sin(expected) * 0.5 + y
        else:
            result = function(expected, y)
        found = compiled(x, y)
        np.testing.assert_allclose(x.numpy(), expected.numpy(), rtol=1e-13, atol=1e-13)
        np.testing.assert_allclose(found.numpy(), result.numpy(), rtol=1e-12, atol=1e-12)
        del found
        if function in (spread, whole):
            assert address(x) == before
