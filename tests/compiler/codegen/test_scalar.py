"""Division of single numbers by constants has the bits of division in general."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapeline as tl

FLOATS = [
    0.0, -0.0, 1.0, -1.0, 2.5, -2.5, 7.0, -7.0, 1e300, -1e300, 5e-324, -5e-324, 1e-310, -1e-310,
    np.inf, -np.inf, np.nan, 2.0**53 + 1, -(2.0**53), 0.1, -0.1,
]  # fmt: skip
INTS = [0, 1, -1, 7, -7, 8, -8, 2**63 - 1, -(2**63), 100, -100]


@pytest.mark.parametrize("divisor", [2.0, 0.5, 8.0, -2.0, 3.0, -0.7])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_floats_by_a_constant(divisor: float, dtype: str) -> None:
    with np.errstate(over="ignore"):
        x = np.array(FLOATS).astype(dtype)
    check(x, divisor)


@pytest.mark.parametrize("divisor", [1, 2, 8, 3, 10, -1, -2, -3, 0])
@pytest.mark.parametrize("dtype", ["int64", "int8", "uint8"])
def test_ints_by_a_constant(divisor: int, dtype: str) -> None:
    if divisor < 0 and dtype == "uint8":
        pytest.skip("no such divisor")
    check(np.array(INTS).astype(dtype), divisor)


@np.errstate(all="ignore")
def check(x: Any, divisor: Any) -> None:
    number = x.dtype.type(divisor)

    @tl.function
    def run(rows: Any) -> Any:
        return tl.map_fn(lambda v: (v // divisor, v % divisor), rows)

    quotient, rest = run(tl.asarray(x))
    for found, expected in ((quotient, tl.asarray(x) // number), (rest, tl.asarray(x) % number)):
        np.testing.assert_array_equal(found.numpy(), expected.numpy())
        signs = [np.signbit(np.nan_to_num(y.numpy())) for y in (found, expected)]
        np.testing.assert_array_equal(*signs)
