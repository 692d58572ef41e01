"""Complex numbers in models: pairs inside, a last axis of two at the border."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.compiler.export.onnx.running import NEEDS_ONNX, export_and_run, run_model, stacked

import tapeline as tl
from tapeline.runtime.tensor import Tensor

pytest.importorskip("onnx", reason=NEEDS_ONNX)


def functions(z: Tensor) -> tuple[Tensor, ...]:
    return tl.exp(z), tl.sqrt(z), tl.log(z), z**2.5, tl.tanh(z), (z * z + 1) / (z - 2j), tl.sign(z)


def moves(z: Tensor) -> tuple[Tensor, ...]:
    chosen = tl.where(tl.real(z) > 0, z, 0j)
    return z.T[1:], tl.concat([z, chosen]), tl.roll(z, 1), tl.pad(z, 1), tl.take(z, [2, 0], axis=0)


def sums(z: Tensor) -> tuple[Tensor, ...]:
    return tl.sum(z, axis=0), tl.mean(z), tl.cumulative_sum(z, axis=1), z @ z.T, tl.any(z)


def transforms(z: Tensor) -> tuple[Tensor, ...]:
    x = tl.real(z)
    half = tl.fft.rfft(x)
    both = tl.fft.fftn(z, norm="ortho"), tl.fft.ifftn(z, s=(5, 3), axes=(0, 1))
    return (*both, tl.fft.fft(z, n=7), half, tl.fft.irfft(half, n=5), tl.fft.irfft(half, n=8))


def growing(z: Tensor) -> Tensor:
    start = z
    while tl.sum(tl.abs(z)) < 50:
        z = z * z + start
    return z


def over_rows(z: Tensor) -> Tensor:
    state = z[0] * 0
    for row in z:
        state = state * 0.5j + row
    return state


def chosen(z: Tensor) -> Tensor:
    if tl.sum(tl.imag(z)) > 0:
        return z * 1j
    return tl.conj(z)


@pytest.mark.parametrize(
    "function", [functions, moves, sums, transforms, growing, over_rows, chosen]
)
@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_models_give_what_functions_give(
    function: Any, dtype: str, tmp_path: Path, rng: np.random.Generator
) -> None:
    z = (rng.normal(size=(3, 4)) + 1j * rng.normal(size=(3, 4))).astype(dtype)
    got = export_and_run(tl.function(function), [z], tmp_path / "m.onnx")
    assert_close(got.values(), function(tl.asarray(z)), 1e-13 if dtype == "complex128" else 3e-5)


def assert_close(got: Any, want: Tensor | Sequence[Any], rtol: float) -> None:
    for a, b in zip(got, want if isinstance(want, tuple | list) else [want], strict=True):
        value = stacked(b.numpy())
        assert (a.shape, a.dtype) == (value.shape, value.dtype)
        np.testing.assert_allclose(a, value, rtol=rtol, atol=rtol * np.abs(value).max())


def test_gradients_take_and_give_pairs(tmp_path: Path, rng: np.random.Generator) -> None:
    def function(x: Tensor, z: Tensor) -> Tensor:
        return tl.fft.irfft(tl.fft.rfft(x) * z, n=6)

    arrays = [rng.normal(size=6), rng.normal(size=4) + 1j * rng.normal(size=4)]
    sources = [tl.asarray(x) for x in arrays]
    with tl.GradientTape() as tape:
        tape.watch(sources)
        value = function(*sources)
    cotangent = rng.normal(size=6)
    want = tape.gradient(value, sources, output_gradients=tl.asarray(cotangent))
    path = tmp_path / "m.onnx"
    got = export_and_run(tl.function(function), arrays, path, True, [cotangent])
    assert list(got) == ["gradient_x", "gradient_z"]
    assert_close(got.values(), want, 1e-13)


def test_variables_and_captured_tensors_are_pairs(tmp_path: Path) -> None:
    w = tl.Variable(np.array([1 + 1j, -2j]), name="w")
    turn = tl.asarray([1j, 1.0])

    @tl.function
    def step(z: Tensor) -> Tensor:
        w.assign(w * turn)
        return z + w

    path = tmp_path / "m.onnx"
    z = np.array([0.5 + 2j, 3.0])
    model = tl.export.onnx(step, path, (tl.asarray(z),))
    assert model.inputs["z"] == tl.TensorSpec([2, 2], "float64")
    assert model.variables["w"].shape == (2, 2)
    feeds = {"z": stacked(z)}
    for _ in range(2):
        got = run_model(path, feeds)
        assert_close(got.values(), [step(tl.asarray(z)), w.value()], 1e-14)
        feeds["w"] = got["new_w"]


def test_sizes_may_be_open(tmp_path: Path, rng: np.random.Generator) -> None:
    function = tl.function(lambda z: tl.sum(tl.exp(z) * tl.conj(z), axis=0))
    path = tmp_path / "m.onnx"
    tl.export.onnx(function, path, (tl.TensorSpec([None, 3], "complex128"),))
    for n in (2, 5):
        z = rng.normal(size=(n, 3)) + 1j * rng.normal(size=(n, 3))
        got = run_model(path, {"z": z})
        assert_close(got.values(), function(tl.asarray(z)), 1e-13)
