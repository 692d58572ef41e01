"""`where=` and `out=` of NumPy's ufuncs on tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapeline as tl
from tapeline.runtime.errors import DTypeError

X = np.array([[1.0, -2.0, 0.0], [4.0, 0.5, -1.0]])
SLOPE = np.array([[-1.0, 0.0, 0.0], [-1 / 16, -4.0, 0.0]])
"""The derivative of 1 / x where x is positive."""


def _quotient(x: Any) -> Any:
    out = np.zeros_like(x)
    np.divide(1.0, x, out=out, where=x > 0)
    return out


def _parts(x: Any) -> Any:
    whole, rest = np.zeros_like(x), np.ones_like(x)
    np.divmod(x, 3.0, where=np.array([True, False, True]), out=(whole, rest))
    return whole + 10 * rest


PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "quotient": _quotient,
    "logarithm": lambda x: np.log(x, out=np.full_like(x, -7.0), where=x > 0),
    "root": lambda x: np.sqrt(x, where=x >= 0, out=np.zeros_like(x)),
    "broadcast mask": lambda x: np.add(x, 1, out=x * 2, where=np.array([True, False, True])),
    "comparison": lambda x: np.less(x, 1, where=x > 0, out=x > 9),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_values_are_numpys(name: str) -> None:
    program = PROGRAMS[name]
    expected = program(X)
    for run in (program, tl.function(program)):
        found = run(tl.asarray(X))
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(found.numpy(), expected, rtol=1e-12)


def test_gradient_knows_only_what_the_mask_takes() -> None:
    for f in (_quotient, tl.function(_quotient)):
        found = tl.grad(lambda x: f(x).sum())(tl.asarray(X))  # noqa: B023  # used at once
        np.testing.assert_allclose(found.numpy(), SLOPE)


def test_mask_must_be_bool() -> None:
    with pytest.raises(DTypeError, match="where=: expected a mask of bools, got dtype int64"):
        np.add(tl.asarray(X), 1, where=np.array([1, 0, 1]))
