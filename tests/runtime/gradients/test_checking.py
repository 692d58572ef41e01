"""`tl.testing.check_gradients` passes what is right and finds what is wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapeline as tl
from tapeline.runtime.errors import ArgumentError, DTypeError, GradientCheckError

X = tl.asarray([0.5, 2.0])


def with_rule(rule: Callable[[Any, Any], Any]) -> Any:
    """x ** 3 with this gradient."""
    return tl.custom_gradient(lambda x: (x * x * x, lambda dy: rule(dy, x)))


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
@pytest.mark.parametrize("wrap", [lambda f: f, tl.function, tl.vmap], ids=["eager", "fn", "vmap"])
def test_right_gradients_pass_to_the_third_order(wrap: Any, dtype: str) -> None:
    f = wrap(lambda x: tl.sin(x) * x + tl.exp(x))
    tl.testing.check_gradients(f, [X.astype(dtype)], order=3)


def test_structures_in_and_out_and_what_is_not_of_float() -> None:
    def f(given: Any, n: Any) -> Any:
        return {"y": given["a"] ** n * given["b"][0], "n": n + 1}

    tl.testing.check_gradients(f, [{"a": X, "b": [tl.asarray(3.0)]}, 2])


def test_a_wrong_first_order_is_found_in_both_modes() -> None:
    wrong = with_rule(lambda dy, x: dy * 2 * x * x)
    for mode in ("reverse", "forward"):
        with pytest.raises(GradientCheckError, match=f"order 1, {mode}: the derivative along"):
            tl.testing.check_gradients(wrong, [X], modes=[mode])


def test_a_wrong_second_order_is_found() -> None:
    wrong = with_rule(lambda dy, x: dy * tl.stop_gradient(3 * x * x))
    tl.testing.check_gradients(wrong, [X], order=1)
    with pytest.raises(GradientCheckError, match="order 2, reverse of reverse"):
        tl.testing.check_gradients(wrong, [X], modes=["reverse"])


def test_a_small_error_in_single_precision_is_found() -> None:
    wrong = with_rule(lambda dy, x: dy * 3.01 * x * x)
    with pytest.raises(GradientCheckError):
        tl.testing.check_gradients(wrong, [X.astype(tl.float32)], order=1)


def test_a_kink_is_found_and_the_tolerance_is_the_callers() -> None:
    kink = tl.asarray(0.0)
    with pytest.raises(GradientCheckError, match="is there a kink"):
        tl.testing.check_gradients(tl.nn.relu, [kink], order=1)
    tl.testing.check_gradients(tl.nn.relu, [kink], order=1, tolerance=1.0)


def test_bad_arguments_are_refused() -> None:
    with pytest.raises(ArgumentError, match="modes must be 'reverse' and 'forward'"):
        tl.testing.check_gradients(tl.sin, [X], modes=["backward"])  # type: ignore[list-item]
    with pytest.raises(ArgumentError, match="order must be 1 or more"):
        tl.testing.check_gradients(tl.sin, [X], order=0)
    with pytest.raises(DTypeError, match="no argument is of float"):
        tl.testing.check_gradients(tl.sin, [np.array([1, 2])])
