"""Cases where the time goes into one or two kernels."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import tapeline as tl
from benchmarks.case import JAX, NUMPY, OURS, TORCH, Case, Faster, peer
from benchmarks.measure import Call

Array = np.ndarray[Any, np.dtype[np.float32]]
C = math.sqrt(2 / math.pi)


def normal(seed: int, *shape: int) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def contest(
    arrays: list[Array],
    ours: Callable[..., Any],
    numpys: Call,
    theirs: Callable[[Any], Callable[..., Any]] | None = None,
    torchs: Callable[[Any], Callable[..., Any]] | None = None,
) -> dict[str, Call]:
    """Calls of compiled functions on the same arrays; `theirs` and `torchs` take the module."""
    compiled = tl.function(ours)
    tensors = [tl.asarray(array) for array in arrays]
    calls: dict[str, Call] = {OURS: lambda: compiled(*tensors), NUMPY: numpys}
    if theirs is not None and (jax := peer("jax")):
        jitted = jax.jit(theirs(jax))
        there = [jax.numpy.asarray(array) for array in arrays]
        calls[JAX] = lambda: jax.block_until_ready(jitted(*there))
    if torchs is not None and (torch := peer("torch")):
        function = torchs(torch)
        here = [torch.from_numpy(array) for array in arrays]
        calls[TORCH] = lambda: function(*here)
    return calls


def build_gelu() -> dict[str, Call]:
    x = normal(3, 1_000_000) * np.float32(2)
    out = np.empty_like(x)

    def by_hand() -> Any:
        np.multiply(x, x, out=out)
        np.multiply(out, np.float32(0.044715 * C), out=out)
        np.add(out, np.float32(C), out=out)
        np.multiply(out, x, out=out)
        np.tanh(out, out=out)
        np.add(out, 1, out=out)
        np.multiply(out, x, out=out)
        return np.multiply(out, np.float32(0.5), out=out)

    return contest(
        [x],
        lambda x: 0.5 * x * (1 + tl.tanh(C * (x + 0.044715 * x * x * x))),
        by_hand,
        lambda jax: partial(jax.nn.gelu, approximate=True),
        lambda torch: partial(torch.nn.functional.gelu, approximate="tanh"),
    )


def build_softmax() -> dict[str, Call]:
    x = normal(5, 1024, 1024) * np.float32(3)
    out = np.empty_like(x)

    def by_hand() -> Any:
        np.subtract(x, x.max(axis=1, keepdims=True), out=out)
        np.exp(out, out=out)
        return np.divide(out, out.sum(axis=1, keepdims=True), out=out)

    return contest(
        [x],
        lambda x: tl.softmax(x, axis=-1),
        by_hand,
        lambda jax: jax.nn.softmax,
        lambda torch: partial(torch.softmax, dim=-1),
    )


def build_layer_norm() -> dict[str, Call]:
    x = normal(6, 1024, 1024) * np.float32(2) + np.float32(0.5)
    g, b = normal(7, 1024), normal(8, 1024)
    out, square = np.empty_like(x), np.empty_like(x)

    def by_hand() -> Any:
        np.subtract(x, x.mean(axis=1, keepdims=True), out=out)
        np.multiply(out, out, out=square)
        spread = square.mean(axis=1, keepdims=True)
        spread += np.float32(1e-5)
        np.sqrt(spread, out=spread)
        np.divide(out, spread, out=out)
        np.multiply(out, g, out=out)
        return np.add(out, b, out=out)

    def ours(x: tl.Tensor, g: tl.Tensor, b: tl.Tensor) -> tl.Tensor:
        c = x - tl.mean(x, axis=-1, keepdims=True)
        return c * tl.rsqrt(tl.mean(c * c, axis=-1, keepdims=True) + 1e-5) * g + b

    def theirs(jax: Any) -> Callable[..., Any]:
        def norm(x: Any, g: Any, b: Any) -> Any:
            c = x - x.mean(-1, keepdims=True)
            return c * jax.lax.rsqrt((c * c).mean(-1, keepdims=True) + 1e-5) * g + b

        return norm

    return contest(
        [x, g, b],
        ours,
        by_hand,
        theirs,
        lambda torch: lambda x, g, b: torch.nn.functional.layer_norm(x, (1024,), g, b),
    )


def basic(kind: str, elements: int) -> dict[str, Call]:
    """The plainest operations, where NumPy is hard to beat."""
    side = math.isqrt(elements)
    x, out = normal(9, side, side), np.empty((side, side), np.float32)
    row, column = normal(10, side), normal(11, side, 1)
    match kind:
        case "sum":
            return contest([x], lambda x: tl.sum(x), lambda: np.add.reduce(x, axis=None))
        case "max":
            return contest([x], lambda x: tl.max(x), lambda: np.maximum.reduce(x, axis=None))
        case "column_sum":
            return contest([x], lambda x: tl.sum(x, axis=0), lambda: np.add.reduce(x, axis=0))
        case "row_broadcast":
            return contest([x, row], lambda x, v: x + v, lambda: np.add(x, row, out=out))
        case "column_broadcast":
            return contest([x, column], lambda x, v: x + v, lambda: np.add(x, column, out=out))
        case _:
            y = normal(12, side, side)
            return contest(
                [x, y], lambda x, y: tl.matrix_transpose(x) + y, lambda: np.add(x.T, y, out=out)
            )


BASIC_KINDS = {
    "sum": "sum of all",
    "max": "maximum of all",
    "column_sum": "sum over rows",
    "row_broadcast": "matrix + row",
    "column_broadcast": "matrix + column",
    "transposed": "transposed matrix + matrix",
}

CASES = (
    Case(
        "gelu",
        "GELU (tanh) of 1e6 float32",
        build_gelu,
        (Faster(2.5, NUMPY), Faster(1, JAX)),
    ),
    Case("softmax", "softmax of rows, 1024 x 1024", build_softmax, (Faster(3, NUMPY),)),
    Case("layer_norm", "layer norm, 1024 x 1024", build_layer_norm, (Faster(6, NUMPY),)),
    *(
        Case(
            f"{kind}_1e{round(math.log10(elements))}",
            f"{what}, {elements:,} elements",
            partial(basic, kind, elements),
            (Faster(0.95, NUMPY),),
            group="plain operations",
        )
        for kind, what in BASIC_KINDS.items()
        for elements in (100, 10_000, 1_000_000)
    ),
)
