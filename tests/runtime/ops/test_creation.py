"""asarray and the functions that make tensors from shapes and numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapeline as tl
from tapeline.runtime.errors import ArgumentError, ArgumentTypeError, DTypeError, ShapeError


def test_asarray_copies_arrays() -> None:
    array = np.array([1.0, 2.0])
    tensor = tl.asarray(array)
    array[0] = 9.0
    assert tensor.tolist() == [1.0, 2.0]


def test_asarray_without_copy_shares_the_memory() -> None:
    array = np.array([1.0, 2.0])
    assert np.shares_memory(tl.asarray(array, copy=False).numpy(), array)
    with pytest.raises(ArgumentError, match="dtype float64 and not float32; leave copy out"):
        tl.asarray(array, dtype="float32", copy=False)
    with pytest.raises(ArgumentError, match="needs an array or a tensor, got list"):
        tl.asarray([1.0], copy=False)


def test_asarray_gives_a_tensor_back_unless_a_copy_is_asked_for() -> None:
    x = tl.asarray([1.0])
    assert tl.asarray(x) is x
    assert tl.asarray(x, copy=False) is x
    assert tl.asarray(x, copy=True) is not x
    assert tl.asarray(x, dtype="float32").dtype == np.float32


@pytest.mark.parametrize(
    ("value", "dtype"),
    [(True, "bool"), (1, "int64"), (1.0, "float64"), (1j, "complex128"), ([], "float64"),
     ([[1, 2.5]], "float64"), (np.float32(1), "float32"), (2**63, "uint64")],
)  # fmt: skip
def test_asarray_takes_the_dtype_that_numpy_takes(value: Any, dtype: str) -> None:
    assert tl.asarray(value).dtype == dtype


@pytest.mark.parametrize(
    ("value", "error", "text"),
    [
        (None, ArgumentTypeError, "got NoneType None"),
        ("text", ArgumentTypeError, "got str 'text'"),
        (np.array(["a"]), DTypeError, "dtype <U1; expected numbers"),
        (np.array([1, None]), DTypeError, "dtype object; expected numbers"),
        (["a", "b"], DTypeError, "dtype <U1; expected numbers"),
        ([[1.0], [1.0, 2.0]], ArgumentTypeError, "no tensor can be made of list"),
        ({"a": 1}, ArgumentTypeError, "got dict"),
        (np.longdouble(1), DTypeError, "dtype .*128 is not supported"),
    ],
    ids=lambda x: type(x).__name__,
)
def test_asarray_says_what_it_cannot_take(value: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        tl.asarray(value)


def test_gradients_flow_to_tensors_in_a_list() -> None:
    x = tl.asarray(2.0)
    with tl.GradientTape() as tape:
        tape.watch(x)
        y = tl.asarray([[x, 1.0], [x * x, 3.0]])
    assert y.tolist() == [[2.0, 1.0], [4.0, 3.0]]
    assert tape.gradient(y, x).tolist() == 5.0


@pytest.mark.parametrize("name", ["zeros", "ones"])
@pytest.mark.parametrize("shape", [(), 3, (0, 2), [2, 3]], ids=str)
@pytest.mark.parametrize("dtype", [None, "int8", "complex64"])
def test_filled_tensors_are_those_of_numpy(name: str, shape: Any, dtype: str | None) -> None:
    want = getattr(np, name)(shape, dtype or "float64")
    for got in (getattr(tl, name)(shape, dtype=dtype), getattr(tl, name + "_like")(want)):
        assert got.dtype == want.dtype
        np.testing.assert_array_equal(got.numpy(), want)


def test_shapes_must_be_ints_from_0_on() -> None:
    for shape in (-1, (2, -3), (1.5,)):
        with pytest.raises(ShapeError, match="zeros: shape must be ints >= 0"):
            tl.zeros(shape)  # type: ignore[arg-type]


def test_full_takes_the_dtype_of_its_value() -> None:
    for value in (True, 3, 2.5, 1j):
        want = np.full((2, 1), value)
        assert tl.full((2, 1), value).dtype == want.dtype
        np.testing.assert_array_equal(tl.full((2, 1), value).numpy(), want)
    assert tl.full_like(tl.zeros(2, "float32"), 3).dtype == np.float32
    with pytest.raises(ShapeError, match="full: fill_value has shape"):
        tl.full(3, [1.0, 2.0])


@pytest.mark.parametrize(
    "args", [(5,), (2, 7), (2, 10, 3), (5, 0, -2), (0.0, 1.0, 0.25), (3, 3), (5, 2)], ids=str
)
def test_arange_gives_what_numpy_gives(args: Any) -> None:
    got, want = tl.arange(*args), np.arange(*args)
    assert got.dtype == want.dtype
    np.testing.assert_array_equal(got.numpy(), want)


def test_arange_refuses_a_step_of_zero() -> None:
    with pytest.raises(ArgumentError, match="arange: step is 0"):
        tl.arange(0, 5, 0)


@pytest.mark.parametrize("endpoint", [True, False])
@pytest.mark.parametrize("num", [0, 1, 5])
def test_linspace_gives_what_numpy_gives(num: int, endpoint: bool) -> None:
    got = tl.linspace(-1.0, 2.0, num, endpoint=endpoint)
    np.testing.assert_array_equal(got.numpy(), np.linspace(-1.0, 2.0, num, endpoint=endpoint))


def test_arange_of_a_number_that_a_trace_computed_of_constants() -> None:
    @tl.function(autograph=False)
    def f(x: tl.Tensor) -> tl.Tensor:
        count: Any = tl.prod(tl.asarray(x.shape)) + 1
        return tl.arange(count) * x[0]

    assert f(tl.asarray([2.0, 3.0])).tolist() == [0.0, 2.0, 4.0]
