"""Holds compiled code against NumPy while a program runs, and finds the op where they part."""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from tapeline.compiler.codegen.halves import is_half
from tapeline.compiler.compiled import Array, Compiled, Observer, optimize, set_observer
from tapeline.compiler.executable.executable import Executable
from tapeline.compiler.inspect.code import source_line
from tapeline.compiler.inspect.difference import node_text
from tapeline.compiler.ir.graph import Graph
from tapeline.compiler.ir.interpret import run_graph
from tapeline.compiler.ir.structure_ops import CONSTANT, PLACEHOLDER
from tapeline.runtime.errors import VerificationError
from tapeline.runtime.op import Trait
from tapeline.runtime.spec import TensorSpec, is_bfloat16

TOLERANCE = {
    "bfloat16": 2e-2, "float16": 2e-3, "float32": 2e-5, "float64": 1e-11, "complex64": 2e-5,
    "complex128": 1e-11,
}  # fmt: skip
"""The largest difference that passes, relative to the largest number of the array."""

SHOWN_ELEMENTS = 1000
"""Arrays up to this size stand in reproductions with their values."""


class Verify:
    """Compares compiled calls with NumPy in a block, in all threads; see
    `tapeline.debugging.verify`.

    Attributes
    ----------
    checked : int
        How many calls were compared.
    """

    def __init__(
        self, rate: float = 1.0, tolerance: float | None = None, seed: int = 0,
        reproduction: str | os.PathLike[str] | None = None,
    ) -> None:  # fmt: skip
        self.rate = rate
        self.reproduction = reproduction
        self.tolerance = tolerance
        self.checked = 0
        self._random = random.Random(seed)
        self._lock = threading.Lock()
        self._before: Observer | None = None
        self._depth = 0
        """Blocks that are open, in all threads; the outermost counts."""

    def __enter__(self) -> Verify:
        with self._lock:
            self._depth += 1
            if self._depth == 1:
                self._before = set_observer(self)
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._depth -= 1
            if not self._depth:
                set_observer(self._before)

    def run(self, compiled: Compiled, arrays: Sequence[Array]) -> Sequence[Array]:
        """Runs a compiled graph; some calls are compared."""
        with self._lock:
            is_chosen = self._random.random() < self.rate and _is_repeatable(compiled.graph)
            self.checked += is_chosen
        given = [np.array(array) for array in arrays] if is_chosen else []
        outputs = compiled.executable(arrays)(arrays)
        if is_chosen:
            expected = run_graph(compiled.graph, given)
            for found, wanted in zip(outputs, expected, strict=True):
                if _differ(found, wanted, self.tolerance):
                    raise self._explain(compiled.graph, given, found, wanted)
        return outputs

    def _explain(
        self, graph: Graph, arrays: Sequence[Array], found: Array, wanted: Array
    ) -> VerificationError:
        """The error that names the op, with the smallest program that shows the difference."""
        node = find_culprit(graph, arrays, self.tolerance)
        lines = [f"verify: compiled {graph.name} gives other numbers than NumPy"]
        lines.append(f"  {_difference_text(found, wanted)}")
        part = graph
        if node is not None:
            part = slice_graph(graph, [node])
            lines.append(f"  they part at {node_text(graph, node)}")
            location = graph.locations[node]
            if location is not None and source_line(location):
                lines.append(f"      {source_line(location)}")
        text = reproduce(part, arrays)
        if self.reproduction is not None:
            lines.append(f"  {write_reproduction(self.reproduction, part, arrays)} shows it")
        error = VerificationError("\n".join(lines))
        error.reproduction = text
        return error


def _is_repeatable(graph: Graph) -> bool:
    """Whether it may run twice."""
    return not any(op.has(Trait.EFFECT) or op.has(Trait.RANDOM) for op in graph.ops)


def _differ(found: Array, wanted: Array, tolerance: float | None) -> bool:
    if found.dtype != wanted.dtype or found.shape != wanted.shape:
        return True
    allowed = TOLERANCE.get(wanted.dtype.name) if tolerance is None else tolerance
    found, wanted = _computable(found), _computable(wanted)
    if found.dtype.kind not in "fc":
        return not np.array_equal(found, wanted)
    if not np.array_equal(np.isfinite(found), np.isfinite(wanted)):
        return True
    known = np.isfinite(wanted)
    if not known.any():
        return False
    assert allowed is not None
    largest = float(np.abs(wanted[known]).max())
    return bool(np.abs(found[known] - wanted[known]).max() > allowed * max(largest, 1e-30))


def _computable(array: Array) -> Array:
    """Floats of 16 bits as float32: their differences may be too small or too large for them."""
    return array.astype(np.float32) if is_half(array.dtype) else array


def _difference_text(found: Array, wanted: Array) -> str:
    found, wanted = _computable(found), _computable(wanted)
    if found.dtype.kind not in "fc":
        return f"{np.count_nonzero(found != wanted)} of {found.size} values differ"
    with np.errstate(all="ignore"):
        apart = np.abs(found - wanted)
    place = np.unravel_index(int(np.argmax(np.nan_to_num(apart, nan=np.inf))), found.shape)
    where = "" if not found.shape else f" at {[int(k) for k in place]}"
    return f"{found[place]} is {wanted[place]} by NumPy{where}"


def write_reproduction(path: str | os.PathLike[str], graph: Graph, arrays: Sequence[Array]) -> Path:
    """Writes the program that `reproduce` gives, and large arrays into a file beside it."""
    file = Path(path)
    beside = file.with_suffix(".npz")
    file.write_text(reproduce(graph, arrays, beside.name), encoding="utf-8")
    large = {f"a{k}": x for k, x in enumerate(arrays) if x.size > SHOWN_ELEMENTS}
    if large:
        np.savez(beside, **large)  # type: ignore[arg-type]  # names are free
    return file


def reproduce(graph: Graph, arrays: Sequence[Array], beside: str = "") -> str:
    """A Python program that runs a graph both ways. Large arrays come from the file `beside`, and
    without one random numbers stand for theirs."""
    made = []
    for number, array in enumerate(arrays):
        if beside and array.size > SHOWN_ELEMENTS:
            made.append(f"    np.load(Path(__file__).with_name({beside!r}))['a{number}'],")
        elif array.size <= SHOWN_ELEMENTS:
            values = f"np.array({array.tolist()!r}).astype({_dtype_text(array)})"
            made.append(f"    {values}.reshape({array.shape}),")
        else:
            numbers = f"rng.standard_normal({array.shape})"
            made.append(f"    {numbers}.astype({_dtype_text(array)}),")
    lines = [
        "from pathlib import Path",
        "",
        "import numpy as np",
        "from numpy import inf, nan",
        "from tapeline.compiler.compiled import Compiled",
        "from tapeline.compiler.ir.graph import Graph",
        "from tapeline.compiler.ir.interpret import run_graph",
        "from tapeline.runtime.spec import canonical_dtype",
        "",
        f"graph = Graph.from_json({graph.to_json()!r})",
        "rng = np.random.default_rng(0)",
        "arrays = [",
        *made,
        "]",
        "print('compiled', Compiled(graph)(*arrays))",
        "print('NumPy   ', *run_graph(graph, arrays))",
    ]
    return "\n".join([*lines, ""])


def _dtype_text(array: Array) -> str:
    name = repr(array.dtype.name)
    return f"canonical_dtype({name})" if is_bfloat16(array.dtype) else name


def slice_graph(graph: Graph, outputs: Sequence[int]) -> Graph:
    """The part of a graph that some nodes need, with all inputs."""
    wanted = set(outputs)
    for node in range(len(graph) - 1, -1, -1):
        if node in wanted:
            wanted.update(graph.inputs[node])
    part = Graph(f"{graph.name}_part")
    number: dict[int, int] = {}
    for node, op in enumerate(graph.ops):
        if node in wanted or op is PLACEHOLDER:
            inputs = [number[k] for k in graph.inputs[node]]
            number[node] = part.copy_node(graph, node, inputs)
    part.outputs = [number[node] for node in outputs]
    return part


def find_culprit(graph: Graph, arrays: Sequence[Array], tolerance: float | None) -> int | None:
    """The earliest node on the way back from a wrong output whose inputs are right, each compiled
    for itself; None where nothing is wrong so."""

    def is_wrong(node: int) -> bool:
        if graph.ops[node] in (PLACEHOLDER, CONSTANT):
            return False
        if not isinstance(graph.specs[node], TensorSpec):
            return any(is_wrong(k) for k in graph.inputs[node])
        part = slice_graph(graph, [node])
        contiguous = [np.ascontiguousarray(array) for array in arrays]
        (found,) = Executable(optimize(part))(contiguous)
        return _differ(found, run_graph(part, arrays)[0], tolerance)

    current = next((node for node in graph.outputs if is_wrong(node)), None)
    while current is not None:
        before = next((k for k in graph.inputs[current] if is_wrong(k)), None)
        if before is None:
            return current
        current = before
    return None
