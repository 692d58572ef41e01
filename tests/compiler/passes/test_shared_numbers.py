"""Branches take the numbers that the graph around has computed already."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import tapeline as tl
from tapeline.compiler.ir.control_ops import is_cond, is_loop
from tapeline.compiler.ir.graph import Graph


def branches_of(function: Callable[..., Any], *args: Any) -> list[list[str]]:
    """The names of the ops in the branches of the one choice in the one loop."""
    graph: Graph = tl.function(function).get_concrete_function(*args).optimized_graph
    (loop,) = [op for op in graph.ops if is_loop(op)]
    (choice,) = [op for op in loop.subgraphs[0].ops if is_cond(op)]
    return [[op.name for op in branch.ops] for branch in choice.subgraphs]


def same(function: Callable[..., Any], *args: Any) -> None:
    given = [tl.asarray(x) for x in args]
    np.testing.assert_array_equal(tl.function(function)(*given).numpy(), function(*given).numpy())
    found, expected = tl.grad(tl.function(function))(*given), tl.grad(function)(*given)
    np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-12)


def test_an_element_that_the_condition_looks_at_is_read_once() -> None:
    def f(a: Any) -> Any:
        total = 0.0
        for i in range(100):
            if a[i] > 0.5:
                total = total + a[i]
        return total

    a = np.random.default_rng(0).random(100)
    assert all("take" not in names for names in branches_of(f, tl.asarray(a)))
    same(f, a)


def test_what_both_branches_share_with_the_graph_around() -> None:
    def f(a: Any, b: Any) -> Any:
        total: Any = 0.0
        for i in range(100):
            if a[i] * b[3] > 0.1:
                total = total + tl.exp(a[i] * b[3])
            else:
                factor = b[i]
                total = total - a[i] * b[3] * factor
        return total

    rng = np.random.default_rng(1)
    a, b = rng.random(100), rng.random(100)
    then, other = branches_of(f, tl.asarray(a), tl.asarray(b))
    assert "take" not in then
    assert other.count("take") == 1  # b[i] is read nowhere else
    given = [tl.asarray(a), tl.asarray(b)]
    np.testing.assert_allclose(tl.function(f)(*given).numpy(), f(*given).numpy(), rtol=1e-13)


def test_what_only_the_branch_may_read_stays_in_it() -> None:
    def f(a: Any, i: Any) -> Any:
        total = 0.0
        for k in range(100):
            if i + k < 100:
                total = total + a[i + k]
        return total

    a = np.random.default_rng(2).random(100)
    assert "take" in branches_of(f, tl.asarray(a), tl.asarray(50))[0]
    assert float(tl.function(f)(tl.asarray(a), tl.asarray(50))) == float(f(a, 50))
