"""Factorizations as loops of simple ops give what LAPACK gives, for matrices that are hard too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapeline as tl
from tapeline.compiler.export import decompositions

Array = np.ndarray[Any, np.dtype[Any]]


def matrices(rng: np.random.Generator) -> dict[str, Array]:
    """Square ones: plain, stacked, and with values that are equal, zero or far apart."""
    orthogonal = np.linalg.qr(rng.normal(size=(6, 6)))[0]
    thin = rng.normal(size=(7, 3))
    return {
        "plain": rng.normal(size=(5, 5)),
        "stack": rng.normal(size=(2, 3, 4, 4)),
        "one": rng.normal(size=(1, 1)),
        "none": np.zeros((0, 0)),
        "equal values": orthogonal,
        "low rank": thin @ thin.T,
        "zero": np.zeros((4, 4)),
        "unit": np.eye(5),
        "far apart": orthogonal @ np.diag(10.0 ** -np.arange(6)) @ orthogonal.T,
        "ones": np.ones((3, 3)),
    }


NAMES = list(matrices(np.random.default_rng(0)))


@pytest.fixture(params=NAMES)
def matrix(request: pytest.FixtureRequest, rng: np.random.Generator) -> Array:
    return matrices(rng)[request.param]


def turned(x: Array) -> Array:
    return np.swapaxes(x, -1, -2)


def assert_near(got: Any, want: Any, scale: float = 1.0) -> None:
    value = got.numpy() if isinstance(got, tl.Tensor) else got
    assert (value.shape, value.dtype) == (want.shape, want.dtype)
    np.testing.assert_allclose(value, want, rtol=1e-12, atol=2e-14 * scale * max(1, want.size))


def test_eigenvalues_and_vectors(matrix: Array) -> None:
    square = (matrix + turned(matrix)) / 2
    scale = float(np.max(np.abs(square), initial=1e-300))
    values, vectors = (one.numpy() for one in decompositions.eigh(tl.asarray(square)))
    assert_near(values, np.linalg.eigvalsh(square), scale)
    assert_near(vectors * values[..., None, :] @ turned(vectors), square, scale)
    unit = np.broadcast_to(np.eye(square.shape[-1]), square.shape)
    assert_near(turned(vectors) @ vectors, unit)


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("cut", [(0, 0), (1, 0), (0, 1)])
def test_singular_values_and_vectors(matrix: Array, cut: tuple[int, int], full: bool) -> None:
    x = matrix[..., cut[0] :, cut[1] :]
    scale = float(np.max(np.abs(x), initial=1e-300))
    u, s, vh = (one.numpy() for one in decompositions.svd(tl.asarray(x), full))
    want = np.linalg.svd(x, full)
    assert [one.shape for one in (u, s, vh)] == [one.shape for one in want]
    assert_near(s, want[1], scale)
    k = s.shape[-1]
    assert_near(u[..., :k] * s[..., None, :] @ vh[..., :k, :], x, scale)
    for one in (u, turned(vh)):
        assert_near(
            turned(one) @ one,
            np.broadcast_to(np.eye(one.shape[-1]), (*x.shape[:-2], *one.shape[-1:] * 2)),
        )
    assert_near(decompositions.svdvals(tl.asarray(x)), want[1], scale)


@pytest.mark.parametrize("mode", ["reduced", "complete"])
def test_triangular_factors(matrix: Array, mode: Any) -> None:
    x = matrix[..., :, : max(1, matrix.shape[-1] - 1)]
    q, r = decompositions.qr(tl.asarray(x), mode)
    want = np.linalg.qr(x, mode)
    assert (q.shape, r.shape) == (want[0].shape, want[1].shape)
    assert_near(q.numpy() @ r.numpy(), x)
    positive = x @ turned(x) + np.eye(x.shape[-2])
    for upper in (False, True):
        got = decompositions.cholesky(tl.asarray(positive), upper)
        assert_near(got, np.linalg.cholesky(positive, upper=upper))


def test_systems_and_determinants(matrix: Array, rng: np.random.Generator) -> None:
    x = matrix + 3 * np.eye(matrix.shape[-1])
    b = rng.normal(size=(matrix.shape[-1], 2))
    np.testing.assert_allclose(decompositions.inv(tl.asarray(x)), np.linalg.inv(x), atol=1e-11)
    solved = decompositions.solve(tl.asarray(x), tl.asarray(b))
    np.testing.assert_allclose(solved, np.linalg.solve(x, b), atol=1e-11)
    np.testing.assert_allclose(
        decompositions.det(tl.asarray(matrix)), np.linalg.det(matrix), atol=1e-12
    )
    for a, c in zip(decompositions.slogdet(tl.asarray(x)), np.linalg.slogdet(x), strict=True):
        np.testing.assert_allclose(a, c, atol=1e-11)


def test_exponentials(matrix: Array) -> None:
    for x in (matrix, matrix * 30):
        want = tl.linalg.matrix_exp(x).numpy()
        scale = np.max(np.abs(want), initial=1.0)
        got = decompositions.matrix_exp(tl.asarray(x)).numpy()
        np.testing.assert_allclose(got / scale, want / scale, atol=1e-11)


@pytest.mark.parametrize("name", ["eigh", "svdvals", "cholesky"])
def test_single_precision_is_as_good_as_lapacks(name: str, rng: np.random.Generator) -> None:
    x = rng.normal(size=(30, 30)).astype(np.float32)
    x = x @ x.T + np.eye(30, dtype=np.float32)
    arguments: dict[str, tuple[Any, ...]] = {"cholesky": (False,)}
    got = decompositions.DECOMPOSITIONS[name](tl.asarray(x), *arguments.get(name, ()))
    references: dict[str, Callable[[Array], Array]] = {
        "eigh": np.linalg.eigvalsh,
        "cholesky": np.linalg.cholesky,
        "svdvals": lambda x: np.linalg.svd(x, compute_uv=False),
    }
    want = references[name](x.astype(np.float64))
    first = got[0] if isinstance(got, tuple) else got
    assert first.dtype == np.float32
    assert np.abs(first.numpy() - want).max() < 1e-5 * np.abs(want).max()


@pytest.mark.parametrize("dtype", ["int8", "int64", "uint8", "uint64"])
def test_divisors_and_multiples(dtype: str, rng: np.random.Generator) -> None:
    a, b = (rng.integers(0, 100, 60).astype(dtype) for _ in range(2))
    a[:4], b[2:6] = 0, 0
    if dtype == "int64":
        a, b = -a, b * 10_000_000
    with np.errstate(over="ignore"):
        want = np.gcd(a, b), np.lcm(a, b)
    for name, value in zip(("gcd", "lcm"), want, strict=True):
        got = decompositions.DECOMPOSITIONS[name](tl.asarray(a), tl.asarray(b)).numpy()
        assert got.dtype == value.dtype
        np.testing.assert_array_equal(got, value)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_powers_of_two_go_out_and_in_to_the_last_bit(dtype: str, rng: np.random.Generator) -> None:
    limits = np.finfo(dtype)
    x = np.concatenate(
        [
            rng.normal(size=200) * 10.0 ** rng.integers(-4, 4, 200),
            [0, -0.0, np.inf, -np.inf, np.nan, 1, -2, 0.5],
            [limits.max, limits.tiny, limits.smallest_subnormal, -3 * limits.smallest_subnormal],
        ]
    )
    with np.errstate(over="ignore"):
        x = x.astype(dtype)
    taken, put = (decompositions.DECOMPOSITIONS[name] for name in ("exponent", "ldexp"))
    with np.errstate(all="ignore"):
        found = taken(tl.asarray(x)).numpy()
    np.testing.assert_array_equal(found, np.frexp(x)[1])
    for power in (-5000, -1074, -1030, -130, -20, -7, -1, 0, 5, 127, 1000, 2098, 5000):
        with np.errstate(all="ignore"):
            want = np.ldexp(x, power)
            got = put(tl.asarray(x), tl.asarray(np.full(x.shape, power))).numpy()
        np.testing.assert_array_equal(got, want)
        np.testing.assert_array_equal(np.signbit(got), np.signbit(want))


@pytest.mark.parametrize("shape", [(4, 4), (2, 5, 3), (3, 6), (1, 1)])
def test_triangles_of_rows_in_another_order(
    shape: tuple[int, ...], rng: np.random.Generator
) -> None:
    x = rng.normal(size=shape)
    order, lower, upper = (one.numpy() for one in decompositions.lu(tl.asarray(x)))
    want = [one.numpy() for one in tl.linalg.lu(tl.asarray(x))]
    np.testing.assert_allclose(lower, want[1], atol=1e-14)
    np.testing.assert_allclose(upper, want[2], atol=1e-13)
    np.testing.assert_allclose(
        lower @ upper, np.take_along_axis(x, order[..., None], -2), atol=1e-14
    )
