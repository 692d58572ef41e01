"""NumPy's functions of tensors give tensors, and NumPy's values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapeline as tl
from tapeline.runtime.numpy_functions import ANSWERS
from tapeline.runtime.tensor import Tensor

RNG = np.random.default_rng(7)
X = RNG.normal(size=(4, 3))
Y = RNG.normal(size=(4, 3))
V = RNG.normal(size=6)
W = np.asarray([3.0, -1.0, 2.0])
I = np.asarray([4, 1, 1, 0, 7, 4])  # noqa: E741
HOLES = np.where(np.abs(X) < 0.5, np.nan, X)
SYMMETRIC = X.T @ X
POWERS = np.asarray([0.0, -0.75, 1.0, 5e-324, 1e300, np.inf])
SQUARE = RNG.normal(size=(4, 4))

Program = Callable[[Any], Any]

PROGRAMS: dict[str, tuple[Program, Any]] = {
    "gcd": (lambda x: np.gcd(x, 6), I),
    "lcm": (lambda x: np.lcm(x, [4, 6, 3, 5, 2, 9]), I),
    "bitwise_count": (np.bitwise_count, I * 123456789 - 2**62),
    "bitwise_count of bytes": (np.bitwise_count, np.arange(-128, 128, dtype=np.int8)),
    "fraction": (lambda x: np.frexp(x)[0], POWERS),
    "exponent": (lambda x: np.frexp(x)[1], POWERS),
    "ldexp": (lambda x: np.ldexp(x, [3, -2000, 5, 1, 0, 2]), POWERS),
    "spacing": (np.spacing, POWERS),
    "matvec": (lambda x: np.matvec(x, x[0]), X),
    "vecmat": (lambda x: np.vecmat(x[:, 0] * (1 + 2j), x), X),
    "packbits": (lambda x: np.packbits(x > 0), X),
    "packbits along": (lambda x: np.packbits(x > 0, axis=0, bitorder="little"), X),
    "unpackbits": (lambda x: np.unpackbits(x), np.arange(3, 9, dtype=np.uint8)),
    "unpackbits along": (
        lambda x: np.unpackbits(x, axis=0, count=19, bitorder="little"),
        np.arange(0, 240, 40, dtype=np.uint8).reshape(2, 3),
    ),
    "i0": (np.i0, V),
    "sum": (lambda x: np.sum(x, 0, np.float32, keepdims=True), X),
    "prod": (lambda x: np.prod(x, axis=1), X),
    "mean": (lambda x: np.mean(x, 1, keepdims=True), X),
    "mean in float32": (lambda x: np.mean(x, dtype="float32"), X),
    "var": (lambda x: np.var(x, axis=0, ddof=1), X),
    "std": (lambda x: np.std(x, 0), X),
    "max": (lambda x: np.max(x, 0), X),
    "amin": (lambda x: np.amin(x, axis=1), X),
    "any": (lambda x: np.any(x > 1, axis=0), X),
    "all": (lambda x: np.all(x < 5), X),
    "sort": (lambda x: np.sort(x, axis=0, kind="stable"), X),
    "sort all": (lambda x: np.sort(x, axis=None), X),
    "argsort": (lambda x: np.argsort(x)[::-1], V),
    "count_nonzero": (lambda x: np.count_nonzero(x > 0, axis=1), X),
    "tril": (lambda x: np.tril(x, -1), X),
    "triu": (np.triu, X),
    "trace": (lambda x: np.trace(x, 1), X),
    "diagonal": (np.diagonal, X),
    "copy": (np.copy, X),
    "zeros_like": (np.zeros_like, X),
    "ones_like": (lambda x: np.ones_like(x, dtype=int), X),
    "full_like": (lambda x: np.full_like(x, 2.5), X),
    "linspace": (lambda x: np.linspace(0.0, x[0], 5), W),
    "meshgrid": (lambda x: np.meshgrid(x, x)[1], W),
    "roll": (lambda x: np.roll(x, 1, axis=0), X),
    "repeat": (lambda x: np.repeat(x, 2, axis=1), X),
    "tile": (lambda x: np.tile(x, (2, 1)), X),
    "split": (lambda x: np.split(x, 2)[1], X),
    "around": (lambda x: np.around(x), X),
    "cross": (lambda x: np.cross(x, W), X),
    "norm": (lambda x: np.linalg.norm(x), X),
    "norm of rows": (lambda x: np.linalg.norm(x, axis=1, keepdims=True), X),
    "norm of a matrix": (lambda x: np.linalg.norm(x, 2), X),
    "norm in one": (lambda x: np.linalg.norm(x, 1, axis=0), X),
    "norm over two axes": (lambda x: np.linalg.norm(np.stack([x, x * 2]), axis=(0, 2)), X),
    "nuclear norm": (lambda x: np.linalg.norm(x[None] + 1, "nuc", (2, 0), keepdims=True), X),
    "norm in one of matrices": (lambda x: np.linalg.norm(x[..., None], 1, axis=(-2, 0)), X),
    "var of complex": (lambda x: np.var(x * (1 + 2j) + 1j * x**2, axis=0, ddof=1), X),
    "std of complex": (lambda x: np.std(x * (1 + 2j) + 1j * x**2), X),
    "lstsq": (lambda x: np.linalg.lstsq(x, V[:4], rcond=None)[0], X),
    "lstsq residuals": (lambda x: np.linalg.lstsq(x, V[:4], rcond=None)[1], X),
    "cond": (np.linalg.cond, X),
    "atleast_2d": (np.atleast_2d, V),
    "atleast_3d": (np.atleast_3d, X),
    "vstack": (lambda x: np.vstack([x, x]), V),
    "hstack": (lambda x: np.hstack((x, Y)), X),
    "dstack": (lambda x: np.dstack((x, Y)), X),
    "column_stack": (lambda x: np.column_stack([x, V]), V),
    "append": (lambda x: np.append(x, Y, axis=0), X),
    "append all": (lambda x: np.append(x, 1.0), X),
    "array_split": (lambda x: np.array_split(x, 4)[3], V),
    "hsplit": (lambda x: np.hsplit(x, 3)[2], X),
    "vsplit": (lambda x: np.vsplit(x, 2)[0], X),
    "flipud": (np.flipud, X),
    "fliplr": (np.fliplr, X),
    "rot90": (np.rot90, X),
    "rot270": (lambda x: np.rot90(x, 3), X),
    "rollaxis": (lambda x: np.rollaxis(x, 1), X),
    "diag of a vector": (lambda x: np.diag(x, 1), V),
    "diag of a matrix": (lambda x: np.diag(x), X),
    "diagflat": (np.diagflat, W),
    "kron": (lambda x: np.kron(x, Y), X),
    "kron of unlike": (lambda x: np.kron(x, W), X),
    "select": (lambda x: np.select([x > 1, x > 0], [x, x * 2], 0.0), X),
    "argwhere": (lambda x: np.argwhere(x > 0), X),
    "flatnonzero": (lambda x: np.flatnonzero(x > 0), X),
    "extract": (lambda x: np.extract(x > 0, x), X),
    "ediff1d": (np.ediff1d, X),
    "insert": (lambda x: np.insert(x, 0, 0.5), V),
    "insert rows": (lambda x: np.insert(x, [1, 3], W, axis=0), X),
    "insert a column": (lambda x: np.insert(x, 1, V[:4], axis=1), X),
    "insert of a mask": (lambda x: np.insert(x, V > 0, 9.0), V),
    "insert of a slice": (lambda x: np.insert(x, slice(0, 2), 9.0), V),
    "delete": (lambda x: np.delete(x, [0, 2], axis=0), X),
    "divmod": (lambda x: np.divmod(x, 0.7)[1], X),
    "fmod": (lambda x: np.fmod(x, 0.7), X),
    "modf": (lambda x: np.modf(x)[0], X),
    "cbrt": (np.cbrt, X),
    "fabs": (np.fabs, X),
    "fmax": (lambda x: np.fmax(x, Y), HOLES),
    "fmin": (lambda x: np.fmin(Y, x), HOLES),
    "radians": (np.radians, X),
    "rad2deg": (np.rad2deg, X),
    "angle": (lambda x: np.angle(x * (1 + 2j), deg=True), X),
    "nan_to_num": (lambda x: np.nan_to_num(x, nan=7.0), np.asarray([np.nan, np.inf, 1.0])),
    "isclose": (lambda x: np.isclose(x, x + 1e-9), X),
    "isclose inf": (lambda x: np.isclose(x, [np.inf, 1.0]), np.asarray([np.inf, np.nan])),
    "heaviside": (lambda x: np.heaviside(x, 0.5), np.asarray([-1.0, 0.0, 2.0, np.nan])),
    "sinc": (np.sinc, np.asarray([0.0, 0.5, 1.5])),
    "float_power": (lambda x: np.float_power(x, 2), I),
    "logaddexp2": (lambda x: np.logaddexp2(x, Y), X),
    "isposinf": (np.isposinf, np.asarray([np.inf, -np.inf, 0.0])),
    "iscomplex": (lambda x: np.iscomplex(x), np.asarray([1j, 1.0])),
    "quantile": (lambda x: np.quantile(x, [0.1, 0.5], axis=1), X),
    "percentile": (lambda x: np.percentile(x, 30), X),
    "median": (lambda x: np.median(x, axis=0, keepdims=True), X),
    "median with NaN": (lambda x: np.median(x, axis=0), HOLES),
    "ptp": (lambda x: np.ptp(x, axis=0), X),
    "average": (lambda x: np.average(x, axis=1, weights=W**2), X),
    "cov": (np.cov, X),
    "cov of columns": (lambda x: np.cov(x, rowvar=False), X),
    "corrcoef": (np.corrcoef, X),
    "nansum": (lambda x: np.nansum(x, axis=0), HOLES),
    "nanmax": (lambda x: np.nanmax(x, axis=0), HOLES),
    "nanmean": (lambda x: np.nanmean(x, axis=0), HOLES),
    "nanstd": (np.nanstd, HOLES),
    "inner": (lambda x: np.inner(x, Y), X),
    "vdot": (lambda x: np.vdot(x, Y), X),
    "convolve": (lambda x: np.convolve(x, W), V),
    "convolve same": (lambda x: np.convolve(x, W, "same"), V),
    "convolve valid": (lambda x: np.convolve(W, x, mode="valid"), V),
    "correlate": (lambda x: np.correlate(x, W), V),
    "correlate full": (lambda x: np.correlate(x, W, "full"), V),
    "correlate same": (lambda x: np.correlate(x, W, "same"), V),
    "interp": (lambda x: np.interp(x, [-1.0, 0.0, 1.0], W), X),
    "trapezoid": (lambda x: np.trapezoid(x, dx=0.1), X),
    "trapezoid at": (lambda x: np.trapezoid(x, W**2, axis=1), X),
    "gradient": (lambda x: np.gradient(x, 0.5), V),
    "gradient of a field": (lambda x: np.gradient(x)[1], X),
    "bincount": (np.bincount, I),
    "bincount of weights": (lambda x: np.bincount(x, weights=V, minlength=9), I),
    "histogram": (lambda x: np.histogram(x, bins=4)[0], V),
    "histogram edges": (lambda x: np.histogram(x, bins=4, range=(-1, 1))[1], V),
    "digitize": (lambda x: np.digitize(x, [-1.0, 0.0, 1.0]), V),
    "unique": (lambda x: np.unique(x, return_counts=True)[1], I),
    "polyval": (lambda x: np.polyval(W, x), V),
    "vander": (np.vander, W),
    "sum where": (lambda x: np.sum(x, 0, where=x > 0, initial=2.0), X),
    "prod where": (lambda x: np.prod(x, 1, where=x > 0, initial=2.0), X),
    "max where": (lambda x: np.max(x, 1, where=x < 1, initial=-9.0), X),
    "min initial": (lambda x: np.min(x, initial=-9.0), X),
    "max of nothing": (lambda x: np.max(x[:0], axis=0, initial=3.0), X),
    "mean where": (lambda x: np.mean(x, axis=0, where=x > -0.5), X),
    "var where": (lambda x: np.var(x, axis=0, where=x > -2.0, ddof=1), X),
    "std about a mean": (lambda x: np.std(x, axis=0, mean=np.zeros((1, 3))), X),
    "any where": (lambda x: np.any(x > 1, axis=0, where=x > 0), X),
    "all where": (lambda x: np.all(x > 0, axis=1, where=x > 0), X),
    "quantile over axes": (lambda x: np.quantile(x, [[0.1, 0.5]], axis=(0, 1), keepdims=True), X),
    "quantile with weights": (
        lambda x: np.quantile(
            x, [0.0, 0.3, 1.0], axis=0, weights=[3, 1, 0, 2], method="inverted_cdf"
        ),
        X,
    ),
    "nanquantile": (lambda x: np.nanquantile(x, [0.2, 0.9], axis=0), HOLES),
    "nanmedian": (lambda x: np.nanmedian(x, axis=0, keepdims=True), HOLES),
    "nanpercentile": (lambda x: np.nanpercentile(x, 40.0), HOLES),
    "average of all": (lambda x: np.average(x, weights=Y**2), X),
    "average returned": (lambda x: np.average(x, axis=0, returned=True)[1], X),
    "cov with weights": (
        lambda x: np.cov(x, fweights=[1, 2, 3], aweights=[0.5, 1.0, 2.0]),
        X,
    ),
    "cov with aweights": (lambda x: np.cov(x, aweights=[0.5, 1.0, 2.0], ddof=0), X),
    "cov of two": (lambda x: np.cov(x, Y, bias=True), X),
    "corrcoef of columns": (lambda x: np.corrcoef(x, rowvar=False), X),
    "partition": (lambda x: np.sort(np.partition(x, 2)[:2]), V),
    "lexsort": (lambda x: np.lexsort((V, x)), I),
    "sort_complex": (lambda x: np.sort_complex(x), np.asarray([1 + 1j, 1 - 1j, 0])),
    "compress": (lambda x: np.compress([True, False, True], x, axis=1), X),
    "choose": (lambda x: np.choose([0, 1, 2, 0], [x[0], x[1], 5.0], mode="clip"), np.ones((2, 4))),
    "take wrapped": (lambda x: np.take(x, [5, -1], axis=0, mode="wrap"), X),
    "take clipped": (lambda x: np.take(x, [99, 1], mode="clip"), X),
    "piecewise": (lambda x: np.piecewise(x, [x < 0, x > 1], [lambda y: -y, 7.0, 0.5]), V),
    "union1d": (lambda x: np.union1d(x, [9, 1]), I),
    "intersect1d": (lambda x: np.intersect1d(x, [9, 1, 4]), I),
    "setdiff1d": (lambda x: np.setdiff1d(x, [1]), I),
    "setxor1d": (lambda x: np.setxor1d(x, [1, 9]), I),
    "union1d with NaN": (lambda x: np.union1d(x, [np.nan, 1.0]), HOLES),
    "intersect1d with NaN": (lambda x: np.intersect1d(x, [np.nan, HOLES[0, 0]]), HOLES),
    "setdiff1d with NaN": (lambda x: np.setdiff1d(x, [1.0]), HOLES),
    "setxor1d with NaN": (lambda x: np.setxor1d(x, [np.nan, 1.0]), HOLES),
    "isin": (lambda x: np.isin(x, [1, 9], assume_unique=True), I),
    "nancumsum": (lambda x: np.nancumsum(x, axis=0), HOLES),
    "nancumprod": (lambda x: np.nancumprod(x), HOLES),
    "histogram density": (lambda x: np.histogram(x, 3, density=True)[0], V),
    "histogram of weights": (lambda x: np.histogram(V, 3, (-1, 1), weights=x)[0], V**2),
    "histogram edges alone": (lambda x: np.histogram_bin_edges(x, 3), V),
    "histogram2d": (lambda x: np.histogram2d(x, x[::-1], 3)[0], V),
    "histogramdd": (lambda x: np.histogramdd(x, (2, 3, 2), density=True)[0], X),
    "unravel_index": (lambda x: np.unravel_index(x, (3, 5))[1], I),
    "ravel_multi_index": (lambda x: np.ravel_multi_index((x % 3, x % 5), (3, 5)), I),
    "apply_along_axis": (lambda x: np.apply_along_axis(lambda r: r[::-1] * 2, 0, x), X),
    "apply_over_axes": (lambda x: np.apply_over_axes(np.sum, x, [0, 1]), X),
    "polyadd": (lambda x: np.polyadd(x, [1.0, 2.0]), W),
    "polymul": (lambda x: np.polymul(x, [1.0, 2.0]), W),
    "polydiv": (lambda x: np.polydiv(x, [1.0, 2.0])[0], W),
    "polydiv rest": (lambda x: np.polydiv(x, [1.0, 2.0])[1], W),
    "polyder": (lambda x: np.polyder(x, 2), V),
    "polyint": (lambda x: np.polyint(x, 2, [1.0, 2.0]), W),
    "poly": (np.poly, W),
    "roots": (lambda x: np.sort(np.abs(np.roots(x))), V),
    "polyfit": (lambda x: np.polyfit(x, V**2, 2, w=[1, 2, 1, 3, 1, 1]), V),
    "logspace": (lambda x: np.logspace(x[0], 2.0, 4), W),
    "geomspace": (lambda x: np.geomspace(x[0], 50.0, 4), W),
    "unwrap": (np.unwrap, np.asarray([0.0, 3.0, 6.5, 1.0, -4.0, -4.0 + np.pi])),
    "resize": (lambda x: np.resize(x, (2, 5)), W),
    "block": (lambda x: np.block([[x, Y], [Y, x]]), X),
    "ix_": (lambda x: x[np.ix_([0, 2], [1, 2])] * 1.0, X),
    "tensorinv": (lambda x: np.linalg.tensorinv(x.reshape(2, 2, 4)), SQUARE),
    "tensorsolve": (lambda x: np.linalg.tensorsolve(x.reshape(2, 2, 4), np.ones((2, 2))), SQUARE),
    "svd values": (lambda x: np.linalg.svd(x, compute_uv=False), X),
    "pinv": (lambda x: np.linalg.pinv(x, rcond=1e-10), X),
    "matrix_rank": (lambda x: np.linalg.matrix_rank(x, tol=1e-6) * 1, SYMMETRIC),
    "eigvalsh upper": (lambda x: np.linalg.eigvalsh(x, UPLO="U"), SQUARE),
    "cross of columns": (lambda x: np.cross(x.T, W, axisa=0), X),
    "fft2": (lambda x: np.fft.fft2(x, norm="ortho"), X),
    "irfft2": (lambda x: np.fft.irfft2(np.fft.rfft2(x), s=(4, 3)), X),
    "gradient at places": (lambda x: np.gradient(x, [0.0, 1.0, 1.5, 3.0, 3.2, 5.0]), V),
    "gradient of second order": (lambda x: np.gradient(x, 0.5, edge_order=2), V),
    "gradient of second order at places": (
        lambda x: np.gradient(x, [0.0, 1.0, 1.5, 3.0, 3.2, 5.0], edge_order=2),
        V,
    ),
    "interp periodic": (lambda x: np.interp(x, [0.1, 0.4, 0.8], W, period=1.0), X),
    "unique rows": (lambda x: np.unique(x % 2, axis=0), np.arange(12).reshape(4, 3)),
    "unique with NaN": (np.unique, np.asarray([np.nan, 1.0, np.nan])),
    "pad edge": (lambda x: np.pad(x, ((1, 2), (0, 1)), "edge"), X),
    "pad reflect": (lambda x: np.pad(x, 2, mode="reflect"), X),
    "pad wrap": (lambda x: np.pad(x, (1, 2), "wrap"), V),
    "pad with two values": (lambda x: np.pad(x, 1, constant_values=(2.0, 3.0)), V),
    "clip by name": (lambda x: np.clip(x, a_min=-0.5, a_max=None), X),
    "concatenate in float32": (lambda x: np.concatenate([x, x], dtype=np.float32), X),
    "hstack in float32": (lambda x: np.hstack([x, x], dtype="float32"), X),
    "meshgrid sparse": (lambda x: np.meshgrid(x, x, sparse=True)[1], W),
    "ediff1d with ends": (lambda x: np.ediff1d(x, to_end=[1.0, 2.0], to_begin=7.0), V),
    "zeros_like of a shape": (lambda x: np.zeros_like(x, shape=(2, 2)), X),
    "full_like of a shape": (lambda x: np.full_like(x, 3, shape=4), X),
    "einsum": (lambda x: np.einsum("ij,kj->ik", x, Y), X),
    "eigh": (lambda x: np.linalg.eigh(x)[0], SYMMETRIC),
    "fft": (lambda x: np.fft.fft(x, 8), V),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_numpy_function_of_a_tensor_gives_numpys_values(name: str) -> None:
    program, x = PROGRAMS[name]
    want = program(x)
    got = program(tl.asarray(x))
    assert type(got) is Tensor
    assert (got.shape, got.dtype) == (np.shape(want), np.asarray(want).dtype)
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize(
    "name", ["cov", "convolve", "interp", "median", "kron", "vstack", "norm", "insert"]
)
def test_numpy_function_runs_compiled_with_gradients(name: str) -> None:
    program, x = PROGRAMS[name]
    found = []
    for run in (program, tl.function(program)):
        tensor = tl.asarray(x)
        with tl.GradientTape() as tape:
            tape.watch(tensor)
            total = tl.sum(run(tensor) ** 2)
        found.append(tape.gradient(total, tensor).numpy())
    np.testing.assert_allclose(found[1], found[0], atol=1e-12)
    assert np.any(found[0] != 0)


def test_out_takes_the_result_of_a_function() -> None:
    target = np.zeros(3)
    assert np.sum(tl.asarray(X), axis=0, out=target) is target
    np.testing.assert_allclose(target, X.sum(axis=0))


def test_every_answer_is_a_function_of_numpy() -> None:
    for answered in ANSWERS:
        assert isinstance(answered, np.ufunc) or answered.__module__.startswith("numpy")


def test_out_that_cannot_be_written_while_tracing_says_what_to_write() -> None:
    total = np.zeros(3)

    def add_up(x: tl.Tensor) -> tl.Tensor:
        np.add(total, x, out=total)
        return tl.sum(x)

    with pytest.raises(TypeError, match=r"np\.add: out= of a NumPy array \(start from tl\.zeros"):
        tl.function(add_up)(tl.asarray(W))


def test_histogram_runs_compiled() -> None:
    counts: Any = tl.function(lambda x: np.histogram(x, bins=4)[0])(tl.asarray(V))
    np.testing.assert_array_equal(counts.numpy(), np.histogram(V, bins=4)[0])


def test_functions_about_shapes_and_dtypes_need_no_values() -> None:
    def about(x: Any) -> Any:
        rows, columns = np.tril_indices_from(x)
        assert (np.shape(x), np.ndim(x), np.size(x)) == ((4, 4), 2, 16)
        assert not np.iscomplexobj(x)
        assert np.result_type(x, 1j) == np.dtype("complex128")
        return x[rows, columns]

    want = SQUARE[np.tril_indices_from(SQUARE)]
    for run in (about, tl.function(about)):
        np.testing.assert_array_equal(run(tl.asarray(SQUARE)).numpy(), want)


METHODS = (
    "inverted_cdf", "averaged_inverted_cdf", "closest_observation", "interpolated_inverted_cdf",
    "hazen", "weibull", "linear", "median_unbiased", "normal_unbiased", "lower", "higher",
    "midpoint", "nearest",
)  # fmt: skip


@pytest.mark.parametrize("method", METHODS)
def test_quantiles_by_every_method(method: Any) -> None:
    fractions = [0.0, 0.1, 0.25, 0.5, 0.6, 0.9, 1.0]
    for x in (V, X, np.arange(5)):
        want = np.quantile(x, fractions, method=method)
        got: Any = np.quantile(tl.asarray(x), fractions, method=method)
        np.testing.assert_allclose(got.numpy(), want, rtol=1e-12)


def _written(function: Callable[[Any], None], x: Any) -> Any:
    function(x)
    return x


WRITES: dict[str, Callable[[Any], None]] = {
    "put": lambda x: np.put(x, [0, 5, -1], [7.0, 8.0]),
    "putmask": lambda x: np.putmask(x, np.asarray(X) > 0, [1.0, 2.0]),
    "copyto": lambda x: np.copyto(x, [9.0, 8.0, 7.0], where=[True, False, True]),
    "put_along_axis": lambda x: np.put_along_axis(x, np.asarray([[0], [2], [1], [0]]), 5.0, 1),
    "fill_diagonal": lambda x: np.fill_diagonal(x, 3.0),
}


@pytest.mark.parametrize("name", WRITES)
def test_functions_that_write_give_the_cell_a_new_value(name: str) -> None:
    want = _written(WRITES[name], X.copy())
    tensor = tl.asarray(X.copy())
    np.testing.assert_array_equal(_written(WRITES[name], tensor).numpy(), want)
    traced = tl.function(lambda x: _written(WRITES[name], x))(tl.asarray(X.copy()))
    np.testing.assert_array_equal(traced.numpy(), want)


def test_arguments_go_by_numpys_names_and_places() -> None:
    a = np.arange(12.0).reshape(3, 4)
    x = tl.asarray(a)
    calls: list[Any] = [
        lambda y: np.moveaxis(y, source=0, destination=1),
        lambda y: np.swapaxes(y, axis1=0, axis2=1),
        lambda y: np.repeat(y, repeats=2, axis=1),
        lambda y: np.repeat(y, 2, 0),
        lambda y: np.tile(y, reps=(2, 1)),
        lambda y: np.tensordot(y, y, 2),
        lambda y: np.tensordot(y, y, axes=([0], [0])),
    ]
    for call in calls:
        found = call(x)
        assert type(found) is tl.Tensor
        np.testing.assert_array_equal(found.numpy(), call(a))


def test_corners_of_linspace_and_logaddexp2() -> None:
    start = tl.asarray(1.25)
    assert np.linspace(start, 3.0, 1).tolist() == [1.25]
    assert np.linspace(start, 3.0, 0).tolist() == []
    tl.testing.check_gradients(lambda a, b: np.logaddexp2(a, b), [0.6, 0.6])


def test_real_if_close_looks_at_values() -> None:
    near, far = tl.asarray([1 + 1e-15j, 2.0]), tl.asarray([1 + 1j])
    assert np.real_if_close(near).dtype == np.float64
    assert np.real_if_close(far).dtype == np.complex128
    assert np.real_if_close(far, tol=2).dtype == np.complex128
