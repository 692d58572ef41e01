"""Says what a compiled graph runs: loops, products and host calls, and what each one fuses."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tapeline.compiler.codegen.module import Module
from tapeline.compiler.codegen.nest import Kernel, Nest, Operand
from tapeline.compiler.codegen.program import (
    HostStep,
    MatmulStep,
    NestStep,
    Placed,
    ProgramStep,
)
from tapeline.compiler.inspect.summary import WIDTH, bytes_text
from tapeline.compiler.ir.graph import Graph
from tapeline.runtime.spec import Shape
from tapeline.runtime.tables import Table, Tabular


@dataclass(frozen=True, slots=True)
class KernelInfo:
    """One step of a compiled graph.

    Attributes
    ----------
    kind : str
        "loop", "product", "routine", "control", or "NumPy call" where an op has no lowering.
    strategy : str
        How its loops are built; empty for a NumPy call.
    ops : tuple of str
        The names of the ops that it computes.
    shape : tuple of int
        The extents that it runs over.
    nbytes : int
        Bytes that it reads and writes, each element once.
    flops : int
        Element operations, roughly: a product counts two for each multiplication.
    location : str
        A source line that it comes from; empty where none is known.
    """

    kind: str
    strategy: str
    ops: tuple[str, ...]
    shape: Shape
    nbytes: int
    flops: int
    location: str


class KernelList(Tabular, Sequence[KernelInfo]):
    """The steps of a compiled graph in the order in which they run. Prints as a table."""

    def __init__(self, name: str, kernels: Sequence[KernelInfo], arena_bytes: int) -> None:
        self.name = name
        self.arena_bytes = arena_bytes
        self._kernels = tuple(kernels)

    def __len__(self) -> int:
        return len(self._kernels)

    def __getitem__(self, index):  # type: ignore[no-untyped-def]  # as tuple's own
        return self._kernels[index]

    def __repr__(self) -> str:
        return f"<kernels of {self.name}: {len(self)}>"

    def table(self) -> Table:
        """What each kernel does."""
        rows = [
            (
                number, kernel.kind, kernel.strategy, " x ".join(map(str, kernel.shape)),
                bytes_text(kernel.nbytes), ", ".join(kernel.ops), kernel.location,
            )
            for number, kernel in enumerate(self)
        ]  # fmt: skip
        head = ("", "kind", "strategy", "over", "moves", "computes", "line")
        return f"kernels of {self.name}", head, rows

    def __str__(self) -> str:
        counts = Counter(kernel.kind for kernel in self._kernels)
        parts = [f"{count} {kind}{'s' if count > 1 else ''}" for kind, count in counts.items()]
        lines = [
            f"kernels of {self.name}: {', '.join(parts) or 'none'}",
            f"  {bytes_text(self.arena_bytes)} of memory for values in between",
        ]
        lines += list(_table(self._kernels))
        return "\n".join(line[:WIDTH].rstrip() for line in lines)


def joined_kernels(name: str, lists: Sequence[KernelList]) -> KernelList:
    """The kernels of what runs one after the other; the memory of one serves the next."""
    arena = max((one.arena_bytes for one in lists), default=0)
    return KernelList(name, [kernel for one in lists for kernel in one], arena)


def _table(kernels: Sequence[KernelInfo]) -> Iterator[str]:
    for number, kernel in enumerate(kernels):
        over = " x ".join(map(str, kernel.shape)) or "one"
        strategy = kernel.strategy
        if kernel.kind == "product":  # "matmul inline 4x8x16": what is beside it says the rest
            strategy = strategy.removeprefix("matmul ").partition(" ")[0]
        yield (
            f"  {number:>3}  {kernel.kind:<10}  {strategy:<11.11}  {over:<15.15}  "
            f"{bytes_text(kernel.nbytes):>9}  {kernel.location}"
        )
        for line in wrapped_names(kernel.ops):
            yield f"       {line}"


def wrapped_names(ops: Sequence[str]) -> Iterator[str]:
    """The names of ops, runs of one name counted, on lines that keep within the width."""
    line = ""
    for name, count in Counter(ops).items():
        word = name if count == 1 else f"{name} x{count}"
        if line and len(line) + len(word) + 2 > WIDTH - 8:
            yield line + ","
            line = word
        else:
            line = f"{line}, {word}" if line else word
    if line:
        yield line


def _operand_bytes(operand: Operand, shape: Shape) -> int:
    extents = zip(operand.strides, shape, strict=True)
    return operand.dtype.itemsize * math.prod(extent for stride, extent in extents if stride)


def _nest_flops(nest: Nest) -> int:
    return math.prod(nest.shape) * sum(bool(step.args) for step in nest.steps)


def _placed_bytes(placed: Placed) -> int:
    return placed.spec.dtype.itemsize * math.prod(placed.spec.static_shape)


def _info(graph: Graph, step: ProgramStep, kernel: Kernel | None) -> KernelInfo:
    ops = tuple(graph.ops[node].name for node in step.nodes) or (step.label,)
    location = "" if step.location is None else str(step.location)
    strategy = "" if kernel is None else kernel.strategy
    if isinstance(step, NestStep):
        nest = step.nest
        nbytes = sum(_operand_bytes(operand, nest.shape) for operand in nest.operands)
        return KernelInfo("loop", strategy, ops, nest.shape, nbytes, _nest_flops(nest), location)
    if isinstance(step, MatmulStep):
        inner = step.a.spec.static_shape[-1]
        shape = (*step.out.spec.static_shape, inner)
        nbytes = sum(map(_placed_bytes, (step.a, step.b, step.out)))
        return KernelInfo("product", strategy, ops, shape, nbytes, 2 * math.prod(shape), location)
    if not isinstance(step, HostStep):
        return KernelInfo("control", strategy, ops[:1], (), 0, 0, location)
    nbytes = sum(map(_placed_bytes, (*step.inputs, *step.outputs)))
    shape = step.outputs[0].spec.static_shape if step.outputs else ()
    kind = "routine" if step.is_rare else "NumPy call"
    return KernelInfo(kind, strategy, ops, shape, nbytes, math.prod(shape), location)


def describe_kernels(graph: Graph, module: Module) -> KernelList:
    """What a compiled graph runs.

    Parameters
    ----------
    graph : Graph
        The optimized graph.
    module : Module
        What was assembled from it.
    """
    kernels = [
        _info(graph, step, kernel)
        for step, kernel in zip(module.program.steps, module.kernels, strict=True)
    ]
    return KernelList(graph.name, kernels, module.arena.nbytes)
