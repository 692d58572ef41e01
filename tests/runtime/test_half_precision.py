"""float16 and bfloat16: kept in tensors, cast, computed with, differentiated, eagerly and compiled.

bfloat16 is the dtype of the package ml_dtypes; ops take it as float32.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapeline as tl

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
}


def wide(x: Any) -> Any:
    return np.asarray(x.numpy(), np.float64)


@each_half
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_give_what_float32_gives_but_for_rounding(name: str, dtype: Any) -> None:
    program, x = PROGRAMS[name], tl.asarray(VALUES, dtype=dtype)
    want = program(tl.asarray(VALUES, dtype="float32"))
    eager, compiled = program(x), tl.function(program)(x)
    assert compiled.dtype == eager.dtype
    assert eager.dtype in ((dtype,) if dtype == np.float16 else (dtype, np.float32))
    for got in (eager, compiled):
        np.testing.assert_allclose(wide(got), wide(want), rtol=4e-3, atol=4e-3)


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


def test_without_the_package_the_error_names_the_extra() -> None:
    code = (
        "import sys; sys.modules['ml_dtypes'] = None\n"
        "import tapeline as tl\n"
        "try: tl.zeros(2, dtype='bfloat16')\n"
        "except TypeError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install 'tapeline[half]'" in done.stdout
