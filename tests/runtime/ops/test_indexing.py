"""`x[key]` and `x[key] = value` with every kind of key, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapeline as tl
from tapeline.runtime.errors import (
    ArgumentError,
    ArgumentTypeError,
    DTypeError,
    IndexOutOfRangeError,
    ShapeError,
)
from tapeline.runtime.ops.assignment import setitem

SHAPE = (3, 4, 5)
_MASK = np.array([[True, False, True, False], [False] * 4, [True] * 4])
KEYS: list[Any] = [
    (), ..., 1, -1, (1, 2), (1, 2, 3), slice(None), slice(None, None, -1), slice(1, None, 2),
    slice(-5, None, -1), slice(2, 1), (..., 0), (0, ..., 0), (None, 1), (slice(1, 3), None, 2),
    (1, slice(4, None, -2)), [0, 2], [[0, 1], [2, 0]], (slice(None), [1, 3]), ([0, 2], [1, 3]),
    ([0, 2], slice(None), [1, 3]), (0, [1, 2]), (0, slice(None), [1, 2]), ([1], 0, slice(2)),
    (slice(None), [0, 1], [[2], [3]]), (slice(None), None, [0, -1]), ([0, 1], ..., [0, 1]),
    ([[0], [1]], [0, 1, 2], -1), ([], [0]), [], _MASK, (_MASK, [0, 1, 2, 3, 4, 0]), (_MASK, 2),
    (slice(None), np.array([True, False, True, False])), True, False, (True, [0, 1]),
    np.array([[[True] * 5] * 4] * 3), np.array(2), (np.int64(1), np.array([0, 1])), range(2),
    (None, [0, 0], ..., [-2, 0]),
]  # fmt: skip


def _as_tensors(key: Any) -> Any:
    """The key with tensors in place of lists and arrays."""
    if isinstance(key, tuple):
        return tuple(_as_tensors(part) for part in key)
    if isinstance(key, list):
        return tl.asarray(np.array(key, np.int64))
    return tl.asarray(key) if isinstance(key, np.ndarray) else key


def _numpy_key(key: Any) -> Any:
    return list(key) if isinstance(key, range) else key


both_ways = pytest.mark.parametrize("convert", [lambda key: key, _as_tensors], ids=["plain", "tl"])


@pytest.mark.parametrize("key", KEYS, ids=repr)
@both_ways
def test_reading_is_numpys(key: Any, convert: Any, rng: np.random.Generator) -> None:
    x = rng.normal(size=SHAPE)
    want = x[_numpy_key(key)]
    got = tl.asarray(x)[convert(key)]
    assert got.shape == np.shape(want)
    np.testing.assert_array_equal(got.numpy(), want)


@pytest.mark.parametrize("key", KEYS, ids=repr)
@both_ways
def test_gradient_of_reading_adds_up_at_the_places_read(
    key: Any, convert: Any, rng: np.random.Generator
) -> None:
    x = tl.asarray(rng.normal(size=SHAPE))
    with tl.GradientTape() as tape:
        tape.watch(x)
        y = x[convert(key)]
    ct = np.asarray(rng.normal(size=y.shape))
    want = np.zeros(SHAPE)
    np.add.at(want, _numpy_key(key), ct)
    got = tape.gradient(y, x, output_gradients=tl.asarray(ct))
    np.testing.assert_allclose(got.numpy(), want, atol=1e-12)


@pytest.mark.parametrize("key", KEYS, ids=repr)
@both_ways
@pytest.mark.parametrize("scalar", [True, False])
def test_writing_is_numpys(key: Any, convert: Any, scalar: bool, rng: np.random.Generator) -> None:
    want = rng.normal(size=SHAPE)
    x = tl.asarray(want)
    value = 7.0 if scalar else rng.normal(size=np.shape(want[_numpy_key(key)]))
    x[convert(key)] = value
    want[_numpy_key(key)] = value
    np.testing.assert_array_equal(x.numpy(), want)


@pytest.mark.parametrize("key", KEYS, ids=repr)
def test_gradients_of_writing(key: Any, rng: np.random.Generator) -> None:
    x = tl.asarray(rng.normal(size=SHAPE))
    value = tl.asarray(np.asarray(rng.normal(size=x[key].shape)))
    with tl.GradientTape() as tape:
        tape.watch([x, value])
        y = setitem(x, key, value)
    ct = rng.normal(size=SHAPE)
    to_x, to_value = tape.gradient(y, [x, value], output_gradients=tl.asarray(ct))
    want = ct.copy()
    want[_numpy_key(key)] = 0.0
    np.testing.assert_array_equal(to_x.numpy(), want)
    np.testing.assert_allclose(to_value.numpy(), _gradient_of_value(key, value.numpy(), ct))


def _gradient_of_value(key: Any, value: Any, ct: Any) -> Any:
    """By writing each element's number: what is found at a place was written there last."""
    numbers = np.full(SHAPE, -1)
    numbers[_numpy_key(key)] = np.arange(value.size).reshape(value.shape)
    gradient = np.zeros(value.size)
    for number, cotangent in zip(numbers.flat, ct.flat, strict=True):
        if number >= 0:
            gradient[number] += cotangent
    return gradient.reshape(value.shape)


def test_gradient_of_a_broadcast_value_is_summed() -> None:
    x, value = tl.zeros((2, 3)), tl.asarray(5.0)
    with tl.GradientTape() as tape:
        tape.watch(value)
        y = setitem(x, (slice(None), [0, 2]), value)
    assert tape.gradient(y, value).item() == 4.0


def test_last_of_two_writes_to_one_place_gets_the_gradient() -> None:
    value = tl.asarray([1.0, 2.0, 3.0])
    with tl.GradientTape() as tape:
        tape.watch(value)
        y = setitem(tl.zeros(2), [0, 1, 0], value)
    np.testing.assert_array_equal(y.numpy(), [3, 2])
    np.testing.assert_array_equal(tape.gradient(y, value).numpy(), [0, 1, 1])


def test_written_cell_keeps_its_dtype_and_leaves_others_alone() -> None:
    x = tl.asarray([1, 2, 3])
    part = x[:2]
    x[[0, 2]] = 9.75
    x[1] = tl.asarray(4.5)
    assert x.dtype == np.int64
    np.testing.assert_array_equal(x.numpy(), [9, 4, 9])
    np.testing.assert_array_equal(part.numpy(), [1, 2])


def test_gradient_follows_the_value_through_a_write() -> None:
    x = tl.asarray([1.0, 2.0, 3.0])
    with tl.GradientTape() as tape:
        tape.watch(x)
        y = x * 2.0
        y[tl.asarray([0, 1])] = y[1:]
        total = tl.sum(y * tl.asarray([1.0, 10.0, 100.0]))
    np.testing.assert_array_equal(tape.gradient(total, x).numpy(), [0, 2, 220])


@pytest.mark.parametrize(
    ("key", "error", "message"),
    [
        (3, IndexOutOfRangeError, "index 3 is out of range for axis 0 with size 3"),
        ((0, -5), IndexOutOfRangeError, "index -5 is out of range for axis 1 with size 4"),
        ([0, 7], IndexOutOfRangeError, "index 7 is out of range for axis 0 with size 3"),
        (([0], [4]), IndexOutOfRangeError, "index 4 is out of range for axis 1 with size 4"),
        ((0, 0, 0, 0), IndexOutOfRangeError, r"the key has 4 places, but the tensor of shape \(3,"),
        ([0.5], DTypeError, "index: indices must be of an int dtype, got float64"),
        (0.5, ArgumentTypeError, r"index: 0\.5 cannot index a tensor"),
        ("a", ArgumentTypeError, "index: 'a' cannot index a tensor"),
        ((..., ...), ArgumentError, "only one ellipsis"),
        (slice(None, None, 0), ArgumentError, "the step of a slice must not be zero"),
        (slice(0.5, None), ArgumentTypeError, "slice bounds must be ints or None"),
        (([0, 1], [0, 1, 2]), ShapeError, r"index: shapes \(2,\) and \(3,\) do not broadcast"),
        (np.array([True, False]), IndexOutOfRangeError, r"a mask of shape \(2,\) does not fit"),
    ],
    ids=repr,
)
def test_bad_key_is_named(key: Any, error: type[Exception], message: str) -> None:
    x = tl.zeros(SHAPE)
    with pytest.raises(error, match=message):
        x[key]


def test_value_that_does_not_fit_is_rejected() -> None:
    x = tl.zeros((2, 3))
    kept = x[0]
    with pytest.raises(ShapeError, match=r"a value of shape \(2,\) does not broadcast .* \(3,\)"):
        x[tl.asarray(0)] = [1.0, 2.0]
    with pytest.raises(DTypeError, match="x of dtype float64 cannot hold complex values"):
        x[tl.asarray(0)] = 1j
    np.testing.assert_array_equal(kept.numpy(), 0.0)


@pytest.mark.parametrize("key", KEYS, ids=repr)
def test_compiled_reading_and_writing_are_the_eager_ones(
    key: Any, rng: np.random.Generator
) -> None:
    key = _as_tensors(key)

    def program(x: tl.Tensor, value: tl.Tensor) -> tuple[tl.Tensor, tl.Tensor]:
        y = x * 2.0
        y[key] = value
        return y, x[key]

    x = tl.asarray(rng.normal(size=SHAPE))
    value = tl.asarray(np.asarray(rng.normal(size=x[key].shape)))
    for got, want in zip(tl.function(program)(x, value), program(x, value), strict=True):
        np.testing.assert_array_equal(got.numpy(), want.numpy())


def test_compiled_index_out_of_range_is_an_error() -> None:
    take = tl.function(lambda x, i, j: x[i, j])
    x, i = tl.zeros((3, 4)), tl.asarray([0, 1])
    assert take(x, i, i).shape == (2,)
    with pytest.raises(IndexOutOfRangeError, match="index 4 is out of range for axis 1 with size"):
        take(x, i, tl.asarray([0, 4]))


@pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 2)])
def test_a_mask_that_is_empty_along_an_axis_picks_nothing(shape: tuple[int, ...]) -> None:
    values = np.arange(6.0).reshape(3, 2)
    mask = np.zeros(shape, bool)
    x = tl.asarray(values)
    assert x[tl.asarray(mask)].shape == values[mask].shape
    x[tl.asarray(mask)] = 9.0
    np.testing.assert_array_equal(x.numpy(), values)
