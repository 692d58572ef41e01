"""Puts machine code in the place of the closures of `operators`, which it calls where it must.

Operators of tensors become methods of their class made of machine code, and the op files' own names
for closures are bound to functions made of it. What they mean stays what the closures mean.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tapeline.compiler.codegen import layout, op_text
from tapeline.compiler.codegen.entry_runtime import runtime_symbols
from tapeline.compiler.codegen.function_text import FunctionText
from tapeline.compiler.codegen.object_text import release_frame
from tapeline.compiler.codegen.op_text import FIELDS, SAVED, ApplyText, caller_text
from tapeline.runtime import operators
from tapeline.runtime.dispatch import BUSY
from tapeline.runtime.op import OUT, DTypeOf, Op, ShapeOf
from tapeline.runtime.operators import Closure
from tapeline.runtime.promotion import constant
from tapeline.runtime.record import TapeSet
from tapeline.runtime.tensor import Tensor

if TYPE_CHECKING:
    from tapeline.compiler.codegen.engine import CompiledModule

_FASTCALL = 0x80
_KEYWORDS = 0x02
_OP_FILES = "tapeline.runtime.ops."
FUNCTIONS: list[tuple[Closure, Any]] = []
METHODS: list[tuple[Closure, Any]] = []
"""What was put in the place of closures."""


class MethodDef(ctypes.Structure):
    """CPython's description of a function made of machine code."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


def builtin(name: str, address: int) -> Any:
    """A function that Python calls with positional arguments."""
    definition = MethodDef(name.encode(), address, _FASTCALL, None)
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.restype = ctypes.py_object
    make.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
    layout.keep_for_ever(definition)
    return make(ctypes.addressof(definition), None, None)


def method(cls: type, name: str, address: int, doc: str, takes_names: bool = False) -> Any:
    """The same as a method of a class. `inspect` looks for a signature at the head of the text."""
    flags = _FASTCALL | (_KEYWORDS if takes_names else 0)
    definition = MethodDef(name.encode(), address, flags, doc.encode())
    make = ctypes.pythonapi.PyDescr_NewMethod
    make.restype = ctypes.py_object
    make.argtypes = [ctypes.py_object, ctypes.c_void_p]
    layout.keep_for_ever(definition)
    return make(cls, ctypes.addressof(definition))


def install() -> None:
    """Lets machine code run ops on tensors from now on, where it can."""
    served = [closure for closure in operators.CLOSURES if _table(closure) is not None]
    tables = [_table(closure) for closure in served]
    module = _compile(served, tables)
    layout.keep_for_ever([served, tables, module])
    faster: dict[int, tuple[int, Any]] = {}
    for number, closure in enumerate(served):
        function = None
        if not closure.is_method:
            function = builtin(closure.op.name, module.address(f"function{number}"))
            FUNCTIONS.append((closure, function))
        faster[id(closure.function)] = number, function
    for name, value in list(vars(Tensor).items()):
        if id(value) in faster:
            number, _ = faster[id(value)]
            address = module.address(f"method{number}")
            operand = "" if served[number].n_inputs == 1 else ", other"
            made = method(Tensor, name, address, f"{name}($self{operand}, /)\n--\n\n")
            METHODS.append((served[number], made))
            setattr(Tensor, name, made)
    for module_name, file in list(sys.modules.items()):
        if module_name.startswith(_OP_FILES):
            for name, value in list(vars(file).items()):
                _, function = faster.get(id(value), (0, None))
                if function is not None:
                    setattr(file, name, function)


def _table(closure: Closure) -> Any | None:
    """The words that tell machine code about a closure; None if it cannot serve that."""
    op = closure.op
    codes = _codes(op)
    dtypes = closure.dtypes or ()
    if codes is None or len(dtypes) > op_text.MOST_DTYPES:
        return None
    if len(op.attr_names) > op_text.MOST_ATTRS or (op.attr_names and closure.n_inputs == 2):
        return None
    words = dict.fromkeys(FIELDS, 0)
    words["kernel"], words["op"] = id(op.kernel), id(op)
    words["slow"] = id(closure.function)
    words["records"] = int(closure.records)
    words["is_loose"] = int(closure.dtypes is None)
    for number, dtype in enumerate(dtypes):
        words[f"dtype{number}"] = id(np.dtype(dtype))
    words["n_attrs"] = len(op.attr_names)
    words["n_saves"] = len(codes)
    for number, code in enumerate(codes):
        words[f"save{number}"] = code
    return (ctypes.c_int64 * len(FIELDS))(*words.values())


def _codes(op: Op) -> list[int] | None:
    """What the op saves, by number in `SAVED`; None if that cannot be said so."""
    codes = []
    for item in op.saves:
        if isinstance(item, ShapeOf):
            codes.append(SAVED.index(f"shape of {'xy'[item.index]}"))
        elif isinstance(item, DTypeOf):
            codes.append(SAVED.index(f"dtype of {'xy'[item.index]}"))
        elif item in (0, 1):
            codes.append(SAVED.index("xy"[item]))
        elif item == OUT:
            codes.append(SAVED.index("out"))
        else:
            return None
    return codes if len(codes) <= op_text.MOST_SAVES else None


def _compile(served: Sequence[Closure], tables: Sequence[Any]) -> CompiledModule:
    from tapeline.compiler.codegen.engine import get_engine  # loads llvmlite

    objects = {
        "py_none": None,
        "py_zero": 0,
        "py_active": "active",
        "py_shape": "shape",
        "py_tuple_type": tuple,
        "py_float_type": float,
        "py_int_type": int,
        "py_exception": Exception,
        "py_ndarray": np.ndarray,
        "py_asarray": np.asarray,
        "py_constant": constant,
        "py_float32": np.dtype("float32"),
        "py_float64": np.dtype("float64"),
        "py_tensor_type": Tensor,
        "py_tape_set_type": TapeSet,
    }
    symbols = {name: id(value) for name, value in objects.items()}
    symbols["py_busy"] = layout.list_item_address(BUSY, 0)
    functions = [
        release_frame(),
        ApplyText(1).write(),
        ApplyText(2).write(),
        caller_text("call_unary", 1, False, False),
        caller_text("call_unary_attrs", 1, False, True),
        caller_text("call_unary_method", 1, True, False),
        caller_text("call_binary", 2, False, False),
        caller_text("call_binary_method", 2, True, False),
    ]
    exports = []
    for number, (closure, table) in enumerate(zip(served, tables, strict=True)):
        symbols[f"py_table{number}"] = ctypes.addressof(table)
        kind = "unary" if closure.n_inputs == 1 else "binary"
        if closure.op.attr_names:
            callers = {"function": f"call_{kind}_attrs"}
        elif closure.is_method:
            callers = {"method": f"call_{kind}_method"}
        else:
            callers = {"function": f"call_{kind}", "method": f"call_{kind}_method"}
        for role, caller in callers.items():
            exports.append(f"{role}{number}")
            functions.append(_stub(exports[-1], caller, f"@py_table{number}"))
    declarations = sorted(set().union(*(fn.declarations for fn in functions)))
    declarations += [f"@{name} = external global i8" for name in symbols]
    text = "\n".join([*declarations, *(fn.text() for fn in functions)])
    layout.keep_for_ever(objects)
    return get_engine().compile_module(text, symbols | runtime_symbols(Tensor), exports)


def _stub(name: str, caller: str, table: str) -> FunctionText:
    """What Python calls for one closure."""
    fn = FunctionText(f"ptr @{name}(ptr %self, ptr %args, i64 %count) nounwind")
    result = fn.call_defined(
        "ptr", f"@{caller}", ("ptr", table), ("ptr", "%self"), ("ptr", "%args"), ("i64", "%count")
    )
    fn.line(f"ret ptr {result}")
    return fn
