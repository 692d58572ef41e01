"""Runs a graph with open sizes op by op, as Python: for sizes that came for the first time.

The graph becomes a Python function once; only what depends on sizes is worked out at each call. So
a call costs what the same ops cost in NumPy, and nothing has to be planned.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tapeline.compiler.codegen.target import Manner
from tapeline.compiler.frontend.specialize import Specializer, has_open_sizes
from tapeline.compiler.ir.graph import Graph
from tapeline.compiler.ir.interpret import last_uses
from tapeline.compiler.ir.structure_ops import CONSTANT, PICK, PLACEHOLDER, SIZE
from tapeline.compiler.staged.rooms import Room, fits_a_room
from tapeline.runtime.dims import Dim, source_of
from tapeline.runtime.dispatch import bind
from tapeline.runtime.op import Op
from tapeline.runtime.sizes import Sizes
from tapeline.runtime.tensor import new_tensor

Script = Callable[..., tuple[Any, ...]]
"""Takes the sizes, a tuple, and the values of the placeholders; gives those of the outputs."""


def script_of(
    graph: Graph, sizes: Sizes, call_op: Callable[[Graph], Op], manner: Manner, raw: bool
) -> Script:
    """The graph as a Python function.

    Parameters
    ----------
    graph : Graph
        What to run.
    sizes : Sizes
        Those that it leaves open.
    call_op : callable
        The op that calls a graph.
    manner : Manner
        How code is made, for loops.
    raw : bool
        Whether it runs kernels on arrays. Else it applies ops to tensors, so that tapes know.
    """
    return _Writer(graph, sizes, call_op, manner, raw).script()


class _Writer:
    def __init__(
        self,
        graph: Graph,
        sizes: Sizes,
        call_op: Callable[[Graph], Op],
        manner: Manner,
        raw: bool,
    ) -> None:
        self.graph = graph
        self.sizes = sizes
        self.call_op = call_op
        self.manner = manner
        self.raw = raw
        self.names: dict[str, Any] = {"bind": bind, "size": _size_tensor if not raw else _size}
        self.symbols: set[str] = set()

    def script(self) -> Script:
        """The function."""
        graph = self.graph
        last = last_uses(graph)
        lines = []
        for node, op in enumerate(graph.ops):
            if op is PLACEHOLDER:
                continue
            if op is CONSTANT:
                value = graph.constant_value(node)
                assert value is not None
                self.names[f"v{node}"] = value if self.raw else new_tensor(value)
                continue
            lines.append(f"    v{node} = {self._call(node)}")
            done = [k for k in dict.fromkeys(graph.inputs[node]) if last[k] == node]
            if last[node] < 0:
                done.append(node)
            done = [k for k in done if graph.ops[k] is not CONSTANT]
            if done:
                lines.append(f"    del {', '.join(f'v{k}' for k in done)}")
        given = "".join(f", v{node}" for node in graph.placeholders)
        unpack = [f"    n{k} = sizes[{k}]" for k in range(len(self.sizes.symbols))]
        unpack = [line for line in unpack if line.split()[0] in self.symbols]
        found = "".join(f"v{node}, " for node in graph.outputs)
        text = "\n".join([f"def run(sizes{given}):", *unpack, *lines, f"    return ({found})"])
        exec(compile(text, f"<stage {graph.name}>", "exec"), self.names)
        made: Script = self.names["run"]
        return made

    def _call(self, node: int) -> str:
        graph = self.graph
        op, inputs, attrs = graph.ops[node], graph.inputs[node], graph.attrs[node]
        values = "".join(f"v{k}, " for k in inputs)
        if op is PICK:
            return f"v{inputs[0]}[{self._text(attrs[0])}]"
        if op is SIZE:
            return f"size({self._text(attrs[0])})"
        arguments = "".join(f"{self._text(attr)}, " for attr in attrs)
        if op.subgraphs and fits_a_room(op, specs := [graph.spec(k) for k in inputs]):
            self.names[f"op{node}"] = Room(op, attrs, specs, self.manner, self.raw)
            return f"op{node}({self._text(attrs[2]) if attrs else 0}, {values})"
        if op.specialize is not None or any(map(has_open_sizes, op.subgraphs)):
            self.names[f"op{node}"] = _Specialized(op, self.sizes, self.call_op)
            name = f"op{node}(sizes)"
            if self.raw:
                name += ".kernel"
        else:
            name = f"op{node}"
            self.names[name] = op.kernel if self.raw else op
        if self.raw:
            return f"{name}({values}{arguments})"
        return f"bind({name}, ({values}), ({arguments}))"

    def _text(self, attr: Any) -> str:
        """An attribute as Python."""
        if type(attr) is Dim:
            found = source_of(attr)
            self.symbols.update(f"n{k}" for k in self.sizes.symbols_in(attr))
            return found
        if type(attr) is tuple and attr and any(map(_is_open, attr)):
            return f"({''.join(f'{self._text(part)}, ' for part in attr)})"
        if attr is None or type(attr) in (int, bool, str):
            return repr(attr)
        name = f"a{len(self.names)}"
        self.names[name] = attr
        return name


def _is_open(attr: Any) -> bool:
    return type(attr) is Dim or (type(attr) is tuple and any(map(_is_open, attr)))


class _Specialized:
    """An op with graphs that have open sizes: the op for given sizes."""

    def __init__(self, op: Op, sizes: Sizes, call_op: Callable[[Graph], Op]) -> None:
        self.op = op
        self.sizes = sizes
        self.call_op = call_op

    def __call__(self, values: Sequence[int]) -> Op:
        return Specializer(self.sizes, values, self.call_op).op(self.op)


def _size(value: int) -> Any:
    return np.asarray(value, np.int64)


def _size_tensor(value: int) -> Any:
    return new_tensor(_size(value))
