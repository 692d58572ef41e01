"""Running maxima, minima and log-sums."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapeline as tl

SCANS: dict[str, tuple[Callable[..., tl.Tensor], np.ufunc]] = {
    "max": (tl.cumulative_max, np.maximum),
    "min": (tl.cumulative_min, np.minimum),
    "logsumexp": (tl.cumulative_logsumexp, np.logaddexp),
}


@pytest.mark.parametrize("mode", ["eager", "compiled"])
@pytest.mark.parametrize("name", SCANS)
def test_scan_is_that_of_numpys_ufunc(name: str, mode: str, rng: np.random.Generator) -> None:
    function, ufunc = SCANS[name]
    for shape, axis in (((7,), 0), ((3, 5), 1), ((3, 5), 0), ((1, 4), -1), ((0, 2), 0)):
        x = rng.normal(size=shape) * 20
        run = tl.function(function) if mode == "compiled" else function
        got = run(tl.asarray(x), axis=axis).numpy()
        np.testing.assert_allclose(got, ufunc.accumulate(x, axis), rtol=1e-14, atol=1e-14)
    flat = function(tl.asarray(np.arange(6.0).reshape(2, 3))).numpy()
    np.testing.assert_allclose(flat, ufunc.accumulate(np.arange(6.0)), rtol=1e-14)


@pytest.mark.parametrize("name", SCANS)
def test_scan_has_gradients_of_order_one_and_two(name: str, rng: np.random.Generator) -> None:
    function = SCANS[name][0]
    x = tl.asarray(rng.normal(size=(3, 5)))
    weights = rng.normal(size=(3, 5))
    tl.testing.check_gradients(lambda t: function(t, axis=1) * weights, [x])


def test_cotangents_go_to_the_element_that_is_the_maximum() -> None:
    slope = tl.grad(lambda t: tl.sum(tl.cumulative_max(t)))(tl.asarray([1.0, 3.0, 2.0, 5.0]))
    np.testing.assert_array_equal(slope.numpy(), [1.0, 2.0, 0.0, 1.0])


def test_nan_stays_in_a_running_maximum() -> None:
    got: Any = tl.cumulative_max([1.0, np.nan, 3.0]).numpy()
    np.testing.assert_array_equal(got, [1.0, np.nan, np.nan])


def test_scan_names_a_missing_axis() -> None:
    with pytest.raises(ValueError, match="cumulative_max: axis 2"):
        tl.cumulative_max(tl.ones((2, 2)), axis=2)
