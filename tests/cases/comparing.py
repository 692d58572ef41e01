"""What the cases use: programs run eagerly and compiled, their gradients, exact comparisons."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import pytest

import tapeline as tl

Program: TypeAlias = Callable[..., Any]
Array: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"

both_modes = pytest.mark.parametrize("mode", ["eager", "compiled"])


def run_as(mode: str, program: Program) -> Program:
    """The program itself, or its compiled form."""
    return program if mode == "eager" else tl.function(program)


def tensor(values: Any, dtype: Any = None) -> tl.Tensor:
    """A tensor of what NumPy makes of the values: Python floats become float64."""
    return tl.asarray(np.asarray(values, dtype))


def number(value: Any) -> Any:
    """The Python number in a tensor or Variable of one element."""
    return np.asarray(value.numpy()).reshape(()).item()


def gradients(program: Program, *inputs: Any) -> list[Array | None]:
    """The gradients of the sum of the result by one tape, as arrays; None where unconnected."""
    with tl.GradientTape() as tape:
        tape.watch([x for x in inputs if isinstance(x, tl.Tensor)])
        value = program(*inputs)
    return [None if g is None else g.numpy() for g in tape.gradient(value, list(inputs))]


def derivatives(program: Program, x: tl.Tensor, order: int) -> list[float]:
    """The value of a scalar function and its derivatives up to an order, by nested tapes."""
    return [0.0 if y is None else float(number(y)) for y in _derivatives(program, x, order)]


def _derivatives(program: Program, x: tl.Tensor, order: int) -> list[Any]:
    if order == 0:
        return [program(x)]
    with tl.GradientTape() as tape:
        tape.watch(x)
        lower = _derivatives(program, x, order - 1)
    return [*lower, None if lower[-1] is None else tape.gradient(lower[-1], x)]


def assert_close(got: Any, want: Any, rtol: float = 1e-12, atol: float = 0.0) -> None:
    """Equal shapes and nearly equal values."""
    array = got.numpy() if hasattr(got, "numpy") else np.asarray(got)
    np.testing.assert_allclose(array, want, rtol=rtol, atol=atol)
    assert array.shape == np.shape(want)


def assert_same_bits(got: Any, want: Any) -> None:
    """Equal dtype, shape, values and signs of zeros; any NaN is like another."""
    array = got.numpy() if hasattr(got, "numpy") else np.asarray(got)
    want = np.asarray(want)
    assert (array.dtype, array.shape) == (want.dtype, want.shape)
    np.testing.assert_array_equal(array, want)
    if want.dtype.kind == "f":
        number_at = ~np.isnan(want)
        np.testing.assert_array_equal(np.signbit(array[number_at]), np.signbit(want[number_at]))


def assert_all_close(got: Sequence[Any], want: Sequence[Any], rtol: float = 1e-12) -> None:
    """Each of several results is close to what is wanted."""
    for one, other in zip(got, want, strict=True):
        assert_close(one, other, rtol=rtol)
