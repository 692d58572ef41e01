"""A function with C's calling convention around a compiled graph: its text in LLVM's language.

It takes a pointer per input and output and one to memory for what is in between, and returns 0, or
what went wrong.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from tapeline.compiler.codegen.gemm import gemm_text, routine_name
from tapeline.compiler.codegen.lower import lower_graph
from tapeline.compiler.codegen.module import Module, assemble
from tapeline.compiler.codegen.program import ControlStep, HostStep, Program
from tapeline.compiler.codegen.target import Target
from tapeline.compiler.ir.graph import Array, Graph
from tapeline.runtime.errors import ExportError
from tapeline.runtime.spec import TensorSpec

Role = Literal["input", "variable", "cotangent", "result", "new value", "gradient"]


@dataclass(frozen=True, slots=True)
class Parameter:
    """A pointer that an entry takes."""

    name: str
    spec: TensorSpec
    role: Role

    @property
    def is_output(self) -> bool:
        """Whether the function writes there."""
        return self.role in ("result", "new value", "gradient")


@dataclass(frozen=True, slots=True)
class Entry:
    """What a C function does: its name, its pointers in order, and the graph that it runs.

    `embedded` are the inputs of the graph, by position, that are no parameters but stand in the
    object.
    """

    name: str
    parameters: tuple[Parameter, ...]
    graph: Graph
    embedded: Mapping[int, Array]


@dataclass(frozen=True, slots=True)
class EntryText:
    """The LLVM modules of an entry, and how many bytes of memory it is to be given."""

    texts: tuple[str, ...]
    workspace: int


def emit_entry(entry: Entry, target: Target) -> EntryText:
    """The text of an entry for a processor.

    Raises
    ------
    ExportError
        If the graph does something that has no native form; all of it is named.
    """
    program = lower_graph(entry.graph, target)
    _reject_host_calls(entry, program)
    module = assemble(program, target)
    text = _with_constants(module.text, _constants(module, entry.graph))
    gemms = [size for size in (4, 8) if f"@{routine_name(size)}(" in text]
    texts = (text + _wrapper(entry), *(gemm_text(size, target) for size in gemms))
    return EntryText(texts, module.arena.nbytes)


def _reject_host_calls(entry: Entry, program: Program) -> None:
    found: dict[str, None] = {}
    for step in _steps(program):
        if isinstance(step, HostStep) and not step.is_rare:
            where = "" if step.location is None else f" at {step.location}"
            found[f"{step.op.name}{where}: it has no native form yet, only a NumPy kernel"] = None
    if found:
        lines = "\n  ".join(found)
        raise ExportError(f"aot: {entry.name} cannot be exported:\n  {lines}")


def _steps(program: Program) -> Iterator[Any]:
    """The steps of a program and of the bodies in it."""
    for step in program.steps:
        yield step
        if isinstance(step, ControlStep):
            for body in step.bodies:
                yield from _steps(body.program)


def _constants(module: Module, graph: Graph) -> dict[str, Array]:
    named = {f"constant{index}": graph.constants[index] for index in module.constants}
    return named | {f"inner{number}": array for number, array in enumerate(module.arrays)}


_DECLARED = re.compile(r"^@(constant\d+|inner\d+) = external global i8$", re.M)


def _with_constants(text: str, arrays: Mapping[str, Array]) -> str:
    """The module with its constants in it."""
    return _DECLARED.sub(lambda found: data_text(found[1], arrays[found[1]], "internal "), text)


def data_text(name: str, array: Array, scope: str = "") -> str:
    """A constant array of that name."""
    content = np.ascontiguousarray(array.astype(array.dtype.newbyteorder("<"), copy=False))
    shown = "".join(f"\\{byte:02X}" for byte in content.tobytes()) or "\\00"
    count = max(content.nbytes, 1)
    return f'@{name} = {scope}constant [{count} x i8] c"{shown}", align 64'


def _wrapper(entry: Entry) -> str:
    """The C function: it puts its pointers in a row for `run`."""
    names = [f"%p{k}" for k in range(len(entry.parameters))]
    inputs = iter(n for n, p in zip(names, entry.parameters, strict=True) if not p.is_output)
    outputs = [n for n, p in zip(names, entry.parameters, strict=True) if p.is_output]
    data = []
    slots = []
    for position in range(len(entry.graph.placeholders)):
        if position in entry.embedded:
            name = f"embedded{position}"
            data.append(data_text(name, entry.embedded[position], "internal "))
            slots.append(f"@{name}")
        else:
            slots.append(next(inputs))
    slots += outputs
    lines = [*data, f"define i64 @{entry.name}({_pointers(names)}ptr %workspace) nounwind {{"]
    lines.append(f"  %slots = alloca [{len(slots)} x ptr], align 8")
    for k, slot in enumerate(slots):
        lines.append(f"  %s{k} = getelementptr i8, ptr %slots, i64 {8 * k}")
        lines.append(f"  store ptr {slot}, ptr %s{k}")
    lines += ["  %status = call i64 @run(ptr %slots, ptr %workspace)", "  ret i64 %status", "}"]
    return "\n".join(lines) + "\n"


def _pointers(names: Sequence[str]) -> str:
    return "".join(f"ptr {name}, " for name in names)
