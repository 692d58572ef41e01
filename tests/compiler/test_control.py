"""Choices and loops in compiled functions: the same as eagerly, in values, effects and errors."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import tapeline as tl
from tapeline.compiler.ir.graph import graphs_equal
from tapeline.compiler.ir.parse import parse_graph
from tapeline.runtime.errors import ShapeError


def collatz(n: Any) -> Any:
    """The number of steps that all numbers up to n take to reach 1."""

    def one(k: Any, total: Any) -> Any:
        def step(m: Any, count: Any) -> Any:
            following = tl.cond(m % 2 == 1, lambda: 3 * m + 1, lambda: m // 2)
            return following, count + 1

        _, total = tl.while_loop(lambda m, count: m != 1, step, (k, total))
        return k + 1, total

    return tl.while_loop(lambda k, total: k <= n, one, (tl.ones(()), tl.zeros(())))[1]


def test_nested_loops_with_a_branch_agree_with_eager() -> None:
    n = tl.asarray(20.0)
    assert float(tl.function(collatz)(n)) == float(collatz(n)) == 196.0


def test_bodies_read_and_assign_variables() -> None:
    v = tl.Variable(1.0)

    @tl.function
    def run(x: Any) -> Any:
        def turn(i: Any) -> Any:
            v.assign(v * x)
            return i + 1

        tl.while_loop(lambda i: i < 4, turn, [0])

        def increase() -> None:
            v.assign_add(1.0)

        tl.cond(x > 0, increase, lambda: None)
        tl.cond(x < 0, increase, lambda: None)
        return v * 1

    assert float(run(tl.asarray(2.0))) == 17.0
    assert float(v.numpy()) == 17.0


def test_bodies_write_to_tensors_of_the_trace_around() -> None:
    @tl.function
    def run(x: Any) -> Any:
        x = x * 1

        def turn(i: Any) -> Any:
            x[i] = x[i] + i
            return i + 1

        tl.while_loop(lambda i: i < 3, turn, [0])
        return x

    np.testing.assert_array_equal(run(tl.zeros(3)).numpy(), [0.0, 1.0, 2.0])


def test_scan_agrees_with_eager_in_both_directions() -> None:
    def run(c: Any, xs: Any) -> Any:
        def turn(c: Any, x: Any) -> Any:
            return c * 2 + x, (c, x)

        return tl.scan(turn, c, xs), tl.scan(turn, c, xs, reverse=True)

    c, xs = tl.asarray([1.0, 2.0]), tl.asarray(np.arange(6.0).reshape(3, 2))
    eager, compiled = run(c, xs), tl.function(run)(c, xs)
    for a, b in zip(tl_leaves(eager), tl_leaves(compiled), strict=True):
        np.testing.assert_array_equal(a, b)


def tl_leaves(structure: Any) -> list[Any]:
    """The arrays of nested tuples of tensors."""
    if isinstance(structure, tuple):
        return [leaf for item in structure for leaf in tl_leaves(item)]
    return [structure.numpy()]


def test_branches_that_differ_are_an_error_that_names_both() -> None:
    @tl.function
    def run(x: Any) -> Any:
        return tl.cond(x > 0, lambda: x, lambda: tl.stack([x, x]))

    with pytest.raises(ShapeError, match=r"float64 of shape \(\) from true_fn, but float64 of"):
        run(tl.asarray(1.0))


def test_graphs_with_control_flow_are_read_back() -> None:
    concrete = tl.function(collatz).get_concrete_function(tl.TensorSpec([], "float64"))
    graph = concrete.optimized_graph
    assert graphs_equal(parse_graph(str(graph)), graph)
    assert graphs_equal(pickle.loads(pickle.dumps(graph)), graph)


def test_loops_in_registers_read_what_loops_before_them_wrote() -> None:
    def f(w: Any, v: Any, q: Any) -> Any:
        if q < 0.5:
            for element in w * 1.0:
                k = 0
                while k < 1 and element * 0.5 - 0.25 > v[1]:
                    k = k + 1
                    w = (w + v) * 0.5
        return w

    v = np.array([-0.36, 0.27, 0.89, 0.78])
    given = [tl.asarray(x) for x in (v + 0.74, v, 0.1)]
    expected = f(*given).numpy()
    np.testing.assert_array_equal(tl.function(f)(*given).numpy(), expected)
    np.testing.assert_array_equal(expected, (((v + 0.74 + v) * 0.5) + v) * 0.5)
