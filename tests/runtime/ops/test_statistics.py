"""Mean, variance, standard deviation: dtypes, corrections, emptiness."""

from __future__ import annotations

import numpy as np
import pytest

import tapeline as tl


@pytest.mark.parametrize("dtype", ["bool", "int16", "uint64", "float32", "float64"])
@pytest.mark.parametrize("name", ["mean", "var", "std"])
def test_result_has_numpys_dtype_and_value(name: str, dtype: str) -> None:
    x = np.array([[1, 0, 1], [1, 1, 0]], dtype)
    got = getattr(tl, name)(tl.asarray(x), axis=1)
    want = getattr(np, name)(x, axis=1)
    assert got.dtype == want.dtype
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-6)


def test_correction_and_ddof_are_the_same(rng: np.random.Generator) -> None:
    x = rng.normal(size=(3, 4))
    want = np.var(x, axis=0, ddof=1)
    np.testing.assert_allclose(tl.var(tl.asarray(x), axis=0, correction=1).numpy(), want)
    np.testing.assert_allclose(tl.var(tl.asarray(x), axis=0, ddof=1).numpy(), want)


def test_mean_of_nothing_is_nan_without_a_warning() -> None:
    assert np.isnan(tl.mean(tl.zeros((0,))).item())
    assert np.isnan(tl.var(tl.zeros((0,))).item())
    assert np.isnan(tl.var(tl.ones((1,)), correction=1).item())


def test_variance_does_not_lose_a_small_spread_around_a_large_mean() -> None:
    x = tl.asarray(np.array([10000.0, 10001.0, 10002.0], np.float32))
    assert tl.var(x).item() == pytest.approx(2 / 3, rel=1e-6)


def test_variance_of_complex_numbers_is_that_of_both_parts() -> None:
    z = np.asarray([1 + 2j, 3 - 1j, 0.5j])
    for x in (z, z.astype(np.complex64)):
        got, want = tl.var(tl.asarray(x), correction=1), np.var(x, ddof=1)
        assert got.dtype == want.dtype
        np.testing.assert_allclose(got.numpy(), want, rtol=1e-6)
        np.testing.assert_allclose(tl.std(tl.asarray(x)).numpy(), np.std(x), rtol=1e-6)


def test_the_mean_of_halves_is_in_range_where_their_sum_is_not() -> None:
    x = np.full((2, 3), 60000.0, np.float16)
    for mean in (tl.mean, tl.function(tl.mean)):
        found = mean(tl.asarray(x), axis=1)
        np.testing.assert_array_equal(found.numpy(), x.mean(axis=1), strict=True)
