"""Where CPython and NumPy keep what native entries read: structure offsets, and a test of them.

The offsets are those of builds with a GIL, the same since NumPy 2.0 and Python 3.11. They are
believed only after `self_test` has compared them with what Python itself reports; otherwise the
Python path serves every call. Nothing here loads llvmlite.
"""

from __future__ import annotations

import ctypes
import functools
import os
import sys
import weakref
from collections.abc import Callable
from types import MemberDescriptorType
from typing import Any, NamedTuple

import numpy as np

from tapeline.runtime.line_memory import empty_on_lines, line_memory, numpy_function

NATIVE_ENTRY_VARIABLE = "TAPELINE_NATIVE_ENTRY"
"""Environment variable; 0 makes every call take the Python path."""

OBJECT_REFCOUNT = 0
REFCOUNT_IS_READABLE = sys.version_info < (3, 14)
"""Whether the word at `OBJECT_REFCOUNT` is 1 exactly for an object with a single reference."""
OBJECT_TYPE = 8
FIRST_FIELD = 16
"""The first field after an object's header."""
VAR_SIZE = 16
"""Number of items of a tuple or list."""
DICT_USED = 16
"""Number of items of a dict."""
TUPLE_ITEMS = 24
LIST_ITEMS = 24
FLOAT_VALUE = 16
REFERENT = 16
"""What a weak reference refers to; None once that is gone."""

ARRAY_DATA = 16
ARRAY_NDIM = 24
ARRAY_DIMENSIONS = 32
ARRAY_STRIDES = 40
ARRAY_BASE = 48
ARRAY_DESCR = 56
ARRAY_FLAGS = 64
C_CONTIGUOUS_ALIGNED = 0x101
WRITEABLE = 0x400
OWNS_DATA = 0x4
ARRAY_HANDLER = 88
"""The capsule of the functions that an array's memory comes from; see `line_handler`."""

TYPE_FLAGS = 168
HAVE_VECTORCALL = 1 << 11

_API_VERSION = 0
_API_ARRAY_TYPE = 2
_API_NEW_FROM_DESCR = 94


class NumpyApi(NamedTuple):
    """Addresses out of NumPy's C interface."""

    version: int
    array_type: int
    new_from_descr: int


@functools.cache
def numpy_api() -> NumpyApi:
    """Out of the table that C extensions use."""
    get_version = ctypes.PYFUNCTYPE(ctypes.c_uint)(numpy_function(_API_VERSION))
    version = int(get_version())
    return NumpyApi(version, numpy_function(_API_ARRAY_TYPE), numpy_function(_API_NEW_FROM_DESCR))


@functools.cache
def line_handler() -> Any | None:
    """The handler of memory that begins where lines of the cache do, if arrays refer to theirs at
    `ARRAY_HANDLER`; None if machine code must leave memory to NumPy."""
    memory = line_memory()
    if memory is None:
        return None
    array = empty_on_lines((1,), np.dtype(np.float64))
    refers = _word(array, ARRAY_HANDLER) == id(memory.handler)
    owns = _int32(array, ARRAY_FLAGS) & OWNS_DATA
    return memory.handler if refers and owns else None


def slot_offset(cls: type, name: str) -> int:
    """Where an instance of a slotted class keeps the slot `name`, found with a sentinel object.

    Raises
    ------
    LookupError
        If the slot's place cannot be made out.
    """
    descriptor = getattr(cls, name, None)
    if not isinstance(descriptor, MemberDescriptorType):
        raise LookupError(f"{cls.__name__} has no slot {name!r}")
    instance = cls.__new__(cls)  # type: ignore[call-overload]  # of a plain class
    sentinel = object()
    descriptor.__set__(instance, sentinel)
    places = [
        offset
        for offset in range(FIRST_FIELD, cls.__basicsize__, 8)
        if _word(instance, offset) == id(sentinel)
    ]
    descriptor.__delete__(instance)
    if len(places) != 1 or _word(instance, places[0]):
        raise LookupError(f"the slot {name!r} of {cls.__name__} was not found")
    return places[0]


def list_item_address(items: list[Any], index: int) -> int:
    """The address of the pointer to `items[index]`; valid while the list is not resized."""
    pointer = _word(items, LIST_ITEMS)
    assert pointer is not None
    return pointer + 8 * index


def dict_size_address(table: dict[Any, Any]) -> int:
    """The address of the number of items of a dict."""
    return id(table) + DICT_USED


def lock_word_address(lock: Any) -> int | None:
    """The address of a word that is 0 while nobody holds the reentrant lock and otherwise not; None
    if there is none."""
    probe = type(lock)()
    offsets = range(FIRST_FIELD, type(lock).__basicsize__ - 7, 8)
    before = [_word(probe, offset) for offset in offsets]
    with probe:
        held = [_word(probe, offset) for offset in offsets]
    after = [_word(probe, offset) for offset in offsets]
    for offset, *words in zip(offsets, before, held, after, strict=True):
        if not words[0] and words[1] and not words[2]:
            return id(lock) + offset
    return None


def keep_for_ever(value: Any) -> None:
    """Holds a reference that nobody gives back. What methods of machine code point to is called as
    long as there are objects, which is longer than modules have their names when Python ends."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(value))


def native_entry_allowed() -> bool:
    """Whether calls may take the native path in this process."""
    return os.environ.get(NATIVE_ENTRY_VARIABLE) != "0" and self_test()


@functools.cache
def self_test() -> bool:
    """Whether every offset in this file holds for the running Python and NumPy."""
    if sys.implementation.name != "cpython" or ctypes.sizeof(ctypes.c_void_p) != 8:
        return False
    if not _is_gil_enabled():
        return False
    try:
        return _objects_hold() and _slots_hold() and _arrays_hold() and _numpy_interface_holds()
    except (AttributeError, LookupError, TypeError, ValueError):
        return False


def _is_gil_enabled() -> bool:
    """Whether one thread at a time runs Python code, in a build where that is sure; others count
    references in another way, and have a "t" among the flags of their ABI."""
    if "t" in getattr(sys, "abiflags", ""):
        return False
    ask: Callable[[], bool] = getattr(sys, "_is_gil_enabled", lambda: True)
    return ask()


def _word(owner: object, offset: int) -> int | None:
    return ctypes.c_void_p.from_address(id(owner) + offset).value


def _int32(owner: object, offset: int) -> int:
    return ctypes.c_int32.from_address(id(owner) + offset).value


class _Probe:
    __slots__ = ("__weakref__", "first", "second")


def _objects_hold() -> bool:
    items = [object(), object()]
    number = 1.5
    pair = (number, items, items)
    probe = _Probe()
    reference = weakref.ref(probe)
    return (
        object.__basicsize__ == FIRST_FIELD
        and _word(items, OBJECT_TYPE) == id(list)
        and (_first_refcount(items) == 1 or not REFCOUNT_IS_READABLE)
        and ctypes.c_void_p.from_address(list_item_address(items, 1)).value == id(items[1])
        and _word(items, VAR_SIZE) == 2
        and ctypes.c_ssize_t.from_address(dict_size_address({1: 2, 3: 4, 5: 6})).value == 3
        and _word(pair, VAR_SIZE) == 3
        and _word(pair, TUPLE_ITEMS + 8) == id(items)
        and ctypes.c_double.from_address(id(number) + FLOAT_VALUE).value == number
        and _word(reference, REFERENT) == id(probe)
        and ctypes.c_ulong.from_address(id(_Probe) + TYPE_FLAGS).value == _Probe.__flags__
        and ctypes.c_ulong.from_address(id(list) + TYPE_FLAGS).value == list.__flags__
    )


def _first_refcount(items: list[Any]) -> int:
    """The count of an object that nothing but the list refers to."""
    first = ctypes.c_void_p.from_address(list_item_address(items, 0)).value
    assert first is not None
    return ctypes.c_ssize_t.from_address(first + OBJECT_REFCOUNT).value


def _slots_hold() -> bool:
    offsets = {slot_offset(_Probe, "first"), slot_offset(_Probe, "second")}
    return len(offsets) == 2 and min(offsets) >= FIRST_FIELD


def _arrays_hold() -> bool:
    base = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    unaligned = np.zeros(17, np.uint8)[1:].view(np.float32)
    samples = (
        base,
        base[:, 1:],
        base.T,
        np.zeros((), np.float64),
        np.zeros((0, 3), np.int8),
        np.arange(5, dtype=">i4"),
        unaligned,
        np.broadcast_to(np.float32(1), 3),
    )
    return all(_array_holds(array) for array in samples)


def _array_holds(array: np.ndarray[Any, Any]) -> bool:
    ndim = array.ndim
    flags = _int32(array, ARRAY_FLAGS)
    wanted = bool(array.flags.c_contiguous and array.flags.aligned)
    fields = (
        _word(array, OBJECT_TYPE) == id(np.ndarray),
        _word(array, ARRAY_DATA) == array.ctypes.data,
        _int32(array, ARRAY_NDIM) == ndim,
        _word(array, ARRAY_DESCR) == id(array.dtype),
        (_word(array, ARRAY_BASE) or id(None)) == id(array.base),
        (flags & C_CONTIGUOUS_ALIGNED == C_CONTIGUOUS_ALIGNED) == wanted,
        bool(flags & WRITEABLE) == array.flags.writeable,
    )
    if not all(fields):
        return False
    if ndim == 0:
        return True
    return (
        _read_longs(array, ARRAY_DIMENSIONS, ndim) == array.shape
        and _read_longs(array, ARRAY_STRIDES, ndim) == array.strides
    )


def _read_longs(array: np.ndarray[Any, Any], offset: int, count: int) -> tuple[int, ...]:
    pointer = _word(array, offset)
    return () if pointer is None else tuple((ctypes.c_int64 * count).from_address(pointer))


def _numpy_interface_holds() -> bool:
    api = numpy_api()
    if api.version >> 24 != 2 or api.array_type != id(np.ndarray):
        return False
    pointer, integer = ctypes.c_void_p, ctypes.c_int
    new = ctypes.PYFUNCTYPE(
        ctypes.py_object, pointer, pointer, integer, pointer, pointer, pointer, integer, pointer
    )(api.new_from_descr)
    dtype = np.dtype(np.float32)
    shape = (ctypes.c_int64 * 2)(2, 3)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(dtype))
    array = new(id(np.ndarray), id(dtype), 2, ctypes.addressof(shape), None, None, 0, None)
    return type(array) is np.ndarray and array.shape == (2, 3) and array.dtype is dtype
