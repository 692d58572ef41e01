"""Looks for what is legal and seldom meant: numbers that get lost, gradients that stop, work that
runs outside of kernels, and calls that will be traced again."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, cast

import numpy as np

from tapeline.compiler.frontend.retraces import TraceRecord
from tapeline.compiler.inspect.code import source_line
from tapeline.compiler.inspect.families import HOST, family_of
from tapeline.compiler.inspect.summary import WIDTH, bytes_text
from tapeline.compiler.ir.graph import Graph
from tapeline.compiler.ir.location import Location
from tapeline.compiler.ir.structure_ops import CONSTANT, PICK, PLACEHOLDER
from tapeline.compiler.ir.text import subgraphs_first_use
from tapeline.runtime.op import Trait
from tapeline.runtime.spec import TensorSpec

Kind: TypeAlias = Literal["numerics", "gradient", "dtype", "constant", "host call", "retrace"]

LARGE_CONSTANT = 1 << 20


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing to look at.

    Attributes
    ----------
    kind : str
        "numerics", "gradient", "dtype", "constant", "host call" or "retrace".
    message : str
        What it is, and what to do.
    location : Location or None
        The source line.
    """

    kind: Kind
    message: str
    location: Location | None

    def __str__(self) -> str:
        where = "" if self.location is None else f"{self.location}: "
        text = textwrap.fill(
            f"{where}{self.kind}: {self.message}", WIDTH, subsequent_indent="  ",
            break_long_words=False, break_on_hyphens=False,
        )  # fmt: skip
        line = "" if self.location is None else source_line(self.location)
        return f"{text}\n    {line}"[: len(text) + WIDTH + 1] if line else text


class Findings(Sequence[Finding]):
    """What a look at a function found. Prints one finding after the other."""

    def __init__(self, name: str, findings: Sequence[Finding]) -> None:
        self.name = name
        self._findings = tuple(dict.fromkeys(findings))

    def __len__(self) -> int:
        return len(self._findings)

    def __getitem__(self, index):  # type: ignore[no-untyped-def]  # as tuple's own
        return self._findings[index]

    def __repr__(self) -> str:
        return f"<{len(self)} findings in {self.name}>"

    def __str__(self) -> str:
        if not self._findings:
            return f"{self.name}: nothing found"
        return "\n".join(map(str, self._findings))


def lint_graph(graph: Graph) -> Iterator[Finding]:
    """The findings in a graph as traced, and in its sub-graphs."""
    for one in subgraphs_first_use(graph):
        depends = _float_dependence(one)
        for node in range(len(one)):
            for kind, message in _look_at(one, node, depends):
                yield Finding(kind, message, one.locations[node])


def lint_numbers(records: Iterable[TraceRecord], location: Location | None) -> Iterator[Finding]:
    """The findings among the Python numbers that a function was traced for."""
    values: dict[str, dict[str, None]] = {}
    inputs: set[str] = set()
    for record in records:
        inputs |= set(record.open)
        for name, text in record.signature.items():
            if _is_number(text):
                values.setdefault(name, {})[text] = None
    for name, texts in values.items():
        if name in inputs:
            continue
        if len(texts) < 3:
            message = (
                f"{name} is a Python number ({', '.join(texts)}): a second value is traced and "
                "compiled again, and from the third one on it is an input, unless the code asks "
                "for its value; tl.asarray(value) is an input from the start"
            )
        else:
            message = (
                f"{name} was traced for {len(texts)} values, as the code asks for its value; pass "
                "tl.asarray(value) if it need not"
            )
        yield Finding("retrace", message, location)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _look_at(graph: Graph, node: int, depends: Sequence[bool]) -> Iterator[tuple[Kind, str]]:
    op = graph.ops[node]
    if op is CONSTANT:
        nbytes = graph.constants[cast(int, graph.attrs[node][0])].nbytes
        if nbytes >= LARGE_CONSTANT:
            size = bytes_text(nbytes)
            message = f"an array of {size} is part of the graph; pass it, or make it a Variable"
            yield "constant", message
        return
    if op in (PLACEHOLDER, PICK):
        return
    if family_of(op) == HOST and not op.has(Trait.EFFECT):
        yield "host call", f"{op.name} has no native form and runs as a NumPy call between kernels"
    yield from _dtype(graph, node)
    yield from _numerics(graph, node)
    if depends[node]:
        yield from _gradient(graph, node)


def _dtype(graph: Graph, node: int) -> Iterator[tuple[Kind, str]]:
    """Casts to a wider float that nobody wrote."""
    if graph.ops[node].name != "cast" or len(graph.inputs[node]) != 1:
        return
    before, after = graph.specs[graph.inputs[node][0]], graph.specs[node]
    assert isinstance(before, TensorSpec)
    assert isinstance(after, TensorSpec)
    narrow = (np.dtype(np.float32), np.dtype(np.complex64))
    if before.dtype in narrow and after.dtype.itemsize == 2 * before.dtype.itemsize:
        message = (
            f"{before.dtype.name} becomes {after.dtype.name}, twice the memory, half the speed; an "
            "operand of that dtype asks for it: cast it with astype if that is not meant"
        )
        yield "dtype", message


def _input_op(graph: Graph, node: int, position: int = 0) -> str:
    return graph.ops[graph.inputs[node][position]].name


def _numerics(graph: Graph, node: int) -> Iterator[tuple[Kind, str]]:
    """Forms that lose digits, or overflow, where an op of its own does not."""
    name, inputs = graph.ops[node].name, graph.inputs[node]
    if name == "log" and inputs:
        inner = inputs[0]
        before = graph.ops[inner].name
        if before == "softmax":
            yield "numerics", "log(softmax(x)) is -inf where a share underflows; use tl.log_softmax"
        if before == "sum" and _input_op(graph, inner) == "exp":
            yield "numerics", "log(sum(exp(x))) overflows for large x; use tl.logsumexp"
        if before == "add" and any(_is_one(graph, k) for k in graph.inputs[inner]):
            yield "numerics", "log(1 + x) loses small x; use tl.log1p"
    if name == "subtract" and _input_op(graph, node) == "exp" and _is_one(graph, inputs[1]):
        yield "numerics", "exp(x) - 1 loses small x; use tl.expm1"


def _is_one(graph: Graph, node: int) -> bool:
    value = graph.constant_value(node)
    return value is not None and value.ndim == 0 and bool(value == 1)


def _gradient(graph: Graph, node: int) -> Iterator[tuple[Kind, str]]:
    """Places where a gradient is infinite, or ends."""
    op, inputs = graph.ops[node], graph.inputs[node]
    if op.name == "sqrt" and _input_op(graph, node) == "sum":
        (squares,) = graph.inputs[inputs[0]]
        squared = graph.ops[squares].name == "square" or (
            graph.ops[squares].name == "multiply" and len(set(graph.inputs[squares])) == 1
        )
        if squared:
            message = "the gradient of a norm is not finite where all elements are 0; "
            yield "gradient", message + "add a small number under the root"
    spec = graph.specs[node]
    if not isinstance(spec, TensorSpec) or op.subgraphs or op.name == "stop_gradient":
        return
    if op.name == "cast" and spec.dtype.kind in "iu":
        yield "gradient", "no gradient passes a cast to integers"
    elif spec.dtype.kind in "fc" and op.vjps and not any(op.vjps) and op.joint_vjp is None:
        yield "gradient", f"no gradient passes {op.name}: it counts as constant"
    elif spec.dtype.kind in "fc" and not op.vjps and op.joint_vjp is None:
        yield "gradient", f"{op.name} has no gradient rule: asking for a gradient is an error"


def _float_dependence(graph: Graph) -> list[bool]:
    """For each node whether it depends on an input that has gradients."""
    depends = [False] * len(graph)
    for node, op in enumerate(graph.ops):
        spec = graph.specs[node]
        if op is PLACEHOLDER:
            depends[node] = isinstance(spec, TensorSpec) and spec.dtype.kind in "fc"
        else:
            depends[node] = any(depends[k] for k in graph.inputs[node])
    return depends
