"""Activations against their definitions, and their gradients where they bend."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

import tapeline as tl
from tapeline.runtime.errors import ShapeError

POINTS = np.array([-12.0, -4.5, -3.0, -1.0, -0.3, 0.2, 1.0, 2.5, 3.0, 5.0, 7.0, 40.0])


def softplus(x: float) -> float:
    return math.log1p(math.exp(-abs(x))) + max(x, 0.0)


def normal_cdf(x: float) -> float:
    return 0.5 * math.erfc(-x / math.sqrt(2))


DEFINITIONS: dict[str, Callable[[float], float]] = {
    "relu": lambda x: max(x, 0.0),
    "relu6": lambda x: min(max(x, 0.0), 6.0),
    "leaky_relu": lambda x: x if x > 0 else 0.01 * x,
    "elu": lambda x: x if x > 0 else math.expm1(x),
    "selu": lambda x: 1.0507009873554805 * (x if x > 0 else 1.6732632423543772 * math.expm1(x)),
    "celu": lambda x: x if x > 0 else math.expm1(x),
    "hardtanh": lambda x: min(max(x, -1.0), 1.0),
    "hardsigmoid": lambda x: min(max(x / 6 + 0.5, 0.0), 1.0),
    "hardswish": lambda x: x * min(max(x / 6 + 0.5, 0.0), 1.0),
    "gelu": lambda x: x * normal_cdf(x),
    "silu": lambda x: x / (1 + math.exp(-x)),
    "mish": lambda x: x * math.tanh(softplus(x)),
    "softplus": softplus,
    "softsign": lambda x: x / (1 + abs(x)),
    "log_sigmoid": lambda x: -softplus(-x),
    "sigmoid": lambda x: 1 / (1 + math.exp(-x)),
}

AT_BENDS = [
    ("relu", 0.0, 0.0),
    ("relu6", 0.0, 0.0),
    ("relu6", 6.0, 0.0),
    ("leaky_relu", 0.0, 0.01),
    ("elu", 0.0, 1.0),
    ("hardsigmoid", 3.0, 0.0),
    ("hardswish", -3.0, 0.0),
    ("hardswish", 3.0, 1.0),
]


@pytest.mark.parametrize("name", DEFINITIONS)
def test_activation_is_what_its_definition_says(name: str) -> None:
    want = [DEFINITIONS[name](x) for x in POINTS]
    got = getattr(tl.nn, name)(POINTS)
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-14, atol=1e-15)


@pytest.mark.parametrize("name", DEFINITIONS)
def test_activation_keeps_float32_and_takes_ints_as_floats(name: str) -> None:
    function = getattr(tl.nn, name)
    assert function(np.ones(3, np.float32)).dtype == np.float32
    if name != "hardtanh":
        assert function(np.ones(3, np.int64)).dtype == np.float64


@pytest.mark.parametrize(("name", "x", "slope"), AT_BENDS)
def test_gradient_where_the_activation_bends(name: str, x: float, slope: float) -> None:
    assert tl.grad(getattr(tl.nn, name))(tl.asarray(x)).item() == slope


@pytest.mark.parametrize("name", ["softplus", "log_sigmoid", "gelu", "mish", "elu", "celu"])
def test_far_points_have_finite_gradients(name: str) -> None:
    x = tl.asarray([-1e4, 1e4])
    with tl.GradientTape() as tape:
        tape.watch(x)
        y = getattr(tl.nn, name)(x)
    found = tape.gradient(y, x)
    assert np.isfinite(y.numpy()).all()
    assert np.isfinite(found.numpy()).all()


def test_gelu_by_tanh_is_near_the_exact_one() -> None:
    exact, near = tl.nn.gelu(POINTS), tl.nn.gelu(POINTS, approximate="tanh")
    assert 0 < np.abs(exact.numpy() - near.numpy()).max() < 1e-3
    with pytest.raises(ValueError, match="gelu: approximate must be 'none' or 'tanh'"):
        tl.nn.gelu(POINTS, approximate="erf")


def test_prelu_has_gradients_for_its_slopes() -> None:
    x = tl.asarray([[-1.0, -2.0], [3.0, -4.0]])
    slope = tl.asarray([0.5, 0.25])
    with tl.GradientTape() as tape:
        tape.watch([x, slope])
        y = tl.nn.prelu(x, slope)
    found = tape.gradient(y, [x, slope])
    np.testing.assert_array_equal(found[0].numpy(), [[0.5, 0.25], [1.0, 0.25]])
    np.testing.assert_array_equal(found[1].numpy(), [-1.0, -6.0])


def test_glu_needs_an_even_extent() -> None:
    with pytest.raises(ShapeError, match="odd extent"):
        tl.nn.glu([1.0, 2.0, 3.0])


@pytest.mark.filterwarnings("ignore:invalid value")
@pytest.mark.parametrize("is_compiled", [False, True])
@pytest.mark.parametrize("name", ["gelu", "silu", "mish", "softplus", "elu", "hardswish"])
def test_masked_elements_have_no_gradient_whatever_they_are(name: str, is_compiled: bool) -> None:
    def loss(x: tl.Tensor) -> tl.Tensor:
        return tl.sum(tl.where(tl.asarray([True, False, False]), getattr(tl.nn, name)(x), 0.0))

    def slopes(x: tl.Tensor) -> tl.Tensor:
        found: tl.Tensor = tl.grad(loss)(x)
        return found

    x = tl.asarray([1.0, np.nan, -np.inf])
    found = (tl.function(slopes) if is_compiled else slopes)(x).numpy()
    assert found[0] != 0
    np.testing.assert_array_equal(found[1:], [0.0, 0.0])
