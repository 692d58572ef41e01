"""NumPy's arrays that are made of sizes: one trace serves all sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapeline as tl

TABLES: dict[str, Callable[[Any], Any]] = {
    "arange": lambda x: x + np.arange(x.shape[0]),
    "arange of bounds": lambda x: x * np.arange(1, 2 * len(x) + 1, 2),
    "eye": lambda x: np.eye(x.shape[0]) @ x,
    "eye of options": lambda x: np.eye(len(x), len(x) + 1, k=1)[:, 1:] @ x,
    "identity": lambda x: np.identity(len(x)) @ x,
    "zeros": lambda x: np.zeros(x.shape) + x,
    "ones": lambda x: np.ones((x.shape[0], 2)) + x[:, None],
    "full": lambda x: np.full(x.shape[0], 2) + x,
    "linspace": lambda x: x + np.linspace(0, 1, x.shape[0]),
    "linspace without its end": lambda x: x + np.linspace(0, 1, x.shape[0], endpoint=False),
    "tri": lambda x: np.tri(x.shape[0]) @ x,
    "tril": lambda x: np.tril(np.ones((len(x), len(x)))) @ x,
    "triu": lambda x: np.triu(np.ones((len(x), len(x))), 1) @ x,
    "hanning": lambda x: x * np.hanning(x.shape[0]),
    "hamming": lambda x: x * np.hamming(x.shape[0]),
    "blackman": lambda x: x * np.blackman(x.shape[0]),
    "bartlett": lambda x: x * np.bartlett(len(x)),
    "kaiser": lambda x: x * np.kaiser(len(x), 3.0),
    "logspace": lambda x: x * np.logspace(0, 1, len(x)),
    "indices": lambda x: x * (np.indices((len(x), 3)) * np.arange(3)).sum((0, 2)),
    "mgrid": lambda x: x * np.mgrid[0 : len(x), 1:4].sum((0, 2)),
    "mgrid of one axis": lambda x: x * np.mgrid[: len(x)],
    "ogrid": lambda x: x * (np.ogrid[: len(x), 0 : len(x) : 2][0] + 1)[:, 0],
    "fftfreq": lambda x: x * np.fft.fftfreq(len(x), 0.1),
    "rfftfreq": lambda x: np.abs(np.fft.rfft(x)) * np.fft.rfftfreq(len(x)),
    "tl.fft.fftfreq": lambda x: x * tl.fft.fftfreq(x.shape[0], d=0.5),
    "arange of floats": lambda x: x * tl.arange(0.0, x.shape[0]),
    "arange in quarters": lambda x: tl.arange(0.5, x.shape[0], 0.25) * x[0],
    "insert": lambda x: np.insert(x, [2, -1, 0, 2], [1.0, 2.0, 3.0, 4.0]),
    "insert several": lambda x: np.insert(x, -1, [7.0, 8.0]),
    "insert a column": lambda x: np.insert(np.outer(x, x), 1, x, axis=1),
    "delete": lambda x: np.delete(x, [0, -1, 0]),
    "delete a column": lambda x: np.delete(np.outer(x, x), 1, axis=1),
    "delete a slice": lambda x: np.delete(x, slice(1, -1)),
    "delete the end": lambda x: np.delete(x, slice(-2, None)),
    "convolve": lambda x: np.convolve(x, [1.0, 2.0, 1.0], "same"),
    "correlate": lambda x: np.correlate(x, [1.0, 2.0, 1.0]),
    "array_split": lambda x: np.array_split(x, 3)[1],
    "arithmetic": lambda x: x * np.sin(np.arange(len(x)) * 0.1) ** 2,
    "dtype": lambda x: x + np.arange(len(x), dtype=np.float32).astype(int),
    "index": lambda x: x[np.arange(len(x))[::-1]],
    "outer": lambda x: np.subtract.outer(np.arange(len(x)), np.arange(len(x))) @ x,
}


@pytest.mark.parametrize("name", TABLES)
def test_two_traces_serve_all_sizes(name: str) -> None:
    function = TABLES[name]
    traced = tl.function(function)
    for size in (5, 6, 9, 4, 7):
        x = tl.asarray(np.random.default_rng(size).normal(size=size))
        found, wanted = traced(x), function(x)
        assert found.dtype == wanted.dtype
        np.testing.assert_allclose(found.numpy(), wanted.numpy(), rtol=1e-12, atol=1e-14)
    assert traced.trace_count == 2


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x * sum(np.arange(len(x)).tolist()),
        lambda x: sum((x * k for k in np.arange(len(x))), x),
        lambda x: x * [1.0, 2.0, 3.0, 4.0, 5.0][np.arange(len(x))[3]],
        lambda x: np.zeros((len(x), 2), order="F").sum() + x,
    ],
)
def test_elements_that_python_asks_for_are_those_of_the_size(
    function: Callable[[Any], Any],
) -> None:
    traced = tl.function(function)
    for size in (5, 6, 7, 5):
        x = tl.asarray(np.random.default_rng(size).normal(size=size))
        np.testing.assert_allclose(traced(x).numpy(), function(x).numpy(), rtol=1e-12)


def test_array_that_is_returned_is_one_of_numpy() -> None:
    traced = tl.function(lambda x: (np.arange(x.shape[0]), x))
    for size in (3, 4, 5):
        found = traced(tl.ones(size))[0]
        assert type(found) is np.ndarray
        assert found.tolist() == list(range(size))


def test_sizes_stay_open_through_int() -> None:
    traced = tl.function(lambda x: x.sum() / int(x.shape[0]))
    for size in (3, 4, 5, 6):
        assert float(traced(tl.ones(size))) == 1.0
    assert traced.trace_count == 2
