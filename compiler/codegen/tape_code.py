"""Machine code for what gradient tapes do again and again: gradients over plain arrays.

Each function does what the Python function of the same name does, which stays: it serves until
this is installed, wherever native code is not allowed, and every case out of the ordinary.
`install` is called when compiled calls are recorded, for LLVM is loaded then anyway, and when a
program has asked for many gradients.
"""

from __future__ import annotations

import ctypes
import functools
import inspect
from types import FunctionType
from typing import TYPE_CHECKING, Any

import numpy as np

from tapeline.compiler.codegen import layout, op_code, tape_methods
from tapeline.compiler.codegen.entry_runtime import runtime_symbols
from tapeline.compiler.codegen.function_text import FunctionText
from tapeline.compiler.codegen.object_text import release_frame
from tapeline.compiler.codegen.op_code import builtin
from tapeline.compiler.codegen.tape_gradient import GradientText
from tapeline.compiler.codegen.tape_text import MISSED, TapeText, call_method
from tapeline.compiler.codegen.tape_walk import WalkText
from tapeline.runtime import array_walk, backprop, record, walk
from tapeline.runtime.dispatch import BUSY, RECORDING
from tapeline.runtime.gradient_tape import GradientTape
from tapeline.runtime.op import Op
from tapeline.runtime.record import TapeSet
from tapeline.runtime.recorder import Tape
from tapeline.runtime.tensor import Tensor
from tapeline.runtime.variable import Variable

if TYPE_CHECKING:
    from tapeline.compiler.codegen.engine import CompiledModule

_METHODS = [
    (cls, name, function)
    for cls, names in (
        (Tape, ("__del__",)),
        (GradientTape, ("__enter__", "__exit__", "watch", "gradient")),
    )
    for name in names
    if type(function := vars(cls)[name]) is FunctionType and function.__module__ == cls.__module__
]
"""The methods that machine code serves, as they are in Python."""
NATIVE_METHODS: list[tuple[type, str, Any, Any]] = []
"""Class, name, what Python has and what was put in its place."""


@functools.cache
def install() -> bool:
    """Lets machine code compute gradients from now on; False where it is not allowed."""
    if not layout.native_entry_allowed():
        return False
    module = _compile()
    array_walk.WALKER[0] = builtin("walk_arrays", module.address("tapeline_walk_arrays"))
    backprop.GRADIENT_OF[0] = builtin("gradient_of", module.address("tapeline_gradient_of"))
    op_code.install()
    for cls, name, function in _METHODS:
        if vars(cls).get(name) is function:  # nobody has put another one there
            address = module.address(f"tapeline_{name}")
            made = op_code.method(cls, name, address, _described(function), takes_names=True)
            NATIVE_METHODS.append((cls, name, function, made))
            setattr(cls, name, made)
    return True


def _described(function: Any) -> str:
    """The signature of a method, as `inspect` finds it in the text of machine code, and its
    docstring."""
    signature = inspect.signature(function)
    bare = [
        parameter.replace(annotation=inspect.Parameter.empty)
        for parameter in signature.parameters.values()
    ]
    shown = str(signature.replace(parameters=bare, return_annotation=inspect.Signature.empty))
    return f"{function.__name__}($self{shown.removeprefix('(self')}\n--\n\n{function.__doc__ or ''}"


def _objects() -> dict[str, Any]:
    """What machine code calls by name."""
    return {
        "py_none": None,
        "py_true": True,
        "py_false": False,
        "py_zero": 0,
        "py_one": 1,
        "py_empty_tuple": (),
        "py_active": "active",
        "py_sparse": "sparse",
        "py_masked": "masked",
        "py_shape": "shape",
        "py_tuple_type": tuple,
        "py_list_type": list,
        "py_ndarray": np.ndarray,
        "py_op_type": Op,
        "py_tensor_type": Tensor,
        "py_variable_type": Variable,
        "py_tape_set_type": TapeSet,
        "py_gradient_tape_type": GradientTape,
        "py_open": "open",
        "py_stopped": "stopped",
        "py_discard": "discard",
        "py_tape_ids": record.TAPE_IDS,
        "py_recording": RECORDING,
        "py_own_sets": record.OWN,
        "py_no_tapes": record.EMPTY,
        "py_release": record.release,
        "py_push": array_walk.push,
        "py_pop": array_walk.pop,
        "py_push_pop": array_walk.push_pop,
        "py_accumulate": array_walk.accumulate,
        "py_reject_parts": walk.reject_parts,
        "py_filled": walk.filled,
        "py_float32": np.dtype("float32"),
        "py_float64": np.dtype("float64"),
        "py_one_float32": walk.filled(1, (), np.dtype("float32")),
        "py_one_float64": walk.filled(1, (), np.dtype("float64")),
        "py_as_cotangent": array_walk.as_cotangent,
        "py_gradient_of": backprop.gradient_of,
        "py_finish": walk.finish_walk,
        "py_settle": backprop.settle,
        "py_abandon": backprop.abandon_walk,
    }


def _compile() -> CompiledModule:
    """The machine code, kept for as long as the process lives."""
    from tapeline.compiler.codegen.engine import get_engine  # loads llvmlite

    objects = _objects()
    symbols = {name: id(value) for name, value in objects.items()}
    symbols |= {f"py_{name}": id(function) for _, name, function in _METHODS}
    spare, last_seed, locked = [None, None], [None], ctypes.c_int64(1)
    symbols["py_spare_set"] = layout.list_item_address(spare, 0)
    symbols["py_last_seed"] = layout.list_item_address(last_seed, 0)
    word = layout.lock_word_address(record.LOCK)
    symbols["py_lock_word"] = ctypes.addressof(locked) if word is None else word
    symbols["py_busy"] = layout.list_item_address(BUSY, 0)
    symbols["py_cells"] = layout.dict_size_address(record.CELLS)
    symbols["py_combined"] = layout.dict_size_address(record.COMBINED)
    functions = [
        release_frame(),
        call_method(),
        WalkText().write(),
        _walker(),
        GradientText().write(),
        _gradient_of(),
        tape_methods.enter_text(),
        tape_methods.exit_text(),
        tape_methods.drop_text(),
        tape_methods.watch_text(),
        tape_methods.gradient_text(),
    ]
    exports = ["tapeline_walk_arrays", "tapeline_gradient_of"]
    exports += [f"tapeline_{name}" for _, name, _ in _METHODS]
    declarations = sorted(set().union(*(fn.declarations for fn in functions)))
    declarations += [f"@{name} = external global i8" for name in symbols]
    text = "\n".join([*declarations, *(fn.text() for fn in functions)])
    module = get_engine().compile_module(text, symbols | runtime_symbols(Tensor), exports)
    layout.keep_for_ever([objects, _METHODS, spare, last_seed, locked, module])
    return module


def _walker() -> FunctionText:
    """`walk_arrays` as Python calls it."""
    fn = FunctionText("ptr @tapeline_walk_arrays(ptr %self, ptr %args, i64 %count) nounwind")
    given = [fn.load("ptr", fn.offset("%args", 8 * number)) for number in range(6)]
    low = fn.call("i64", "PyLong_AsLongLong", ("ptr", given[2]))
    result = fn.call_defined(
        "ptr", "@walk_arrays", ("ptr", given[0]), ("ptr", given[1]), ("i64", low),
        *(("ptr", each) for each in given[3:]),
    )  # fmt: skip
    fn.line(f"ret ptr {result}")
    return fn


def _gradient_of() -> FunctionText:
    """`gradient_of` as Python calls it, with a list or tuple of sources."""
    header = "ptr @tapeline_gradient_of(ptr %self, ptr %args, i64 %count) nounwind"
    text = TapeText(header, ("row",))
    fn = text.fn
    text.branch_if(fn.compare("ne", "%count", 3), "python")
    tape, target, sources = (fn.load("ptr", fn.offset("%args", 8 * k)) for k in range(3))
    text.take_row("row", sources, "python")
    answer = fn.call_defined(
        "ptr", "@gradient_of", ("ptr", tape), ("ptr", target), ("ptr", text.get("row")),
        ("ptr", "@py_list_type"),
    )  # fmt: skip
    text.branch_if(text.same(answer, MISSED), "python")
    text.give_up()
    fn.line(f"ret ptr {answer}")
    fn.label("python")
    text.give_up()
    result = fn.call(
        "ptr", "PyObject_Vectorcall", ("ptr", "@py_gradient_of"), ("ptr", "%args"),
        ("i64", "%count"), ("ptr", "null"),
    )  # fmt: skip
    fn.line(f"ret ptr {result}")
    fn.label("failed")
    text.give_up()
    fn.line("ret ptr null")
    return fn
