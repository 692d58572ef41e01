"""Complex tensors in compiled functions: kernels of NumPy compute, our own loops copy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapeline as tl

PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "argument": lambda z: z,
    "copy": tl.positive,
    "reshape": lambda z: tl.reshape(z, (3, 2)),
    "transpose": lambda z: z.T,
    "backwards": lambda z: z[::-1, ::2],
    "concat": lambda z: tl.concat([z, z.conj()]),
    "arithmetic": lambda z: tl.exp(z * 2 - 1j) / z,
    "modulus": lambda z: tl.sum(tl.abs(z)) + z.real,
}


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_complex_tensors_give_the_same_compiled(
    name: str, dtype: str, rng: np.random.Generator
) -> None:
    z = tl.asarray((rng.normal(size=(2, 3)) + 1j * rng.normal(size=(2, 3))).astype(dtype))
    program = PROGRAMS[name]
    got, want = tl.function(program)(z), program(z)
    assert got.dtype == want.dtype
    np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-6)
