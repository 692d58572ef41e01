"""Quick steps that prepare the rows of a loop are taken in the loop."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapeline as tl


def names(function: Any, *args: Any) -> tuple[list[str], list[str]]:
    """The names of the ops outside of the one loop, and inside of its body."""
    graph = tl.function(function).get_concrete_function(*args).optimized_graph
    (loop,) = [op for op in graph.ops if op.subgraphs]
    return [op.name for op in graph.ops], [op.name for op in loop.subgraphs[0].ops]


def turn(state: Any, row: Any) -> Any:
    following = tl.tanh(state @ row[:, None] + tl.sum(row)) * state
    return following, tl.max(following)


@pytest.mark.parametrize("reverse", [False, True])
def test_bias_is_added_in_the_loop(reverse: bool) -> None:
    def run(x: Any, rows: Any, w: Any, b: Any) -> Any:
        return tl.scan(turn, x, rows @ w + b, reverse=reverse)

    rng = np.random.default_rng(0)
    shapes = (80, 80), (50, 8), (8, 80), (80,)
    given = [tl.asarray(0.1 * rng.standard_normal(shape)) for shape in shapes]
    outside, inside = names(run, *given)
    assert "add" not in outside
    assert inside.count("add") == 2
    for a, b in zip(tl.function(run)(*given), run(*given), strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-12, atol=1e-14)


def test_product_of_two_arrays_of_rows() -> None:
    def run(x: Any, rows: Any, others: Any) -> Any:
        return tl.scan(lambda s, row: (s * 0.5 + tl.flip(row), s[0]), x, rows * others)

    rng = np.random.default_rng(1)
    given = [tl.asarray(rng.standard_normal(shape)) for shape in ((300,), (40, 300), (40, 300))]
    outside, _ = names(run, *given)
    assert "multiply" not in outside
    for a, b in zip(tl.function(run)(*given), run(*given), strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())


def test_rows_that_are_used_elsewhere_or_are_few_numbers_are_made_outside() -> None:
    def twice(x: Any, rows: Any, b: Any) -> Any:
        made = rows + b
        return tl.scan(lambda s, row: (s * 0.5 + tl.flip(row), s[0]), x, made), tl.sum(made)

    def few(x: Any, rows: Any, b: Any) -> Any:
        return tl.scan(lambda s, row: (tl.flip(s) * 0.5 + row[0], s[0]), x, rows + b)

    rng = np.random.default_rng(2)
    wide = [tl.asarray(rng.standard_normal(shape)) for shape in ((300,), (40, 300), (300,))]
    assert "add" in names(twice, *wide)[0]
    thin = [tl.asarray(rng.standard_normal(shape)) for shape in ((300,), (40, 3), (3,))]
    assert "add" in names(few, *thin)[0]
