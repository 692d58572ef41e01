"""float16 and bfloat16: kept in tensors, cast, computed with, differentiated, eagerly and compiled.

bfloat16 is the dtype of the package ml_dtypes; most ops compute in float32 and round.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapeline as tl
from tapeline.runtime.spec import FLOAT16, SUPPORTED_DTYPES

ml_dtypes = pytest.importorskip("ml_dtypes", reason="bfloat16 needs ml_dtypes")
HALVES = [np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16)]
each_half = pytest.mark.parametrize("dtype", HALVES, ids=str)
VALUES = [[1.5, -2.25, 3.0], [0.5, 7.0, -0.125]]

PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "add": lambda x: x + x,
    "multiply by a number": lambda x: x * 2.0,
    "exp": tl.exp,
    "matmul": lambda x: x @ x.T,
    "sum": lambda x: tl.sum(x, axis=0),
    "mean": tl.mean,
    "std": lambda x: tl.std(x, axis=1),
    "max": lambda x: tl.max(x, axis=1),
    "softmax": tl.softmax,
    "sort": lambda x: tl.sort(x, descending=True),
    "cumulative_sum": lambda x: tl.cumulative_sum(x, axis=1),
    "where": lambda x: tl.where(x > 0, x, 0),
    "maximum": lambda x: tl.maximum(x, 1),
    "slice": lambda x: x[1:, ::2],
    "take": lambda x: x[tl.asarray([1, 0, 1])],
    "concat": lambda x: tl.concat([x, x], axis=1),
    "transpose": lambda x: x.T,
    "pad": lambda x: tl.pad(x, 1),
    "divide": lambda x: x / (x * x + 1),
    "divide by a number": lambda x: x / 3,
    "divide a number": lambda x: 2 / (x * x + 1),
    "power": lambda x: (x * x + 1) ** 0.5,
    "power of two": lambda x: (abs(x) + 1) ** (x * 0.25),
    "square": lambda x: x**2,
    "floor_divide": lambda x: x // 2,
    "remainder": lambda x: x % 2.5,
    "abs": abs,
    "sign": tl.sign,
    "round": tl.round,
    "floor": tl.floor,
    "minimum": lambda x: tl.minimum(x, x[0]),
    "clip": lambda x: tl.clip(x, -1.0, 2.0),
    "atan2": lambda x: tl.atan2(x, x + 9),
    "hypot": lambda x: tl.hypot(x, x),
    "copysign": lambda x: tl.copysign(x, -x),
    "log": lambda x: tl.log(x * x + 1),
    "sin": tl.sin,
    "tanh": tl.tanh,
    "erf": tl.erf,
    "sigmoid": tl.nn.sigmoid,
    "relu": tl.nn.relu,
    "gelu": tl.nn.gelu,
    "silu": tl.nn.silu,
    "elu": tl.nn.elu,
    "log_softmax": tl.log_softmax,
    "softmax with a mask": lambda x: tl.nn.softmax(x, where=x > -1),
    "logsumexp": lambda x: tl.logsumexp(x, axis=1),
    "matvec": lambda x: x @ x[0],
    "vecdot": lambda x: tl.vecdot(x, x),
    "tensordot": lambda x: tl.tensordot(x, x, axes=2),
    "einsum": lambda x: tl.einsum("ij,kj->ik", x, x),
    "vector_norm": tl.linalg.vector_norm,
    "prod": lambda x: tl.prod(x, axis=0),
    "var": tl.var,
    "min": lambda x: tl.min(x, axis=0, keepdims=True),
    "cumulative_prod": lambda x: tl.cumulative_prod(x, axis=1),
    "diff": tl.diff,
    "stack": lambda x: tl.stack([x, -x]),
    "reshape": lambda x: tl.reshape(x, (3, 2)),
    "flip": tl.flip,
    "roll": lambda x: tl.roll(x, 1),
    "repeat": lambda x: tl.repeat(x, 2),
    "broadcast_to": lambda x: tl.broadcast_to(x, (2, 2, 3)),
    "take_along_axis": lambda x: tl.take_along_axis(x, tl.argsort(x, axis=1), axis=1),
    "triu": tl.triu,
    "layer_norm": tl.nn.layer_norm,
    "conv1d": lambda x: tl.nn.conv1d(x[None], tl.reshape(x, (1, 3, 2))),
    "max_pool": lambda x: tl.nn.max_pool(x[None], 2),
    "avg_pool": lambda x: tl.nn.avg_pool(x[None], 2),
    "resize": lambda x: tl.nn.resize(x[None], 3),
    "by int8": lambda x: x * tl.asarray([1, 2, 3], dtype="int8"),
}
WIDE: dict[str, Callable[[Any], Any]] = {
    "mse": lambda x: tl.nn.mse(x, x * 0.5),
    "svdvals": tl.linalg.svdvals,
    "rfft": lambda x: tl.abs(tl.fft.rfft(x)),
}
"""Losses and what LAPACK and the Fourier transforms compute stay float32."""


def wide(x: Any) -> Any:
    return np.asarray(x.numpy(), np.float64)


@each_half
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_give_what_float32_gives_but_for_rounding(name: str, dtype: Any) -> None:
    program, x = PROGRAMS[name], tl.asarray(VALUES, dtype=dtype)
    want = program(tl.asarray(VALUES, dtype="float32"))
    eager, compiled = program(x), tl.function(program)(x)
    assert compiled.dtype == eager.dtype
    assert eager.dtype == dtype
    rounding = 4e-3 if dtype == np.float16 else 3e-2
    for got in (eager, compiled):
        np.testing.assert_allclose(wide(got), wide(want), rtol=rounding, atol=rounding)


@each_half
@pytest.mark.parametrize("name", PROGRAMS)
def test_gradients_of_programs_have_the_dtype_of_their_argument(name: str, dtype: Any) -> None:
    def loss(x: Any) -> Any:
        return tl.sum(tl.astype(PROGRAMS[name](x), "float32"))

    x = tl.asarray(VALUES, dtype=dtype)
    want = tl.grad(loss)(tl.asarray(VALUES, dtype="float32"))
    rounding = 1e-2 if dtype == np.float16 else 6e-2
    for run in (loss, tl.function(loss)):
        found = tl.grad(run)(x)
        assert found.dtype == dtype
        scale = np.max(np.abs(want.numpy()), initial=1.0)
        np.testing.assert_allclose(wide(found), wide(want), rtol=rounding, atol=rounding * scale)


@pytest.mark.parametrize("name", WIDE)
def test_losses_and_numpys_solvers_give_float32_for_bfloat16(name: str) -> None:
    x = tl.asarray(VALUES, dtype="bfloat16")
    assert WIDE[name](x).dtype == tl.function(WIDE[name])(x).dtype == np.float32


@each_half
def test_products_add_in_float32_and_round_once(dtype: Any, rng: np.random.Generator) -> None:
    a, b = (rng.normal(size=(2, 300, 300)).astype(dtype) for _ in range(2))
    want = np.matmul(a.astype(np.float32), b.astype(np.float32)).astype(dtype)
    for run in (tl.matmul, tl.function(tl.matmul)):
        got = run(tl.asarray(a), tl.asarray(b))
        assert got.dtype == dtype
        np.testing.assert_allclose(wide(got), want.astype(np.float64), rtol=8e-3, atol=2e-2)
    row = tl.matmul(tl.asarray(a[0, 0]), tl.asarray(b[0, 0]))
    assert (row.dtype, row.shape) == (dtype, ())


@each_half
def test_gradients_pass_through_casts_to_and_from_halves(dtype: Any) -> None:
    def gradient(w: Any) -> Any:
        with tl.GradientTape() as tape:
            tape.watch(w)
            half = tl.astype(w, dtype)
            loss = tl.sum(tl.astype(half * 2.0, "float32") ** 2)
        return tape.gradient(loss, w)

    w = tl.asarray([1.0, 2.0, -3.0], dtype="float32")
    for run in (gradient, tl.function(gradient)):
        found = run(w)
        assert found.dtype == np.float32
        np.testing.assert_array_equal(found.numpy(), [8.0, 16.0, -24.0])


@each_half
def test_tensors_of_halves_have_gradients_of_their_dtype(dtype: Any) -> None:
    x = tl.asarray([1.5, -2.0], dtype=dtype)
    with tl.GradientTape() as tape:
        tape.watch(x)
        y = tl.sum(tl.astype(x, "float32") ** 2)
    found = tape.gradient(y, x)
    assert found.dtype == dtype
    np.testing.assert_array_equal(wide(found), [3.0, -4.0])


@each_half
def test_sums_and_products_with_numbers_stay_what_they_are(dtype: Any) -> None:
    x = tl.asarray(VALUES, dtype=dtype)
    for run in (lambda f: f, tl.function):
        found = run(lambda x: (x + 1, 2.0 * x, x - x, x * True))(x)
        assert [y.dtype for y in found] == [dtype] * 4
        wide_sums = run(lambda x: (x + tl.ones(3, dtype="float32"), x + tl.ones(3)))(x)
        assert [y.dtype for y in wide_sums] == [np.float32, np.float64]


@pytest.mark.parametrize("other", ["int8", "int16", "int64", "uint8", "float32", "complex64"])
def test_float16_promotes_as_in_numpy(other: str) -> None:
    a, b = np.ones(2, np.float16), np.ones(2, other)
    assert (tl.asarray(a) + tl.asarray(b)).dtype == (a + b).dtype
    assert (tl.asarray(b) * tl.asarray(a)).dtype == (b * a).dtype


@pytest.mark.parametrize("other", [*SUPPORTED_DTYPES, FLOAT16], ids=str)
@pytest.mark.parametrize("name", ["add", "subtract", "multiply", "maximum", "where", "divide"])
def test_bfloat16_promotes_as_in_ml_dtypes(name: str, other: Any) -> None:
    a, b = np.ones(2, HALVES[1]), np.ones(2, other)
    want = (a + b).dtype
    if name == "maximum" and want.kind == "c":
        name = "add"  # complex numbers have no order
    if name == "where":
        function: Callable[..., Any] = lambda x, y: tl.where(x == x, x, y)  # noqa: E731
    else:
        function = getattr(tl, name)
    for x, y in ((a, b), (b, a)):
        for run in (function, tl.function(function)):
            assert run(tl.asarray(x), tl.asarray(y)).dtype == want


@each_half
@pytest.mark.parametrize("number", [True, 1, 2.5])
def test_python_numbers_leave_floats_of_16_bits_as_they_are(number: Any, dtype: Any) -> None:
    x = tl.asarray(VALUES, dtype=dtype)
    for sign in ("+", "-", "*", "/", "//", "%", "**"):
        for order in (f"x {sign} n", f"n {sign} x"):
            program = eval(f"lambda x, n: {order}")
            with np.errstate(all="ignore"):
                assert program(x, number).dtype == dtype, order
                assert tl.function(lambda y, p=program: p(y, number))(x).dtype == dtype, order


def test_without_the_package_the_error_names_the_extra() -> None:
    code = (
        "import sys; sys.modules['ml_dtypes'] = None\n"
        "import tapeline as tl\n"
        "try: tl.zeros(2, dtype='bfloat16')\n"
        "except TypeError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install 'tapeline[half]'" in done.stdout
