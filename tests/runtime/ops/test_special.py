"""The functions with kernels of our own, held to many digits."""

from __future__ import annotations

import math
import warnings

import mpmath
import numpy as np
import pytest

import tapeline as tl
from tapeline.runtime.op import get_op


def error_in_ulp(got: float, exact: mpmath.mpf, dtype: str) -> float:
    """Distance from the exact value in units of the last place of its rounding."""
    spacing = float(np.spacing(np.abs(np.asarray(float(exact), dtype))))
    return float(abs(mpmath.mpf(got) - exact) / spacing)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ["erf", "sigmoid"])
def test_result_is_within_the_stated_distance(
    name: str, dtype: str, rng: np.random.Generator
) -> None:
    wide = rng.uniform(-7, 7, 600)
    tiny = rng.choice([-1, 1], 200) * 10.0 ** rng.uniform(-30, 0, 200)
    x = np.concatenate([wide, tiny, rng.uniform(-0.02, 0.02, 200)]).astype(dtype)
    got = getattr(tl, name)(x).numpy()
    assert got.dtype == dtype
    limit = get_op(name).ulp[dtype == "float64"]
    with mpmath.workdps(40):
        for argument, result in zip(x, got, strict=True):
            z = mpmath.mpf(float(argument))
            exact = mpmath.erf(z) if name == "erf" else 1 / (1 + mpmath.exp(-z))
            assert error_in_ulp(float(result), exact, dtype) <= limit, argument


def test_erf_of_special_values() -> None:
    x = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 30.0, 5e-324])
    got = tl.erf(x).numpy()
    np.testing.assert_array_equal(got[:6], [0.0, -0.0, 1.0, -1.0, np.nan, 1.0])
    assert math.copysign(1.0, got[1]) == -1.0
    assert got[6] == 5e-324


def test_erf_of_many_elements_is_that_of_each() -> None:
    x = np.linspace(-4, 4, 30000).reshape(100, 300)[:, ::-1]
    got = tl.erf(x).numpy()
    assert got.shape == x.shape
    np.testing.assert_array_equal(got[50], tl.erf(x[50]).numpy())


def test_sigmoid_of_large_values_does_not_overflow() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        got = tl.sigmoid([-1e4, 1e4, -np.inf, np.inf, np.nan]).numpy()
    np.testing.assert_array_equal(got, [0.0, 1.0, 0.0, 1.0, np.nan])
