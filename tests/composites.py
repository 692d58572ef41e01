"""Checks of functions that are made of ops: compiled as eagerly, and with right gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from tests.gradients import difference_gradients

import tapeline as tl
from tapeline.runtime.tensor import Tensor


def weighted(y: Tensor) -> Tensor:
    """A sum of all elements with weights that differ."""
    return tl.sum(y * tl.reshape(tl.linspace(0.5, 1.5, y.size), y.shape))


def gradients(function: Callable[..., Tensor], tensors: Sequence[Tensor]) -> list[Tensor]:
    """The gradients of a weighted sum of what the function gives."""
    with tl.GradientTape() as tape:
        tape.watch(tensors)
        loss = weighted(function(*tensors))
    found: list[Tensor] = tape.gradient(loss, tensors, unconnected_gradients="zero")
    return found


def assert_differentiable_and_compiled(function: Callable[..., Tensor], *arrays: Any) -> Any:
    """Compiled values and gradients are the eager ones, and those are right; gives the values."""
    tensors = [tl.asarray(x) for x in arrays]
    y = function(*tensors)
    compiled = tl.function(function)(*tensors)
    assert (compiled.shape, compiled.dtype) == (y.shape, y.dtype)
    np.testing.assert_allclose(compiled.numpy(), y.numpy(), rtol=1e-12, atol=1e-12)
    found = gradients(function, tensors)
    in_graph = tl.function(lambda *inputs: gradients(function, inputs))(*tensors)
    outside = gradients(tl.function(function), tensors)
    want = difference_gradients(
        lambda *inputs: float(weighted(function(*[tl.asarray(x) for x in inputs])).item()),
        [np.asarray(x) for x in arrays],
    )
    for a, b, c, d in zip(found, in_graph, outside, want, strict=True):
        np.testing.assert_allclose(a.numpy(), d, rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(b.numpy(), a.numpy(), rtol=1e-10, atol=1e-10)
        np.testing.assert_allclose(c.numpy(), a.numpy(), rtol=1e-10, atol=1e-10)
    return y.numpy()
