"""Numbers of rounds that the body of a loop needs as Python's: to look into lists and dicts, and in
texts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapeline as tl

PRICES = {k: 0.5 * k for k in range(0, 200, 2)}
TABLE = [float(k * k) for k in range(200)]
LETTERS = "ab" * 100


def get_of_a_dict(x: Any) -> Any:
    total = x * 0
    for i in range(70):
        total = total + PRICES.get(i, -1.0) * x
    return total


def membership(x: Any) -> Any:
    total = x * 0
    for i in range(70):
        if i in PRICES:
            total = total + x
    return total


def list_of_numbers(x: Any) -> Any:
    total = x * 0
    for i in range(70):
        total = total + TABLE[i] * x
    return total


def letters_of_a_text(x: Any) -> Any:
    total = x * 0
    for i in range(70):
        if LETTERS[i] == "a":
            total = total + x
    return total


@pytest.mark.parametrize(
    "function", [get_of_a_dict, membership, list_of_numbers, letters_of_a_text]
)
def test_long_range_finds_what_python_finds(function: Callable[[Any], Any]) -> None:
    x = tl.asarray(1.5)
    assert float(tl.function(function)(x)) == float(function(x))


def dict_by_number(x: Any) -> Any:
    found = {}
    for i, row in enumerate(x):
        found[i] = tl.sum(row)
    return found[3] - found[len(x) - 1]


def dict_by_text(x: Any) -> Any:
    found = {}
    for i, row in enumerate(x):
        found[f"row {i}"] = row * i
    return found["row 66"]


def texts_in_a_list(x: Any) -> Any:
    names, total = [], tl.zeros(2)
    for i, row in enumerate(x):
        total = total + row
        names.append("row %s" % i)  # noqa: UP031  # the operator is the point
    return total, names


def table_beside_rows(x: Any) -> Any:
    total = tl.zeros(2)
    for row, i in zip(x, range(len(x)), strict=True):
        total = total + row * TABLE[i]
    return total


@pytest.mark.parametrize(
    "function", [dict_by_number, dict_by_text, texts_in_a_list, table_beside_rows]
)
@pytest.mark.parametrize("count", [64, 67, 90])
def test_rows_can_be_counted_in_python(function: Callable[[Any], Any], count: int) -> None:
    x = tl.asarray(np.random.default_rng(0).normal(size=(max(count, 67), 2)))
    wanted, found = function(x), tl.function(function)(x)
    for a, b in zip(tl.nest.flatten(found), tl.nest.flatten(wanted), strict=True):
        if isinstance(b, str):
            assert a == b
        else:
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-13)


def test_counting_in_python_follows_the_number_of_rows() -> None:
    f = tl.function(dict_by_number)
    for count in (70, 75, 80, 70):
        x = tl.asarray(np.arange(2.0 * count).reshape(count, 2))
        assert float(f(x)) == float(dict_by_number(x))


def test_texts_of_exceptions_keep_a_loop_one_node() -> None:
    @tl.function
    def f(x: Any) -> Any:
        total = tl.zeros(2)
        for i, row in enumerate(x):
            if row[0] > 5:
                raise ValueError(f"row {i} is too large")
            assert row[1] < 9, f"row {i}"
            total = total + row
        return total

    assert f(tl.ones((70, 2))).numpy().tolist() == [70.0, 70.0]
    assert "scan" in {op.name for op in f.concrete_functions[0].graph.ops}
    with pytest.raises(ValueError, match="too large"):
        f(6 * tl.ones((70, 2)))


@pytest.mark.parametrize("what", ["index", "key"])
def test_number_of_a_loop_in_the_graph_is_refused_with_the_repair(what: str) -> None:
    table = TABLE if what == "index" else PRICES

    @tl.function
    def f(x: Any, n: Any) -> Any:
        for i in tl.range(n):
            x = x + table[i]
        return x

    with pytest.raises(TypeError, match=r"tl.asarray\(table\)\[i\].*tl.unroll"):
        f(tl.asarray(1.0), tl.asarray(3))

    @tl.function
    def g(x: Any, n: Any) -> Any:
        i = 0
        while i < n:
            x = x + PRICES.get(i, 0.0)
            i += 1
        return x

    with pytest.raises(TypeError, match=r"x as a key.*tl.unroll"):
        g(tl.asarray(1.0), tl.asarray(3))


def test_very_long_loop_that_is_unrolled_warns() -> None:
    @tl.function
    def f(x: Any) -> Any:
        found = {}
        for i, row in enumerate(x):
            found[i] = row
        return found[1000]

    with pytest.warns(UserWarning, match="unrolled 1001 times"):
        assert float(f(tl.arange(1001.0))) == 1000.0


def test_tensors_are_keys_by_identity() -> None:
    x, y = tl.asarray(1.0), tl.asarray(1.0)
    assert len({x, y, x}) == 2

    @tl.function
    def f(a: Any, b: Any) -> Any:
        return {a: 1, b: 2}[a]

    assert f(x, y) == 1
