"""Native entries for concrete functions and for compiled graphs: what they check, run and return.

An entry serves the plain case of a signature: positional arguments that are tensors without history
or simple
constants, no trace and, where Variables are read, no tape. Everything else stays with the Python
path, which does
the same. Loaded at the first call that asks for an entry, since it needs codegen.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tapeline.compiler.codegen.engine import get_engine
from tapeline.compiler.codegen.entry import (
    ArgSpec,
    CellGuard,
    CellSpec,
    EntrySpec,
    OutSpec,
    Structure,
    build_entry,
    busy_guard,
)
from tapeline.compiler.codegen.native_call import NativeEntry
from tapeline.compiler.executable.executable import Executable
from tapeline.runtime.dispatch import BUSY, RECORDING
from tapeline.runtime.spec import canonical_dtype
from tapeline.runtime.tensor import Tensor

if TYPE_CHECKING:
    from tapeline.compiler.concrete import ConcreteFunction
    from tapeline.compiler.frontend.signature import Call

LONG_WORK = 100_000
"""Element operations from which on the GIL is released: some 20 microseconds."""


def build_native_entry(
    spec: EntrySpec, executable: Executable, following: NativeEntry | None
) -> NativeEntry:
    """The entry that runs the code of an executable."""
    code = build_entry(spec)
    symbols = {**code.symbols, spec.run: executable.code.address("run")}
    declarations = sorted({*code.declarations, f"declare i64 @{spec.run}(ptr)"})
    text = "\n".join([*declarations, code.text])
    module = get_engine().compile_module(text, symbols, [spec.name])
    return NativeEntry(module.address(spec.name), (module, code.kept, executable), following)


def array_entry(executable: Executable) -> NativeEntry:
    """The entry from arrays to arrays: one, or a tuple of them."""
    graph = executable.graph
    args = tuple(
        ArgSpec("array", graph.spec(node).dtype, graph.spec(node).static_shape)
        for node in graph.placeholders
    )
    outputs = tuple(
        OutSpec("array", graph.spec(node).dtype, graph.spec(node).static_shape)
        for node in graph.outputs
    )
    spec = EntrySpec(
        args=args,
        outputs=outputs,
        tensor_class=Tensor,
        structure="single" if len(outputs) == 1 else "tuple",
        on_error=executable.fail,
        long_running=is_long(executable),
    )
    return build_native_entry(spec, executable, None)


def function_entry(
    concrete: ConcreteFunction, call: Call, following: NativeEntry | None
) -> NativeEntry | None:
    """The entry for calls such as `call`; None where only the Python path can serve them."""
    args = _arguments(concrete, call)
    if args is None or concrete.writes_cells:
        return None
    outputs, structure, builder = _results(concrete)
    captures = tuple(_cell(source) for source in concrete.hidden_inputs)
    guards: list[CellGuard] = [busy_guard(BUSY)]
    if concrete.variables:
        guards.append(busy_guard(RECORDING))
    executable = concrete.differentiable.compiled.executable()
    spec = EntrySpec(
        args=args,
        outputs=outputs,
        tensor_class=Tensor,
        captures=captures,
        structure=structure,
        builder=builder,
        guards=tuple(guards),
        recording=busy_guard(RECORDING),
        same=_aliases(call.args),
        on_error=executable.fail,
        long_running=is_long(executable),
    )
    return build_native_entry(spec, executable, following)


def is_long(executable: Executable) -> bool:
    """Whether the code runs so long that it pays to release the GIL. Host calls need the GIL
    anyway."""
    if executable.module.hosts:
        return False
    work = sum(launch.work for k in executable.module.kernels if k for launch in k.launches)
    return work >= LONG_WORK


def _arguments(concrete: ConcreteFunction, call: Call) -> tuple[ArgSpec, ...] | None:
    if call.kwargs:
        return None
    specs = []
    for value in call.args:
        if type(value) is Tensor:
            specs.append(ArgSpec("tensor", value.dtype, value.shape))
        elif type(value) is np.ndarray:
            if canonical_dtype(value.dtype) is not value.dtype:
                return None
            specs.append(ArgSpec("array", value.dtype, value.shape))
        elif is_unique(value):
            specs.append(ArgSpec("object", value=value))
        else:
            return None
    return tuple(specs)


def is_unique(value: Any) -> bool:
    """Whether equal values of this kind are always the same object, which may live for ever."""
    if value is None or type(value) is bool:
        return True
    return type(value) is int and -5 <= value <= 256  # CPython makes these once


def _aliases(args: Sequence[Any]) -> tuple[int, ...] | None:
    """Per argument the first one that is the same tensor or array."""
    if sum(type(value) is Tensor or type(value) is np.ndarray for value in args) < 2:
        return None
    first: dict[int, int] = {}
    return tuple(first.setdefault(id(value), position) for position, value in enumerate(args))


def _cell(source: Any) -> CellSpec:
    if isinstance(source, np.ndarray):
        return CellSpec(source, source.dtype, source.shape, slot=None)
    if type(source) is Tensor:
        return CellSpec(source, source.dtype, source.shape)
    return CellSpec(source, source.dtype, source.shape, node_slot=None)


def _results(concrete: ConcreteFunction) -> tuple[tuple[OutSpec, ...], Structure, Any]:
    """What the entry makes and returns: the results, then new values of Variables."""
    outputs = [OutSpec("tensor", s.dtype, s.static_shape) for s in concrete.outputs]
    outputs += [
        OutSpec("store", variable.dtype, variable.shape, variable)
        for variable in concrete.assigned_variables
    ]
    shape = concrete.result_shape
    if shape == "other":
        return tuple(outputs), "call", concrete.pack
    return tuple(outputs), shape, None
