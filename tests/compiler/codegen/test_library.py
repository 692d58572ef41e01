"""Routines of the library against NumPy, for sizes and values that the ops' samples do not have."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.compiler.codegen import harness

import tapeline as tl
from tapeline.compiler.codegen.library import library_routine
from tapeline.compiler.codegen.ordering import SHORT_AXIS
from tapeline.compiler.codegen.target import Target
from tapeline.runtime.op import Attrs, LibraryName, get_op
from tapeline.runtime.spec import spec_of

Array = np.ndarray[Any, Any]
each_target = pytest.mark.parametrize("target", harness.TARGETS, ids=lambda t: t.cpu)
FLOATS_AND_INTS = ["f4", "f8", "i1", "u8", "?"]
WIDE_INTS = ["i4", "u4", "i8", "u8"]


def run(
    name: LibraryName, inputs: list[Array], attrs: Attrs, target: Target, split: Any = None
) -> tuple[Array, int]:
    """The routine's result and what it leaves in the error cell."""
    expected = np.asarray(get_op(name).kernel(*inputs, *attrs))
    out = harness.guarded(np.zeros(expected.shape, expected.dtype))
    guarded = [harness.guarded(x) for x in inputs]
    specs = [spec_of(x.shape, x.dtype) for x in (*inputs, out)]
    routine = library_routine(name, specs, attrs)
    assert routine is not None
    error = np.zeros(1, np.int64)
    harness.Runner(routine.emit(target, "routine"), target).run([*guarded, out, error], split)
    return out, int(error[0])


def assert_same(
    name: LibraryName, inputs: list[Array], attrs: Attrs, target: Target, whole: bool = False
) -> None:
    """The routine gives the kernel's bits, in one piece and, unless `whole`, in chunks."""
    expected = np.asarray(get_op(name).kernel(*inputs, *attrs))
    for split in (None,) if whole else (None, harness.odd_chunks):
        out, error = run(name, inputs, attrs, target, split)
        assert error == 0
        np.testing.assert_array_equal(out, expected)
        if out.dtype.kind == "f":
            np.testing.assert_array_equal(np.signbit(out), np.signbit(expected))


def draw(code: str, shape: tuple[int, ...], seed: int = 0) -> Array:
    """Numbers with repetitions and, among floats, zeros of both signs, NaN and infinities."""
    rng = np.random.default_rng(seed)
    if code == "?":
        return rng.integers(0, 2, shape).astype(bool)
    if code[0] in "iu":
        return rng.integers(0 if code[0] == "u" else -40, 40, shape).astype(code)
    values = rng.integers(-8, 9, shape) / 4.0
    values = np.where(rng.random(shape) < 0.1, -0.0, values)
    special = rng.choice([np.nan, np.inf, -np.inf], shape)
    return np.where(rng.random(shape) < 0.1, special, values).astype(code)


@each_target
@pytest.mark.parametrize("code", FLOATS_AND_INTS)
@pytest.mark.parametrize("name", ["sort", "argsort"])
def test_short_axes_are_sorted_as_numpy_sorts_them(
    name: LibraryName, code: str, target: Target
) -> None:
    for shape, axis in (((5, 1), 1), ((7, 17), 1), ((3, SHORT_AXIS), 1), ((2, 33, 5), 1)):
        for descending in (False, True):
            assert_same(name, [draw(code, shape)], (axis, descending), target)


@each_target
@pytest.mark.parametrize("code", FLOATS_AND_INTS)
@pytest.mark.parametrize("name", ["sort", "argsort"])
def test_long_axes_are_sorted_as_numpy_sorts_them(
    name: LibraryName, code: str, target: Target
) -> None:
    if name == "sort" and code in WIDE_INTS:
        spec = spec_of((SHORT_AXIS + 1,), np.dtype(code))
        assert library_routine(name, [spec, spec], (0, False)) is None  # NumPy's way is faster
        return
    for shape, axis in (((SHORT_AXIS + 1,), 0), ((2, 1000), 1), ((3, 300, 2), 1)):
        for descending in (False, True):
            assert_same(name, [draw(code, shape)], (axis, descending), target)


def test_long_axes_of_many_numbers_are_sorted() -> None:
    rng = np.random.default_rng(5)
    for dtype in ("f8", "f4", "i8", "u8", "i4"):
        x = (rng.normal(size=20_000) * 1e6).astype(dtype)
        ordered, places = tl.function(lambda a: (tl.sort(a), tl.argsort(a)))(tl.asarray(x))
        np.testing.assert_array_equal(ordered.numpy(), np.sort(x))
        np.testing.assert_array_equal(places.numpy(), np.argsort(x, kind="stable"))


@each_target
@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("code", FLOATS_AND_INTS)
def test_places_in_sorted_tables_are_those_of_numpy(side: str, code: str, target: Target) -> None:
    for size in (0, 1, 2, 3, 31, 32, 33, 1000):
        table = np.sort(draw(code, (size,)))
        assert_same("searchsorted", [table, draw(code, (4, 13), 1)], (side,), target)


@each_target
@pytest.mark.parametrize("code", ["f4", "f8", "i2", "u4", "?", "c8"])
def test_running_sums_add_in_numpys_order(code: str, target: Target) -> None:
    rng = np.random.default_rng(3)
    for shape, axis in (((1000,), 0), ((3, 50), 1), ((50, 37), 0), ((2, 9, 19), 1), ((0, 4), 0)):
        x = (rng.standard_normal(shape) * 3).astype(code)
        assert_same("cumulative_sum", [x], (axis,), target)


@each_target
@pytest.mark.parametrize("code", ["f4", "f8", "i8", "u2"])
def test_running_products_multiply_in_numpys_order(code: str, target: Target) -> None:
    for shape, axis in (((60,), 0), ((3, 50), 1), ((20, 37), 0), ((2, 9, 19), 1)):
        x = np.where(draw(code, shape) == 0, 1, draw(code, shape)).astype(code)
        assert_same("cumulative_prod", [np.nan_to_num(x, posinf=2, neginf=-2)], (axis,), target)


@each_target
@pytest.mark.parametrize("code", ["f4", "u1", "c16", "?"])
def test_of_two_writes_to_one_place_the_later_stays(code: str, target: Target) -> None:
    rng = np.random.default_rng(5)
    x, values = draw("i8", (9, 11)).astype(code), draw("i8", (300,), 1).astype(code)
    for index in ("i8", "i4", "u1"):
        places = rng.integers(-99 if index[0] == "i" else 0, 99, 300).astype(index)
        assert_same("put", [x, places, values], (), target, whole=True)


def test_a_write_out_of_range_is_reported_and_not_done() -> None:
    places = np.array([0, 7])
    x = harness.guarded(np.zeros(7))
    specs = [spec_of(a.shape, a.dtype) for a in (x, places, np.ones(2), x)]
    routine = library_routine("put", specs, ())
    assert routine is not None
    error, out = np.zeros(1, np.int64), harness.guarded(np.zeros(7))
    kernel = routine.emit(harness.HOST, "put_bad")
    harness.Runner(kernel).run([x, places, np.ones(2), out, error])
    assert error[0] == 2
    assert not out.any()


@each_target
def test_random_bits_are_numpys_stream(target: Target) -> None:
    rng = np.random.default_rng(6)
    last = 2**64 - 1
    for counter in ([0, 0, 0, 0], [last, 0, 0, 7], [last, last, last, last], [last - 5] * 4):
        key = rng.integers(0, 2**64, 2, np.uint64)
        for count in (0, 1, 3, 4, 7, 1000, 1025):
            inputs = [key, np.array(counter, np.uint64)]
            assert_same("random_bits", inputs, ((count,),), target)
    wanted = np.random.Philox(key=key).random_raw(1025)
    got, _ = run("random_bits", [key, np.zeros(4, np.uint64)], ((1025,),), target)
    np.testing.assert_array_equal(got, wanted)


@each_target
@pytest.mark.parametrize("code", ["i1", "i4", "i8", "u1", "u8"])
def test_integer_powers_wrap_around_as_numpys_do(code: str, target: Target) -> None:
    base, exponent = draw(code, (500,)), np.abs(draw(code, (500,), 1))
    assert_same("integer_power", [base, exponent], (), target)


def test_a_negative_exponent_is_an_error_when_compiled_too() -> None:
    power = tl.function(lambda x, y: x**y)
    x = tl.asarray([2, 3, 4])
    np.testing.assert_array_equal(power(x, tl.asarray([0, 1, 20])).numpy(), [1, 3, 4**20])
    with pytest.raises(ValueError, match="negative integer powers"):
        power(x, tl.asarray([1, -1, 1]))
