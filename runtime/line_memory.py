"""Memory for large arrays that begins where a line of the processor's caches does.

`malloc` gives memory at multiples of 16 bytes, where most vectors of 64 bytes lie in two lines and
take two turns to load or store. NumPy lets arrays have other memory (NEP 49): the handler here is
NumPy's own, but for the function that allocates.
"""

from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

LINE = 64
"""Bytes that memory moves at a time."""
LARGE = 1 << 18
"""Bytes from which on a copy is worth the calls that it takes to get such memory."""
HUGE = 1 << 22
"""Bytes from which on NumPy asks for huge pages."""

_SET_HANDLER = 304
_GET_HANDLER = 305
HUGE_PAGES = 14
PAGE = 4096
HUGE_PAGE = 1 << 21
MAPPED = 1 << 25
"""Bytes from which on `malloc` maps memory anew for each array: whole huge pages then save much."""
_NAME = b"mem_handler"


class _Handler(ctypes.Structure):
    """NumPy's `PyDataMem_Handler`."""

    _fields_ = (
        ("name", ctypes.c_char * 127),
        ("version", ctypes.c_uint8),
        ("context", ctypes.c_void_p),
        ("malloc", ctypes.c_void_p),
        ("calloc", ctypes.c_void_p),
        ("realloc", ctypes.c_void_p),
        ("free", ctypes.c_void_p),
    )


class LineMemory:
    """How to get such memory.

    `handler` is the capsule that arrays refer to. `set_handler` makes arrays of this thread use
    another handler from now on, and returns the one before.
    """

    def __init__(
        self,
        handler: Any,
        set_handler: Callable[[Any], Any],
        advise: Callable[[int, int, int], int],
        wants_huge_pages: bool,
    ) -> None:
        self.handler = handler
        self.set_handler = set_handler
        self.advise = advise
        self.wants_huge_pages = wants_huge_pages


def numpy_function(index: int) -> int:
    """The address of a function in the table of NumPy's C interface."""
    table = _content(np._core._multiarray_umath._ARRAY_API, None)  # type: ignore[attr-defined]
    address = ctypes.cast(table, ctypes.POINTER(ctypes.c_void_p))[index]
    assert isinstance(address, int)
    return address


def _content(capsule: Any, name: bytes | None) -> int:
    """The pointer in a capsule."""
    get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
    get_pointer.restype = ctypes.c_void_p
    get_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    pointer: int = get_pointer(capsule, name)
    return pointer


@functools.cache
def line_memory() -> LineMemory | None:
    """What gives arrays such memory; None where the system is not known to have it."""
    if not sys.platform.startswith("linux") or ctypes.sizeof(ctypes.c_void_p) != 8:
        return None
    library = ctypes.CDLL(None)
    current = ctypes.PYFUNCTYPE(ctypes.py_object)(numpy_function(_GET_HANDLER))()
    found = _Handler.from_address(_content(current, _NAME))
    if found.version != 1 or found.name != b"default_allocator":
        return None
    address = ctypes.cast(library.aligned_alloc, ctypes.c_void_p).value
    # What NumPy hands on to `malloc`, before the size, is the alignment here; the others ignore it.
    ours = _Handler(b"line_memory", 1, LINE, address, found.calloc, found.realloc, found.free)
    make = ctypes.pythonapi.PyCapsule_New
    make.restype = ctypes.py_object
    make.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    handler = make(ctypes.addressof(ours), _NAME, None)
    for kept in (ours, handler):  # arrays may live longer than this module
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(kept))
    setter = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object)
    advise = library.madvise
    advise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    core: Any = sys.modules["numpy._core.multiarray"]
    wants_huge = getattr(core, "_get_madvise_hugepage", bool)()
    return LineMemory(handler, setter(numpy_function(_SET_HANDLER)), advise, wants_huge)


def empty_on_lines(shape: tuple[int, ...], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """A C-ordered array with whatever was in its memory."""
    memory = line_memory()
    if memory is None:
        return np.empty(shape, dtype)
    before = memory.set_handler(memory.handler)
    try:
        made = np.empty(shape, dtype)
    finally:
        memory.set_handler(before)
    if made.nbytes >= HUGE and memory.wants_huge_pages:
        start = made.__array_interface__["data"][0]
        first = -(-start // PAGE) * PAGE
        memory.advise(first, made.nbytes - (first - start), HUGE_PAGES)
    return made


def copy_to_lines(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """A C-ordered copy."""
    made = empty_on_lines(array.shape, array.dtype)
    np.copyto(made, array)
    return made
