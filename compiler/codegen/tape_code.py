"""Machine code for what gradient tapes do again and again: gradients over plain arrays.

Each function does what the Python function of the same name does, which stays: it serves until
this is installed, wherever native code is not allowed, and every case out of the ordinary.
`install` is called when compiled calls are recorded, for LLVM is loaded then anyway, and when a
program has asked for many gradients.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import numpy as np

from tapeline.compiler.codegen import layout, op_code
from tapeline.compiler.codegen.entry_runtime import runtime_symbols
from tapeline.compiler.codegen.function_text import FunctionText
from tapeline.compiler.codegen.object_text import release_frame
from tapeline.compiler.codegen.op_code import builtin
from tapeline.compiler.codegen.tape_gradient import GradientText
from tapeline.compiler.codegen.tape_walk import WalkText
from tapeline.runtime import array_walk, backprop, record, walk
from tapeline.runtime.dispatch import BUSY
from tapeline.runtime.op import Op
from tapeline.runtime.record import TapeSet
from tapeline.runtime.tensor import Tensor
from tapeline.runtime.variable import Variable

if TYPE_CHECKING:
    from tapeline.compiler.codegen.engine import CompiledModule

_KEPT: list[Any] = []
"""What CPython or machine code points to for as long as the process lives."""


@functools.cache
def install() -> bool:
    """Lets machine code compute gradients from now on; False where it is not allowed."""
    if not layout.native_entry_allowed():
        return False
    module = _compile()
    array_walk.WALKER[0] = builtin("walk_arrays", module.address("tapeline_walk_arrays"))
    backprop.GRADIENT_OF[0] = builtin("gradient_of", module.address("tapeline_gradient_of"))
    op_code.install()
    return True


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
        "py_own_sets": record.OWN,
        "py_no_tapes": record.EMPTY,
        "py_lock": record.LOCK.acquire,
        "py_unlock": record.LOCK.release,
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
    symbols["py_busy"] = layout.list_item_address(BUSY, 0)
    symbols["py_cells"] = layout.dict_size_address(record.CELLS)
    symbols["py_combined"] = layout.dict_size_address(record.COMBINED)
    functions = [release_frame(), WalkText().write(), _walker(), GradientText().write()]
    declarations = sorted(set().union(*(fn.declarations for fn in functions)))
    declarations += [f"@{name} = external global i8" for name in symbols]
    text = "\n".join([*declarations, *(fn.text() for fn in functions)])
    module = get_engine().compile_module(
        text, symbols | runtime_symbols(Tensor), ["tapeline_walk_arrays", "tapeline_gradient_of"]
    )
    _KEPT.extend([objects, module])
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
