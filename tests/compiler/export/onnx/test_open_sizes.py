"""Sizes that a trace leaves open become dynamic axes, and models serve all of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.compiler.export.onnx.running import NEEDS_ONNX, run_model

import tapeline as tl
from tapeline.runtime.errors import ExportError
from tapeline.runtime.tensor import Tensor

onnx = pytest.importorskip("onnx", reason=NEEDS_ONNX)


def spec(*shape: int | None) -> tl.TensorSpec:
    return tl.TensorSpec(shape, "float64")


def network(x: Tensor, w: Tensor) -> Tensor:
    return tl.nn.softmax(tl.tanh(x @ w))


def shapes(x: Tensor) -> tuple[Tensor, ...]:
    n = x.shape[0]
    doubled = tl.concat([x, x])
    return tl.reshape(x, (n * 2, -1)), tl.sum(x, axis=0) / n, doubled[1:-1], x[::-1], doubled[n:]


def standardized(x: Tensor) -> Tensor:
    return (x - tl.mean(x, axis=0)) / tl.std(x, axis=0, correction=1)


def attention(q: Tensor) -> Tensor:
    return tl.nn.softmax(q @ q.T) @ q


def ordered(x: Tensor) -> tuple[Tensor, ...]:
    best = tl.take(x, tl.argmax(x, axis=0), axis=0)
    return tl.sort(x, axis=0), tl.cumulative_sum(x, axis=0), best, tl.max(x, axis=0)


def loss(x: Tensor, y: Tensor) -> Tensor:
    return tl.mean(tl.nn.cross_entropy(x, y))


def halves(x: Tensor) -> Tensor:
    n = x.shape[0] // 2
    return x[:n] * x[n : 2 * n]


CASES: list[tuple[Callable[..., Any], tuple[tl.TensorSpec, ...], bool]] = [
    (network, (spec(None, 6), spec(6, 3)), True),
    (shapes, (spec(None, 4),), True),
    (standardized, (spec(None, 4),), False),
    (attention, (spec(None, 4),), True),
    (ordered, (spec(None, 4),), True),
    (loss, (spec(None, 4), spec(None, 4)), True),
    (halves, (spec(None, 2),), True),
]


def arrays_for(size: int, specs: tuple[tl.TensorSpec, ...], rng: np.random.Generator) -> list[Any]:
    return [rng.uniform(0, 1, [size if n is None else n for n in one.shape]) for one in specs]


@pytest.mark.parametrize(
    ("function", "specs", "has_gradient"), CASES, ids=lambda value: getattr(value, "__name__", "")
)
def test_one_model_serves_all_sizes(
    function: Callable[..., Any], specs: tuple[tl.TensorSpec, ...], has_gradient: bool,
    tmp_path: Path, rng: np.random.Generator,
) -> None:  # fmt: skip
    compiled = tl.function(function)
    model = tl.export.onnx(compiled, tmp_path / "m.onnx", specs)
    for size in (3, 8, 21):
        arrays = arrays_for(size, specs, rng)
        got = run_model(tmp_path / "m.onnx", dict(zip(model.inputs, arrays, strict=True)))
        want = tl.nest.flatten(function(*map(tl.asarray, arrays)))
        for a, b in zip(got.values(), want, strict=True):
            assert a.shape == b.shape
            np.testing.assert_allclose(a, b.numpy(), rtol=1e-10, atol=1e-13)
    if not has_gradient:
        return
    model = tl.export.onnx(compiled, tmp_path / "g.onnx", specs, grad=True)
    for size in (3, 8, 21):
        arrays = arrays_for(size, specs, rng)
        sources = [tl.asarray(x) for x in arrays]
        with tl.GradientTape() as tape:
            tape.watch(sources)
            values = tl.nest.flatten(function(*sources))
        cotangents = [np.asarray(rng.normal(size=v.shape)) for v in values]
        feeds = dict(zip(model.inputs, [*arrays, *cotangents], strict=True))
        got = run_model(tmp_path / "g.onnx", feeds)
        want = tape.gradient(values, sources, output_gradients=list(map(tl.asarray, cotangents)))
        for a, b in zip(got.values(), want, strict=True):
            np.testing.assert_allclose(a, b.numpy(), rtol=1e-9, atol=1e-12)


def test_axes_have_the_names_of_sizes(tmp_path: Path) -> None:
    model = tl.export.onnx(tl.function(shapes), tmp_path / "m.onnx", (spec(None, 4),))
    graph = onnx.load(tmp_path / "m.onnx").graph
    axes = [
        [axis.dim_param or axis.dim_value for axis in one.type.tensor_type.shape.dim]
        for one in (*graph.input, *graph.output)
    ]
    assert axes[:2] == [["n0", 4], ["2*n0", 2]]
    assert any("good for sizes where" in note for note in model.notes)


def test_what_depends_on_the_size_itself_is_refused(tmp_path: Path) -> None:
    function = tl.function(lambda x: tl.diagonal(x @ x.T))
    with pytest.raises(ExportError, match=r"diagonal at test_open_sizes.py:\d+: its form depends"):
        tl.export.onnx(function, tmp_path / "m.onnx", (spec(None, 4),))
    tl.export.onnx(function, tmp_path / "m.onnx", (spec(5, 4),))


def test_a_size_that_the_function_counts_is_fixed_in_the_model(tmp_path: Path) -> None:
    function = tl.function(lambda x: tl.asarray(float(x.shape[0])) * x)
    model = tl.export.onnx(function, tmp_path / "m.onnx", (spec(None, 4),))
    size = model.inputs["x"].shape[0]
    assert isinstance(size, int)
    x = np.ones((size, 4))
    got = run_model(tmp_path / "m.onnx", {"x": x})
    np.testing.assert_array_equal(got["result"], x * size)
