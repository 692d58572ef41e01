"""Emits native entries: the machine code that serves one signature of a compiled function.

An entry checks the call against its `EntrySpec`, makes the outputs, runs the graph's code and wraps
the results. It reads structures at the offsets of `layout`, and answers `MISS` to every call that
is not exactly what the spec says; the slow path then does the whole work. Nothing here compiles or
loads llvmlite.

Inputs that cells hold are owned while the code runs, so a cell may be rebound meanwhile.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np

from tapeline.compiler.codegen import layout
from tapeline.compiler.codegen.function_text import FunctionText
from tapeline.compiler.codegen.native_call import MISS, NativeEntry
from tapeline.runtime.spec import DType, Shape

ArgKind: TypeAlias = Literal["tensor", "array", "float", "int", "object"]
OutKind: TypeAlias = Literal["tensor", "array", "store", "object"]
Structure: TypeAlias = Literal["single", "tuple", "list", "none", "call"]

_RECYCLED_BYTES = 1024


@dataclass(frozen=True, slots=True)
class ArgSpec:
    """One positional argument.

    kind "tensor" or "array": a tensor without history, or an ndarray, of this dtype and shape.
    "float", "int": a Python number, passed on as float64 or int64. "object": this very object.
    """

    kind: ArgKind
    dtype: DType | None = None
    shape: Shape = ()
    value: Any = None
    """The object, for kind "object"."""


@dataclass(frozen=True, slots=True)
class CellSpec:
    """A captured array: the one in slot `slot` of `holder`, read at each call, or `holder` itself
    if `slot` is None. With `node_slot`, that slot must be None (no tape follows the value)."""

    holder: Any
    dtype: DType
    shape: Shape
    slot: str | None = "_value"
    node_slot: str | None = "_node"


@dataclass(frozen=True, slots=True)
class OutSpec:
    """One output.

    kind "tensor" or "array": returned as such. "store": put into slot `slot` of `target` and not
    returned. "object": this very object is returned, and the code does not see it.
    """

    kind: OutKind
    dtype: DType | None = None
    shape: Shape = ()
    target: Any = None
    slot: str = "_value"


@dataclass(frozen=True, slots=True)
class CellGuard:
    """A 64-bit word of memory that must hold `expected`: that integer, or where `is_object` a
    pointer to that object. `holder` is what keeps the memory alive."""

    address: int
    expected: Any
    is_object: bool = False
    holder: Any = None


@dataclass(frozen=True, slots=True)
class EntrySpec:
    """What one native entry serves.

    The code that it runs is `i64 @<run>(ptr)`: it gets an array of pointers to the data of the args
    (kind "object" left out), then the captures, then the outputs (kind "object" left out), and
    returns 0. At any other status the outputs are dropped and `on_error` is called with the status;
    it should raise. Without `on_error` the slow path is called, which does the work again.
    """

    args: tuple[ArgSpec, ...]
    outputs: tuple[OutSpec, ...]
    tensor_class: type
    captures: tuple[CellSpec, ...] = ()
    structure: Structure = "single"
    """Of the returned outputs; "call" passes them to `builder`, whose result is returned."""
    builder: Callable[..., Any] | None = None
    guards: tuple[CellGuard, ...] = ()
    recording: CellGuard | None = None
    """Holds while no tape records, and nodes of tensors mean nothing; without it tensors must have
    no node."""
    same: tuple[int, ...] | None = None
    """Per arg the number of the first arg that is the same object; None: nobody cares."""
    long_running: bool = False
    """The GIL is released while the code runs, so it must not call Python."""
    run: str = "run"
    name: str = "entry"
    on_error: Callable[[int], Any] | None = None


@dataclass(frozen=True, slots=True)
class EntryCode:
    """An entry's text, for the module that defines its `run`.

    `symbols` must be bound when the module is linked, and `kept` must live as long as the entry.
    """

    text: str
    declarations: frozenset[str]
    symbols: dict[str, int]
    kept: tuple[Any, ...]


def busy_guard(counter: list[int]) -> CellGuard:
    """Holds while `counter[0]` is 0. The list must keep its length."""
    return CellGuard(layout.list_item_address(counter, 0), 0, True, counter)


def compile_entry(
    spec: EntrySpec, run: int, kept: Any = None, following: NativeEntry | None = None
) -> NativeEntry:
    """An entry, ready to be called, for code that is compiled already.

    Parameters
    ----------
    spec : EntrySpec
        What the entry serves.
    run : int
        Address of the code that it runs.
    kept : object
        What keeps that code alive, and whatever else shall live as long as the entry.
    following : NativeEntry, optional
        The entry that is tried next.
    """
    from tapeline.compiler.codegen.engine import get_engine  # loads llvmlite

    code = build_entry(spec)
    declarations = sorted({*code.declarations, f"declare i64 @{spec.run}(ptr)"})
    text = "\n".join([*declarations, code.text])
    module = get_engine().compile_module(text, {**code.symbols, spec.run: run}, [spec.name])
    return NativeEntry(module.address(spec.name), (module, code.kept, kept), following)


def is_recycled(out: OutSpec) -> bool:
    """Whether an output's array may be used again when its tensor is gone: small ones only, since
    one array stays allocated per output."""
    if out.kind != "tensor" or out.dtype is None or not layout.REFCOUNT_IS_READABLE:
        return False
    return math.prod(out.shape) * out.dtype.itemsize <= _RECYCLED_BYTES


def build_entry(spec: EntrySpec) -> EntryCode:
    """The code for `spec`.

    Raises
    ------
    ValueError
        If the structure does not fit the outputs.
    """
    return _EntryWriter(spec).write()


@dataclass(slots=True)
class _EntryWriter:
    spec: EntrySpec
    fn: FunctionText = field(init=False)
    symbols: dict[str, int] = field(default_factory=dict)
    constants: list[str] = field(default_factory=list)
    declarations: set[str] = field(default_factory=set)
    names: dict[int, str] = field(default_factory=dict)
    kept: list[Any] = field(default_factory=list)
    checked: list[tuple[bool, str]] = field(default_factory=list)
    owned: list[str] = field(default_factory=list)
    data: list[str] = field(default_factory=list)
    made: list[str] = field(default_factory=list)

    def write(self) -> EntryCode:
        """The whole function."""
        spec = self.spec
        returned = [out for out in spec.outputs if out.kind != "store"]
        if spec.structure == "single" and len(returned) != 1:
            raise ValueError(f"build_entry: 'single' needs one output, got {len(returned)}")
        header = f"ptr @{spec.name}(ptr %callable, ptr %args, i64 %nargsf, ptr %kwnames) nounwind"
        self.fn = FunctionText(header)
        self.check_call()
        self.check_cells()
        self.own_inputs()
        outputs = self.make_outputs()
        self.run()
        self.store(outputs)
        self.finish(
            [obj for out, obj in zip(spec.outputs, outputs, strict=True) if out.kind != "store"]
        )
        declarations = self.declarations | self.fn.declarations
        text = "\n".join([*self.constants, self.fn.text()])
        return EntryCode(text, frozenset(declarations), self.symbols, tuple(self.kept))

    # -- names

    def object(self, value: Any, name: str = "") -> str:
        """A symbol for the address of a Python object, which is kept alive."""
        found = self.names.get(id(value))
        if found is None:
            name = name or f"py_{self.spec.name}_object{len(self.names)}"
            found = self.names[id(value)] = self.address(name, id(value))
            self.kept.append(value)
        return found

    def address(self, name: str, value: int) -> str:
        """A symbol for an address."""
        self.symbols[name] = value
        self.declarations.add(f"@{name} = external global i8")
        return f"@{name}"

    def dtype(self, dtype: DType) -> str:
        """The symbol of NumPy's descriptor of a dtype."""
        canonical = np.dtype(dtype.type)
        return self.object(canonical, f"py_dtype_{canonical.name}")

    def field(self, owner: str, offset: int, type_: str = "ptr") -> str:
        """A field of a structure."""
        return self.fn.load(type_, self.fn.offset(owner, offset), 4 if type_ == "i32" else 8)

    # -- guards

    def require(self, condition: str) -> None:
        """Leaves for the miss block unless the condition holds."""
        following = f"ok{self.fn.number()}"
        self.fn.branch(condition, following, "miss")
        self.fn.label(following)

    def require_equal(self, type_: str, a: str, b: str | int) -> None:
        """Leaves unless a == b."""
        self.require(self.fn.compare("eq", a, b, type_))

    def check_call(self) -> None:
        """Number of arguments, no keywords, guards, then each argument."""
        spec, fn = self.spec, self.fn
        count = fn.value(f"and i64 %nargsf, {2**63 - 1}")
        self.require_equal("i64", count, len(spec.args))
        self.require_equal("ptr", "%kwnames", "null")
        for number, guard in enumerate(spec.guards):
            place = self.address(f"py_{spec.name}_guard{number}", guard.address)
            self.kept.append(guard.holder)
            if guard.is_object:
                self.require_equal("ptr", fn.load("ptr", place), self.object(guard.expected))
            else:
                self.require_equal("i64", fn.load("i64", place), guard.expected)
        args = [fn.load("ptr", fn.offset("%args", 8 * i)) for i in range(len(spec.args))]
        self.check_same(args)
        for arg, argument in zip(spec.args, args, strict=True):
            self.check_argument(arg, argument)

    def check_same(self, args: list[str]) -> None:
        """Which arguments are one object, where it matters."""
        same = self.spec.same
        if same is None:
            return
        for j in range(len(args)):
            for i in range(j):
                if same[i] == i and self.spec.args[i].kind in ("tensor", "array"):
                    wanted = "eq" if same[j] == i else "ne"
                    self.require(self.fn.compare(wanted, args[i], args[j], "ptr"))

    def check_argument(self, arg: ArgSpec, argument: str) -> None:
        """One argument; its data pointer joins `data`."""
        spec = self.spec
        if arg.kind == "object":
            self.require_equal("ptr", argument, self.object(arg.value))
        elif arg.kind in ("float", "int"):
            self.check_number(arg.kind, argument)
        elif arg.kind == "array":
            self.check_array(argument, arg.dtype, arg.shape)
            self.checked.append((False, argument))
        else:
            cls = self.object(spec.tensor_class, "py_tensor_type")
            self.require_equal("ptr", self.field(argument, layout.OBJECT_TYPE), cls)
            self.check_node(self.field(argument, layout.slot_offset(spec.tensor_class, "_node")))
            array = self.field(argument, layout.slot_offset(spec.tensor_class, "_value"))
            self.check_array(array, arg.dtype, arg.shape)
            self.owned.append(array)
            self.checked.append((False, array))

    def check_node(self, node: str) -> None:
        """Leaves where a tape may know the value: it has a node, and some tape records."""
        fn, recording = self.fn, self.spec.recording
        none = self.object(None, "py_none")
        if recording is None:
            self.require_equal("ptr", node, none)
            return
        number = fn.number()
        has_none = fn.compare("eq", node, none, "ptr")
        fn.branch(has_none, f"free{number}", f"noded{number}")
        fn.label(f"noded{number}")
        place = self.address(f"py_{self.spec.name}_recording", recording.address)
        self.kept.append(recording.holder)
        self.require_equal("ptr", fn.load("ptr", place), self.object(recording.expected))
        fn.jump(f"free{number}")
        fn.label(f"free{number}")

    def check_number(self, kind: str, argument: str) -> None:
        """A Python float, or an int that fits; its value goes to the stack."""
        fn = self.fn
        builtin: type = float if kind == "float" else int
        wanted = self.object(builtin, f"py_{kind}_type")
        self.require_equal("ptr", self.field(argument, layout.OBJECT_TYPE), wanted)
        place = fn.alloca(8, 8)
        if kind == "float":
            value = self.field(argument, layout.FLOAT_VALUE, "double")
            fn.store("double", value, place)
        else:
            overflow = fn.alloca(4, 4)
            value = fn.call(
                "i64", "PyLong_AsLongLongAndOverflow", ("ptr", argument), ("ptr", overflow)
            )
            self.require_equal("i32", fn.load("i32", overflow, 4), 0)
            fn.store("i64", value, place)
        self.checked.append((True, place))

    def check_array(self, array: str, dtype: DType | None, shape: Shape) -> None:
        """An ndarray of this dtype and shape, aligned, C-contiguous, in native byte order."""
        if dtype is None:
            raise ValueError("build_entry: an array needs a dtype")
        fn = self.fn
        ndarray = self.object(np.ndarray, "py_ndarray")
        self.require(fn.compare("ne", array, "null", "ptr"))
        self.require_equal("ptr", self.field(array, layout.OBJECT_TYPE), ndarray)
        self.require_equal("i32", self.field(array, layout.ARRAY_NDIM, "i32"), len(shape))
        self.require_equal("ptr", self.field(array, layout.ARRAY_DESCR), self.dtype(dtype))
        flags = self.field(array, layout.ARRAY_FLAGS, "i32")
        wanted = layout.C_CONTIGUOUS_ALIGNED
        self.require_equal("i32", fn.value(f"and i32 {flags}, {wanted}"), wanted)
        if shape:
            dimensions = self.field(array, layout.ARRAY_DIMENSIONS)
            for axis, extent in enumerate(shape):
                self.require_equal("i64", self.field(dimensions, 8 * axis, "i64"), extent)

    def check_cells(self) -> None:
        """The captured arrays."""
        for cell in self.spec.captures:
            holder = self.object(cell.holder)
            if cell.slot is None:
                self.check_array(holder, cell.dtype, cell.shape)
                self.checked.append((False, holder))
                continue
            if cell.node_slot is not None:
                self.check_node(
                    self.field(holder, layout.slot_offset(type(cell.holder), cell.node_slot))
                )
            array = self.field(holder, layout.slot_offset(type(cell.holder), cell.slot))
            self.check_array(array, cell.dtype, cell.shape)
            self.owned.append(array)
            self.checked.append((False, array))

    # -- the call itself

    def own_inputs(self) -> None:
        """Takes references, and reads the data pointers. From here on Python code may run."""
        for array in self.owned:
            self.fn.call("void", "Py_IncRef", ("ptr", array))
        for is_data, name in self.checked:
            self.data.append(name if is_data else self.field(name, layout.ARRAY_DATA))

    def release(self, names: list[str]) -> None:
        """Gives references back."""
        for name in names:
            self.fn.call("void", "Py_DecRef", ("ptr", name))

    def leave(self, result: str, names: list[str]) -> None:
        """Ends the function early, after giving references back."""
        self.release(names)
        self.fn.line(f"ret ptr {result}")

    def check_made(self, made: str) -> None:
        """Ends the function with the error that is set if an object could not be made."""
        number = self.fn.number()
        missing = self.fn.compare("eq", made, "null", "ptr")
        self.fn.branch(missing, f"failed{number}", f"made{number}")
        self.fn.label(f"failed{number}")
        self.leave("null", [*self.made, *self.owned])
        self.fn.label(f"made{number}")
        self.made.append(made)

    def make_outputs(self) -> list[str]:
        """New arrays, wrapped where tensors are returned; the objects, one per output."""
        outputs = []
        for out in self.spec.outputs:
            if out.kind == "object":
                value = self.object(out.target)
                self.fn.call("void", "Py_IncRef", ("ptr", value))
                self.made.append(value)
                outputs.append(value)
                continue
            array = self.recycled_array(out) if is_recycled(out) else self.new_array(out)
            self.data.append(self.field(array, layout.ARRAY_DATA))
            outputs.append(self.new_tensor(array) if out.kind == "tensor" else array)
        return outputs

    def new_array(self, out: OutSpec) -> str:
        """A fresh C-ordered array, which joins `made`."""
        if out.dtype is None:
            raise ValueError("build_entry: an output needs a dtype")
        descr = self.dtype(out.dtype)
        shape = "null"
        if out.shape:
            name = f"@{self.spec.name}_shape{len(self.constants)}"
            extents = ", ".join(f"i64 {extent}" for extent in out.shape)
            self.constants.append(
                f"{name} = private unnamed_addr constant [{len(out.shape)} x i64] [{extents}]"
            )
            shape = name
        self.symbols["PyArray_NewFromDescr"] = layout.numpy_api().new_from_descr
        self.fn.call("void", "Py_IncRef", ("ptr", descr))
        array = self.fn.call(
            "ptr", "PyArray_NewFromDescr", ("ptr", self.object(np.ndarray, "py_ndarray")),
            ("ptr", descr), ("i32", len(out.shape)), ("ptr", shape), ("ptr", "null"),
            ("ptr", "null"), ("i32", 0), ("ptr", "null"),
        )  # fmt: skip
        self.check_made(array)
        return array

    def recycled_array(self, out: OutSpec) -> str:
        """The array of the last call if nobody but the pool holds it any more, else a fresh one,
        which the pool keeps from now on. The pool is a list, so the array dies with the entry."""
        fn, number = self.fn, self.fn.number()
        reuse, fresh, done = f"reuse{number}", f"fresh{number}", f"array{number}"
        pool: list[Any] = [None]
        self.kept.append(pool)
        address = layout.list_item_address(pool, 0)
        place = self.address(f"py_{self.spec.name}_pool{number}", address)
        last = fn.load("ptr", place)
        unshared = fn.compare("eq", fn.load("i64", fn.offset(last, layout.OBJECT_REFCOUNT)), 1)
        fn.branch(unshared, reuse, fresh)
        fn.label(reuse)
        fn.call("void", "Py_IncRef", ("ptr", last))
        fn.jump(done)
        fn.label(fresh)
        array = self.new_array(out)
        fn.call("void", "Py_IncRef", ("ptr", array))
        before = fn.load("ptr", place)
        fn.store("ptr", array, place)
        fn.call("void", "Py_DecRef", ("ptr", before))
        end_of_fresh = fn.block
        fn.jump(done)
        fn.label(done)
        either = fn.value(f"phi ptr [ {last}, %{reuse} ], [ {array}, %{end_of_fresh} ]")
        self.made[self.made.index(array)] = either
        return either

    def new_tensor(self, array: str) -> str:
        """A tensor that takes over the reference to the array, which was made last."""
        fn, cls = self.fn, self.spec.tensor_class
        type_ = self.object(cls, "py_tensor_type")
        tensor = fn.call("ptr", "PyType_GenericAlloc", ("ptr", type_), ("i64", 0))
        self.check_made(tensor)
        self.made.remove(array)
        none = self.object(None, "py_none")
        fn.store("ptr", array, fn.offset(tensor, layout.slot_offset(cls, "_value")))
        fn.call("void", "Py_IncRef", ("ptr", none))
        fn.store("ptr", none, fn.offset(tensor, layout.slot_offset(cls, "_node")))
        return tensor

    def run(self) -> None:
        """Calls the code; a miss if it reports an error."""
        fn = self.fn
        pointers = fn.alloca(8 * max(1, len(self.data)), 8)
        for position, place in enumerate(self.data):
            fn.store("ptr", place, fn.offset(pointers, 8 * position))
        if self.spec.long_running:
            thread = fn.call("ptr", "PyEval_SaveThread")
            status = fn.call_defined("i64", f"@{self.spec.run}", ("ptr", pointers))
            fn.call("void", "PyEval_RestoreThread", ("ptr", thread))
        else:
            status = fn.call_defined("i64", f"@{self.spec.run}", ("ptr", pointers))
        fn.branch(fn.compare("eq", status, 0), "succeeded", "refused")
        fn.label("refused")
        self.release([*self.made, *self.owned])
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
                self.made.remove(made)
        self.release([*before, *self.owned])
        self.owned.clear()

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
            kind = "PyTuple" if structure == "tuple" else "PyList"
            result = fn.call("ptr", f"{kind}_New", ("i64", len(returned)))
            self.check_made(result)
            for position, item in enumerate(returned):
                fn.call("i32", f"{kind}_SetItem", ("ptr", result), ("i64", position), ("ptr", item))
        fn.line(f"ret ptr {result}")
        fn.label("miss")
        fn.line(f"ret ptr inttoptr (i64 {MISS} to ptr)")

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
