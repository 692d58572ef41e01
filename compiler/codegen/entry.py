"""Emits native entries: the machine code that serves one signature of a compiled function.

An entry checks the call against its `EntrySpec`, makes the outputs, runs the graph's code and wraps
the results. It reads structures at the offsets of `layout`, and answers `MISS` to every call that
is not exactly what the spec says; the slow path then does the whole work. Nothing here compiles or
loads llvmlite.

Inputs that cells hold are owned while the code runs, so a cell may be rebound meanwhile.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from tapeline.compiler.codegen import layout
from tapeline.compiler.codegen.entry_recording import EntryRecording
from tapeline.compiler.codegen.entry_spec import (
    Container,
    EntrySpec,
    OutSpec,
)
from tapeline.compiler.codegen.function_text import FunctionText, Value
from tapeline.compiler.codegen.native_call import MISS, NativeEntry

_RECYCLED_BYTES = 1024
_LARGE_BYTES = 1 << 14
"""From so many bytes on an array should begin where a line of the cache does."""
_NOT_RETURNED = ("store", "kept")


@dataclass(frozen=True, slots=True)
class EntryCode:
    """An entry's text, for a module in which `run` is a word with the address of the code.

    `symbols` must be bound when the module is linked, and `kept` must live as long as the entry.
    """

    text: str
    declarations: frozenset[str]
    symbols: dict[str, int]
    kept: tuple[Any, ...]


def compile_entry(
    spec: EntrySpec, run: int, kept: Any = None, following: NativeEntry | None = None
) -> NativeEntry:
    """An entry, ready to be called, for code that is compiled already.

    Parameters
    ----------
    spec : EntrySpec
        What the entry serves.
    run : int
        Address of a word that holds the address of the code that it runs.
    kept : object
        What keeps that code alive, and whatever else shall live as long as the entry.
    following : NativeEntry, optional
        The entry that is tried next.
    """
    from tapeline.compiler.codegen.engine import get_engine  # loads llvmlite

    code = build_entry(spec)
    declarations = sorted({*code.declarations, f"@{spec.run} = external global ptr"})
    text = "\n".join([*declarations, code.text])
    symbols = {**code.symbols, spec.run: run}
    module = get_engine().compile_module(text, symbols, [spec.name], quick=True)
    return NativeEntry(module.address(spec.name), (module, code.kept, kept), following)


def is_recycled(out: OutSpec) -> bool:
    """Whether an output's array may be used again when nobody holds it any more: small ones only,
    since one array stays allocated per output."""
    if out.kind not in ("tensor", "array") or out.dtype is None or not layout.REFCOUNT_IS_READABLE:
        return False
    return _nbytes(out) <= _RECYCLED_BYTES


def _nbytes(out: OutSpec) -> int:
    assert out.dtype is not None
    return math.prod(out.shape) * out.dtype.itemsize


def build_entry(spec: EntrySpec) -> EntryCode:
    """The code for `spec`.

    Raises
    ------
    ValueError
        If the structure does not fit the outputs.
    """
    return _EntryWriter(spec).write()


@dataclass(slots=True)
class _EntryWriter(EntryRecording):
    """The whole entry."""

    def write(self) -> EntryCode:
        """The whole function."""
        spec = self.spec
        returned = [out for out in spec.outputs if out.kind not in _NOT_RETURNED]
        if spec.structure == "single" and len(returned) != 1:
            raise ValueError(f"build_entry: 'single' needs one output, got {len(returned)}")
        header = f"ptr @{spec.name}(ptr %callable, ptr %args, i64 %nargsf, ptr %kwnames) nounwind"
        self.fn = FunctionText(header)
        self.check_call()
        self.check_cells()
        self.count_call()
        self.own_inputs()
        outputs = self.make_outputs()
        self.run()
        if spec.recorded is not None:
            self.record(spec.recorded, outputs)
        self.store(outputs)
        self.finish(
            [
                obj
                for out, obj in zip(spec.outputs, outputs, strict=True)
                if out.kind not in _NOT_RETURNED
            ]
        )
        declarations = self.declarations | self.fn.declarations
        text = "\n".join([*self.constants, self.fn.text()])
        return EntryCode(text, frozenset(declarations), self.symbols, tuple(self.kept))

    # -- the call itself

    def count_call(self) -> None:
        """One more call is served."""
        fn, counter = self.fn, self.spec.counter
        if counter is not None:
            self.kept.append(counter)
            name = f"py_{self.spec.name}_counter"
            place = self.address(name, counter.__array_interface__["data"][0])
            fn.store("i64", fn.value(f"add i64 {fn.load('i64', place)}, 1"), place)

    def make_outputs(self) -> list[str]:
        """New arrays, wrapped where tensors are returned; the objects, one per output."""
        outputs = []
        for out in self.spec.outputs:
            if out.kind == "object":
                value = self.object(out.target)
                self.fn.call("void", "Py_IncRef", ("ptr", value))
                self.hold(value)
                outputs.append(value)
                continue
            array = self.new_array(out)
            self.arrays.append(array)
            self.data.append(self.field(array, layout.ARRAY_DATA))
            outputs.append(self.new_tensor(array) if out.kind == "tensor" else array)
        return outputs

    def new_array(self, out: OutSpec) -> str:
        """A fresh C-ordered array, or that of the last call if nobody but the pool holds it any
        more. The pool is a list, so the array dies with the entry."""
        if out.dtype is None:
            raise ValueError("build_entry: an output needs a dtype")
        wanted: list[tuple[str, Value]] = [
            ("ptr", self.dtype(out.dtype)), ("i64", len(out.shape)), ("ptr", self.shape(out.shape)),
            ("i64", _nbytes(out)),
        ]  # fmt: skip
        if is_recycled(out):
            pool: list[Any] = [None]
            self.kept.append(pool)
            name = f"py_{self.spec.name}_pool{self.fn.number()}"
            place = self.address(name, layout.list_item_address(pool, 0))
            array = self.call_shared("ptr", "tapeline_recycled_array", ("ptr", place), *wanted)
        else:
            size = "large_array" if _nbytes(out) >= _LARGE_BYTES else "array"
            array = self.call_shared("ptr", f"tapeline_new_{size}", *wanted)
        self.check_made(array)
        return array

    def new_tensor(self, array: str) -> str:
        """A tensor that takes over the reference to the array."""
        self.pass_on(array)
        tensor = self.call_shared("ptr", "tapeline_new_tensor", ("ptr", array))
        self.check_made(tensor)
        return tensor

    def run(self) -> None:
        """Calls the code; a miss if it reports an error."""
        fn = self.fn
        pointers = fn.alloca(8 * max(1, len(self.data)), 8)
        for position, place in enumerate(self.data):
            fn.store("ptr", place, fn.offset(pointers, 8 * position))
        code = fn.load("ptr", f"@{self.spec.run}")
        if self.spec.long_running:
            thread = fn.call("ptr", "PyEval_SaveThread")
            status = fn.call_defined("i64", code, ("ptr", pointers))
            fn.call("void", "PyEval_RestoreThread", ("ptr", thread))
        else:
            status = fn.call_defined("i64", code, ("ptr", pointers))
        fn.branch(fn.compare("eq", status, 0), "succeeded", "refused")
        fn.label("refused")
        self.release_made()
        self.release_owned()
        self.report(status)
        fn.label("succeeded")

    def report(self, status: str) -> None:
        """Ends the function with the error that `on_error` raises, or with a miss."""
        fn, handler = self.fn, self.spec.on_error
        if handler is None:
            fn.jump("miss")
            return
        number = fn.call("ptr", "PyLong_FromLongLong", ("i64", status))
        vector = fn.alloca(8, 8)
        fn.store("ptr", number, vector)
        answer = fn.call(
            "ptr", "PyObject_Vectorcall", ("ptr", self.object(handler)), ("ptr", vector),
            ("i64", 1), ("ptr", "null"),
        )  # fmt: skip
        self.release([number])
        fn.branch(fn.compare("eq", answer, "null", "ptr"), "raised", "ignored")
        fn.label("raised")
        fn.line("ret ptr null")
        fn.label("ignored")
        self.release([answer])
        fn.jump("miss")

    def store(self, outputs: list[str]) -> None:
        """Puts the outputs of kind "store" into their cells; what they held before is released
        when all cells are consistent."""
        fn, before = self.fn, []
        for out, made in zip(self.spec.outputs, outputs, strict=True):
            if out.kind == "store":
                offset = layout.slot_offset(type(out.target), out.slot)
                place = fn.offset(self.object(out.target), offset)
                before.append(fn.load("ptr", place))
                fn.store("ptr", made, place)
                self.pass_on(made)
        self.release(before)
        self.release_owned()

    def finish(self, returned: list[str]) -> None:
        """Returns the outputs in the spec's structure, and ends with the miss block."""
        fn, structure = self.fn, self.spec.structure
        if structure == "single":
            result = returned[0]
        elif structure == "none":
            result = self.object(None, "py_none")
            fn.call("void", "Py_IncRef", ("ptr", result))
        elif structure == "call":
            result = self.call_builder(returned)
        else:
            if not isinstance(structure, Container):
                structure = Container(structure, tuple(range(len(returned))))
            result = self.assemble(structure, returned)
        fn.line(f"ret ptr {result}")
        fn.label("failed")
        self.release_made()
        self.release_owned()
        fn.line("ret ptr null")
        fn.label("miss")
        fn.line(f"ret ptr inttoptr (i64 {MISS} to ptr)")

    def assemble(self, part: Container | int, returned: list[str]) -> str:
        """A container that takes over the references to its items; it joins `made` itself."""
        if isinstance(part, int):
            item = returned[part]
            if part in self.placed:  # the same tensor in a second place
                self.fn.call("void", "Py_IncRef", ("ptr", item))
                self.hold(item)
            self.placed.add(part)
            return item
        fn, count = self.fn, len(part.items)
        if part.kind == "dict":
            made = fn.call("ptr", "PyDict_New")
        else:
            made = fn.call("ptr", f"Py{part.kind.title()}_New", ("i64", count))
        self.check_made(made)
        for position, child in enumerate(part.items):
            item = self.assemble(child, returned)
            if part.kind == "dict":
                self.set_key(made, part.keys[position], item)
                continue
            fn.call(
                "i32", f"Py{part.kind.title()}_SetItem",
                ("ptr", made), ("i64", position), ("ptr", item),
            )  # fmt: skip
            self.pass_on(item)
        return made

    def set_key(self, made: str, key: Any, item: str) -> None:
        """Puts an item into a dict."""
        fn, number = self.fn, self.fn.number()
        status = fn.call(
            "i32", "PyDict_SetItem", ("ptr", made), ("ptr", self.object(key)), ("ptr", item)
        )
        fn.branch(fn.compare("eq", status, 0, "i32"), f"set{number}", "failed")
        fn.label(f"set{number}")
        self.pass_on(item)
        self.release([item])

    def call_builder(self, returned: list[str]) -> str:
        """The builder's result for the outputs."""
        fn = self.fn
        vector = fn.alloca(8 * max(1, len(returned)), 8)
        for position, item in enumerate(returned):
            fn.store("ptr", item, fn.offset(vector, 8 * position))
        builder = self.object(self.spec.builder)
        result = fn.call(
            "ptr", "PyObject_Vectorcall", ("ptr", builder), ("ptr", vector),
            ("i64", len(returned)), ("ptr", "null"),
        )  # fmt: skip
        self.release(returned)
        return result
