"""Floats of 16 bits in models: what float32 gives, rounded after each op."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.compiler.export.onnx.running import NEEDS_ONNX, export_and_run

import tapeline as tl
from tapeline.runtime.tensor import Tensor

pytest.importorskip("onnx", reason=NEEDS_ONNX)


def functions(x: Tensor) -> tuple[Tensor, ...]:
    return (x * x + 1) / (x - 2), tl.exp(x), tl.tanh(x), tl.sqrt(tl.abs(x)), tl.nn.gelu(x)


def moves(x: Tensor) -> tuple[Tensor, ...]:
    return x.T[1:], tl.roll(x, 1), tl.where(x > 0, x, 0 * x), tl.sort(x), tl.argmax(x)


def sums(x: Tensor) -> tuple[Tensor, ...]:
    return tl.sum(x, axis=0), tl.mean(x), tl.max(x), tl.var(x), tl.nn.softmax(x), x @ x.T


def shrinking(x: Tensor) -> Tensor:
    while tl.sum(x) > 1:
        x = x * tl.astype(tl.asarray(0.7), x.dtype)
    return x


@pytest.mark.parametrize("function", [functions, moves, sums, shrinking])
@pytest.mark.parametrize(("dtype", "accuracy"), [("float16", 2e-3), ("bfloat16", 2e-2)])
def test_models_give_what_functions_give(
    function: Any, dtype: str, accuracy: float, tmp_path: Path, rng: np.random.Generator
) -> None:
    if dtype == "bfloat16":
        pytest.importorskip("ml_dtypes", reason="ml_dtypes is not installed; it brings bfloat16")
    x = rng.normal(size=(3, 4)).astype(dtype)
    found = export_and_run(tl.function(function), [x], tmp_path / "m.onnx")
    want = function(tl.asarray(x))
    for a, b in zip(found.values(), want if isinstance(want, tuple) else [want], strict=True):
        assert a.dtype == b.dtype
        got, given = a.astype(np.float64), b.numpy().astype(np.float64)
        np.testing.assert_allclose(got, given, rtol=accuracy, atol=1e-6)
