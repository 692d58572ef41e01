"""Tables, vectorize, and functions that write to new arrays, in compiled functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapeline as tl
from tapeline.testing import check_gradients

X = np.array([0.5, -1.5, 2.0, -0.25])
M = np.arange(12.0).reshape(3, 4) - 5
PLACES = np.array([2, 0, 2])
TABLE = np.arange(12).reshape(4, 3) * 1.5


def _halved(x: Any) -> Any:
    out = np.zeros(4)
    np.multiply(x, 0.5, out=out)
    return out


def _counted(places: Any) -> Any:
    total = np.zeros(3)
    np.add.at(total, places, 1.0)
    return total


def _counted_pairs(places: Any) -> Any:
    total = np.zeros((4, 3), dtype=int)
    np.add.at(total, (places + 1, places), 1)
    return total


def _divided(x: Any) -> Any:
    whole, rest = np.zeros(4), np.zeros(4)
    np.divmod(x, 0.75, out=(whole, rest))
    return whole + 10 * rest


def _in_two_dimensions(x: Any) -> Any:
    flat, _, _ = np.histogram2d(x, x * 2, bins=[np.r_[x[1], 0.0, 3.0], np.r_[x[1] * 2, 0.0, 5.0]])
    deep, _ = np.histogramdd((x, x * x), bins=2)
    return flat + deep


def _copied(x: Any) -> Any:
    out = np.ones(4)
    np.copyto(out, x, where=x > 0)
    return out


def _vectorized(x: Any) -> Any:
    def one(v: float, power: int) -> float:
        return v**power if v > 0 else -1.0

    return np.vectorize(one)(x, 2)


def _of_rows(m: Any) -> Any:
    spread = np.vectorize(
        lambda row, scale: (row.max() - row.min()) * scale, signature="(n),()->()"
    )
    return spread(m, np.arange(3.0))


def _excluding(x: Any) -> Any:
    def horner(v: Any, coefficients: Any) -> Any:
        total = 0.0
        for c in coefficients:
            total = total * v + c
        return total

    return np.vectorize(horner, excluded={1}, otypes=[np.float32])(x, [1.0, 2.0, 3.0])


def _in_turn(x: Any) -> Any:
    total = 0.0
    for (k,), v in np.ndenumerate(x):
        total = total + k * v
    return total


PROGRAMS: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "vectorize": (_vectorized, X),
    "vectorize with a signature": (_of_rows, M),
    "vectorize with excluded arguments": (_excluding, X),
    "two results": (lambda x: sum(np.vectorize(lambda v: (v, v * v))(x)), X),
    "ndenumerate": (_in_turn, X),
    "rows of a table": (lambda p: TABLE[p], PLACES),
    "elements of a table": (lambda p: TABLE[p, 1], PLACES),
    "row of a table": (lambda p: TABLE[p[1]], PLACES),
    "one hot": (lambda p: np.eye(3)[p], PLACES),
    "elements where a mask holds": (lambda x: np.arange(4)[x > 0].sum(), X),
    "out of a new array": (_halved, X),
    "at of a new array": (_counted, PLACES),
    "at pairs of places": (_counted_pairs, PLACES),
    "two outs": (_divided, X),
    "histograms of two dimensions": (_in_two_dimensions, X),
    "copyto a new array": (_copied, X),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_compiled_values_are_numpys(name: str) -> None:
    program, x = PROGRAMS[name]
    expected = program(x)
    found = tl.function(program)(tl.asarray(x))
    assert isinstance(found, tl.Tensor)
    assert (found.shape, found.dtype) == (np.shape(expected), np.asarray(expected).dtype)
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-6)


def test_gradients_go_through() -> None:
    def f(x: Any) -> Any:
        return np.r_[_vectorized(x), np.asarray(x) ** 2, _halved(x)] * np.full(12, x[0])

    check_gradients(tl.function(f), (X,))


def test_tables_outside_of_traces_stay_arrays() -> None:
    kinds = []

    @tl.function
    def f(x: Any) -> Any:
        kinds.append(type(TABLE[1:]))
        return x * TABLE[1, 2]

    f(tl.asarray(X))
    assert kinds == [np.ndarray]
