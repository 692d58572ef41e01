"""Jacobians and Hessians as arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapeline as tl

Wrapper = Callable[[Callable[..., Any]], Callable[..., Any]]


def eager(f: Callable[..., Any]) -> Callable[..., Any]:
    return f


MODES = pytest.mark.parametrize("mode", [eager, tl.function], ids=["eager", "compiled"])
WAYS = pytest.mark.parametrize("way", ["reverse", "forward", "auto"])


@MODES
@WAYS
def test_jacobian_has_the_shapes_of_result_and_argument(mode: Wrapper, way: Any) -> None:
    x = np.arange(1.0, 7.0).reshape(2, 3)
    f = mode(lambda x: tl.sum(x * x, axis=0)[:2])
    found = mode(tl.jacobian(f, mode=way))(tl.asarray(x)).numpy()
    want = np.zeros((2, 2, 3))
    for j in range(2):
        want[j, :, j] = 2 * x[:, j]
    np.testing.assert_allclose(found, want)


@WAYS
def test_jacobian_is_nested_as_result_and_argument(way: Any) -> None:
    def f(p: Any, s: Any) -> Any:
        return {"y": p["a"] * s, "n": [p["a"].sum()]}, "aux"

    found, aux = tl.jacobian(f, (0, 1), True, mode=way)({"a": tl.asarray([1.0, 2.0])}, 3.0)
    assert aux == "aux"
    by_p, by_s = found["y"]
    np.testing.assert_allclose(by_p["a"].numpy(), 3 * np.eye(2))
    np.testing.assert_allclose(by_s.numpy(), [1.0, 2.0])
    np.testing.assert_allclose(found["n"][0][0]["a"].numpy(), [1.0, 1.0])
    np.testing.assert_allclose(found["n"][0][1].numpy(), 0.0)


@WAYS
def test_jacobian_of_nothing_is_empty(way: Any) -> None:
    assert tl.jacobian(lambda x: x * 2, mode=way)(tl.zeros((0, 3))).shape == (0, 3, 0, 3)


@MODES
def test_hessian_is_symmetric_and_right(mode: Wrapper, rng: np.random.Generator) -> None:
    a = rng.normal(size=(3, 3))
    f = mode(lambda x: x @ tl.asarray(a) @ x + tl.sum(x**3))
    x = rng.normal(size=3)
    found = mode(tl.hessian(f))(tl.asarray(x)).numpy()
    np.testing.assert_allclose(found, a + a.T + 6 * np.diag(x), rtol=1e-10)


def test_hessian_of_two_arguments() -> None:
    (xx, xy), (yx, yy) = tl.hessian(lambda x, y: x * x * y, (0, 1))(2.0, 3.0)
    assert [t.item() for t in (xx, xy, yx, yy)] == [6.0, 4.0, 4.0, 0.0]
