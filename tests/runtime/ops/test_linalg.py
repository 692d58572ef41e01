"""Linear algebra: values are NumPy's, gradients hold where vectors may turn."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.gradients import difference_gradients

import tapeline as tl


def drawn(rng: np.random.Generator, *shape: int, complex_: bool = False) -> Any:
    """Random matrices."""
    x = rng.normal(size=shape)
    return x + 1j * rng.normal(size=shape) if complex_ else x


def gradient_of(function: Any, x: Any) -> Any:
    """The gradient of a real function at an array."""
    tensor = tl.asarray(x)
    with tl.GradientTape() as tape:
        tape.watch(tensor)
        value = function(tensor)
    return tape.gradient(value, tensor).numpy()


def assert_gradient(function: Any, x: Any) -> None:
    """The gradient is that of differences."""
    (want,) = difference_gradients(lambda a: float(function(tl.asarray(a))), [x])
    np.testing.assert_allclose(gradient_of(function, x), want, atol=1e-6)


@pytest.mark.parametrize("name", ["det", "inv", "pinv", "eigvals", "svdvals"])
def test_functions_of_matrices_are_those_of_numpy(name: str, rng: np.random.Generator) -> None:
    x = drawn(rng, 2, 3, 4, 4)
    got = getattr(tl.linalg, name)(x).numpy()
    np.testing.assert_allclose(got, getattr(np.linalg, name)(x), atol=1e-10)
    through_numpy = getattr(np.linalg, name)(tl.asarray(x))
    np.testing.assert_array_equal(through_numpy.numpy(), got)


def test_ints_become_float64_and_single_precision_stays() -> None:
    assert tl.linalg.inv([[2, 0], [0, 2]]).dtype == tl.float64
    assert tl.linalg.det(tl.eye(2, dtype="float32")).dtype == tl.float32
    assert tl.linalg.eigh(tl.eye(2, dtype="complex64")).eigenvalues.dtype == tl.float32
    assert tl.linalg.eig(tl.eye(2, dtype="float32")).eigenvectors.dtype == tl.complex64


@pytest.mark.parametrize("order", [2, 1, 0, 3, 0.5, np.inf, -np.inf, -1])
@pytest.mark.parametrize("axis", [None, 0, (0, 2)])
def test_vector_norm_is_that_of_numpy(order: float, axis: Any, rng: np.random.Generator) -> None:
    x = drawn(rng, 2, 3, 4, complex_=True)
    want = np.linalg.vector_norm(x, axis=axis, ord=order, keepdims=True)
    got = tl.linalg.vector_norm(x, axis=axis, ord=order, keepdims=True)
    np.testing.assert_allclose(got.numpy(), want)


@pytest.mark.parametrize("order", ["fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf])
def test_matrix_norm_is_that_of_numpy(order: Any, rng: np.random.Generator) -> None:
    x = drawn(rng, 2, 3, 4)
    for keepdims in (False, True):
        want = np.linalg.matrix_norm(x, ord=order, keepdims=keepdims)
        got = tl.linalg.matrix_norm(x, ord=order, keepdims=keepdims)
        np.testing.assert_allclose(got.numpy(), want)


def test_norm_of_zeros_has_gradient_zero() -> None:
    np.testing.assert_array_equal(gradient_of(tl.linalg.vector_norm, np.zeros(3)), np.zeros(3))


def test_solve_takes_a_vector_only_where_it_is_1d(rng: np.random.Generator) -> None:
    a, b = drawn(rng, 2, 3, 3), drawn(rng, 3)
    got = tl.linalg.solve(a, b).numpy()
    assert got.shape == (2, 3)
    np.testing.assert_allclose(a @ got[..., None], np.broadcast_to(b[:, None], (2, 3, 1)))
    columns = drawn(rng, 2, 3, 1)
    np.testing.assert_allclose(tl.linalg.solve(a, columns).numpy(), np.linalg.solve(a, columns))
    assert_gradient(lambda v: tl.sum(tl.linalg.solve(a, v) ** 2), b)


@pytest.mark.parametrize("complex_", [False, True])
def test_gradient_through_eigenvectors_that_may_turn(
    complex_: bool, rng: np.random.Generator
) -> None:
    x = drawn(rng, 3, 3, complex_=complex_)
    weight = drawn(rng, 3, 3, complex_=complex_)

    def exponential(x: Any) -> Any:
        values, vectors = tl.linalg.eigh(x)
        powers = vectors * tl.exp(values) @ tl.conj(tl.matrix_transpose(vectors))
        return tl.sum(tl.real(powers * weight))

    assert_gradient(exponential, x)


@pytest.mark.parametrize("shape", [(3, 3), (4, 2), (2, 4)])
def test_gradient_through_singular_vectors_that_may_turn(
    shape: tuple[int, int], rng: np.random.Generator
) -> None:
    weight = drawn(rng, *shape, complex_=True)

    def sharpened(x: Any) -> Any:
        u, s, vh = tl.linalg.svd(x, full_matrices=False)
        return tl.sum(tl.real(u * s**2 @ vh * weight))

    assert_gradient(sharpened, drawn(rng, *shape, complex_=True))


def test_gradient_through_eigenvectors_of_a_general_matrix(rng: np.random.Generator) -> None:
    weight = drawn(rng, 3, 3)

    def exponential(x: Any) -> Any:
        values, vectors = tl.linalg.eig(x)
        powers = vectors * tl.exp(values) @ tl.linalg.inv(vectors)
        return tl.sum(tl.real(powers * weight))

    assert_gradient(exponential, drawn(rng, 3, 3))


def test_gradient_of_equal_eigenvalues_is_finite() -> None:
    def trace_of_square(x: Any) -> Any:
        values, vectors = tl.linalg.eigh(x)
        return tl.linalg.trace(vectors * values**2 @ tl.matrix_transpose(vectors))

    np.testing.assert_allclose(gradient_of(trace_of_square, np.eye(3)), 2 * np.eye(3))


def test_vectors_of_full_matrices_have_no_gradient(rng: np.random.Generator) -> None:
    x = drawn(rng, 3, 2)
    values_only = gradient_of(lambda x: tl.sum(tl.linalg.svd(x).S), x)
    np.testing.assert_allclose(values_only, gradient_of(lambda x: tl.sum(tl.linalg.svdvals(x)), x))
    with pytest.raises(LookupError, match="full_matrices=False"):
        gradient_of(lambda x: tl.sum(tl.linalg.svd(x).U), x)
    with pytest.raises(LookupError, match="mode='reduced'"):
        gradient_of(lambda x: tl.sum(tl.linalg.qr(x, mode="complete").R), x)


@pytest.mark.parametrize("n", [-3, -1, 0, 1, 2, 7])
def test_matrix_power_is_that_of_numpy(n: int, rng: np.random.Generator) -> None:
    x = drawn(rng, 2, 3, 3)
    got = tl.linalg.matrix_power(x, n).numpy()
    np.testing.assert_allclose(got, np.linalg.matrix_power(x, n), rtol=1e-9)


def test_cross_broadcasts_and_takes_an_axis(rng: np.random.Generator) -> None:
    a, b = drawn(rng, 4, 3, 2), drawn(rng, 3, 1)
    want = np.cross(np.moveaxis(a, 1, -1), b[:, 0])
    got = tl.linalg.cross(a, b, axis=-2)
    np.testing.assert_allclose(np.moveaxis(got.numpy(), 1, -1), want)
    with pytest.raises(ValueError, match="extent 3"):
        tl.linalg.cross([1.0, 2.0], [3.0, 4.0])


def test_multi_dot_is_the_product_in_any_order(rng: np.random.Generator) -> None:
    shapes = [(4,), (4, 20), (20, 3), (3, 50), (50, 2)]
    arrays = [drawn(rng, *shape) for shape in shapes]
    np.testing.assert_allclose(tl.linalg.multi_dot(arrays).numpy(), np.linalg.multi_dot(arrays))


def test_rank_counts_what_is_not_small(rng: np.random.Generator) -> None:
    x = np.stack([np.diag([1.0, 1e-3, 0.0]), np.eye(3)])
    np.testing.assert_array_equal(tl.linalg.matrix_rank(x).numpy(), [2, 3])
    np.testing.assert_array_equal(tl.linalg.matrix_rank(x, rtol=1e-2).numpy(), [1, 3])
    np.testing.assert_array_equal(tl.linalg.matrix_rank(x, rtol=[0.1, 2.0]).numpy(), [1, 0])


def test_bad_matrices_are_named() -> None:
    with pytest.raises(ValueError, match="inv: x has shape"):
        tl.linalg.inv([[1.0, 2.0]])
    with pytest.raises(ValueError, match="at least two dimensions"):
        tl.linalg.svd([1.0])
    with pytest.raises(np.linalg.LinAlgError, match="Singular"):
        tl.linalg.inv([[0.0]])
    with pytest.raises(ValueError, match="qr: mode is 'raw'"):
        tl.linalg.qr([[1.0]], mode="raw")  # type: ignore[arg-type]


def test_factorizations_run_compiled_with_gradients(rng: np.random.Generator) -> None:
    x = drawn(rng, 4, 4)

    def loss(x: Any) -> Any:
        factor = tl.linalg.cholesky(x @ tl.matrix_transpose(x) + tl.eye(4))
        return 2 * tl.sum(tl.log(tl.linalg.diagonal(factor)))

    np.testing.assert_allclose(
        gradient_of(tl.function(loss), x),
        gradient_of(lambda x: tl.linalg.slogdet(x @ x.mT + tl.eye(4)).logabsdet, x),
        atol=1e-12,
    )


def test_matrix_exp_is_that_of_scipy(rng: np.random.Generator) -> None:
    scipy_linalg = pytest.importorskip("scipy.linalg")
    for scale in (1e-3, 1.0, 30.0):
        x = scale * drawn(rng, 3, 4, 4, complex_=True)
        got, want = tl.linalg.matrix_exp(x).numpy(), scipy_linalg.expm(x)
        np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-9 * np.abs(want).max())
    assert tl.linalg.matrix_exp(tl.zeros((0, 0))).shape == (0, 0)


def test_solve_triangular_looks_at_its_triangle_only(rng: np.random.Generator) -> None:
    a, b = drawn(rng, 2, 3, 3) + 3 * np.eye(3), drawn(rng, 3)
    lower = tl.linalg.solve_triangular(a, b).numpy()
    np.testing.assert_allclose(np.tril(a) @ lower[..., None], np.stack([b[:, None]] * 2))
    upper = tl.linalg.solve_triangular(a, b[:, None], upper=True).numpy()
    np.testing.assert_allclose(np.triu(a) @ upper, np.stack([b[:, None]] * 2))
    assert_gradient(lambda a: tl.sum(tl.linalg.solve_triangular(a, b) ** 2), a)


@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (3, 3)])
def test_lstsq_is_that_of_numpy(shape: tuple[int, int], rng: np.random.Generator) -> None:
    a, b = drawn(rng, *shape), drawn(rng, shape[0], 2)
    found = tl.linalg.lstsq(a, b)
    solution, residuals, rank, values = np.linalg.lstsq(a, b)
    np.testing.assert_allclose(found.solution.numpy(), solution, atol=1e-10)
    np.testing.assert_allclose(found.singular_values.numpy(), values)
    assert found.rank.item() == rank
    if residuals.size:
        np.testing.assert_allclose(found.residuals.numpy(), residuals)
    vector = tl.linalg.lstsq(a, b[:, 0])
    np.testing.assert_allclose(vector.solution.numpy(), solution[:, 0], atol=1e-10)
    assert vector.residuals.shape == ()
    with pytest.raises(ValueError, match="as many rows"):
        tl.linalg.lstsq(a, b[1:])
