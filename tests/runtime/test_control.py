"""Control flow as functions, without a trace: what the bodies are given and must give."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapeline as tl
from tapeline.runtime.errors import ArgumentError, ShapeError


def test_cond_runs_only_the_branch_that_is_chosen() -> None:
    ran: list[str] = []

    def branch(name: str) -> Any:
        ran.append(name)
        return tl.asarray(1.0)

    tl.cond(tl.asarray(True), lambda: branch("then"), lambda: branch("else"))
    tl.cond(tl.asarray(False), lambda: branch("then"), lambda: branch("else"))
    assert ran == ["then", "else"]


def test_cond_takes_and_gives_structures() -> None:
    given = {"a": tl.asarray(2.0)}
    found = tl.cond(tl.asarray(True), lambda x: {"b": x["a"] * 2}, lambda x: {"b": x["a"]}, [given])
    assert float(found["b"]) == 4.0


def test_cond_rejects_a_condition_that_is_no_single_bool() -> None:
    with pytest.raises(ShapeError, match=r"expected one bool, got float64 of shape \(2,\)"):
        tl.cond(tl.asarray([1.0, 2.0]), lambda: 1, lambda: 2)


@pytest.mark.parametrize(("index", "expected"), [(0, 1), (1, 2), (2, 3), (7, 3), (-1, 3)])
def test_switch_case_takes_the_last_branch_outside_of_its_range(index: int, expected: int) -> None:
    branches = [lambda: tl.asarray(1), lambda: tl.asarray(2), lambda: tl.asarray(3)]
    assert int(tl.switch_case(tl.asarray(index), branches)) == expected


def test_while_loop_stops_at_maximum_iterations() -> None:
    (found,) = tl.while_loop(lambda x: x < 100, lambda x: [x + 1], [0], maximum_iterations=7)
    assert int(found) == 7


def test_while_loop_rejects_a_state_that_changes_its_dtype() -> None:
    for error in (ShapeError, TypeError):
        with pytest.raises(error, match=r"int64 of shape .* before a turn and float64"):
            tl.while_loop(lambda x: x < 3, lambda x: [x * 1.5], [1])


def test_scan_carries_and_stacks() -> None:
    xs = tl.asarray([1.0, 2.0, 3.0])
    carry, rows = tl.scan(lambda c, x: (c * 2 + x, c), 1.0, xs)
    assert float(carry) == 19.0
    np.testing.assert_array_equal(rows.numpy(), [1.0, 3.0, 8.0])


def test_scan_in_reverse_stacks_in_the_order_of_the_rows() -> None:
    xs = tl.asarray([1.0, 2.0, 3.0])
    carry, rows = tl.scan(lambda c, x: (c * 2 + x, c), 1.0, xs, reverse=True)
    assert float(carry) == 25.0
    np.testing.assert_array_equal(rows.numpy(), [12.0, 5.0, 1.0])


def test_scan_rejects_lengths_that_differ() -> None:
    with pytest.raises(ShapeError, match="must have one length"):
        tl.scan(lambda c, x: (c, None), 0.0, [tl.zeros(3), tl.zeros(4)])
    with pytest.raises(ArgumentError, match="give xs, or length"):
        tl.scan(lambda c, x: (c, None), 0.0)


def test_map_fn_stacks_what_the_function_gives() -> None:
    found = tl.map_fn(lambda row: row.sum(), tl.asarray([[1, 2], [3, 4]]))
    np.testing.assert_array_equal(found.numpy(), [3, 7])


def test_tape_differentiates_an_eager_loop() -> None:
    x = tl.asarray(1.5)
    with tl.GradientTape() as tape:
        tape.watch(x)
        _, y = tl.while_loop(lambda i, y: i < 4, lambda i, y: (i + 1, y * x), (0, tl.asarray(1.0)))
    assert np.isclose(float(tape.gradient(y, x)), 4 * 1.5**3)


@pytest.mark.parametrize("mode", [lambda f: f, tl.function], ids=["eager", "compiled"])
def test_foldl_goes_through_the_rows_from_the_left(mode: Any) -> None:
    x = tl.asarray([2.0, 3.0, 4.0])
    from_first = mode(lambda x: tl.foldl(lambda a, b: a * b - 1.0, x))
    assert float(from_first(x)) == 19.0
    from_five = mode(lambda x: tl.foldl(lambda a, b: a - b, x, tl.asarray(5.0)))
    assert float(from_five(x)) == -4.0
    assert tl.grad(mode(lambda x: tl.foldl(lambda a, b: a * b, x)))(x).numpy().tolist() == [
        12,
        8,
        6,
    ]
    assert float(tl.foldl(lambda a, b: a * b, x[:1])) == 2.0


def test_map_fn_takes_the_dtypes_of_its_results() -> None:
    rows = tl.asarray([[1, 2], [3, 4]])
    total, mean = tl.map_fn(lambda row: (row.sum(), row.mean()), rows, (tl.float32, "float32"))
    assert (total.dtype, mean.dtype) == (tl.float32, tl.float32)
    assert total.numpy().tolist() == [3.0, 7.0]
    with pytest.raises(ValueError, match="1 dtypes for 2 results"):
        tl.map_fn(lambda row: (row, row), rows, tl.float32)
