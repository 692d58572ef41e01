"""Compiles emitted functions and runs them on arrays, for the tests of code generation."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import cache
from itertools import count
from typing import Any

import numpy as np

from tapeline.compiler.codegen.builder import Builder
from tapeline.compiler.codegen.engine import Engine
from tapeline.compiler.codegen.parts import ModuleParts
from tapeline.compiler.codegen.target import Target, host_target, named_target
from tapeline.compiler.codegen.values import Value, code_of, size_of
from tapeline.runtime.spec import DType

HOST = host_target()
NARROW = named_target("x86-64-v3" if HOST.vector_bytes >= 32 else "generic")
"""A target without AVX-512 that this machine can run."""
BASELINE = named_target("generic")

Emit = Callable[..., Value]
Array = np.ndarray[Any, Any]
_numbers = count()


@cache
def engine_for(target: Target) -> Engine:
    """An engine that compiles for a target."""
    return Engine(target)


def elementwise_text(
    emit: Emit, inputs: Sequence[DType], output: DType, lanes: int, name: str, target: Target
) -> str:
    """A module with `void name(ptr in, ..., ptr out, i64 n)`, n a multiple of `lanes`."""
    parts = ModuleParts()
    b = Builder(parts, target)
    arguments = [f"%x{i}" for i in range(len(inputs))]
    zero, step, n = b.fixed(0, "i8"), b.fixed(lanes, "i8"), Value("%n", "i8", 1)
    b.branch("loop")
    b.start_block("loop")
    index = b.open_phi(zero, "entry")

    def pointer(base: str, dtype: DType) -> str:
        size = b.fixed(size_of(code_of(dtype)), "i8")
        return b.pointer_offset(base, b.mul(index.value, size))

    values = [
        b.load(pointer(x, dtype), code_of(dtype), lanes)
        for x, dtype in zip(arguments, inputs, strict=True)
    ]
    result = b.splat(emit(b, *values), lanes)
    assert result.code == code_of(output), (result.code, output)
    b.store(result, pointer("%out", output))
    following = b.add(index.value, step)
    b.close_phi(index, (following, b.current))
    b.branch_if(b.compare("lt", following, n), "loop", "end")
    b.start_block("end")
    b.line("ret void")
    head = ", ".join(f"ptr {x}" for x in [*arguments, "%out"])
    return f"{parts.text()}define void @{name}({head}, i64 %n) nounwind {{\nentry:\n{b.body()}}}\n"


def run_elementwise(
    emit: Emit, arrays: Sequence[Array], output: Any, lanes: int, target: Target = HOST
) -> Array:
    """What `emit` computes of the arrays' elements, `lanes` at a time."""
    n = len(arrays[0])
    padded = -(-n // lanes) * lanes
    arrays = [np.concatenate([x, np.repeat(x[-1:], padded - n)]) for x in arrays]
    out = np.empty(padded, output)
    name = f"kernel{next(_numbers)}"
    inputs = [x.dtype for x in arrays]
    text = elementwise_text(emit, inputs, np.dtype(output), lanes, name, target)
    module = engine_for(target).compile_module(text, {}, [name])
    signature = [ctypes.c_void_p] * (len(arrays) + 1) + [ctypes.c_int64]
    function = ctypes.CFUNCTYPE(None, *signature)(module.address(name))
    function(*(x.ctypes.data for x in arrays), out.ctypes.data, padded)
    del module  # only now may the code be freed
    return out[:n]


def run_body(
    emit: Callable[..., None], arrays: Sequence[Array | int], n: int = 0, target: Target = HOST
) -> None:
    """Runs `emit(b, *pointers, n)` as the body of a function; arrays may also be addresses."""
    parts = ModuleParts()
    b = Builder(parts, target)
    arguments = [f"%a{i}" for i in range(len(arrays))]
    emit(b, *arguments, Value("%n", "i8", 1))
    name = f"body{next(_numbers)}"
    head = "".join(f"ptr {x}, " for x in arguments)
    text = f"{parts.text()}define void @{name}({head}i64 %n) nounwind {{\nentry:\n{b.body()}"
    module = engine_for(target).compile_module(text + "  ret void\n}\n", {}, [name])
    signature = [ctypes.c_void_p] * len(arrays) + [ctypes.c_int64]
    function = ctypes.CFUNCTYPE(None, *signature)(module.address(name))
    function(*(x if isinstance(x, int) else x.ctypes.data for x in arrays), n)
    del module  # only now may the code be freed
