"""LU factorizations and what is solved with them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.linalg
from tests.composites import assert_differentiable_and_compiled

import tapeline as tl
from tapeline.runtime.errors import GradientError


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128"])
@pytest.mark.parametrize("shape", [(1, 1), (5, 5), (80, 80), (6, 3), (40, 70), (0, 0)])
def test_factors_are_those_of_scipy(
    shape: tuple[int, int], dtype: str, rng: np.random.Generator
) -> None:
    x = rng.normal(size=shape).astype(dtype)
    if dtype == "complex128":
        x = x + 1j * rng.normal(size=shape)
    got = tl.linalg.lu(x)
    want = scipy.linalg.lu(x) if x.size else (np.zeros(shape),) * 3
    eps = float(np.finfo(dtype).eps)
    for a, b in zip(got, want, strict=True):
        assert a.dtype == dtype
        np.testing.assert_allclose(a.numpy(), b, rtol=5e3 * eps, atol=500 * eps)


def test_stacks_and_compiled_functions_factor_each_matrix(rng: np.random.Generator) -> None:
    x = rng.normal(size=(3, 2, 4, 4))
    for run in (tl.linalg.lu, tl.function(lambda x: tl.linalg.lu(x))):
        P, L, U = run(tl.asarray(x))
        np.testing.assert_allclose((P @ L @ U).numpy(), x, atol=1e-14)
    P, L, U = tl.vmap(lambda x: tuple(tl.linalg.lu(x)))(tl.asarray(x))
    np.testing.assert_allclose((P @ L @ U).numpy(), x, atol=1e-14)


def test_matrices_without_an_inverse_have_factors() -> None:
    x = np.array([[0.0, 1.0, 2.0], [0.0, 2.0, 4.0], [0.0, 3.0, 6.0]])
    P, L, U = tl.linalg.lu(x)
    np.testing.assert_allclose((P @ L @ U).numpy(), x, atol=1e-15)


@pytest.mark.parametrize("part", ["L", "U"])
def test_factors_have_gradients(part: str, rng: np.random.Generator) -> None:
    x = rng.normal(size=(2, 3, 3)) + 4 * np.eye(3)[[1, 2, 0]]
    assert_differentiable_and_compiled(lambda x: getattr(tl.linalg.lu(x), part), x)


@pytest.mark.parametrize("mode", ["eager", "compiled"])
def test_systems_are_solved_with_the_factors(mode: str, rng: np.random.Generator) -> None:
    def program(a: Any, b: Any) -> tl.Tensor:
        return tl.linalg.lu_solve(tl.linalg.lu(a), b)

    run = tl.function(program) if mode == "compiled" else program
    a = rng.normal(size=(5, 5))
    for b in (rng.normal(size=5), rng.normal(size=(5, 2)), rng.normal(size=(3, 5, 1))):
        got = run(tl.asarray(a), tl.asarray(b)).numpy()
        np.testing.assert_allclose(got, np.linalg.solve(a, b), rtol=1e-9, atol=1e-12)


def test_solutions_have_gradients(rng: np.random.Generator) -> None:
    a, b = rng.normal(size=(3, 3)) + 3 * np.eye(3), rng.normal(size=(3, 1))
    assert_differentiable_and_compiled(lambda a, b: tl.linalg.lu_solve(tl.linalg.lu(a), b), a, b)


def test_what_is_not_square_is_refused() -> None:
    with pytest.raises(GradientError, match="lu: gradients are known for square matrices"):
        tl.grad(lambda x: tl.sum(tl.linalg.lu(x).U))(tl.ones((2, 3)))
    with pytest.raises(ValueError, match="lu_solve: the factors have shapes"):
        tl.linalg.lu_solve(tl.linalg.lu(tl.ones((2, 3))), tl.ones((2, 1)))
