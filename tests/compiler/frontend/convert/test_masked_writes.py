"""`x[mask] += v` in compiled functions, in loops and branches too."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapeline as tl
from tapeline.testing import check_gradients

X = np.array([[0.5, -1.5, 2.0], [-0.25, 4.0, -3.0]])


def _turned(x: Any) -> Any:
    angles = 90.0 - x * 50
    mask = angles <= 0
    if np.any(mask):
        angles[mask] += 360.0
    return angles


def _wrapped(x: Any) -> Any:
    x = x * 5
    for _ in range(8):
        x[x > 2] -= 3.0
        x[x < -2] += 3.5
    return x


def _rows(x: Any) -> Any:
    x = x * 1
    x[x[:, 0] > 0] *= 10
    return x


def _all_operators(x: Any) -> Any:
    x = x * 1
    mask = x > 0
    x[mask] /= 2
    x[mask] **= 2
    x[~mask] //= 0.3
    x[~mask] %= 0.7
    return x


def _by_elements(x: Any) -> Any:
    x = x * 1
    x[x > 0] += np.array([1.0, 2.0, 3.0])
    return x


PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "in a branch": _turned,
    "in a loop": _wrapped,
    "of rows": _rows,
    "all operators": _all_operators,
    "by as many numbers as there are": _by_elements,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_values_are_numpys(name: str) -> None:
    program = PROGRAMS[name]
    for run in (program, tl.function(program)):
        np.testing.assert_allclose(run(tl.asarray(X)).numpy(), program(X), rtol=1e-12)


def test_ints_and_bools_keep_their_dtype() -> None:
    def f(x: Any, change: Callable[[Any, Any], Any]) -> Any:
        x = x * 1
        x[x > 3] += 2
        y = x > 4
        y[x == 2] |= True
        return change(x, y)

    x = np.arange(6)
    found = tl.function(lambda x: f(x, operator.mul))(tl.asarray(x))
    assert found.dtype == np.int64
    np.testing.assert_array_equal(found.numpy(), f(x, operator.mul))


def test_gradient_is_that_of_what_the_mask_takes() -> None:
    def f(x: Any) -> Any:
        x = x * 1
        x[x > 0] **= 0.5
        return x

    check_gradients(tl.function(f), (X,))
