"""Loops that count to a number known at run time make their turns in vectors, and mean the same."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tapeline as tl
from tapeline.compiler.codegen.target import host_target
from tapeline.runtime.errors import IndexOutOfRangeError

# Parts of tensors are meant as copies here.
pytestmark = pytest.mark.filterwarnings("ignore::tapeline.errors.ViewWriteWarning")

SIZE = 50


def function_text(function: Any, *args: Any) -> str:
    """The LLVM text of the first loop of a compiled function."""
    concrete = tl.function(function).get_concrete_function(*args)
    text: str = concrete.differentiable.compiled.executable().module.text
    start = text.index("define internal i64 @control0")
    return text[start : text.index("\n}", start)]


def fill(x: Any, y: Any, n: Any) -> Any:
    for i in tl.range(n):
        x[i] = i * 2.0
    return x


def shifted(x: Any, y: Any, n: Any) -> Any:
    for i in tl.range(2, n):
        x[i] = y[i - 2] + y[i + 1] * 0.5
    return x


def ahead(x: Any, y: Any, n: Any) -> Any:
    for i in tl.range(n):
        x[i] = x[i + 3] + x[i] * 0.25
    return x


def backwards(x: Any, y: Any, n: Any) -> Any:
    i = tl.asarray(0)
    while i < n:
        x[SIZE - 1 - i] = y[SIZE - 1 - 2 * i] * y[3]
        i = i + 1
    return x


def two_arrays(x: Any, y: Any, n: Any) -> Any:
    y = y + 0.0
    for i in tl.range(n):
        x[i], y[i + 1] = y[i + 1] * 3.0, x[i] + i
    return x + y


def table(x: Any, y: Any, n: Any) -> Any:
    grid = tl.reshape(x, (5, 10))
    for i in tl.range(1, n // 10):
        for j in tl.range(n % 12):
            grid[i, j] = grid[i, j] * 2.0 + y[5 * j]
    return tl.reshape(grid, (SIZE,))


VECTORS = [fill, shifted, ahead, backwards, two_arrays, table]


def after_the_last(x: Any, y: Any, n: Any) -> Any:
    """Each turn needs what the one before has written."""
    for i in tl.range(1, n):
        x[i] = x[i - 1] * 0.5 + y[i]
    return x


def at_one_place(x: Any, y: Any, n: Any) -> Any:
    for i in tl.range(n):
        x[7] = y[i] + i
    return x


def somewhere(x: Any, y: Any, n: Any) -> Any:
    for i in tl.range(n):
        x[(i * i) % SIZE] = y[i]
    return x


def read_once_written(x: Any, y: Any, n: Any) -> Any:
    for i in tl.range(n):
        x[i] = y[i] + x[0]
    return x


ONE_BY_ONE = [after_the_last, at_one_place, somewhere, read_once_written]


def inputs(dtype: Any = np.float64) -> tuple[Any, Any]:
    rng = np.random.default_rng(3)
    return rng.standard_normal(SIZE).astype(dtype), rng.standard_normal(SIZE).astype(dtype)


def plain(function: Callable[..., Any], x: Any, y: Any, n: int) -> Any:
    """The same by Python and NumPy."""
    space = SimpleNamespace(range=range, asarray=int, reshape=np.reshape)
    assert isinstance(function, FunctionType)
    run = FunctionType(function.__code__, {**function.__globals__, "tl": space})
    return run(x.copy(), y.copy(), n)


def has_vectors(text: str) -> bool:
    lanes = host_target().lanes(8)
    return f"store <{lanes} x double>" in text or "llvm.masked.store" in text


@pytest.mark.parametrize("n", [0, 1, 3, 4, 9, 17, 24, 40, 46])
@pytest.mark.parametrize("function", [*VECTORS, *ONE_BY_ONE])
def test_result_is_that_of_python(function: Any, n: int) -> None:
    x, y = inputs()
    if function is backwards:
        n = min(n, SIZE // 2)
    expected = plain(function, x, y, n)
    result = tl.function(function)(tl.asarray(x), tl.asarray(y), tl.asarray(n))
    np.testing.assert_array_equal(result.numpy(), expected)


@pytest.mark.parametrize("function", VECTORS)
def test_turns_are_made_in_vectors(function: Any) -> None:
    x, y = inputs()
    assert has_vectors(function_text(function, tl.asarray(x), tl.asarray(y), tl.asarray(3)))


@pytest.mark.parametrize("function", ONE_BY_ONE)
def test_turns_that_need_one_another_are_not(function: Any) -> None:
    x, y = inputs()
    assert not has_vectors(function_text(function, tl.asarray(x), tl.asarray(y), tl.asarray(3)))


@pytest.mark.parametrize(
    ("function", "n", "index", "size"),
    [
        (fill, 51, 50, 50), (fill, 2000, 50, 50), (shifted, 60, 50, 50), (ahead, 48, 50, 50),
        (two_arrays, 50, 50, 50), (table, 64, 5, 5), (table, 59, 10, 10),
    ],
)  # fmt: skip
def test_index_out_of_range_is_still_an_error(function: Any, n: int, index: int, size: int) -> None:
    x, y = inputs()
    message = rf"index {index} is out of range for axis \d with size {size}(?s:.)*test_vector_turns"
    with pytest.raises(IndexOutOfRangeError, match=message):
        tl.function(function)(tl.asarray(x), tl.asarray(y), tl.asarray(n))


def test_negative_indices_count_from_the_end() -> None:
    def run(x: Any, y: Any, first: Any, n: Any) -> Any:
        for i in tl.range(first, n):
            x[i] = y[i] * 2.0 + i
        return x

    x, y = inputs()
    for first, n in ((-50, 50), (-7, 30), (-30, -2), (5, 50)):
        expected = x.copy()
        for i in range(first, n):
            expected[i] = y[i] * 2.0 + i
        result = tl.function(run)(*map(tl.asarray, (x, y, first, n)))
        np.testing.assert_array_equal(result.numpy(), expected)
    with pytest.raises(IndexOutOfRangeError, match="index -51 is out of range"):
        tl.function(run)(*map(tl.asarray, (x, y, -51, 4)))


@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.int32, np.int16, np.uint8, np.bool_])
def test_elements_of_every_dtype(dtype: Any) -> None:
    def run(x: Any, y: Any, n: Any) -> Any:
        for i in tl.range(n):
            x[i] = y[i + 1] + y[i]
        return x

    x, y = inputs()
    x, y = (x * 9).astype(dtype), (abs(y) * 9).astype(dtype)
    expected = x.copy()
    for i in range(43):
        expected[i] = y[i + 1] + y[i]
    result = tl.function(run)(tl.asarray(x), tl.asarray(y), tl.asarray(43))
    np.testing.assert_array_equal(result.numpy(), expected)


def test_bounds_at_the_ends_of_the_integers() -> None:
    def run(x: Any, i: Any, n: Any) -> Any:
        while i < n:
            x[i] = 1.0
            i = i + 1
        return x

    compiled = tl.function(run)
    x, least, most = tl.zeros(8), np.iinfo(np.int64).min, np.iinfo(np.int64).max
    for first, last in ((least, most), (least, least + 1), (6, most), (-9, 3)):
        with pytest.raises(IndexOutOfRangeError, match=r"index -?\d+ is out of range"):
            compiled(tl.zeros(8), tl.asarray(first), tl.asarray(last))
    assert compiled(x, tl.asarray(most), tl.asarray(least)).numpy().sum() == 0


def test_gradients_through_such_loops() -> None:
    def loss(x: Any, y: Any, n: Any) -> Any:
        out = x * 1.0
        for i in tl.range(1, n):
            out[i] = out[i] * y[i - 1] + y[i] * y[i]
        return tl.sum(out * out)

    x, y = inputs()
    n = 37
    rest = x.copy()
    rest[1:n] = x[1:n] * y[: n - 1] + y[1:n] ** 2
    by_x = 2 * rest
    by_y = np.zeros(SIZE)
    by_y[: n - 1] += by_x[1:n] * x[1:n]
    by_y[1:n] += by_x[1:n] * 2 * y[1:n]
    by_x[1:n] *= y[: n - 1]
    found = tl.function(tl.grad(loss, argnums=(0, 1)))(tl.asarray(x), tl.asarray(y), tl.asarray(n))
    np.testing.assert_allclose(found[0].numpy(), by_x, rtol=1e-13)
    np.testing.assert_allclose(found[1].numpy(), by_y, rtol=1e-13, atol=1e-13)
