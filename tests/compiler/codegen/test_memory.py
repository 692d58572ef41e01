"""Loads, stores and masks: right elements, and none beyond the last one."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Iterator

import numpy as np
import pytest
from tests.compiler.codegen.running import BASELINE, HOST, NARROW, Array, run_body

from tapeline.compiler.codegen.builder import Builder
from tapeline.compiler.codegen.memory import Access
from tapeline.compiler.codegen.target import Target
from tapeline.compiler.codegen.values import Value, size_of

TARGETS = list(dict.fromkeys([HOST, NARROW, BASELINE]))
targets = pytest.mark.parametrize("target", TARGETS, ids=lambda t: t.cpu)
_PROT_NONE = 0


@pytest.fixture
def guarded() -> Iterator[int]:
    """The end of a page of memory, between two pages that may not be touched."""
    page = mmap.PAGESIZE
    memory = mmap.mmap(-1, 3 * page)
    anchor = ctypes.c_char.from_buffer(memory)
    start = ctypes.addressof(anchor)
    protect = ctypes.CDLL(None, use_errno=True).mprotect
    protect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    assert protect(start, page, _PROT_NONE) == 0
    assert protect(start + 2 * page, page, _PROT_NONE) == 0
    yield start + 2 * page
    protect(start, 3 * page, mmap.PROT_READ | mmap.PROT_WRITE)
    del anchor
    memory.close()


def array_at(address: int, code: str, count: int) -> Array:
    """An array over raw memory."""
    view = memoryview((ctypes.c_char * (count * size_of(code))).from_address(address))
    array: Array = np.ndarray(count, np.dtype(bool if code == "b1" else code), view)
    return array


STEPS: dict[Access, int] = {
    "contiguous": 1, "broadcast": 0, "reversed": -1, "stride2": 2, "strided": 3,
}  # fmt: skip


@targets
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("code", ["f4", "f8", "i1", "u2", "i8", "b1"])
@pytest.mark.parametrize("access", list(STEPS))
def test_load_reads_its_elements_only(
    access: Access, code: str, masked: bool, target: Target, guarded: int
) -> None:
    size, step = size_of(code), STEPS[access]
    for lanes in (1, 2, 16, 64) if target is HOST else (1, 8):
        used = min(lanes, 5) if masked else lanes
        span = (used - 1) * abs(step) + 1
        memory = array_at(guarded - span * size, code, span)
        memory[:] = (np.arange(span) * 7 % 5) if code != "b1" else np.arange(span) % 3 == 0
        first = guarded - size if step < 0 else guarded - span * size
        out = np.zeros(lanes, memory.dtype)

        def emit(b: Builder, source: str, to: str, n: Value, lanes: int = lanes) -> None:
            mask = b.mask_first(n, lanes) if masked else None
            stride = b.fixed(step * size, "i8") if access == "strided" else None
            x = b.load(source, code, lanes, access, mask=mask, stride=stride)
            b.store(x, to)

        run_body(emit, [first, out], used, target)
        wanted = memory[::-1] if step < 0 else memory
        places = np.arange(used) * abs(step)
        np.testing.assert_array_equal(out[:used], wanted[places])
        if access != "broadcast":
            assert not out[used:].any()


@targets
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("code", ["f4", "f8", "i1", "u2", "b1"])
@pytest.mark.parametrize("access", [name for name in STEPS if name != "broadcast"])
def test_store_writes_its_elements_only(
    access: Access, code: str, masked: bool, target: Target, guarded: int
) -> None:
    size, step = size_of(code), STEPS[access]
    for lanes in (1, 2, 16, 64) if target is HOST else (1, 8):
        used = min(lanes, 5) if masked else lanes
        span = (used - 1) * abs(step) + 1
        memory = array_at(guarded - span * size, code, span)
        memory[:] = 0
        first = guarded - size if step < 0 else guarded - span * size
        values = (np.arange(lanes) % 4 != 2).astype(memory.dtype)

        def emit(b: Builder, source: str, to: str, n: Value, lanes: int = lanes) -> None:
            mask = b.mask_first(n, lanes) if masked else None
            stride = b.fixed(step * size, "i8") if access == "strided" else None
            b.store(b.load(source, code, lanes), to, access, mask=mask, stride=stride)

        run_body(emit, [values, first], used, target)
        wanted = np.zeros(span, memory.dtype)
        wanted[np.arange(used) * abs(step)] = values[:used]
        np.testing.assert_array_equal(memory[::-1] if step < 0 else memory, wanted)


@targets
@pytest.mark.parametrize("lanes", [1, 2, 4, 8, 16, 32, 64])
def test_mask_has_the_first_lanes(lanes: int, target: Target) -> None:
    for count in sorted({0, 1, lanes // 2, lanes - 1, lanes, lanes + 1, 1000}):
        out = np.full(lanes, 7, dtype="u1")

        def emit(b: Builder, to: str, n: Value) -> None:
            b.store(b.mask_first(n, lanes), to)

        run_body(emit, [out], count, target)
        np.testing.assert_array_equal(out, np.arange(lanes) < count)


@targets
def test_any_nonzero_byte_is_true(target: Target) -> None:
    source, out = np.array([0, 1, 2, 255, 128, 0, 7, 1], dtype="u1"), np.zeros(8, "u1")
    for lanes in (1, 8):

        def emit(b: Builder, source: str, to: str, n: Value, lanes: int = lanes) -> None:
            for start in range(0, 8, lanes):
                x = b.load(b.pointer_offset(source, start), "b1", lanes)
                b.store(x, b.pointer_offset(to, start))

        run_body(emit, [source, out], 0, target)
        np.testing.assert_array_equal(out, (source != 0).astype("u1"))


@targets
@pytest.mark.parametrize("code", ["f4", "i8", "b1", "u1"])
def test_gather_and_scatter_take_byte_offsets(code: str, target: Target) -> None:
    source = (np.arange(40) % 7).astype(bool if code == "b1" else code)
    places = np.array([3, 39, 0, 17, 5, 22, 8, 1])
    out, spread = np.zeros(8, source.dtype), np.zeros(40, source.dtype)

    def emit(b: Builder, source: str, offsets: str, to: str, spread: str, n: Value) -> None:
        where = b.mul(b.load(offsets, "i8", 8), b.fixed(size_of(code), "i8"))
        x = b.gather(where, source, code)
        b.store(x, to)
        b.scatter(x, where, spread, b.mask_first(n, 8))

    run_body(emit, [source, places, out, spread], 6, target)
    np.testing.assert_array_equal(out, source[places])
    wanted = np.zeros(40, source.dtype)
    wanted[places[:6]] = source[places[:6]]
    np.testing.assert_array_equal(spread, wanted)


@targets
def test_a_full_vector_of_strided_elements_may_be_gathered(target: Target) -> None:
    source, out = np.arange(64, dtype="f4"), np.zeros(16, "f4")

    def emit(b: Builder, source: str, to: str, n: Value) -> None:
        stride = b.mul(n, b.fixed(4, "i8"))
        b.store(b.load(source, "f4", 16, "strided", stride=stride, gather=True), to)

    run_body(emit, [source, out], 3, target)
    np.testing.assert_array_equal(out, source[:48:3])


def test_lanes_move() -> None:
    source, out = np.arange(8, dtype="i4"), np.zeros(8, "i4")

    def emit(b: Builder, source: str, to: str, n: Value) -> None:
        x = b.load(source, "i4", 8)
        low, high = b.shuffle(x, None, range(4)), b.shuffle(x, None, range(4, 8))
        swapped = b.concatenate(b.reverse(high), low)
        pair = b.shuffle(b.lane(x, 6), b.lane(x, 7), [1, 0])
        both = b.shuffle(swapped, b.shuffle(pair, None, [0, 1] + 6 * [-1]), [8, 9, *range(2, 8)])
        b.store(b.insert_lane(both, b.lane(x, n), 7), to)

    run_body(emit, [source, out], 5)
    np.testing.assert_array_equal(out, [7, 6, 5, 4, 0, 1, 2, 5])
