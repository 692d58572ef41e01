"""Objects that are called by machine code: their types, and the stub that tries entries in turn.

A class derived from `NativeCallable` is an ordinary Python class with a `__call__` until one of its
objects is given an entry. From then on the interpreter calls a stub through the vectorcall pointer
in that object. The stub runs the object's chain of `NativeEntry`s, each for one signature, until
one takes the call; if none does, it calls the object in the slot `_slow`, or the `__call__` of the
class where that slot is empty. While an entry runs the stub holds a reference to it, so its code
cannot be freed under it.

Where `native_entry_allowed` says no, objects keep an empty vectorcall pointer and Python's
`__call__` serves every call. Nothing here loads llvmlite before the first entry.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

from tapeline.compiler.codegen.layout import (
    FIRST_FIELD,
    HAVE_VECTORCALL,
    OBJECT_TYPE,
    TYPE_FLAGS,
    VAR_SIZE,
    native_entry_allowed,
    slot_offset,
)

if TYPE_CHECKING:
    from tapeline.compiler.codegen.engine import CompiledModule

MISS = 1
"""What an entry returns, instead of an object or NULL, for a call that it does not serve."""

_COUNT = 2**63 - 1
"""The bits of a vectorcall's number of arguments; the other one says that there is room before
them."""

_TP_CALL = 50
_TP_MEMBERS = 72
_T_PYSSIZET = 19
_READONLY = 1
_DEFAULT_FLAGS = 1 << 18
_BASETYPE = 1 << 10


class _Member(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("type", ctypes.c_int),
        ("offset", ctypes.c_ssize_t),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


class _Slot(ctypes.Structure):
    _fields_ = (("slot", ctypes.c_int), ("function", ctypes.c_void_p))


class _Spec(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("basicsize", ctypes.c_int),
        ("itemsize", ctypes.c_int),
        ("flags", ctypes.c_uint),
        ("slots", ctypes.POINTER(_Slot)),
    )


_KEPT: list[Any] = []
"""What CPython or machine code points to for as long as the process lives."""


def _word_type(name: str, is_called: bool) -> type:
    """A base class whose objects have one word of plain memory after the header: the vectorcall
    pointer where `is_called`. (It holds no objects, so it needs no traverse function.)"""
    slots = [_Slot(0, None)]
    flags = _DEFAULT_FLAGS | _BASETYPE
    if is_called:
        members = (_Member * 2)(
            _Member(b"__vectorcalloffset__", _T_PYSSIZET, FIRST_FIELD, _READONLY, None), _Member()
        )
        call = ctypes.cast(ctypes.pythonapi.PyVectorcall_Call, ctypes.c_void_p).value
        slots = [_Slot(_TP_CALL, call), _Slot(_TP_MEMBERS, ctypes.addressof(members)), *slots]
        flags |= HAVE_VECTORCALL
        _KEPT.append(members)
    array = (_Slot * len(slots))(*slots)
    spec = _Spec(name.encode(), FIRST_FIELD + 8, 0, flags, array)
    _KEPT.extend([array, spec])
    make = ctypes.pythonapi.PyType_FromSpec
    make.restype = ctypes.py_object
    make.argtypes = [ctypes.c_void_p]
    return make(ctypes.addressof(spec))  # type: ignore[no-any-return]


_ALLOWED = native_entry_allowed()

if TYPE_CHECKING:

    class NativeCallable:
        """Base of classes whose objects can be called by machine code."""

        __slots__ = ()

    class _EntryBase:
        __slots__ = ()

elif _ALLOWED:
    NativeCallable = _word_type("tapeline.compiler.codegen.native_call.NativeCallable", True)
    _EntryBase = _word_type("tapeline.compiler.codegen.native_call.EntryBase", False)
else:

    class NativeCallable:
        """Base of classes whose objects would be called by machine code if that were allowed."""

        __slots__ = ()

    class _EntryBase:
        __slots__ = ()


class NativeEntry(_EntryBase):
    """Machine code for one signature of a callable, in a chain of such.

    Parameters
    ----------
    address : int
        Code with the signature of a vectorcall function; it returns `MISS` for other calls.
    kept : object
        What the code needs alive: its module and every object it names.
    following : NativeEntry, optional
        The entry that is tried next.
    """

    __slots__ = ("following", "kept")

    kept: Any
    following: NativeEntry | None

    def __init__(self, address: int, kept: Any, following: NativeEntry | None = None) -> None:
        self.kept = kept
        self.following = following
        if _ALLOWED:
            ctypes.c_void_p.from_address(id(self) + FIRST_FIELD).value = address


_STUBS: dict[type, CompiledModule] = {}


def enable_native_calls(cls: type) -> bool:
    """Lets the interpreter call objects of `cls` through their vectorcall pointer.

    To be called once, when the class has been made. The class derives from `NativeCallable`, has
    the slots `_slow` and `_entry`, and a `__call__` that does what the slow path does; `_slow` may
    stay empty, or is set once, when an object is made. Subclasses are called through `__call__`.

    Returns
    -------
    bool
        False where the Python path serves every call.
    """
    if not _ALLOWED:
        return False
    slot_offset(cls, "_slow")
    slot_offset(cls, "_entry")
    flags = ctypes.c_ulong.from_address(id(cls) + TYPE_FLAGS)
    flags.value |= HAVE_VECTORCALL
    modified = ctypes.pythonapi.PyType_Modified
    modified.argtypes = [ctypes.py_object]
    modified.restype = None
    modified(cls)
    return cls.__flags__ & HAVE_VECTORCALL != 0


def set_entry(function: Any, entry: NativeEntry | None) -> None:
    """Makes `entry` (and those following it) the ones tried first when `function` is called; None
    leaves the slow path only."""
    function._entry = entry
    if _ALLOWED and entry is not None:
        stub = _stub_of(type(function)).address("stub")
        ctypes.c_void_p.from_address(id(function) + FIRST_FIELD).value = stub


def _stub_of(cls: type) -> CompiledModule:
    """The stub for objects of `cls`, kept for as long as the process lives."""
    found = _STUBS.get(cls)
    if found is None:
        from tapeline.compiler.codegen.engine import get_engine

        slow: Any = cls.__call__
        _KEPT.append(slow)
        symbols = {"py_entry_type": id(NativeEntry), "py_slow_path": id(slow)}
        module = get_engine().compile_module(_stub_text(cls), symbols, ["stub"])
        found = _STUBS.setdefault(cls, module)
    return found


def _stub_text(cls: type) -> str:
    """A loop over the chain of entries. A slot may hold anything, so types are checked.

    The entry at hand is owned while it runs and while its successor is read.
    """
    return f"""
@py_entry_type = external global i8
@py_slow_path = external global i8
declare ptr @PyObject_Vectorcall(ptr, ptr, i64, ptr)
declare void @Py_IncRef(ptr)
declare void @Py_DecRef(ptr)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)

define ptr @stub(ptr %callable, ptr %args, i64 %nargsf, ptr %kwnames) {{
entry:
  %first_place = getelementptr i8, ptr %callable, i64 {slot_offset(cls, "_entry")}
  %first = load ptr, ptr %first_place
  %first_missing = icmp eq ptr %first, null
  br i1 %first_missing, label %slow, label %check

check:
  %current = phi ptr [ %first, %entry ], [ %next, %miss ]
  %owned = phi ptr [ null, %entry ], [ %current, %miss ]
  %type_place = getelementptr i8, ptr %current, i64 {OBJECT_TYPE}
  %type = load ptr, ptr %type_place
  %is_entry = icmp eq ptr %type, @py_entry_type
  br i1 %is_entry, label %try, label %release

try:
  call void @Py_IncRef(ptr %current)
  call void @Py_DecRef(ptr %owned)
  %code_place = getelementptr i8, ptr %current, i64 {FIRST_FIELD}
  %code = load ptr, ptr %code_place
  %result = call ptr %code(ptr %callable, ptr %args, i64 %nargsf, ptr %kwnames)
  %number = ptrtoint ptr %result to i64
  %missed = icmp eq i64 %number, {MISS}
  br i1 %missed, label %miss, label %done

done:
  call void @Py_DecRef(ptr %current)
  ret ptr %result

miss:
  %next_place = getelementptr i8, ptr %current, i64 {slot_offset(NativeEntry, "following")}
  %next = load ptr, ptr %next_place
  %next_missing = icmp eq ptr %next, null
  br i1 %next_missing, label %release_last, label %check

release:
  call void @Py_DecRef(ptr %owned)
  br label %slow

release_last:
  call void @Py_DecRef(ptr %current)
  br label %slow

slow:
  %slow_place = getelementptr i8, ptr %callable, i64 {slot_offset(cls, "_slow")}
  %slow_function = load ptr, ptr %slow_place
  %is_method = icmp eq ptr %slow_function, null
  br i1 %is_method, label %prepend, label %call

call:
  %answer = musttail call ptr @PyObject_Vectorcall(
      ptr %slow_function, ptr %args, i64 %nargsf, ptr %kwnames)
  ret ptr %answer

prepend:
  %count = and i64 %nargsf, {_COUNT}
  %no_names = icmp eq ptr %kwnames, null
  br i1 %no_names, label %copy, label %named

named:
  %names_place = getelementptr i8, ptr %kwnames, i64 {VAR_SIZE}
  %n_names = load i64, ptr %names_place
  br label %copy

copy:
  %more = phi i64 [ 0, %prepend ], [ %n_names, %named ]
  %given = add i64 %count, %more
  %room = add i64 %given, 2
  %memory = alloca ptr, i64 %room
  %self_place = getelementptr ptr, ptr %memory, i64 1
  %args_place = getelementptr ptr, ptr %memory, i64 2
  store ptr %callable, ptr %self_place
  %nbytes = mul i64 %given, 8
  call void @llvm.memcpy.p0.p0.i64(ptr %args_place, ptr %args, i64 %nbytes, i1 false)
  %total = add i64 %count, 1
  %flagged = or i64 %total, {_COUNT + 1 - (1 << 64)}
  %result_of_method = call ptr @PyObject_Vectorcall(
      ptr @py_slow_path, ptr %self_place, i64 %flagged, ptr %kwnames)
  ret ptr %result_of_method
}}
"""
