"""Small programs in libraries that take any array-API namespace, run with and without Tapeline.

    python -m tests.conformance.client_programs

prints one line per program. It runs in a process of its own because SciPy reads its switch for the
array API when it is imported.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable
from typing import Any

os.environ["SCIPY_ARRAY_API"] = "1"

import numpy as np

import tapeline as tl

TABLE = [[1.0, 2.0, 3.0], [4.0, 5.0, 6.5], [7.0, 8.0, 10.0], [0.5, 2.0, 1.0]]
SERIES = [1.0, 2.0, 4.0, 0.5]
LABELS = [0, 0, 1, 1]

Program = Callable[[Any, Any, Any], tuple[Any, ...]]


def special_functions(xp: Any, x: Any, t: Any) -> tuple[Any, ...]:
    """scipy.special."""
    from scipy.special import logsumexp, softmax

    return logsumexp(x, axis=0), softmax(x, axis=1)


def statistics(xp: Any, x: Any, t: Any) -> tuple[Any, ...]:
    """scipy.stats."""
    from scipy.stats import gmean, kurtosis, skew, zscore

    return zscore(x, axis=0), skew(x, axis=0), kurtosis(t), gmean(t)


def signals(xp: Any, x: Any, t: Any) -> tuple[Any, ...]:
    """scipy.signal."""
    from scipy.signal import detrend, fftconvolve, hilbert

    return fftconvolve(t, t), detrend(t), hilbert(t)


def integrals(xp: Any, x: Any, t: Any) -> tuple[Any, ...]:
    """scipy.integrate."""
    from scipy.integrate import cumulative_trapezoid, trapezoid

    return cumulative_trapezoid(t), trapezoid(x, axis=0)


def rotations(xp: Any, x: Any, t: Any) -> tuple[Any, ...]:
    """scipy.spatial."""
    from scipy.spatial.transform import Rotation

    turn = Rotation.from_rotvec(xp.asarray([0.1, 0.2, 0.3]))
    return turn.apply(x), turn.as_matrix()


def scaling_and_components(xp: Any, x: Any, t: Any) -> tuple[Any, ...]:
    """sklearn's preprocessing and decomposition."""
    from sklearn import config_context
    from sklearn.decomposition import PCA
    from sklearn.preprocessing import StandardScaler

    with config_context(array_api_dispatch=True):
        scaled = StandardScaler().fit_transform(x)
        values = PCA(n_components=2, svd_solver="full").fit(x).explained_variance_
    return scaled, values


def ridge(xp: Any, x: Any, t: Any) -> tuple[Any, ...]:
    """sklearn's linear models."""
    from sklearn import config_context
    from sklearn.linear_model import Ridge

    with config_context(array_api_dispatch=True):
        return (Ridge(solver="svd").fit(x, t).coef_,)


def rearranging(xp: Any, x: Any, t: Any) -> tuple[Any, ...]:
    """einops."""
    from einops.array_api import rearrange, reduce

    return rearrange(x, "(a b) c -> a c b", a=2), reduce(x, "a b -> a", "mean")


def contracting(xp: Any, x: Any, t: Any) -> tuple[Any, ...]:
    """opt_einsum."""
    from opt_einsum import contract

    return (contract("ij,kj,k->i", x, x, t),)


def helping(xp: Any, x: Any, t: Any) -> tuple[Any, ...]:
    """array-api-extra and array-api-compat."""
    import array_api_compat
    import array_api_extra

    found = array_api_compat.array_namespace(x)
    return array_api_extra.cov(x), array_api_extra.kron(x, x), found.asarray(x)


PROGRAMS: tuple[Program, ...] = (
    special_functions, statistics, signals, integrals, rotations, scaling_and_components, ridge,
    rearranging, contracting, helping,
)  # fmt: skip


def check(program: Program) -> None:
    """The program gives tensors, and the numbers that it gives on NumPy's arrays."""
    want = program(np, np.asarray(TABLE), np.asarray(SERIES))
    got = program(tl, tl.asarray(TABLE), tl.asarray(SERIES))
    for a, b in zip(got, want, strict=True):
        if type(a) is not tl.Tensor:
            raise TypeError(f"got {type(a).__name__} instead of a tensor")
        np.testing.assert_allclose(a.numpy(), b, rtol=1e-9, atol=1e-12)


def main() -> int:
    """Run all programs; the number of those that fail."""
    warnings.simplefilter("ignore")
    failed = 0
    for program in PROGRAMS:
        try:
            check(program)
            result = "passed"
        except ImportError as error:
            result = f"skipped: {error}"
        except Exception as error:
            failed += 1
            result = f"failed: {type(error).__name__}: {error}"
        print(f"{program.__name__}: {result}")
    return failed


if __name__ == "__main__":
    sys.exit(main())
