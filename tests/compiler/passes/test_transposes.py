"""Sums over columns become sums over rows of the same table, or of its negative."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapeline as tl

N = 37


def column_sums(function: Callable[..., Any], *args: Any) -> int:
    """How many sums over the first axis of a table are left."""
    graph = tl.function(function).get_concrete_function(*args).optimized_graph
    return sum(
        op.name == "sum" and graph.attrs[node][0] == (0,) and graph.spec(inputs[0]).ndim == 2
        for node, (op, inputs) in enumerate(zip(graph.ops, graph.inputs, strict=True))
    )


def data() -> tuple[Any, Any]:
    rng = np.random.default_rng(5)
    return rng.standard_normal(N), rng.random(N) + 0.5


def odd(x: Any, w: Any) -> Any:
    d = x[:, None] - x[None]
    force = w[:, None] * w[None] * d / (1 + d * d)
    return tl.sum(force, axis=0), tl.sum(force, axis=1, keepdims=True)


def even(x: Any, w: Any) -> Any:
    near = tl.exp(-tl.square(x[:, None] - x[None])) + (w[:, None] + w[None])
    return tl.sum(near, axis=0, keepdims=True), tl.sum(near), tl.sum(near, axis=1)


@pytest.mark.parametrize("function", [odd, even])
def test_symmetric_tables_are_summed_by_rows(function: Any) -> None:
    args = tuple(map(tl.asarray, data()))
    assert column_sums(function, *args) == 0
    for a, b in zip(tl.function(function)(*args), function(*args), strict=True):
        assert a.shape == b.shape
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-13, atol=1e-13)


def of_one_side(x: Any, w: Any) -> Any:
    return tl.sum(w[:, None] * (x[:, None] - x[None]), axis=0)


def of_two_arrays(x: Any, w: Any) -> Any:
    return tl.sum(tl.square(x[:, None] - w[None]), axis=0)


def of_another_order(x: Any, w: Any) -> Any:
    return tl.sum((x[:, None] - x[None]) / (w[:, None] + 2 * w[None]), axis=0)


@pytest.mark.parametrize("function", [of_one_side, of_two_arrays, of_another_order])
def test_other_tables_are_summed_by_columns(function: Any) -> None:
    args = tuple(map(tl.asarray, data()))
    assert column_sums(function, *args) == 1
    np.testing.assert_allclose(
        tl.function(function)(*args).numpy(), function(*args).numpy(), rtol=1e-12, atol=1e-12
    )


def random_table(rng: random.Random) -> Callable[[Any, Any], Any]:
    """A table of pairs, by a random formula of few steps."""
    kinds = rng.choice(["apmdsnqt", "apmdsnqtrc"])
    steps = [(rng.choice(kinds), rng.random(), rng.random()) for _ in range(6)]

    def run(x: Any, w: Any) -> Any:
        tables = [x[:, None] - x[None], w[:, None] * w[None], x[:, None] + w[None]]
        for kind, first, second in steps:
            a = tables[int(first * len(tables))]
            b = tables[int(second * len(tables))]
            made: dict[str, Any] = {
                "a": a + b, "r": a + x[:, None], "c": a * w[None], "p": a * b, "m": a - b,
                "d": a / (b * b + 1.0), "s": tl.sin(a), "n": -a, "q": tl.square(a),
                "t": tl.maximum(a, b),
            }  # fmt: skip
            tables.append(made[kind])
        last = tables[-1] * tables[-2]
        return tl.sum(last, axis=0), tl.sum(last, axis=1), tl.sum(last)

    return run


@pytest.mark.parametrize("seed", range(60))
def test_random_tables(seed: int) -> None:
    function = random_table(random.Random(seed))
    args = tuple(map(tl.asarray, data()))
    for a, b in zip(tl.function(function)(*args), function(*args), strict=True):
        scale = float(np.abs(b.numpy()).max()) + 1.0
        np.testing.assert_allclose(a.numpy() / scale, b.numpy() / scale, rtol=0, atol=1e-12)
