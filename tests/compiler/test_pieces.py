"""Loops that fill arrays of dynamic size: native code, piece by piece, as the same in Python."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tapeline as tl
from tapeline.compiler import pieces
from tapeline.runtime.errors import IndexOutOfRangeError


@pytest.fixture(autouse=True)
def fresh_pieces(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(pieces, "_CODES", type(pieces._CODES)())
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*runs op by op")
        yield


def halves(x: Any, least: Any) -> Any:
    found = tl.TensorArray(x.dtype, dynamic_size=True, element_shape=())
    i = 0
    while x > least:
        found = found.write(i, x)
        x = x * 0.99
        i += 1
    return found.stack(), i, x


def unknown_elements(x: Any, n: Any) -> Any:
    found = tl.TensorArray(dynamic_size=True)
    k = 0
    while k < n:
        found = found.write(k, x * k)
        k += 1
    return found.stack()


def collatz(n: Any, _: Any) -> Any:
    seen = tl.TensorArray("int64", dynamic_size=True, element_shape=())
    while n != 1:
        seen = seen.write(len(seen), n)
        n = n // 2 if n % 2 == 0 else 3 * n + 1
    return seen.stack()


def over_a_range(x: Any, n: Any) -> Any:
    found = tl.TensorArray(dynamic_size=True).write(0, x)
    for k in tl.range(1, n):
        found = found.write(k, found.read(k - 1) * 0.99 + x * k)
        if found.read(-1).sum() > 2000:
            break
    else:
        found = found.write(0, x * 0)
    return found.stack(), k


def over_rows(x: Any, n: Any) -> Any:
    kept = tl.TensorArray(x.dtype, dynamic_size=True, element_shape=())
    for row in x:
        if row > n:
            kept = kept.write(kept.size(), row * 2)
    return kept.stack()


def many_writes_per_round(x: Any, n: Any) -> Any:
    found = tl.TensorArray(x.dtype, dynamic_size=True, element_shape=())
    count = 0
    while count < n:
        for _ in tl.range(150):
            found = found.write(count, x * count)
            count += 1
    return found.stack()


def with_gaps(x: Any, n: Any) -> Any:
    found = tl.TensorArray(x.dtype, dynamic_size=True, element_shape=())
    k = 0
    while k < n:
        found = found.write(3 * k, x + k)
        found = found.write(-1, x - k)
        k += 1
    return found.stack()


ROWS = np.random.default_rng(3).normal(size=300)
PROGRAMS: list[tuple[Callable[..., Any], Any, Any]] = [
    (halves, 5.0, 1e-3),
    (unknown_elements, [1.0, 2.0], 300),
    (unknown_elements, [1.0, 2.0], 1),
    (collatz, 837799, 0),
    (over_a_range, [0.1, 0.2], 400),
    (over_a_range, [0.01, 0.02], 200),
    (over_rows, ROWS, 0.3),
    (many_writes_per_round, 2.0, 400),
    (with_gaps, 1.0, 150),
]


def flat(result: Any) -> list[Any]:
    return [np.asarray(leaf) for leaf in tl.nest.flatten(result)]


@pytest.mark.parametrize(("program", "x", "y"), PROGRAMS)
def test_pieces_give_what_python_gives(program: Callable[..., Any], x: Any, y: Any) -> None:
    compiled = tl.function(program)
    expected = program(tl.asarray(x), tl.asarray(y))
    for _ in range(3):
        found = compiled(tl.asarray(x), tl.asarray(y))
        assert [type(a) for a in tl.nest.flatten(found)] == [
            type(a) for a in tl.nest.flatten(expected)
        ]
        for got, right in zip(flat(found), flat(expected), strict=True):
            assert (got.shape, got.dtype) == (right.shape, right.dtype)
            np.testing.assert_allclose(got, right, rtol=1e-13)
    (code,) = pieces._CODES.values()
    assert not code.is_hopeless
    assert code.function.trace_count > 0 or program is unknown_elements


@pytest.mark.parametrize(("program", "x", "y"), [one for one in PROGRAMS if one[0] is not collatz])
def test_gradients_go_through_pieces(program: Callable[..., Any], x: Any, y: Any) -> None:
    compiled = tl.function(program)

    def loss(f: Callable[..., Any]) -> Callable[..., Any]:
        return lambda x: (tl.nest.flatten(f(x, tl.asarray(y)))[0] ** 2).sum()

    x = tl.asarray(x)
    first, second = (tl.grad(loss(f)) for f in (program, compiled))
    np.testing.assert_allclose(second(x).numpy(), first(x).numpy(), rtol=1e-10)


def test_second_derivative() -> None:
    def f(x: Any, n: Any) -> Any:
        found = tl.TensorArray(dynamic_size=True)
        k = 0
        while k < n:
            found = found.write(k, x**3 * k)
            k += 1
        return found.stack().sum()

    compiled = tl.function(f)
    n = tl.asarray(100)
    slope = tl.grad(tl.grad(lambda x: compiled(x, n)))(tl.asarray(2.0))
    assert slope.item() == pytest.approx(6 * 2.0 * sum(range(100)))


def test_room_grows_and_is_remembered() -> None:
    compiled = tl.function(unknown_elements)
    x = tl.asarray([1.0, 2.0])
    compiled(x, tl.asarray(1000))
    (code,) = pieces._CODES.values()
    assert code.room >= 1000
    traces = code.function.trace_count
    compiled(x, tl.asarray(900))
    compiled(x, tl.asarray(800))
    assert code.function.trace_count <= traces + 1


def test_local_functions_and_globals_are_those_of_the_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    @tl.function
    def f(x: Any, n: Any) -> Any:
        def next_one(v: Any) -> Any:
            return v * FACTOR + x

        found = tl.TensorArray(x.dtype, dynamic_size=True, element_shape=())
        y = x
        while found.size() < n:
            found = found.write(found.size(), y)
            y = next_one(y)
        return found.stack()

    monkeypatch.setitem(globals(), "FACTOR", 1.0)
    n = tl.asarray(3)
    assert f(tl.asarray(1.0), n).numpy().tolist() == [1, 2, 3]
    assert f(tl.asarray(2.0), n).numpy().tolist() == [2, 4, 6]
    monkeypatch.setitem(globals(), "FACTOR", 2.0)
    assert f(tl.asarray(1.0), n).numpy().tolist() == [1, 3, 7]


FACTOR = 1.0


def test_global_in_a_loop_is_read_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    @tl.function
    def f(x: Any, n: Any) -> Any:
        found = tl.TensorArray(x.dtype, dynamic_size=True, element_shape=())
        k = 0
        while k < n:
            found = found.write(k, x * FACTOR)
            k += 1
        return found.stack()

    for factor in (1.0, 3.0, 4.0):
        monkeypatch.setitem(globals(), "FACTOR", factor)
        assert f(tl.asarray(1.0), tl.asarray(2)).numpy().tolist() == [factor, factor]


def test_index_out_of_range_is_the_usual_error() -> None:
    @tl.function
    def f(x: Any, n: Any) -> Any:
        found = tl.TensorArray(x.dtype, dynamic_size=True, element_shape=())
        k = 0
        while k < n:
            found = found.write(k, x)
            x = x + found.read(k + 7)
            k += 1
        return found.stack()

    with pytest.raises(IndexOutOfRangeError, match=r"read: index 7 in an array of size 1"):
        f(tl.asarray(1.0), tl.asarray(5))


def test_loop_that_no_graph_can_hold_stays_python() -> None:
    @tl.function
    def f(x: Any, n: Any) -> Any:
        found = tl.TensorArray(x.dtype, dynamic_size=True, element_shape=())
        k = 0
        while k < n:
            found = found.write(k, x + found.stack().sum() if k > 0 else x)
            k += 1
        return found.stack()

    assert f(tl.asarray(1.0), tl.asarray(4)).numpy().tolist() == [1, 2, 4, 8]
    (code,) = pieces._CODES.values()
    assert code.is_hopeless
