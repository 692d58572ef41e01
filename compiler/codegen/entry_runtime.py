"""What all native entries share: checks of arrays, and the making of arrays and tensors.

One module per tensor class, compiled at the first entry and kept for as long as the process lives.
"""

from __future__ import annotations

import _thread
import ctypes
import functools
import threading
from typing import TYPE_CHECKING, Any

import numpy as np

from tapeline.compiler.codegen import layout
from tapeline.compiler.codegen.function_text import FunctionText
from tapeline.runtime.dispatch import STATE
from tapeline.runtime.line_memory import (
    HUGE,
    HUGE_PAGE,
    HUGE_PAGES,
    LINE,
    MAPPED,
    PAGE,
    line_memory,
)
from tapeline.runtime.record import EMPTY, SERIALS, Node, TapeSet

if TYPE_CHECKING:
    from tapeline.compiler.codegen.engine import CompiledModule

_NAMES = (
    "tapeline_value",
    "tapeline_unwatched_value",
    "tapeline_check_array",
    "tapeline_new_array",
    "tapeline_new_large_array",
    "tapeline_recycled_array",
    "tapeline_new_tensor",
    "tapeline_release",
    "tapeline_record",
    "tapeline_state",
    "tapeline_leaf",
)

_NUMPY_DOMAIN = 389047
"""What NumPy's memory is called in `tracemalloc`."""

_MAKING = threading.Lock()
"""Two threads that made the module at once would each have one, and one of them would be freed."""


def runtime_symbols(tensor_class: type) -> dict[str, int]:
    """The addresses of the shared functions, by name."""
    with _MAKING:
        module = _runtime(tensor_class)
    return {name: module.address(name) for name in _NAMES}


@functools.cache
def _runtime(tensor_class: type) -> CompiledModule:
    from tapeline.compiler.codegen.engine import get_engine  # loads llvmlite

    number, state = main = _main_thread()
    handler, huge = layout.line_handler(), ctypes.c_uint64(_huge_size())
    symbols = {
        "py_ndarray": id(np.ndarray),
        "py_tensor_type": id(tensor_class),
        "py_none": id(None),
        "py_zero": id(0),
        "py_node_type": id(Node),
        "py_empty_tuple": id(()),
        "py_no_tapes": id(EMPTY),
        "py_serials": id(SERIALS),
        "py_state": id(STATE),
        "py_dict_name": id(_DICT_NAME),
        "py_main_state": id(state),
        "py_main_thread": ctypes.addressof(number),
        "py_line_handler": id(handler),
        "py_huge_size": ctypes.addressof(huge),
        "PyArray_NewFromDescr": layout.numpy_api().new_from_descr,
    }
    functions = [
        _value(tensor_class),
        _unwatched_value(tensor_class),
        _check_array(),
        _new_array(),
        _new_large_array() if handler is not None else _new_array("tapeline_new_large_array"),
        _recycled_array(),
        _new_tensor(tensor_class),
        _release(),
        _record(),
        _state(),
        _leaf(),
    ]
    declarations = sorted(set().union(*(fn.declarations for fn in functions)))
    declarations += [f"@{name} = external global i8" for name in symbols if name.startswith("py_")]
    text = "\n".join([*declarations, *(fn.text() for fn in functions)])
    module = get_engine().compile_module(text, symbols, _NAMES)
    objects = (np.ndarray, tensor_class, Node, EMPTY, SERIALS, STATE, _DICT_NAME, handler, huge)
    layout.keep_for_ever((module, main, objects))
    return module


_DICT_NAME = "__dict__"


def _huge_size() -> int:
    """Bytes from which on memory is wanted in huge pages."""
    memory = line_memory()
    return HUGE if memory is not None and memory.wants_huge_pages else (1 << 64) - 1


def _main_thread() -> tuple[ctypes.c_uint64, dict[str, Any]]:
    """The number of the main thread, which no other thread ever has, and its attributes of `STATE`:
    machine code need not ask for these. 0, if it is another thread that compiles first.

    That thread lives as long as its state is needed. States that are kept in another way than
    CPython's own, such as one per coroutine, must be asked for.
    """
    is_main = threading.get_ident() == threading.main_thread().ident
    if not is_main or not isinstance(STATE, _thread._local):
        return ctypes.c_uint64(0), {}
    get, number = ctypes.pythonapi.PyThreadState_Get, ctypes.pythonapi.PyThreadState_GetID
    get.restype = ctypes.c_void_p
    number.restype, number.argtypes = ctypes.c_uint64, [ctypes.c_void_p]
    return ctypes.c_uint64(number(get())), STATE.__dict__


def _field(fn: FunctionText, owner: str, offset: int, type_: str = "ptr") -> str:
    return fn.load(type_, fn.offset(owner, offset), 4 if type_ == "i32" else 8)


class _Choice:
    """A function that goes on while conditions hold, and returns `otherwise` when one does not."""

    def __init__(self, fn: FunctionText, otherwise: str) -> None:
        self.fn = fn
        self.otherwise = otherwise

    def require(self, condition: str) -> None:
        """Goes on only if the condition holds."""
        following = f"ok{self.fn.number()}"
        self.fn.branch(condition, following, "no")
        self.fn.label(following)

    def finish(self, result: str) -> FunctionText:
        """Returns the result."""
        self.fn.line(f"ret {result}")
        self.fn.label("no")
        self.fn.line(f"ret {self.otherwise}")
        return self.fn


def _value(tensor_class: type) -> FunctionText:
    """The array of a tensor that no tape follows, or the argument itself if it is no tensor; null
    for other tensors. `recording` is null, or points to a count of tapes: while it is zero a
    tensor's node means nothing."""
    fn = FunctionText("ptr @tapeline_value(ptr %argument, ptr %recording) nounwind")
    _node_of_tensor(fn, tensor_class)
    fn.branch(fn.compare("eq", "%recording", "null", "ptr"), "no", "ask")
    fn.label("ask")
    count = fn.load("i64", "%recording")
    fn.branch(fn.compare("eq", count, 0), "free", "no")
    return _array_or_null(fn, tensor_class)


def _unwatched_value(tensor_class: type) -> FunctionText:
    """The array of a tensor that no tape knows any more, or the argument itself if it is no tensor;
    null for other tensors."""
    fn = FunctionText("ptr @tapeline_unwatched_value(ptr %argument) nounwind")
    node = _node_of_tensor(fn, tensor_class)
    fn.branch(fn.compare("eq", node, "null", "ptr"), "no", "filled")
    fn.label("filled")
    tapes = _field(fn, node, layout.slot_offset(Node, "tapes"))
    ids = _field(fn, tapes, layout.slot_offset(TapeSet, "ids"))
    fn.branch(fn.compare("eq", _field(fn, ids, layout.VAR_SIZE, "i64"), 0), "free", "no")
    return _array_or_null(fn, tensor_class)


def _node_of_tensor(fn: FunctionText, tensor_class: type) -> str:
    """The node of an argument that is a tensor and has one; others are returned as they are, and
    tensors without a node go on at `free`."""
    kind = _field(fn, "%argument", layout.OBJECT_TYPE)
    fn.branch(fn.compare("eq", kind, "@py_tensor_type", "ptr"), "tensor", "other")
    fn.label("other")
    fn.line("ret ptr %argument")
    fn.label("tensor")
    node = _field(fn, "%argument", layout.slot_offset(tensor_class, "_node"))
    fn.branch(fn.compare("eq", node, "@py_none", "ptr"), "free", "noded")
    fn.label("noded")
    return node


def _array_or_null(fn: FunctionText, tensor_class: type) -> FunctionText:
    """Ends a function that returns the tensor's array at `free` and null at `no`."""
    fn.label("free")
    array = _field(fn, "%argument", layout.slot_offset(tensor_class, "_value"))
    fn.line(f"ret ptr {array}")
    fn.label("no")
    fn.line("ret ptr null")
    return fn


def _check_array() -> FunctionText:
    """Whether an object is an aligned C-contiguous ndarray of this descriptor and shape."""
    fn = FunctionText(
        "i1 @tapeline_check_array(ptr %array, ptr %descr, i64 %ndim, ptr %shape) nounwind"
    )
    choice = _Choice(fn, "i1 false")
    choice.require(fn.compare("ne", "%array", "null", "ptr"))
    kind = _field(fn, "%array", layout.OBJECT_TYPE)
    choice.require(fn.compare("eq", kind, "@py_ndarray", "ptr"))
    ndim = fn.value(f"zext i32 {_field(fn, '%array', layout.ARRAY_NDIM, 'i32')} to i64")
    choice.require(fn.compare("eq", ndim, "%ndim"))
    descr = _field(fn, "%array", layout.ARRAY_DESCR)
    choice.require(fn.compare("eq", descr, "%descr", "ptr"))
    flags = _field(fn, "%array", layout.ARRAY_FLAGS, "i32")
    wanted = layout.C_CONTIGUOUS_ALIGNED
    choice.require(fn.compare("eq", fn.value(f"and i32 {flags}, {wanted}"), wanted, "i32"))
    dimensions = _field(fn, "%array", layout.ARRAY_DIMENSIONS)

    def extent(axis: str, _: list[str]) -> None:
        step = fn.mul(axis, 8)
        mine = fn.load("i64", fn.offset(dimensions, step))
        choice.require(fn.compare("eq", mine, fn.load("i64", fn.offset("%shape", step))))

    fn.loop(0, "%ndim", 1, extent)
    return choice.finish("i1 true")


def _new_array(name: str = "tapeline_new_array") -> FunctionText:
    """A fresh C-ordered array; null with an error set."""
    fn = FunctionText(f"ptr @{name}(ptr %descr, i64 %ndim, ptr %shape, i64 %nbytes) nounwind")
    fn.line(f"ret ptr {_array_of_memory(fn, 'null', 0)}")
    return fn


def _array_of_memory(fn: FunctionText, memory: str, flags: int) -> str:
    """A C-ordered array; null for `memory` lets NumPy find some."""
    fn.call("void", "Py_IncRef", ("ptr", "%descr"))
    ndim = fn.value("trunc i64 %ndim to i32")
    return fn.call(
        "ptr", "PyArray_NewFromDescr", ("ptr", "@py_ndarray"), ("ptr", "%descr"), ("i32", ndim),
        ("ptr", "%shape"), ("ptr", "null"), ("ptr", memory), ("i32", flags), ("ptr", "null"),
    )  # fmt: skip


def _new_large_array() -> FunctionText:
    """The same in memory that begins where a line of the cache does, as `line_memory` gives it."""
    fn = FunctionText(
        "ptr @tapeline_new_large_array(ptr %descr, i64 %ndim, ptr %shape, i64 %nbytes) nounwind"
    )
    is_mapped = fn.value(f"icmp uge i64 %nbytes, {MAPPED}")
    alignment = fn.value(f"select i1 {is_mapped}, i64 {HUGE_PAGE}, i64 {LINE}")
    more = fn.add("%nbytes", fn.value(f"sub i64 {alignment}, 1"))
    room = fn.value(f"and i64 {more}, {fn.value(f'sub i64 0, {alignment}')}")
    memory = fn.call("ptr", "aligned_alloc", ("i64", alignment), ("i64", room))
    fn.branch(fn.compare("eq", memory, "null", "ptr"), "nomemory", "found")
    fn.label("found")
    flags = layout.C_CONTIGUOUS_ALIGNED | layout.WRITEABLE
    array = _array_of_memory(fn, memory, flags)
    fn.branch(fn.compare("eq", array, "null", "ptr"), "failed", "made")
    fn.label("made")
    place = fn.offset(array, layout.ARRAY_FLAGS)
    owned = fn.value(f"or i32 {fn.load('i32', place, 4)}, {layout.OWNS_DATA}")
    fn.store("i32", owned, place, 4)
    fn.call("void", "Py_IncRef", ("ptr", "@py_line_handler"))
    fn.store("ptr", "@py_line_handler", fn.offset(array, layout.ARRAY_HANDLER))
    start = fn.value(f"ptrtoint ptr {memory} to i64")
    fn.call(
        "i32", "PyTraceMalloc_Track", ("i32", _NUMPY_DOMAIN), ("i64", start), ("i64", "%nbytes")
    )
    is_huge = fn.value(f"icmp uge i64 %nbytes, {fn.load('i64', '@py_huge_size')}")
    fn.branch(is_huge, "huge", "ready")
    fn.label("huge")
    first = fn.value(f"and i64 {fn.add(start, PAGE - 1)}, {-PAGE}")
    length = fn.value(f"sub i64 {fn.add(start, room)}, {first}")
    fn.call("i32", "madvise", ("i64", first), ("i64", length), ("i32", HUGE_PAGES))
    fn.jump("ready")
    fn.label("ready")
    fn.line(f"ret ptr {array}")
    fn.label("failed")
    fn.call("void", "free", ("ptr", memory))
    fn.line("ret ptr null")
    fn.label("nomemory")
    fn.line(f"ret ptr {fn.call('ptr', 'PyErr_NoMemory')}")
    return fn


def _recycled_array() -> FunctionText:
    """The array at `place` if nobody else holds it any more, else a fresh one, which is kept there
    from now on. `place` is an item of a list, which holds one reference."""
    fn = FunctionText(
        "ptr @tapeline_recycled_array("
        "ptr %place, ptr %descr, i64 %ndim, ptr %shape, i64 %nbytes) nounwind"
    )
    last = fn.load("ptr", "%place")
    count = fn.load("i64", fn.offset(last, layout.OBJECT_REFCOUNT))
    fn.branch(fn.compare("eq", count, 1), "reuse", "fresh")
    fn.label("reuse")
    fn.call("void", "Py_IncRef", ("ptr", last))
    fn.line(f"ret ptr {last}")
    fn.label("fresh")
    array = fn.call_defined(
        "ptr", "@tapeline_new_array", ("ptr", "%descr"), ("i64", "%ndim"), ("ptr", "%shape"),
        ("i64", "%nbytes"),
    )  # fmt: skip
    fn.branch(fn.compare("eq", array, "null", "ptr"), "failed", "keep")
    fn.label("keep")
    fn.call("void", "Py_IncRef", ("ptr", array))
    before = fn.load("ptr", "%place")
    fn.store("ptr", array, "%place")
    fn.call("void", "Py_DecRef", ("ptr", before))
    fn.line(f"ret ptr {array}")
    fn.label("failed")
    fn.line("ret ptr null")
    return fn


def _new_tensor(tensor_class: type) -> FunctionText:
    """A tensor without history that takes over the reference to its array, even where it fails."""
    fn = FunctionText("ptr @tapeline_new_tensor(ptr %array) nounwind")
    tensor = fn.call("ptr", "PyType_GenericAlloc", ("ptr", "@py_tensor_type"), ("i64", 0))
    fn.branch(fn.compare("eq", tensor, "null", "ptr"), "failed", "made")
    fn.label("made")
    fn.store("ptr", "%array", fn.offset(tensor, layout.slot_offset(tensor_class, "_value")))
    fn.call("void", "Py_IncRef", ("ptr", "@py_none"))
    fn.store("ptr", "@py_none", fn.offset(tensor, layout.slot_offset(tensor_class, "_node")))
    fn.line(f"ret ptr {tensor}")
    fn.label("failed")
    fn.call("void", "Py_DecRef", ("ptr", "%array"))
    fn.line("ret ptr null")
    return fn


def _release() -> FunctionText:
    """Gives back the references in an array of pointers, some of which may be null."""
    fn = FunctionText("void @tapeline_release(ptr %objects, i64 %count) nounwind")

    def one(index: str, _: list[str]) -> None:
        held = fn.load("ptr", fn.offset("%objects", fn.mul(index, 8)))
        fn.call("void", "Py_DecRef", ("ptr", held))

    fn.loop(0, "%count", 1, one)
    fn.line("ret void")
    return fn


def _record() -> FunctionText:
    """A node of an op, known to the tapes of a set. It takes over the references to its parents and
    to what it saves, even where it fails."""
    fn = FunctionText(
        "ptr @tapeline_record(ptr %op, ptr %tapes, ptr %parents, ptr %saved) nounwind"
    )

    def set_slot(node: str, name: str, value: str, is_new: bool = False) -> None:
        if not is_new:
            fn.call("void", "Py_IncRef", ("ptr", value))
        fn.store("ptr", value, fn.offset(node, layout.slot_offset(Node, name)))

    serial = fn.call("ptr", "PyIter_Next", ("ptr", "@py_serials"))
    fn.branch(fn.compare("eq", serial, "null", "ptr"), "lost", "numbered")
    fn.label("numbered")
    node = fn.call("ptr", "PyType_GenericAlloc", ("ptr", "@py_node_type"), ("i64", 0))
    fn.branch(fn.compare("eq", node, "null", "ptr"), "unused", "made")
    fn.label("made")
    set_slot(node, "serial", serial, is_new=True)
    set_slot(node, "op", "%op")
    set_slot(node, "attrs", "@py_empty_tuple")
    set_slot(node, "parents", "%parents", is_new=True)
    set_slot(node, "saved", "%saved", is_new=True)
    set_slot(node, "rec", "%tapes")
    set_slot(node, "tapes", "%tapes")
    drop = fn.load("ptr", fn.offset("%tapes", layout.slot_offset(TapeSet, "drop")))
    weak = fn.call("ptr", "PyWeakref_NewRef", ("ptr", node), ("ptr", drop))
    fn.branch(fn.compare("eq", weak, "null", "ptr"), "failed", "known")
    fn.label("known")
    status = fn.call("i32", "PySet_Add", ("ptr", "%tapes"), ("ptr", weak))
    fn.call("void", "Py_DecRef", ("ptr", weak))
    fn.branch(fn.compare("eq", status, 0, "i32"), "entered", "failed")
    fn.label("entered")
    fn.line(f"ret ptr {node}")
    fn.label("failed")
    fn.call("void", "Py_DecRef", ("ptr", node))
    fn.line("ret ptr null")
    fn.label("unused")
    fn.call("void", "Py_DecRef", ("ptr", serial))
    fn.jump("lost")
    fn.label("lost")
    fn.call("void", "Py_DecRef", ("ptr", "%parents"))
    fn.call("void", "Py_DecRef", ("ptr", "%saved"))
    fn.line("ret ptr null")
    return fn


def _leaf() -> FunctionText:
    """A node without history that tapes watch."""
    fn = FunctionText("ptr @tapeline_leaf(ptr %tapes) nounwind")
    serial = fn.call("ptr", "PyIter_Next", ("ptr", "@py_serials"))
    fn.branch(fn.compare("eq", serial, "null", "ptr"), "failed", "numbered")
    fn.label("numbered")
    node = fn.call("ptr", "PyType_GenericAlloc", ("ptr", "@py_node_type"), ("i64", 0))
    fn.branch(fn.compare("eq", node, "null", "ptr"), "unused", "made")
    fn.label("made")
    fn.store("ptr", serial, fn.offset(node, layout.slot_offset(Node, "serial")))
    slots = {"op": "@py_none", "rec": "@py_no_tapes", "tapes": "%tapes"}
    slots |= dict.fromkeys(("attrs", "parents", "saved"), "@py_empty_tuple")
    for name, value in slots.items():
        fn.call("void", "Py_IncRef", ("ptr", value))
        fn.store("ptr", value, fn.offset(node, layout.slot_offset(Node, name)))
    fn.line(f"ret ptr {node}")
    fn.label("unused")
    fn.call("void", "Py_DecRef", ("ptr", serial))
    fn.jump("failed")
    fn.label("failed")
    fn.line("ret ptr null")
    return fn


def _state() -> FunctionText:
    """The attributes of `STATE` in this thread, which goes on holding them; null with an error."""
    fn = FunctionText("ptr @tapeline_state() nounwind")
    thread = fn.call("ptr", "PyThreadState_Get")
    number = fn.call("i64", "PyThreadState_GetID", ("ptr", thread))
    is_main = fn.compare("eq", number, fn.load("i64", "@py_main_thread"))
    fn.branch(is_main, "known", "ask")
    fn.label("known")
    fn.line("ret ptr @py_main_state")
    fn.label("ask")
    found = fn.call("ptr", "PyObject_GetAttr", ("ptr", "@py_state"), ("ptr", "@py_dict_name"))
    fn.call("void", "Py_DecRef", ("ptr", found))
    fn.line(f"ret ptr {found}")
    return fn
