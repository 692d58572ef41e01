"""The emitted code of a compiled graph with what people need to read it: which function is which
kernel, what it computes, and from which source lines."""

from __future__ import annotations

import linecache
import platform
import re
from collections.abc import Hashable, Sequence

from tapeline.compiler.codegen.module import Module
from tapeline.compiler.codegen.program import ControlStep, ProgramStep
from tapeline.compiler.inspect.kernels import KernelList, wrapped_names
from tapeline.compiler.ir.graph import Graph
from tapeline.compiler.ir.location import Location


def functions_of_steps(module: Module) -> list[tuple[str, ...]]:
    """The names of the emitted functions that carry out each step; none for a host call."""
    names: dict[Hashable, str] = {}
    found: list[tuple[str, ...]] = []
    n_controls = 0
    for step, kernel in zip(module.program.steps, module.kernels, strict=True):
        if isinstance(step, ControlStep):
            found.append((f"control{n_controls}",))
            n_controls += 1
            continue
        launches = () if kernel is None else kernel.launches
        functions = [launch.function for launch in launches]
        steps = [names.setdefault(function.key, function.name) for function in functions]
        found.append(tuple(dict.fromkeys(steps)))
    return found


def locations_of_step(graph: Graph, step: ProgramStep) -> list[Location]:
    """The source lines that a step comes from, each once, in order."""
    found = [graph.locations[node] for node in step.nodes if node >= 0]
    given = [location for location in found if location is not None]
    if not given and step.location is not None:
        given = [step.location]
    return sorted(set(given), key=lambda place: (place.filename, place.line))


def source_line(location: Location) -> str:
    """The text of a line, stripped; empty where the source is not there."""
    return linecache.getline(location.filename, location.line).strip()


def describe_step(number: int, graph: Graph, module: Module, kernels: KernelList) -> list[str]:
    """What a step is, in a few lines: kind, extents, ops, and source lines with their text."""
    kernel, step = kernels[number], module.program.steps[number]
    over = " x ".join(map(str, kernel.shape)) or "one element"
    lines = [f"kernel {number}: {kernel.kind} {kernel.strategy}".rstrip() + f" over {over}"]
    lines += [f"  computes {line}" for line in wrapped_names(kernel.ops)]
    for location in locations_of_step(graph, step):
        lines.append(f"  {location}  {source_line(location)}".rstrip())
    return lines


def annotate(
    text: str, graph: Graph, module: Module, kernels: KernelList, label: str, comment: str
) -> str:
    """The text with a description before each function.

    Parameters
    ----------
    text : str
        LLVM IR or assembly.
    label : str
        A pattern that matches where a function begins; its one group is the name.
    comment : str
        What begins a comment.
    """
    notes: dict[str, list[str]] = {}
    for number, names in enumerate(functions_of_steps(module)):
        for name in names:
            notes.setdefault(name, []).extend(describe_step(number, graph, module, kernels))
    notes["run"] = [f"{graph.name}: runs {_listed(range(len(kernels)))}"]
    start = re.compile(label)
    lines = []
    for line in text.splitlines():
        found = start.match(line)
        if found is not None:
            lines += [f"{comment} {note}" for note in notes.get(found[1], ())]
        lines.append(line)
    return "\n".join(lines) + "\n"


def _listed(numbers: Sequence[int]) -> str:
    if len(numbers) > 1:
        return f"kernels {numbers[0]} to {numbers[-1]}"
    return f"kernel {numbers[0]}" if numbers else "no kernels"


def annotated_ir(text: str, graph: Graph, module: Module, kernels: KernelList) -> str:
    """LLVM IR with comments before each kernel."""
    return annotate(text, graph, module, kernels, r"define [^@]*@([\w.$]+)\(", ";")


COMMENT = "#" if platform.machine() in ("x86_64", "AMD64", "i686") else "//"
"""How a comment begins in assembly of this machine."""


def of_stages(texts: Sequence[tuple[str, str]], comment: str) -> str:
    """The code of parts that run one after the other, each under its name."""
    return "\n".join(f"{comment} ---- {name}\n{text}" for name, text in texts)


def annotated_asm(text: str, graph: Graph, module: Module, kernels: KernelList) -> str:
    """Assembly with comments before each kernel."""
    return annotate(text, graph, module, kernels, r"_?([A-Za-z][\w.$]*):", COMMENT)
