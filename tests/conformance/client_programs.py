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
    from scipy.special import gammaln, logsumexp, softmax, xlogy

    return logsumexp(x, axis=0), softmax(x, axis=1), gammaln(x), xlogy(t, x[:, 0])


def statistics(xp: Any, x: Any, t: Any) -> tuple[Any, ...]:
    """scipy.stats."""
    from scipy.stats import gmean, kurtosis, pearsonr, rankdata, skew, ttest_ind, zscore

    moments = zscore(x, axis=0), skew(x, axis=0), kurtosis(t), gmean(t)
    return *moments, rankdata(t), pearsonr(t, t**2).statistic, ttest_ind(t, t + 2.0).pvalue


def signals(xp: Any, x: Any, t: Any) -> tuple[Any, ...]:
    """scipy.signal and scipy.fft."""
    from scipy.fft import dct, rfft
    from scipy.signal import convolve, detrend, fftconvolve, hilbert

    filtered = fftconvolve(t, t), convolve(t, x[:, 0]), detrend(t), hilbert(t)
    return *filtered, dct(x), rfft(t)


def integrals(xp: Any, x: Any, t: Any) -> tuple[Any, ...]:
    """scipy.integrate."""
    from scipy.integrate import cubature, cumulative_trapezoid, trapezoid

    corners = xp.zeros(2, dtype=xp.float64), xp.ones(2, dtype=xp.float64)
    volume = cubature(lambda p: xp.cos(xp.sum(p, axis=-1)), *corners).estimate
    return cumulative_trapezoid(t), trapezoid(x, axis=0), volume


def rotations(xp: Any, x: Any, t: Any) -> tuple[Any, ...]:
    """scipy.spatial."""
    from scipy.spatial.transform import Rotation

    turn = Rotation.from_rotvec(xp.asarray([0.1, 0.2, 0.3]))
    return turn.apply(x), turn.as_matrix(), turn.inv().as_quat()


def splines(xp: Any, x: Any, t: Any) -> tuple[Any, ...]:
    """scipy.interpolate."""
    from scipy.interpolate import CubicSpline, make_interp_spline

    places = xp.asarray([0.0, 1.0, 2.0, 3.0])
    return make_interp_spline(places, t)(places + 0.5), CubicSpline(places, t)(places - 0.25)


def scaling_and_components(xp: Any, x: Any, t: Any) -> tuple[Any, ...]:
    """sklearn's preprocessing and decomposition."""
    from sklearn import config_context
    from sklearn.decomposition import PCA
    from sklearn.preprocessing import MinMaxScaler, PolynomialFeatures, StandardScaler

    with config_context(array_api_dispatch=True):
        scaled = StandardScaler().fit_transform(x), MinMaxScaler().fit_transform(x)
        components = PCA(n_components=2, svd_solver="full").fit(x)
        return (
            *scaled, PolynomialFeatures().fit_transform(x), components.explained_variance_,
            xp.abs(components.transform(x)),
        )  # fmt: skip


def linear_models(xp: Any, x: Any, t: Any) -> tuple[Any, ...]:
    """sklearn's linear and mixture models."""
    from sklearn import config_context
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
    from sklearn.linear_model import LogisticRegression, Ridge
    from sklearn.mixture import GaussianMixture

    labels = xp.asarray(LABELS)
    with config_context(array_api_dispatch=True):
        return (
            Ridge(solver="svd").fit(x, t).coef_,
            LogisticRegression(tol=1e-10).fit(x, labels).predict_proba(x),
            LinearDiscriminantAnalysis(solver="svd").fit(x, labels).predict(x),
            GaussianMixture(1, init_params="random", random_state=1).fit(x).means_,
        )


def metrics(xp: Any, x: Any, t: Any) -> tuple[Any, ...]:
    """sklearn's metrics."""
    from sklearn import config_context
    from sklearn.metrics import accuracy_score, confusion_matrix, r2_score
    from sklearn.metrics.pairwise import cosine_similarity, rbf_kernel

    labels = xp.asarray(LABELS)
    with config_context(array_api_dispatch=True):
        return (
            rbf_kernel(x, x), cosine_similarity(x), confusion_matrix(labels, labels),
            r2_score(t, t * 1.1), accuracy_score(labels, labels),
        )  # fmt: skip


def rearranging(xp: Any, x: Any, t: Any) -> tuple[Any, ...]:
    """einops."""
    from einops.array_api import pack, rearrange, reduce, repeat

    moved = rearrange(xp.asarray(x), "(a b) c -> a c b", a=2)
    return (
        moved,
        reduce(x, "a b -> a", "mean"),
        repeat(x, "a b -> b a r", r=3),
        pack([x, x], "* c")[0],
    )


def contracting(xp: Any, x: Any, t: Any) -> tuple[Any, ...]:
    """opt_einsum."""
    from opt_einsum import contract

    return contract("ij,kj,k->i", x, x, t), contract("ij,kj,kl->il", x, x, x)


def helping(xp: Any, x: Any, t: Any) -> tuple[Any, ...]:
    """array-api-extra and array-api-compat."""
    import array_api_compat as compat
    import array_api_extra as extra

    found = compat.array_namespace(x)
    assert compat.is_array_api_obj(x)
    assert compat.size(x) == 12
    return (
        extra.cov(x), extra.kron(x, x), extra.pad(t, 1), extra.expand_dims(t, axis=(0, 2)),
        extra.at(t, slice(1, 3)).set(0.0, copy=True), extra.at(t, t > 1).add(5.0, copy=True),
        extra.apply_where(t > 1, t, found.sqrt, fill_value=0.0),
        extra.one_hot(found.asarray(LABELS), 2), found.asarray(x),
        compat.to_device(x, compat.device(x)),
    )  # fmt: skip


PROGRAMS: tuple[Program, ...] = (
    special_functions, statistics, signals, integrals, rotations, splines, scaling_and_components,
    linear_models, metrics, rearranging, contracting, helping,
)  # fmt: skip


def check(program: Program) -> None:
    """The program gives tensors, and the numbers that it gives on NumPy's arrays."""
    want = program(np, np.asarray(TABLE), np.asarray(SERIES))
    got = program(tl, tl.asarray(TABLE), tl.asarray(SERIES))
    for a, b in zip(got, want, strict=True):
        if type(a) is not tl.Tensor and not isinstance(a, float | int):
            raise TypeError(f"got {type(a).__name__} instead of a tensor or number")
        found = a.numpy() if isinstance(a, tl.Tensor) else a
        np.testing.assert_allclose(found, np.asarray(b), rtol=1e-7, atol=1e-9)


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
