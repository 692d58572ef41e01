"""What every turn would compute again is computed before the loop."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapeline as tl


def graphs_of(function: Any, *args: Any) -> tuple[list[str], list[str]]:
    """The names of the ops outside of the one loop, and inside of its body."""
    graph = tl.function(function).get_concrete_function(*args).optimized_graph
    (loop,) = [op for op in graph.ops if op.subgraphs]
    body = loop.subgraphs[0] if loop.attr_names else loop.subgraphs[-1]
    return [op.name for op in graph.ops], [op.name for op in body.ops]


def test_product_of_captures_leaves_the_loop() -> None:
    def run(x: Any, a: Any, b: Any) -> Any:
        for _ in tl.range(100):
            x = tl.tanh(x @ (a @ b) + tl.sum(tl.exp(b)))
        return x

    rng = np.random.default_rng(0)
    given = [tl.asarray(0.1 * rng.standard_normal((30, 30))) for _ in range(3)]
    outside, inside = graphs_of(run, *given)
    assert {"matmul", "exp", "sum"} <= set(outside)
    assert inside.count("matmul") == 1
    assert not {"exp", "sum"} & set(inside)
    np.testing.assert_allclose(tl.function(run)(*given).numpy(), run(*given).numpy(), rtol=1e-12)


def test_what_moves_with_the_state_stays() -> None:
    def run(x: Any, a: Any) -> Any:
        for i in tl.range(100):
            x = x + tl.sin(a * i)
        return x

    _, inside = graphs_of(run, tl.zeros(300), tl.ones(300))
    assert "sin" in inside


def test_large_pointwise_result_is_computed_again() -> None:
    def run(x: Any, a: Any) -> Any:
        while tl.sum(x) < 5.0:
            x = x + tl.abs(a)
        return x

    outside, inside = graphs_of(run, tl.zeros(100_000), tl.ones(100_000))
    assert "abs" in inside
    assert "abs" not in outside


def test_what_may_fail_stays() -> None:
    def run(x: Any, a: Any, k: Any) -> Any:
        while tl.sum(x) < 5.0:
            x = x + a[k]
        return x

    zeros, ones = tl.zeros(300), tl.ones(300)
    assert float(tl.function(run)(ones, ones, tl.asarray(999)).numpy()[0]) == 1.0
    with pytest.raises(IndexError):
        tl.function(run)(zeros, ones, tl.asarray(999))


def test_transposed_matrix_is_laid_out_once() -> None:
    def run(x: Any, w: Any) -> Any:
        for _ in tl.range(100):
            x = tl.tanh(x @ tl.matrix_transpose(w))
        return x

    rng = np.random.default_rng(1)
    shapes = (20, 40), (40, 40)
    given = [tl.asarray(0.1 * rng.standard_normal(shape)) for shape in shapes]
    outside, inside = graphs_of(run, *given)
    assert "permute_dims" in outside
    assert "permute_dims" not in inside
    np.testing.assert_allclose(tl.function(run)(*given).numpy(), run(*given).numpy(), rtol=1e-10)


def test_loop_in_a_loop_takes_it_all_the_way_out() -> None:
    def run(x: Any, a: Any) -> Any:
        while tl.sum(x) < 1e4:
            for _ in tl.range(70):
                x = x * 1.01 + tl.sum(tl.exp(a)) * x[0]
        return x

    graph = tl.function(run).get_concrete_function(tl.ones(400), tl.ones(30)).optimized_graph
    assert "exp" in [op.name for op in graph.ops]
    given = tl.ones(400), tl.ones(30)
    np.testing.assert_allclose(tl.function(run)(*given).numpy(), run(*given).numpy(), rtol=1e-12)


def test_element_is_read_before_a_loop_that_is_sure_to_run() -> None:
    def run(x: Any, a: Any, k: Any) -> Any:
        for i in tl.range(100):
            x[i] = x[i] * a[k] + x[i - 1]
        return x

    given = tl.ones(120), tl.asarray(np.linspace(0.5, 1.0, 9)), tl.asarray(-2)
    _, inside = graphs_of(run, *given)
    assert inside.count("take") == 1
    expected = run(np.ones(120), np.linspace(0.5, 1.0, 9), -2)
    np.testing.assert_allclose(tl.function(run)(*given).numpy(), expected, rtol=1e-12)
    with pytest.raises(IndexError, match="9 is out of range"):
        tl.function(run)(tl.ones(120), tl.ones(9), tl.asarray(9))


def test_known_index_that_a_loop_gives_back_is_a_constant() -> None:
    def run(table: Any) -> Any:
        for i in tl.range(1, 70):
            for j in tl.range(1, 70):
                table[i, j] = table[i, j - 1] + table[i - 1, j]
        return table[69, 69]

    graph = tl.function(run).get_concrete_function(tl.ones((70, 70))).optimized_graph
    assert not {"check_index", "add", "subtract"} & {op.name for op in graph.ops}
    expected = np.ones((70, 70))
    for i in range(1, 70):
        for j in range(1, 70):
            expected[i, j] = expected[i, j - 1] + expected[i - 1, j]
    assert tl.function(run)(tl.ones((70, 70))).item() == expected[69, 69]
