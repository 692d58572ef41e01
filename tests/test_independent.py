"""Values and gradients against other people's implementations: autograd and SciPy.

Each program is written once for a namespace of functions, so the same lines run in tapeline, eager
and compiled, and in autograd.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, TypeAlias

import autograd
import autograd.numpy as anp
import autograd.scipy.special as asp
import numpy as np
import pytest
import scipy.special

import tapeline as tl

Array: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"
Program: TypeAlias = Callable[..., Any]

RTOL = 1e-10


def _log_softmax(x: Any, axis: int = -1) -> Any:
    return x - asp.logsumexp(x, axis, keepdims=True)


_RENAMED: dict[str, Any] = {
    "acos": anp.arccos, "acosh": anp.arccosh, "asin": anp.arcsin, "asinh": anp.arcsinh,
    "atan": anp.arctan, "atanh": anp.arctanh, "atan2": anp.arctan2, "erf": asp.erf,
    "sigmoid": asp.expit, "concat": anp.concatenate, "permute_dims": anp.transpose,
    "pow": anp.power, "cumulative_sum": anp.cumsum, "logsumexp": asp.logsumexp,
    "log_softmax": _log_softmax,
    "softmax": lambda x, axis=-1: anp.exp(_log_softmax(x, axis)),
    "rsqrt": lambda x: 1.0 / anp.sqrt(x),
    "take": lambda x, indices, axis: x[(slice(None),) * axis + (indices,)],
}  # fmt: skip
THEIRS = SimpleNamespace(**{name: getattr(anp, name) for name in dir(anp)} | _RENAMED)
"""autograd's functions under our names."""

ANY, POSITIVE, UNIT, ABOVE_ONE = (-2.0, 2.0), (0.2, 3.0), (-0.9, 0.9), (1.1, 3.0)
ROWS = np.array([2, 0, 0, 1])

ONE_OP: dict[str, tuple[Program, tuple[float, float], int]] = {
    "exp": (lambda m, x: m.exp(x), ANY, 1),
    "expm1": (lambda m, x: m.expm1(x), ANY, 1),
    "exp2": (lambda m, x: m.exp2(x), ANY, 1),
    "log": (lambda m, x: m.log(x), POSITIVE, 1),
    "log1p": (lambda m, x: m.log1p(x), POSITIVE, 1),
    "log2": (lambda m, x: m.log2(x), POSITIVE, 1),
    "log10": (lambda m, x: m.log10(x), POSITIVE, 1),
    "sqrt": (lambda m, x: m.sqrt(x), POSITIVE, 1),
    "rsqrt": (lambda m, x: m.rsqrt(x), POSITIVE, 1),
    "square": (lambda m, x: m.square(x), ANY, 1),
    "abs": (lambda m, x: m.abs(x), ANY, 1),
    "sin": (lambda m, x: m.sin(x), ANY, 1),
    "cos": (lambda m, x: m.cos(x), ANY, 1),
    "tan": (lambda m, x: m.tan(x), UNIT, 1),
    "asin": (lambda m, x: m.asin(x), UNIT, 1),
    "acos": (lambda m, x: m.acos(x), UNIT, 1),
    "atan": (lambda m, x: m.atan(x), ANY, 1),
    "sinh": (lambda m, x: m.sinh(x), ANY, 1),
    "cosh": (lambda m, x: m.cosh(x), ANY, 1),
    "tanh": (lambda m, x: m.tanh(x), ANY, 1),
    "asinh": (lambda m, x: m.asinh(x), ANY, 1),
    "acosh": (lambda m, x: m.acosh(x), ABOVE_ONE, 1),
    "atanh": (lambda m, x: m.atanh(x), UNIT, 1),
    "erf": (lambda m, x: m.erf(x), ANY, 1),
    "sigmoid": (lambda m, x: m.sigmoid(x), ANY, 1),
    "add": (lambda m, x, y: x + y[0], ANY, 2),
    "subtract": (lambda m, x, y: x[:, :1] - y, ANY, 2),
    "multiply": (lambda m, x, y: x * y[:1], ANY, 2),
    "divide": (lambda m, x, y: x / y, POSITIVE, 2),
    "pow": (lambda m, x, y: m.pow(x, y), POSITIVE, 2),
    "remainder": (lambda m, x, y: m.remainder(x, y), POSITIVE, 2),
    "atan2": (lambda m, x, y: m.atan2(x, y), ANY, 2),
    "logaddexp": (lambda m, x, y: m.logaddexp(x, y), ANY, 2),
    "maximum": (lambda m, x, y: m.maximum(x, y), ANY, 2),
    "minimum": (lambda m, x, y: m.minimum(x, y), ANY, 2),
    "where": (lambda m, x, y: m.where(x > 0.0, x, y), ANY, 2),
    "clip": (lambda m, x: m.clip(x, -1.0, 1.0), ANY, 1),
    "sum": (lambda m, x: m.sum(x, axis=0), ANY, 1),
    "mean": (lambda m, x: m.mean(x, axis=1), ANY, 1),
    "prod": (lambda m, x: m.prod(x, axis=1), ANY, 1),
    "max": (lambda m, x: m.max(x, axis=1), ANY, 1),
    "min": (lambda m, x: m.min(x, axis=0), ANY, 1),
    "var": (lambda m, x: m.var(x, axis=1), ANY, 1),
    "std": (lambda m, x: m.std(x, axis=1), ANY, 1),
    "cumulative_sum": (lambda m, x: m.cumulative_sum(x, axis=1), ANY, 1),
    "logsumexp": (lambda m, x: m.logsumexp(x, axis=1), ANY, 1),
    "softmax": (lambda m, x: m.softmax(x), ANY, 1),
    "log_softmax": (lambda m, x: m.log_softmax(x), ANY, 1),
    "matmul": (lambda m, x, y: m.matmul(x, m.permute_dims(y, (1, 0))), ANY, 2),
    "tensordot": (lambda m, x, y: m.tensordot(x, y, axes=2), ANY, 2),
    "reshape": (lambda m, x: m.reshape(x, (4, 3)), ANY, 1),
    "concat": (lambda m, x, y: m.concat([x, y, x], axis=1), ANY, 2),
    "stack": (lambda m, x, y: m.stack([x, y], axis=1), ANY, 2),
    "roll": (lambda m, x: m.roll(x, 2, axis=1), ANY, 1),
    "repeat": (lambda m, x: m.repeat(x, 3, axis=0), ANY, 1),
    "take": (lambda m, x: m.take(x, ROWS, axis=0), ANY, 1),
    "slices": (lambda m, x: x[::2, 1:] * x[1:2, :3], ANY, 1),
}

COMPOSED: dict[str, tuple[Program, tuple[float, float], int]] = {
    "gelu": (lambda m, x: 0.5 * x * (1.0 + m.erf(x / 2.0**0.5)), ANY, 1),
    "layer norm": (
        lambda m, x: (x - m.mean(x, axis=1, keepdims=True))
        / m.sqrt(m.var(x, axis=1, keepdims=True) + 1e-5), ANY, 1),
    "attention": (
        lambda m, x, y: m.matmul(m.softmax(m.matmul(x, y.T) / 2.0), y), ANY, 2),
    "network": (
        lambda m, x, y: m.matmul(m.tanh(m.matmul(x, y.T) + x[:, :3]), y), ANY, 2),
    "cross entropy": (lambda m, x, y: -m.sum(m.softmax(y) * m.log_softmax(x)), ANY, 2),
    "distances": (
        lambda m, x, y: m.sqrt(m.sum((x[:, None, :] - y[None, :, :]) ** 2, axis=-1) + 0.1),
        ANY, 2),
    "log density": (
        lambda m, x, y: -0.5 * m.sum(((x - m.mean(y)) / m.exp(y)) ** 2) - m.sum(y), ANY, 2),
    "recurrence": (
        lambda m, x, y: m.tanh(x * m.tanh(x * m.tanh(x + y) + y) + y), ANY, 2),
    "masked mean": (
        lambda m, x: m.sum(m.where(x > 0.3, m.log1p(m.abs(x)), 0.0 * x)) / 7.0, ANY, 1),
    "rational": (lambda m, x: (x**3 - 2.0 * x + 1.0) / (x**2 + 1.0), ANY, 1),
    "gathered products": (lambda m, x, y: x[ROWS] * m.exp(-y[ROWS] ** 2), ANY, 2),
}  # fmt: skip
PROGRAMS = {**ONE_OP, **COMPOSED}


def draw(name: str, rng: np.random.Generator) -> list[Array]:
    """The inputs of a program."""
    _, domain, count = PROGRAMS[name]
    return [rng.uniform(*domain, (3, 4)) for _ in range(count)]


def weights_like(y: Array) -> Array:
    """Weights that differ from element to element."""
    return np.linspace(0.5, 1.5, y.size).reshape(y.shape)


def autograd_orders(name: str, arrays: Sequence[Array]) -> tuple[Array, list[Array], list[Array]]:
    """The value, the gradients of its weighted sum, and the gradients of their weighted sum."""
    program, module = PROGRAMS[name][0], THEIRS
    value = np.asarray(program(module, *arrays))
    places = tuple(range(len(arrays)))

    def total(*inputs: Any) -> Any:
        return anp.sum(program(module, *inputs) * weights_like(value))

    def slope(*inputs: Any) -> Any:
        parts = autograd.grad(total, places)(*inputs)
        return sum(anp.sum(part * weights_like(part)) for part in parts)

    first = list(autograd.grad(total, places)(*arrays))
    return value, first, list(autograd.grad(slope, places)(*arrays))


def tape_orders(name: str, inputs: Sequence[tl.Tensor]) -> tuple[Any, list[Any], list[Any]]:
    """The same by nested tapes."""
    program, module = PROGRAMS[name][0], tl
    sources = list(inputs)
    with tl.GradientTape() as outer:
        outer.watch(sources)
        with tl.GradientTape() as inner:
            inner.watch(sources)
            value = program(module, *inputs)
            total = tl.sum(value * weights_like(np.zeros(value.shape)))
        first = inner.gradient(total, sources)
        slope = sum(tl.sum(part * weights_like(np.zeros(part.shape))) for part in first)
    return value, first, outer.gradient(slope, sources, unconnected_gradients="zero")


@pytest.mark.filterwarnings("ignore:Output seems independent of input")
@pytest.mark.parametrize("mode", ["eager", "compiled"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_values_and_gradients_are_autograds(name: str, mode: str, rng: np.random.Generator) -> None:
    arrays = draw(name, rng)
    inputs = [tl.asarray(x) for x in arrays]
    orders = tl.function(tape_orders) if mode == "compiled" else tape_orders
    value, first, second = orders(name, inputs)
    want_value, want_first, want_second = autograd_orders(name, arrays)
    np.testing.assert_allclose(value.numpy(), want_value, rtol=RTOL, atol=1e-12)
    for got, want in zip([*first, *second], [*want_first, *want_second], strict=True):
        scale = max(1.0, float(np.max(np.abs(want))))
        np.testing.assert_allclose(got.numpy(), want, rtol=RTOL, atol=1e-12 * scale)


@pytest.mark.parametrize("mode", ["eager", "compiled"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ["erf", "logsumexp", "softmax", "log_softmax", "expit"])
def test_values_are_scipys(name: str, dtype: str, mode: str, rng: np.random.Generator) -> None:
    ours: Program = getattr(tl, "sigmoid" if name == "expit" else name)
    theirs: Program = getattr(scipy.special, name)
    options: dict[str, Any] = {} if name in ("erf", "expit") else {"axis": 1}

    def program(x: Any) -> Any:
        return ours(x, **options)

    x = np.concatenate([rng.normal(size=(5, 40)), 5.0 * rng.normal(size=(5, 40))]).astype(dtype)
    got = (tl.function(program) if mode == "compiled" else program)(tl.asarray(x))
    eps = float(np.finfo(dtype).eps)
    atol = eps if name == "log_softmax" else 0.0  # a log near 0 is a difference of larger numbers
    want = theirs(x.astype("float64"), **options)
    assert got.dtype == x.dtype
    np.testing.assert_allclose(got.numpy(), want, rtol=16 * eps, atol=atol)
