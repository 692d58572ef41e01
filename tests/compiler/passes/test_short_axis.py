"""Arrays with a short last axis become one array per entry where nobody wants them whole."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapeline as tl

N = 40


def largest(function: Callable[..., Any], *args: Any) -> int:
    """How many axes the array with the most axes has, after all passes."""
    graph = tl.function(function).get_concrete_function(*args).optimized_graph
    sizes = [graph.spec(node) for node in range(len(graph))]
    return max(spec.ndim for spec in sizes if spec.size > N)


def points(entries: int = 3, dtype: Any = np.float64) -> Any:
    return np.random.default_rng(entries).standard_normal((N, entries)).astype(dtype)


def distances(p: Any, q: Any) -> Any:
    d = p[:, None] - q[None]
    return tl.sqrt(tl.sum(d * d, axis=-1))


def longest(p: Any, q: Any) -> Any:
    d = tl.abs(p[:, None] - q[None])
    return tl.max(d, axis=2), tl.min(d, axis=-1, keepdims=True), tl.prod(d, axis=2)


def both_ways(p: Any, q: Any) -> Any:
    d = p[:, None] * q[None] + tl.asarray([1.0, 2.0, 3.0])
    weight = tl.exp(-tl.sum(d * d, axis=-1))
    return tl.sum(weight[..., None] * d, axis=1), tl.sum(d, axis=(0, 2)), tl.sum(d, axis=0)


def chosen(p: Any, q: Any) -> Any:
    d = tl.where(p[:, None] > q[None], p[:, None], tl.asarray(2.0))
    return tl.mean(d * q[0], axis=-1)


def of_numpy(function: Callable[..., Any], *args: Any) -> Any:
    """What the uncompiled function gives, op by op."""
    found = function(*map(tl.asarray, args))
    return found if isinstance(found, tuple) else (found,)


@pytest.mark.parametrize("function", [distances, longest, both_ways, chosen])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_entries_are_computed_for_themselves(function: Any, dtype: Any) -> None:
    if function is both_ways and dtype is np.float32:
        dtype = np.float64
    p, q = points(dtype=dtype), points(dtype=dtype)[::-1].copy()
    assert largest(function, *map(tl.asarray, (p, q))) <= 3
    graph = tl.function(function).get_concrete_function(tl.asarray(p), tl.asarray(q))
    wide = [s for s in graph.optimized_graph.specs if getattr(s, "shape", ()) == (N, N, 3)]
    assert not wide
    found = tl.function(function)(tl.asarray(p), tl.asarray(q))
    found = found if isinstance(found, tuple) else (found,)
    tolerance = 1e-5 if dtype is np.float32 else 1e-12
    for a, b in zip(found, of_numpy(function, p, q), strict=True):
        assert a.shape == b.shape
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(("entries", "is_split"), [(2, True), (3, True), (4, True), (5, False)])
def test_only_short_axes_are_split(entries: int, is_split: bool) -> None:
    p = points(entries)
    concrete = tl.function(distances).get_concrete_function(tl.asarray(p), tl.asarray(p))
    wide = [s for s in concrete.optimized_graph.specs if getattr(s, "shape", ()) == (N, N, entries)]
    assert is_split == (not wide)
    d = p[:, None] - p[None]
    found = concrete(tl.asarray(p), tl.asarray(p)).numpy()
    np.testing.assert_allclose(found, np.sqrt((d * d).sum(-1)), rtol=1e-12)


def wanted_whole(p: Any, q: Any) -> Any:
    d = p[:, None] - q[None]
    return d, tl.sum(d * d, axis=-1)


def given_whole(d: Any) -> Any:
    return tl.sum(d * d, axis=-1)


def moved_about(p: Any, q: Any) -> Any:
    d = p[:, None] - q[None]
    return tl.sum(tl.flip(d * 2.0, -1) * d, axis=-1)


def test_arrays_that_stand_in_memory_anyway_stay_whole() -> None:
    p, q = points(), points()[::-1].copy()
    whole = p[:, None] - q[None]
    for function, args in ((wanted_whole, (p, q)), (given_whole, (whole,)), (moved_about, (p, q))):
        assert largest(function, *map(tl.asarray, args)) == 3
        found = tl.function(function)(*map(tl.asarray, args))
        found = found if isinstance(found, tuple) else (found,)
        for a, b in zip(found, of_numpy(function, *args), strict=True):
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-12, atol=1e-12)


def test_whole_numbers_and_bools() -> None:
    def run(p: Any) -> Any:
        near = tl.abs(p[:, None] - p[None]) < 2
        return tl.all(near, axis=-1), tl.sum(p[:, None] * p[None], axis=-1)

    p = np.random.default_rng(0).integers(-4, 4, (N, 3))
    near, products = tl.function(run)(tl.asarray(p))
    np.testing.assert_array_equal(near.numpy(), (abs(p[:, None] - p[None]) < 2).all(-1))
    np.testing.assert_array_equal(products.numpy(), p @ p.T)


def test_gradient_of_an_energy_of_pairs() -> None:
    def energy(p: Any, m: Any) -> Any:
        d = p[:, None] - p[None]
        return tl.sum(m[:, None] * m[None] / tl.sqrt(tl.sum(d * d, axis=-1) + 0.1))

    p, m = points(), np.random.default_rng(1).random(N)
    d = p[:, None] - p[None]
    weight = m[:, None] * m * ((d * d).sum(-1) + 0.1) ** -1.5
    expected = -2 * (weight[..., None] * d).sum(1)
    inside = tl.function(tl.grad(energy))
    np.testing.assert_allclose(
        inside(tl.asarray(p), tl.asarray(m)).numpy(), expected, rtol=1e-11, atol=1e-12
    )
    specs = inside.get_concrete_function(tl.asarray(p), tl.asarray(m)).optimized_graph.specs
    assert not [s for s in specs if getattr(s, "shape", ()) == (N, N, 3)]
    outside = tl.grad(tl.function(energy))
    np.testing.assert_allclose(
        outside(tl.asarray(p), tl.asarray(m)).numpy(), expected, rtol=1e-11, atol=1e-12
    )
