"""Tensors of a trace as bounds of slices and as sizes: NumPy's results, one trace for all."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tapeline as tl

X = np.arange(24.0).reshape(6, 4)

READS: dict[str, Callable[..., Any]] = {
    "x[:n]": lambda x, n: x[:n],
    "x[n:]": lambda x, n: x[n:],
    "x[n:n + 2]": lambda x, n: x[n : n + 2],
    "x[n:2]": lambda x, n: x[n:2],
    "x[:n:2]": lambda x, n: x[:n:2],
    "x[n::-1]": lambda x, n: x[n::-1],
    "x[:n:-2]": lambda x, n: x[:n:-2],
    "x[:, n:]": lambda x, n: x[:, n:],
    "x[..., :n]": lambda x, n: x[..., :n],
    "x[None, 1, :n]": lambda x, n: x[None, 1, :n],
    "x[:n, :n]": lambda x, n: x[:n, :n],
    "x[[2, 0], :n]": lambda x, n: x[[2, 0], :n],
    "x[:n][::-1].sum(0)": lambda x, n: x[:n][::-1].sum(0),
    "x[x[:, 0] > 4][:n]": lambda x, n: x[x[:, 0] > 4][:n],
}
VALUES = (2, 0, 5, 9, -1, -3, -9, 3)


@pytest.mark.parametrize("name", READS)
def test_slices_read_what_numpy_reads(name: str) -> None:
    f = READS[name]
    compiled = tl.function(f)
    for n in VALUES:
        np.testing.assert_array_equal(compiled(X, tl.asarray(n)), f(X, n), err_msg=f"n = {n}")
    assert compiled.trace_count <= 4  # one for sizes in general; for nothing and for single rows


WRITES: dict[str, Callable[..., Any]] = {
    "x[:n] = 7": lambda x, n: x.__setitem__(slice(n), 7.0),
    "x[n:, 1] = 7": lambda x, n: x.__setitem__((slice(n, None), 1), 7.0),
    "x[n:n + 2] = rows": lambda x, n: x.__setitem__(slice(n, n + 2), np.full((1, 4), 5.0)),
    "x[:n, ::n] = 7": lambda x, n: x.__setitem__((slice(n), slice(None, None, 2)), 7.0),
    "x[1:n, :n] = 7": lambda x, n: x.__setitem__((slice(1, n), slice(n)), 7.0),
    "x[:n, [0, 2]] = 7": lambda x, n: x.__setitem__((slice(n), [0, 2]), 7.0),
}


@pytest.mark.parametrize("name", WRITES)
def test_slices_write_what_numpy_writes(name: str) -> None:
    write = WRITES[name]

    @tl.function
    def written(x: Any, n: Any) -> Any:
        y = x + 0
        write(y, n)
        return y

    for n in VALUES:
        wanted = X.copy()
        write(wanted, n)
        np.testing.assert_array_equal(written(X, tl.asarray(n)), wanted, err_msg=f"n = {n}")


SIZES: dict[str, Callable[[Any, Any], Any]] = {
    "zeros": lambda xp, n: xp.zeros(n) + 1,
    "ones": lambda xp, n: xp.ones((n, 2)) * 3,
    "full": lambda xp, n: xp.full((2, n), 1.5),
    "eye": lambda xp, n: xp.eye(n) * 2,
    "reshape": lambda xp, n: xp.reshape(xp.asarray(X), (n, -1)),
    "broadcast_to": lambda xp, n: xp.broadcast_to(xp.asarray([1.0, 2.0]), (n, 2)),
    "tile": lambda xp, n: xp.tile(xp.asarray([1.0, 2.0]), n),
    "roll": lambda xp, n: xp.roll(xp.asarray(X), n, axis=0),
    "arange": lambda xp, n: xp.arange(n) * 2,
    "linspace": lambda xp, n: xp.linspace(0.0, 1.0, n),
}


@pytest.mark.parametrize("name", SIZES)
def test_a_tensor_is_a_size(name: str) -> None:
    make = SIZES[name]
    compiled = tl.function(lambda n: make(tl, n))
    for n in (3, 4, 6, 8):
        np.testing.assert_allclose(compiled(tl.asarray(n)), make(np, n), rtol=1e-15)
    assert compiled.trace_count == 1 or name in ("reshape", "roll")  # which have conditions


@pytest.mark.parametrize(
    "name", [n for n in SIZES if n not in ("reshape", "roll", "tile", "broadcast_to")]
)
def test_numpy_s_own_functions_take_them_too(name: str) -> None:
    make = SIZES[name]
    compiled = tl.function(lambda n: make(np, n))
    for n in (3, 4, 6, 8):
        np.testing.assert_allclose(compiled(tl.asarray(n)), make(np, n), rtol=1e-15)
    assert compiled.trace_count == 1


def test_sizes_of_arguments_stay_sizes_of_the_whole_call() -> None:
    f = tl.function(lambda x: (x[: x.shape[0] // 2], tl.zeros(x.shape[0] + 1)))
    for n in (3, 8, 5):
        x = np.arange(float(n))
        half, zeros = f(x)
        np.testing.assert_array_equal(half, x[: n // 2])
        assert zeros.shape == (n + 1,)
    assert len(f.concrete_functions[-1].stages) == 1


def test_a_size_is_counted_in_the_function_itself() -> None:
    @tl.function
    def above(x: Any) -> Any:
        count: Any = tl.count_nonzero(x > 3)
        return tl.zeros(count), tl.sort(x)[-count:], x[: tl.argmax(x)]

    x = np.array([5.0, 1.0, 4.0, 9.0, 2.0])
    zeros, largest, before = above(x)
    np.testing.assert_array_equal(zeros, np.zeros(3))
    np.testing.assert_array_equal(largest, [4.0, 5.0, 9.0])
    np.testing.assert_array_equal(before, x[:3])


def test_gradients_of_slices() -> None:
    @tl.function
    def f(x: Any, n: Any) -> Any:
        y = x * 1.0
        y[n:] = y[n:] ** 2
        return tl.sum(x[:n] ** 3) + tl.sum(y)

    x = np.array([1.0, 2.0, 3.0, 4.0])
    for n in (0, 1, 3, 4):
        slope = 3 * x**2 * (np.arange(4) < n) + np.where(np.arange(4) < n, 1.0, 2 * x)
        np.testing.assert_allclose(tl.grad(f)(x, tl.asarray(n)), slope, rtol=1e-15)
        with tl.GradientTape() as tape:
            t = tl.asarray(x)
            tape.watch(t)
            y = f(t, tl.asarray(n))
        np.testing.assert_allclose(tape.gradient(y, t), slope, rtol=1e-15)


def test_a_negative_size_is_refused_and_the_next_call_works() -> None:
    f = tl.function(lambda n: tl.zeros(n) + 1)
    assert f(tl.asarray(2)).shape == (2,)
    with pytest.raises(ValueError, match="must not be negative, got -3"):
        f(tl.asarray(-3))
    assert f(tl.asarray(4)).shape == (4,)


@pytest.mark.parametrize("bad", [2.0, [1, 2]])
@pytest.mark.parametrize("use", [lambda n: tl.zeros((n, 2)), lambda n: tl.asarray(X)[:n]])
def test_what_is_no_whole_number_is_refused(bad: Any, use: Callable[[Any], Any]) -> None:
    with pytest.raises((TypeError, ValueError), match="must be ints"):
        tl.function(use)(tl.asarray(bad))


def test_a_range_is_a_loop_and_a_tensor() -> None:
    @tl.function
    def f(n: Any) -> Any:
        total = tl.asarray(0)
        numbers = tl.arange(n)
        for k in numbers:
            total = total + k
        return total, tl.sum(numbers), numbers[1:], -numbers == numbers, tl.arange(n, 0, -2)

    for n in (3, 7):
        total, same, rest, equal, down = f(tl.asarray(n))
        assert total.item() == same.item() == n * (n - 1) // 2
        np.testing.assert_array_equal(rest, np.arange(1, n))
        np.testing.assert_array_equal(equal, np.arange(n) == 0)
        np.testing.assert_array_equal(down, np.arange(n, 0, -2))


def test_under_vmap_it_is_an_error_that_says_why() -> None:
    f = tl.function(tl.vmap(lambda n: tl.asarray(X)[:n].sum()))
    with pytest.raises(TypeError, match="differs from example to example"):
        f(tl.asarray([1, 2]))


def test_saved_functions_have_it(tmp_path: Path) -> None:
    f = tl.function(lambda x, n: (x[:n] * 2, tl.ones(n)))
    f(X, tl.asarray(2))
    path = tmp_path / "f.tl"
    tl.export.save(f, path)
    loaded = tl.load(path)
    for n in (2, 5):
        for got, wanted in zip(loaded(X, tl.asarray(n)), (X[:n] * 2, np.ones(n)), strict=True):
            np.testing.assert_array_equal(got, wanted)


def test_a_slice_in_a_loop_runs_op_by_op_with_a_warning() -> None:
    @tl.function
    def f(x: Any, n: Any) -> Any:
        total: Any = 0.0
        while n > 0:
            total += tl.sum(x[:n])
            n = n - 1
        return total

    x = np.arange(4.0)
    with pytest.warns(UserWarning, match=r"f runs op by op: span at .*test_unknown_sizes\.py:\d+"):
        assert f(x, tl.asarray(3)).item() == 4.0
    t = tl.asarray(x)
    with tl.GradientTape() as tape:
        tape.watch(t)
        total = f(t, tl.asarray(3))
    np.testing.assert_array_equal(tape.gradient(total, t), [3.0, 2.0, 1.0, 0.0])
