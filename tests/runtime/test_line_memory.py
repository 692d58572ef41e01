"""Arrays that begin where a line of the cache does: owned, freed, grown and counted as others."""

from __future__ import annotations

import sys
import tracemalloc

import numpy as np
import pytest

import tapeline as tl
from tapeline.runtime import line_memory
from tapeline.runtime.line_memory import LARGE, LINE, copy_to_lines, empty_on_lines

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="elsewhere NumPy's allocator serves"
)


def handler_name(*array: object) -> str:
    """What the memory of an array comes from, or of those to come."""
    name: str = sys.modules["numpy._core.multiarray"].get_handler_name(*array)
    return name


def start(array: np.ndarray[tuple[int, ...], np.dtype[np.float32]]) -> int:
    return int(array.__array_interface__["data"][0])


@pytest.mark.parametrize("shape", [(0,), (3,), (1 << 17,), (1024, 1025)])
def test_arrays_begin_at_a_line_and_own_their_memory(shape: tuple[int, ...]) -> None:
    made = [empty_on_lines(shape, np.dtype(np.float32)) for _ in range(5)]
    assert not any(start(array) % LINE for array in made)
    assert all(array.flags.owndata and array.flags.c_contiguous for array in made)
    assert all(array.shape == shape and array.dtype == np.float32 for array in made)


def test_later_arrays_of_numpy_are_left_alone() -> None:
    before = handler_name()
    empty_on_lines((1 << 20,), np.dtype(np.float32))
    assert handler_name() == before
    with pytest.raises(ValueError, match="negative"):
        empty_on_lines((-1,), np.dtype(np.float32))
    assert handler_name() == before


def test_large_arrays_become_tensors_on_lines() -> None:
    value = np.arange(LARGE // 4 * 2, dtype=np.float32)[::2]
    x = tl.asarray(value)
    assert start(x.numpy()) % LINE == 0
    np.testing.assert_array_equal(x.numpy(), value)
    assert not np.shares_memory(x.numpy(), value)


def test_such_memory_grows_and_is_counted_by_tracemalloc() -> None:
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        copy = copy_to_lines(np.ones(1 << 16))
        now, _ = tracemalloc.get_traced_memory()
        assert now - before > 1 << 18
        copy.resize(1 << 17, refcheck=False)
        copy[-1] = 1
        assert copy.sum() == (1 << 16) + 1
        del copy
        after, _ = tracemalloc.get_traced_memory()
        assert after - before < 1 << 16
    finally:
        tracemalloc.stop()


def test_without_such_memory_numpy_serves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_memory, "line_memory", lambda: None)
    made = copy_to_lines(np.arange(10.0))
    assert handler_name(made) == "default_allocator"
    np.testing.assert_array_equal(made, np.arange(10.0))
