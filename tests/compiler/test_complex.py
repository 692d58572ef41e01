"""Complex tensors in compiled functions: pairs of floats in our own loops."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from tests.sampling import SPECIAL_VALUES

import tapeline as tl
from tapeline.compiler.codegen.words import has_words
from tapeline.runtime.dispatch import bind
from tapeline.runtime.op import Op, Pointwise, get_op, registered_ops

DTYPES = ("complex64", "complex128")
each_dtype = pytest.mark.parametrize("dtype", DTYPES)
PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "argument": lambda z: z,
    "copy": tl.positive,
    "reshape": lambda z: tl.reshape(z, (3, 2)),
    "transpose": lambda z: z.T,
    "backwards": lambda z: z[::-1, ::2],
    "concat": lambda z: tl.concat([z, z.conj()]),
    "pad": lambda z: tl.pad(z, 1),
    "arithmetic": lambda z: tl.exp(z * 2 - 1j) / z,
    "modulus": lambda z: tl.sum(tl.abs(z)) + z.real,
    "statistics": lambda z: (z - tl.mean(z, axis=0)) / tl.sum(z * z.conj(), axis=1, keepdims=True),
    "choice": lambda z: tl.where(z.real > 0, z, 1j),
    "any": lambda z: tl.any(z - z[0], axis=1),
    "casts": lambda z: tl.astype(tl.abs(z), "complex128") + tl.astype(z, "complex64"),
    "of reals": lambda z: tl.real(z) * 1j + tl.imag(z),
    "round": lambda z: tl.round(z * 3),
    "loop": lambda z: tl.while_loop(
        lambda k, _: k < 5, lambda k, w: (k + 1, w * w * 0.5 + z), (0, z)
    )[1],
}
NUMPY_CALLS = {"asin", "acos", "atan", "asinh", "acosh", "atanh"}


def numpy_calls(function: Callable[..., Any], *args: Any) -> list[str]:
    """What a compiled function leaves to NumPy."""
    concrete = tl.function(function).get_concrete_function(*args)
    return ["+".join(k.ops) for k in concrete.kernels() if k.kind == "NumPy call"]


@each_dtype
@pytest.mark.parametrize("name", PROGRAMS)
def test_complex_tensors_give_the_same_compiled(
    name: str, dtype: str, rng: np.random.Generator
) -> None:
    z = tl.asarray((rng.normal(size=(2, 3)) + 1j * rng.normal(size=(2, 3))).astype(dtype))
    program = PROGRAMS[name]
    got, want = tl.function(program)(z), program(z)
    assert got.dtype == want.dtype
    np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=2e-6)
    assert numpy_calls(program, z) == []


@each_dtype
@pytest.mark.parametrize("size", [1, 3, 16, 31, 257, 5000])
def test_each_size_writes_its_own_elements_only(
    size: int, dtype: str, rng: np.random.Generator
) -> None:
    z = (rng.normal(size=(size, 2)) + 1j * rng.normal(size=(size, 2))).astype(dtype)
    for x in (z, z[:, 0], z[::-1, 1], z.T):
        found = tl.function(lambda a: (a + 1j * a, tl.sum(a, axis=0)))(tl.asarray(x))
        np.testing.assert_allclose(found[0].numpy(), x + np.asarray(1j, dtype) * x, rtol=1e-6)
        np.testing.assert_allclose(found[1].numpy(), np.sum(x, axis=0), rtol=1e-4, atol=1e-5)


@each_dtype
def test_gradients_of_compiled_functions_are_those_of_eager_ones(
    dtype: str, rng: np.random.Generator
) -> None:
    z = tl.asarray((rng.normal(size=7) + 1j * rng.normal(size=7)).astype(dtype))

    def loss(w: Any) -> Any:
        return tl.sum(tl.abs(tl.exp(w) / (w + 3.0) - tl.sqrt(w)) ** 2)

    got, want = tl.grad(tl.function(loss))(z), tl.grad(loss)(z)
    np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-4)


# Infinities, NaN and zeros of both signs


@pytest.fixture(autouse=True)
def _ignore_float_warnings() -> Iterator[None]:
    with np.errstate(all="ignore"):
        yield


def complex_ops() -> list[Op]:
    """The fused ops of one or two complex numbers."""
    return [
        op
        for op in registered_ops()
        if "c" in op.kinds and isinstance(op.lowering, Pointwise) and not op.attr_names
        if op.n_inputs in (1, 2) and op.name not in (*NUMPY_CALLS, "power")
    ]


def special_numbers(dtype: str) -> Any:
    """Every pair of special values as the parts of a number."""
    values = np.array(SPECIAL_VALUES, np.dtype(dtype).char.lower())
    found = np.empty(values.size**2, dtype)
    found.real, found.imag = np.repeat(values, values.size), np.tile(values, values.size)
    return found


def contraction_matters(op: Op, inputs: tuple[Any, ...]) -> Any:
    """Where the products within a complex product overflow: NumPy's loops may add before they
    round, or not, as lengths say."""
    if op.name not in ("multiply", "square", "guarded_multiply", "guarded_product"):
        return np.zeros(inputs[0].shape, bool)
    x, y = inputs if len(inputs) == 2 else inputs * 2
    products = [a * b for a in (x.real, x.imag) for b in (y.real, y.imag)]
    return ~np.all(np.isfinite(products), axis=0)


@each_dtype
@pytest.mark.parametrize("op", complex_ops(), ids=lambda op: op.name)
def test_special_numbers_give_what_numpy_gives(op: Op, dtype: str) -> None:
    numbers = special_numbers(dtype)
    inputs = (numbers,) if op.n_inputs == 1 else (
        np.repeat(numbers, numbers.size), np.tile(numbers, numbers.size)
    )  # fmt: skip
    want = op.kernel(*inputs)
    got = tl.function(lambda *x: bind(op, x, ()))(*map(tl.asarray, inputs)).numpy()
    checked = ~contraction_matters(op, inputs)
    got, want = got[checked], want[checked]
    if want.dtype.kind == "b":
        np.testing.assert_array_equal(got, want)
        return
    size = np.maximum(np.abs(want.real), np.abs(want.imag)) if want.dtype.kind == "c" else want
    unsigned = np.isnan(want)  # C leaves the sign of an infinity beside NaN open
    for a, b in ((got.real, want.real), (got.imag, want.imag)):
        a, b = np.where(unsigned, np.abs(a), a), np.where(unsigned, np.abs(b), b)
        finite = np.isfinite(b)
        np.testing.assert_array_equal(a[~finite], b[~finite])
        unit = 16 * np.spacing(np.where(np.isfinite(size), np.abs(size), np.abs(b))[finite])
        assert np.all(np.abs(a - b)[finite] <= unit)


@pytest.mark.parametrize("name", sorted(NUMPY_CALLS))
def test_ops_without_a_complex_form_say_so(name: str) -> None:
    op, dtype = get_op(name), np.dtype(np.complex128)
    assert not has_words(op, (), (dtype,) * (op.n_inputs or 1), dtype)


@each_dtype
def test_powers_are_those_of_numpy(dtype: str, rng: np.random.Generator) -> None:
    z = (rng.normal(size=500) + 1j * rng.normal(size=500)).astype(dtype)
    z[:4] = 0.0, 1.0, -1.0, 1j
    rounding = 64 * np.finfo(dtype).eps
    for exponent in (0.0, 1.0, 2.0, 3.0, -1.0, -2.0, 0.5, 7.0, -13.0, 99.0, 1j, 2.0 + 1j, 150.5):
        y = np.asarray(exponent, dtype)
        got = tl.function(tl.power)(tl.asarray(z), tl.asarray(y)).numpy()
        want = np.power(z, np.full_like(z, exponent))
        assert got.dtype == want.dtype
        finite = np.isfinite(want)
        scale = max(1.0, abs(exponent))
        np.testing.assert_allclose(got[finite], want[finite], rtol=float(scale * rounding))
    whole = tl.function(lambda a: a**3)(tl.asarray(z)).numpy()
    np.testing.assert_array_equal(whole, np.power(z, np.full_like(z, 3)))


def test_signs_of_zero_are_those_of_c(rng: np.random.Generator) -> None:
    zeros = [complex(a, b) for a in (0.0, -0.0) for b in (0.0, -0.0)]
    z = np.array([*zeros, 2.0, complex(2.0, -0.0), -2.0, complex(-2.0, -0.0)])
    z.real[:4], z.imag[:4] = [0.0, 0.0, -0.0, -0.0], [0.0, -0.0, 0.0, -0.0]
    for name in ("exp", "log", "sqrt", "sinh", "cosh", "tanh", "sin", "cos", "tan", "conj"):
        got = tl.function(getattr(tl, name))(tl.asarray(z)).numpy()
        want = getattr(np, name)(z)
        for a, b in ((got.real, want.real), (got.imag, want.imag)):
            np.testing.assert_array_equal(np.signbit(a), np.signbit(b), err_msg=name)
