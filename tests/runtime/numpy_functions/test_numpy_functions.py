"""NumPy's functions of tensors give tensors, and NumPy's values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapeline as tl
from tapeline.runtime.numpy_functions import arrangement, elements, signatures, summaries
from tapeline.runtime.tensor import Tensor

RNG = np.random.default_rng(7)
X = RNG.normal(size=(4, 3))
Y = RNG.normal(size=(4, 3))
V = RNG.normal(size=6)
W = np.asarray([3.0, -1.0, 2.0])
I = np.asarray([4, 1, 1, 0, 7, 4])  # noqa: E741
HOLES = np.where(np.abs(X) < 0.5, np.nan, X)
SYMMETRIC = X.T @ X

Program = Callable[[Any], Any]

PROGRAMS: dict[str, tuple[Program, Any]] = {
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
    for module in (arrangement, elements, signatures, summaries):
        for answered in module.ANSWERS:
            assert isinstance(answered, np.ufunc) or answered.__module__.startswith("numpy")


def test_out_that_cannot_be_written_while_tracing_says_what_to_write() -> None:
    def add_up(x: tl.Tensor) -> tl.Tensor:
        total = np.zeros(3)
        np.add(total, x, out=total)
        return tl.sum(x)

    with pytest.raises(TypeError, match=r"np\.add: out= of a NumPy array \(start from tl\.zeros"):
        tl.function(add_up)(tl.asarray(W))


def test_histogram_runs_compiled() -> None:
    counts: Any = tl.function(lambda x: np.histogram(x, bins=4)[0])(tl.asarray(V))
    np.testing.assert_array_equal(counts.numpy(), np.histogram(V, bins=4)[0])
