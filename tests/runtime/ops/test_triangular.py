"""Triangular systems, and matrices made of blocks and diagonals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.linalg
from tests.composites import assert_differentiable_and_compiled

import tapeline as tl


def regular(rng: np.random.Generator, *shape: int) -> Any:
    return rng.uniform(-1, 1, shape) / shape[-1] + np.eye(shape[-1])


@pytest.mark.parametrize("mode", ["eager", "compiled"])
@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("n", [3, 64, 65, 200])
def test_large_systems_are_solved_by_halves(
    n: int, upper: bool, mode: str, rng: np.random.Generator
) -> None:
    a, b = regular(rng, n, n), rng.normal(size=(n, 2))

    def program(a: Any, b: Any) -> tl.Tensor:
        return tl.linalg.solve_triangular(a, b, upper=upper)

    run = tl.function(program) if mode == "compiled" else program
    got = run(tl.asarray(a), tl.asarray(b)).numpy()
    want = scipy.linalg.solve_triangular(a, b, lower=not upper)
    np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize("upper", [False, True])
def test_gradient_of_a_system_taken_in_halves(upper: bool, rng: np.random.Generator) -> None:
    a, b = regular(rng, 70, 70), rng.normal(size=(70, 1))
    ours = tl.asarray(a)
    slope = tl.grad(lambda a: tl.sum(tl.linalg.solve_triangular(a, b, upper=upper) ** 2))(ours)
    cut = np.triu(a) if upper else np.tril(a)
    whole = tl.grad(lambda a: tl.sum(tl.linalg.solve(a, b) ** 2))(tl.asarray(cut)).numpy()
    want = np.triu(whole) if upper else np.tril(whole)
    np.testing.assert_allclose(slope.numpy(), want, rtol=1e-9, atol=1e-12)


def test_batches_broadcast_and_map(rng: np.random.Generator) -> None:
    a, b = regular(rng, 3, 4, 4), rng.normal(size=(4, 2))
    got = tl.linalg.solve_triangular(a, b).numpy()
    np.testing.assert_allclose(got, np.linalg.solve(np.tril(a), b[None]), rtol=1e-12)
    each = tl.vmap(lambda a: tl.linalg.solve_triangular(a, b[:, 0]))(tl.asarray(a)).numpy()
    np.testing.assert_allclose(each, got[..., 0], rtol=1e-12)


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("upper", [False, True])
def test_factors_solve_the_system_they_came_from(
    dtype: str, upper: bool, rng: np.random.Generator
) -> None:
    x = rng.normal(size=(4, 4)) + (1j * rng.normal(size=(4, 4)) if dtype != "float64" else 0)
    a = x @ np.conj(x.T) + np.eye(4)
    b = rng.normal(size=4)
    factor = tl.linalg.cholesky(a, upper=upper)
    got = tl.linalg.cho_solve(factor, b, upper=upper).numpy()
    np.testing.assert_allclose(got, np.linalg.solve(a, b), rtol=1e-10, atol=1e-12)


def test_solutions_from_factors_have_gradients(rng: np.random.Generator) -> None:
    x, b = rng.normal(size=(3, 3)), rng.normal(size=(3, 1))
    a = x @ x.T + np.eye(3)
    assert_differentiable_and_compiled(
        lambda a, b: tl.linalg.cho_solve(tl.linalg.cholesky(a), b), a, b
    )


def test_systems_that_do_not_fit_are_rejected() -> None:
    with pytest.raises(ValueError, match="b must have as many rows as a"):
        tl.linalg.solve_triangular(tl.ones((2, 2)), tl.ones((3, 1)))
    with pytest.raises(ValueError, match="cho_solve: x has shape"):
        tl.linalg.cho_solve(tl.ones((2, 3)), tl.ones((3, 1)))


def test_blocks_and_diagonals_are_those_of_scipy(rng: np.random.Generator) -> None:
    a, b, c = rng.normal(size=(2, 3)), rng.normal(size=2), rng.normal(size=(0, 1))
    got = assert_differentiable_and_compiled(lambda a, b: tl.linalg.block_diag(a, b, c), a, b)
    np.testing.assert_array_equal(got, scipy.linalg.block_diag(a, b, c))
    column, row = rng.normal(size=4), rng.normal(size=3)
    got = assert_differentiable_and_compiled(tl.linalg.toeplitz, column, row)
    np.testing.assert_array_equal(got, scipy.linalg.toeplitz(column, row))
    hermitian = column * (1 + 2j)
    got = tl.linalg.toeplitz(hermitian).numpy()
    np.testing.assert_array_equal(got, scipy.linalg.toeplitz(hermitian))


def test_blocks_and_diagonals_say_what_does_not_fit() -> None:
    with pytest.raises(ValueError, match="block_diag: there must be at least one block"):
        tl.linalg.block_diag()
    with pytest.raises(ValueError, match="block_diag: a block has shape"):
        tl.linalg.block_diag(tl.ones((1, 1, 1)))
    with pytest.raises(ValueError, match="toeplitz: expected vectors"):
        tl.linalg.toeplitz(tl.ones((2, 2)))
