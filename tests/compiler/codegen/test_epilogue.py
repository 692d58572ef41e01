"""Products that hand their tiles on give the bits of a product and a pass of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapeline as tl
from tapeline.compiler.codegen import lower
from tapeline.compiler.codegen.target import host_target

pytestmark = pytest.mark.skipif(
    not host_target().avx512, reason="the routine serves products on machines with 64-byte vectors"
)

Case = tuple[tuple[int, int, int], Callable[..., Any], int]

CASES: dict[str, Case] = {
    "bias and relu": ((512, 512, 64), lambda x, w, b: tl.maximum(x @ w + b, 0), 1),
    "ragged": ((131, 700, 259), lambda x, w, b: tl.maximum(x @ w + b, 0), 1),
    "more rows than columns": ((900, 130, 61), lambda x, w, b: tl.tanh(x @ w + b), 1),
    "several blocks of k": ((150, 1000, 70), lambda x, w, b: tl.maximum(x @ w + b, 0), 1),
    "the product too": ((200, 300, 200), lambda x, w, b: (x @ w, tl.exp(x @ w + b)), 1),
    "several results": ((200, 300, 200), lambda x, w, b: (x @ w + b, x @ w + b > 0), 1),
    "another operand": ((200, 200, 200), lambda x, w, b: x @ w * b - x, 1),
    "another dtype": ((200, 300, 200), lambda x, w, b: tl.astype(x @ w + b, "float64"), 1),
    "a column": ((200, 300, 200), lambda x, w, b: x @ w + x[:, :1], 1),
    "a sum of rows stays apart": ((200, 300, 200), lambda x, w, b: tl.sum(x @ w, axis=1), 0),
    "transposed stays apart": ((200, 300, 200), lambda x, w, b: (x @ w).T + x[:1, :1], 0),
}


def draw(m: int, k: int, n: int, dtype: str) -> list[tl.Tensor]:
    rng = np.random.default_rng(m)
    return [tl.asarray(rng.standard_normal(s).astype(dtype)) for s in ((m, k), (k, n), (n,))]


def results_of(function: Any, inputs: list[tl.Tensor]) -> list[Any]:
    found = function(*inputs)
    return [one.numpy() for one in (found if isinstance(found, tuple) else (found,))]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", CASES)
def test_tiles_handed_on_give_the_same_bits(
    name: str, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes, program, _ = CASES[name]
    inputs = draw(*sizes, dtype)
    fused = results_of(tl.function(program), inputs)
    monkeypatch.setattr(lower, "fuse_epilogues", lambda program, target: program)
    apart = results_of(tl.function(program), inputs)
    for a, b in zip(fused, apart, strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("name", CASES)
def test_nests_after_products_are_fused_where_they_go_by_rows_and_columns(name: str) -> None:
    sizes, program, expected = CASES[name]
    specs = [tl.TensorSpec(x.shape, x.dtype) for x in draw(*sizes, "float32")]
    kernels = tl.function(program).get_concrete_function(*specs).kernels()
    assert sum(len(k.ops) > 1 for k in kernels if k.kind == "product") == expected


def test_leading_axes_are_rows() -> None:
    rng = np.random.default_rng(0)
    x = tl.asarray(rng.standard_normal((4, 60, 300)).astype("float32"))
    w = tl.asarray(rng.standard_normal((300, 256)).astype("float32"))

    def program(x: tl.Tensor, w: tl.Tensor) -> tl.Tensor:
        return tl.sin(x @ w) + x[:, :, :256]

    compiled = tl.function(program)
    want = np.sin((x.numpy() @ w.numpy()).astype("float64")) + x.numpy()[:, :, :256]
    np.testing.assert_allclose(compiled(x, w).numpy(), want, atol=1e-4)
    (kernel,) = compiled.get_concrete_function(x, w).kernels()
    assert kernel.ops == ("matmul", "sin", "add")


def test_training_step_of_a_dense_layer_is_right() -> None:
    x, w, b = draw(256, 256, 128, "float64")

    def gradients(x: tl.Tensor, w: tl.Tensor, b: tl.Tensor) -> Any:
        with tl.GradientTape() as tape:
            tape.watch([w, b])
            loss = tl.mean(tl.maximum(x @ w + b, 0) ** 2)
        return (loss, *tape.gradient(loss, [w, b]))

    for a, e in zip(tl.function(gradients)(x, w, b), gradients(x, w, b), strict=True):
        np.testing.assert_allclose(a.numpy(), e.numpy(), rtol=1e-12, atol=1e-14)
