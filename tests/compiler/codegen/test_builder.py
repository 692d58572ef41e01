"""Value operations, compiled, against NumPy: bit for bit, on edge values, several lane counts."""

from __future__ import annotations

import numpy as np
import pytest
from tests.compiler.codegen.running import BASELINE, HOST, NARROW, Array, run_elementwise

from tapeline.compiler.codegen.target import Target

INTS = ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8")
FLOATS = ("f4", "f8")
LANES = (1, 4, 16)
FLOAT_EDGES = (
    0.0, -0.0, 1, -1, 2.5, -2.5, 0.1, 3, -3, 7, 1e30, -1e30, 1e-40, -1e-40, 5e-324,
    np.inf, -np.inf, np.nan,
)  # fmt: skip


def edges(code: str) -> Array:
    """Values that are easily got wrong."""
    if code == "b1":
        return np.array([False, True])
    if code[0] == "f":
        return np.array(FLOAT_EDGES).astype(code)
    info = np.iinfo(code)
    values = np.array(
        [0, 1, 2, 3, 5, 7, 100, info.max, info.max - 1, info.min, info.min + 1], dtype=code
    )
    return np.concatenate([values, -values])


def pairs(code: str) -> tuple[Array, Array]:
    """Every edge value with every other one."""
    left, right = np.meshgrid(edges(code), edges(code))
    return left.ravel(), right.ravel()


def assert_same_bits(actual: Array, expected: Array) -> None:
    """Equal values and signs of zero; any NaN for a NaN."""
    assert actual.dtype == expected.dtype
    np.testing.assert_array_equal(actual, expected)
    if actual.dtype.kind == "f":
        numbers = ~np.isnan(expected)
        np.testing.assert_array_equal(
            np.signbit(actual[numbers]), np.signbit(expected[numbers]), "sign of zero"
        )


@pytest.mark.parametrize("target", [HOST, NARROW, BASELINE], ids=lambda t: t.cpu)
@pytest.mark.parametrize("name", ["floor_divide", "remainder"])
@pytest.mark.parametrize("code", INTS + FLOATS)
def test_division_follows_numpy(name: str, code: str, target: Target) -> None:
    a, b = pairs(code)
    with np.errstate(all="ignore"):
        expected = getattr(np, name)(a, b)
    actual = run_elementwise(lambda e, x, y: getattr(e, name)(x, y), [a, b], code, 4, target)
    assert_same_bits(actual, expected)
