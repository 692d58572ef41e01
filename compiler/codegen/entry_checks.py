"""The guards of a native entry: is this call what the spec says?

No Python code runs while they are checked, so what is read stays as it is until it is owned.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tapeline.compiler.codegen import layout
from tapeline.compiler.codegen.entry_runtime import runtime_symbols
from tapeline.compiler.codegen.entry_spec import ArgSpec, CellGuard, EntrySpec, Recording
from tapeline.compiler.codegen.function_text import FunctionText, Value
from tapeline.runtime.record import Node, TapeSet
from tapeline.runtime.spec import DType, Shape

_UNROLLED_LEAVES = 6


@dataclass(slots=True)
class EntryChecks:
    """The part of an entry up to the point where the call is known to be served."""

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
    made: list[tuple[str, int]] = field(default_factory=list)
    """References that the entry holds, by name, and where in memory they stand."""
    placed: set[int] = field(default_factory=set)
    """Outputs that have their place in the result already."""
    leaves: list[str] = field(default_factory=list)
    active: str = ""
    """The set of the tapes that record now."""
    nodes: dict[int, str] = field(default_factory=dict)
    """The nodes of the inputs that these tapes watch, by position."""

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
        self.require_equal("i64", count, len(spec.args) - len(spec.keywords))
        self.check_keywords()
        for number, guard in enumerate(spec.guards):
            place = self.address(f"py_{spec.name}_guard{number}", guard.address)
            self.kept.append(guard.holder)
            if guard.is_object:
                self.require_equal("ptr", fn.load("ptr", place), self.object(guard.expected))
            else:
                self.require_equal("i64", fn.load("i64", place), guard.expected)
        if spec.check is not None:
            self.ask(spec.check)
        if spec.recorded is not None:
            self.find_active(spec.recorded)
        for number, arg in enumerate(spec.args):
            self.check_argument(arg, fn.load("ptr", fn.offset("%args", 8 * number)))
        self.check_same()
        if spec.order is not None:
            self.checked = [self.checked[number] for number in spec.order]

    def check_keywords(self) -> None:
        """The names of the keyword arguments, in the order of the call."""
        fn, keywords = self.fn, self.spec.keywords
        if not keywords:
            self.require_equal("ptr", "%kwnames", "null")
            return
        self.require(fn.compare("ne", "%kwnames", "null", "ptr"))
        count = self.field("%kwnames", layout.VAR_SIZE, "i64")
        self.require_equal("i64", count, len(keywords))
        for number, name in enumerate(keywords):
            given = self.field("%kwnames", layout.TUPLE_ITEMS + 8 * number)
            self.require_equal("ptr", given, self.object(name))

    def check_same(self) -> None:
        """Which tensors and arrays are one object, where it matters."""
        same, leaves = self.spec.same, self.leaves
        if same is None:
            return
        if len(leaves) > _UNROLLED_LEAVES and len(set(same)) == len(leaves):
            self.check_distinct()
            return
        for j in range(len(leaves)):
            for i in range(j):
                if same[i] == i:
                    wanted = "eq" if same[j] == i else "ne"
                    self.require(self.fn.compare(wanted, leaves[i], leaves[j], "ptr"))

    def check_distinct(self) -> None:
        """No two leaves are one object, by a loop."""
        fn, count = self.fn, len(self.leaves)
        pointers = fn.alloca(8 * count, 8)
        for position, leaf in enumerate(self.leaves):
            fn.store("ptr", leaf, fn.offset(pointers, 8 * position))

        def outer(j: str, _: list[str]) -> None:
            later = fn.load("ptr", fn.offset(pointers, fn.mul(j, 8)))

            def inner(i: str, _: list[str]) -> None:
                earlier = fn.load("ptr", fn.offset(pointers, fn.mul(i, 8)))
                self.require(fn.compare("ne", earlier, later, "ptr"))

            fn.loop(0, j, 1, inner)

        fn.loop(0, count, 1, outer)

    def check_argument(self, arg: ArgSpec, argument: str) -> None:
        """One argument or item; the data pointers in it join `checked`."""
        if arg.kind == "object":
            self.require_equal("ptr", argument, self.object(arg.value))
        elif arg.kind == "weak":
            self.check_referent(arg.value, argument)
        elif arg.kind in ("float", "int"):
            self.checked.append((True, self.check_number(arg.kind, argument, arg.value)))
        elif arg.kind == "constant":
            self.check_constant(arg.value, argument)
        elif arg.kind in ("tuple", "list"):
            self.check_row(arg, argument)
        elif arg.kind == "dict":
            self.check_dict(arg, argument)
        elif arg.kind == "array":
            self.leaves.append(argument)
            self.check_array(argument, arg.dtype, arg.shape)
            self.checked.append((False, argument))
        else:
            self.check_value(arg, argument)

    def check_referent(self, reference: Any, argument: str) -> None:
        """The object of a weak reference. One that is dead refers to None."""
        self.require_equal("ptr", self.field(self.object(reference), layout.REFERENT), argument)
        none = self.object(None, "py_none")
        self.require(self.fn.compare("ne", argument, none, "ptr"))

    def check_value(self, arg: ArgSpec, argument: str) -> None:
        """A tensor, or (kind "value") an array."""
        spec = self.spec
        leaf = len(self.leaves)
        self.leaves.append(argument)
        if spec.recorded is not None:
            position = leaf if spec.order is None else spec.order.index(leaf)
            if position in spec.recorded.watched:
                self.check_watched(arg, argument, position)
                return
        if arg.kind == "tensor":
            cls = self.object(spec.tensor_class, "py_tensor_type")
            self.require_equal("ptr", self.field(argument, layout.OBJECT_TYPE), cls)
        if spec.recorded is not None:
            array = self.call_shared("ptr", "tapeline_unwatched_value", ("ptr", argument))
        else:
            recording = "null" if spec.recording is None else self.recording(spec.recording)
            array = self.call_shared("ptr", "tapeline_value", ("ptr", argument), ("ptr", recording))
        self.check_array(array, arg.dtype, arg.shape)
        self.owned.append(array)
        self.checked.append((False, array))

    def find_active(self, recorded: Recording) -> None:
        """The set of the tapes that record now in this thread; leaves where there are none."""
        fn, number = self.fn, self.fn.number()
        state = self.call_shared("ptr", "tapeline_state")
        fn.branch(fn.compare("eq", state, "null", "ptr"), f"unset{number}", f"known{number}")
        fn.label(f"known{number}")
        self.active = fn.call(
            "ptr", "PyDict_GetItemWithError", ("ptr", state), ("ptr", self.object("active"))
        )
        fn.branch(fn.compare("eq", self.active, "null", "ptr"), f"unset{number}", f"set{number}")
        fn.label(f"unset{number}")
        fn.call("void", "PyErr_Clear")
        fn.jump("miss")
        fn.label(f"set{number}")
        kind = self.object(TapeSet, "py_tape_set_type")
        self.require_equal("ptr", self.field(self.active, layout.OBJECT_TYPE), kind)
        self.owned.append(self.active)

    def check_watched(self, arg: ArgSpec, argument: str, position: int) -> None:
        """A tensor that the recording tapes know."""
        cls = self.spec.tensor_class
        kind = self.object(cls, "py_tensor_type")
        self.require_equal("ptr", self.field(argument, layout.OBJECT_TYPE), kind)
        node = self.field(argument, layout.slot_offset(cls, "_node"))
        self.require(self.fn.compare("ne", node, "null", "ptr"))
        self.require(self.fn.compare("ne", node, self.object(None, "py_none"), "ptr"))
        tapes = self.field(node, layout.slot_offset(Node, "tapes"))
        self.require_equal("ptr", tapes, self.active)
        array = self.field(argument, layout.slot_offset(cls, "_value"))
        self.check_array(array, arg.dtype, arg.shape)
        self.owned += [array, node]
        self.checked.append((False, array))
        self.nodes[position] = node

    def recording(self, guard: CellGuard) -> str:
        """The symbol of the count of recording tapes."""
        self.kept.append(guard.holder)
        return self.address(f"py_{self.spec.name}_recording", guard.address)

    def call_shared(self, result: str, name: str, *args: tuple[str, Value]) -> str:
        """A call of a function that all entries share."""
        self.symbols |= runtime_symbols(self.spec.tensor_class)
        return self.fn.call(result, name, *args)

    def shape(self, shape: Shape) -> str:
        """The symbol of a constant array of extents."""
        if not shape:
            return "null"
        name = f"@{self.spec.name}_shape_" + "_".join(map(str, shape))
        extents = ", ".join(f"i64 {extent}" for extent in shape)
        text = f"{name} = private unnamed_addr constant [{len(shape)} x i64] [{extents}]"
        if text not in self.constants:
            self.constants.append(text)
        return name

    def check_row(self, arg: ArgSpec, argument: str) -> None:
        """A tuple or list, and its items."""
        builtin = tuple if arg.kind == "tuple" else list
        wanted = self.object(builtin, f"py_{arg.kind}_type")
        self.require_equal("ptr", self.field(argument, layout.OBJECT_TYPE), wanted)
        self.require_equal("i64", self.field(argument, layout.VAR_SIZE, "i64"), len(arg.items))
        items = argument
        start = layout.TUPLE_ITEMS
        if arg.kind == "list":
            items, start = self.field(argument, layout.LIST_ITEMS), 0
        for position, item in enumerate(arg.items):
            self.check_argument(item, self.field(items, start + 8 * position))

    def check_dict(self, arg: ArgSpec, argument: str) -> None:
        """A dict with these very keys in this order, and its items."""
        fn = self.fn
        wanted = self.object(dict, "py_dict_type")
        self.require_equal("ptr", self.field(argument, layout.OBJECT_TYPE), wanted)
        size = fn.call("i64", "PyDict_Size", ("ptr", argument))
        self.require_equal("i64", size, len(arg.items))
        position, key, value = fn.alloca(8, 8), fn.alloca(8, 8), fn.alloca(8, 8)
        fn.store("i64", 0, position)
        items = []
        for known in arg.keys:
            found = fn.call(
                "i32", "PyDict_Next", ("ptr", argument), ("ptr", position), ("ptr", key),
                ("ptr", value),
            )  # fmt: skip
            self.require(fn.compare("ne", found, 0, "i32"))
            self.require_equal("ptr", fn.load("ptr", key), self.object(known))
            items.append(fn.load("ptr", value))
        for number in arg.order or range(len(items)):
            self.check_argument(arg.items[number], items[number])

    def ask(self, check: Callable[[], bool]) -> None:
        """Leaves unless a Python function says True; what it raises goes to the caller."""
        fn, number = self.fn, self.fn.number()
        answer = fn.call("ptr", "PyObject_CallNoArgs", ("ptr", self.object(check)))
        raised = fn.compare("eq", answer, "null", "ptr")
        fn.branch(raised, f"raised{number}", f"answered{number}")
        fn.label(f"raised{number}")
        fn.line("ret ptr null")
        fn.label(f"answered{number}")
        fn.call("void", "Py_DecRef", ("ptr", answer))  # True and False outlive this
        self.require_equal("ptr", answer, self.object(True, "py_true"))

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
        place = self.recording(recording)
        self.require_equal("i64", fn.load("i64", place), 0)
        fn.jump(f"free{number}")
        fn.label(f"free{number}")

    def check_constant(self, value: float, argument: str) -> None:
        """A Python number with this value."""
        kind = "float" if isinstance(value, float) else "int"
        place = self.check_number(kind, argument)
        bits = value
        if isinstance(value, float):
            bits = int.from_bytes(struct.pack("<d", value), "little", signed=True)
        self.require_equal("i64", self.fn.load("i64", place), int(bits))

    def check_number(self, kind: str, argument: str, like: float | None = None) -> str:
        """A Python float, or an int that fits; where on the stack its value is. If it is to be
        `like` another one, its sign is that of the other and it is neither 0 nor without bounds."""
        fn = self.fn
        builtin: type = float if kind == "float" else int
        wanted = self.object(builtin, f"py_{kind}_type")
        self.require_equal("ptr", self.field(argument, layout.OBJECT_TYPE), wanted)
        place = fn.alloca(8, 8)
        if kind == "float":
            value = self.field(argument, layout.FLOAT_VALUE, "double")
            fn.store("double", value, place)
            if like is not None:
                first, last = ("ogt", "olt") if like > 0 else ("olt", "ogt")
                self.require(fn.value(f"fcmp {first} double {value}, 0.0"))
                infinity = "0x7FF0000000000000" if like > 0 else "0xFFF0000000000000"
                self.require(fn.value(f"fcmp {last} double {value}, {infinity}"))
        else:
            overflow = fn.alloca(4, 4)
            value = fn.call(
                "i64", "PyLong_AsLongLongAndOverflow", ("ptr", argument), ("ptr", overflow)
            )
            self.require_equal("i32", fn.load("i32", overflow, 4), 0)
            fn.store("i64", value, place)
            if like is not None:
                low, high = (0, 1 << 31) if like > 0 else (-(1 << 31), 0)
                self.require(fn.compare("sgt", value, low, "i64"))
                self.require(fn.compare("slt", value, high, "i64"))
        return place

    def check_array(self, array: str, dtype: DType | None, shape: Shape) -> None:
        """An ndarray of this dtype and shape, aligned, C-contiguous, in native byte order."""
        if dtype is None:
            raise ValueError("build_entry: an array needs a dtype")
        fits = self.call_shared(
            "i1", "tapeline_check_array", ("ptr", array), ("ptr", self.dtype(dtype)),
            ("i64", len(shape)), ("ptr", self.shape(shape)),
        )  # fmt: skip
        self.require(fits)

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
