"""Stages control flow in a trace: bodies become graphs, and a use of one op in the graph around.

A body may use tensors of the trace around it and Variables. What it reads becomes an input of the
op; Variables that it assigns, and tensors that it writes to, become further results, and get their
new values in the trace around.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tapeline.compiler.frontend.capture import CapturingGraph
from tapeline.compiler.ir.control_ops import make_cond_op, make_scan_op, make_while_op
from tapeline.compiler.ir.graph import Graph
from tapeline.compiler.ir.structure_ops import PLACEHOLDER
from tapeline.runtime.dispatch import STATE, bind
from tapeline.runtime.errors import ShapeError, TracingError
from tapeline.runtime.op import Trait
from tapeline.runtime.spec import TensorSpec, spec_of
from tapeline.runtime.tensor import Tensor, as_tensor

Body = Callable[..., Sequence[Any]]

UNLIMITED = np.iinfo(np.int64).max


@dataclass(slots=True, eq=False)
class Block:
    """A body as it was traced."""

    graph: CapturingGraph
    inputs: list[int] = field(default_factory=list)
    """The placeholders of its arguments."""
    outputs: list[int] = field(default_factory=list)
    sources: dict[int, tuple[Any, int]] = field(default_factory=dict)
    """By id, each tensor, array or Variable of outside that it reads, and its placeholder."""
    updates: dict[int, tuple[Any, int]] = field(default_factory=dict)
    """By id, each Variable or tensor of outside that it changes, and the node of the new value."""

    def input_of(self, source: Any) -> int:
        """The placeholder for something of outside, made if there is none."""
        found = self.sources.get(id(source))
        if found is None:
            node = self.graph.add_placeholder(spec_of(source.shape, source.dtype))
            found = self.sources[id(source)] = source, node
        return found[1]

    def update_of(self, source: Any) -> int:
        """The node of the value that something of outside has afterwards."""
        found = self.updates.get(id(source))
        return self.input_of(source) if found is None else found[1]


def trace_block(name: str, function: Body, specs: Sequence[TensorSpec]) -> Block:
    """Runs a body on symbolic tensors, in a graph of its own inside of the present trace."""
    graph = CapturingGraph(name)
    outer = STATE.handler
    if isinstance(outer, CapturingGraph):
        graph.reads = outer.reads
    block = Block(graph)
    arguments = [graph.placeholder_tensor(spec) for spec in specs]
    block.inputs = list(graph.placeholders)
    try:
        with graph.tracing():
            results = [as_tensor(value) for value in function(*arguments)]
            block.outputs = [graph.value_id(tensor) for tensor in results]
    finally:
        written = graph.written_cells()
    for capture in graph.captures:
        block.sources[id(capture.source)] = capture.source, capture.placeholder
    for resource in graph.resources.values():
        if resource.placeholder is not None:
            block.sources[id(resource.variable)] = resource.variable, resource.placeholder
        if resource.is_assigned:
            block.updates[id(resource.variable)] = resource.variable, resource.current
    for capture, node in written:
        block.updates[id(capture.source)] = capture.source, node
    return block


def plain_graph(block: Block, inputs: Sequence[int], outputs: Sequence[int]) -> Graph:
    """The graph of a block with these inputs and outputs, and without dead nodes."""
    source = block.graph
    made = Graph(source.name)
    values = {
        node: made.add_placeholder(source.spec(node), str(source.attrs[node][0])) for node in inputs
    }
    needed = set(outputs)
    for node in range(len(source) - 1, -1, -1):
        if node in needed or source.ops[node].has(Trait.EFFECT):
            needed.add(node)
            needed.update(source.inputs[node])
    for node in sorted(needed):
        if source.ops[node] is not PLACEHOLDER:
            values[node] = made.copy_node(source, node, [values[i] for i in source.inputs[node]])
    made.outputs = [values[node] for node in outputs]
    return made


def operand_of(source: Any) -> Tensor:
    """What stands for something of outside in the trace around."""
    return as_tensor(source, source.dtype if isinstance(source, np.ndarray) else None)


def _merged(tables: Sequence[dict[int, tuple[Any, int]]]) -> list[Any]:
    found: dict[int, Any] = {}
    for table in tables:
        for key, (source, _) in table.items():
            found.setdefault(key, source)
    return list(found.values())


def _give(target: Any, value: Tensor) -> None:
    """Gives a Variable, or a tensor of outside, its new value."""
    if type(target) is Tensor:
        target._value, target._node = value._value, value._node
    elif isinstance(target, np.ndarray):
        raise TracingError(
            "a branch or a loop body changes a NumPy array in place; use tl.asarray(x) instead"
        )
    else:
        target.assign(value)


def as_list(results: Any) -> list[Tensor]:
    """The results of an op as a list."""
    return [results] if type(results) is Tensor else list(results)


# --- choices ----------------------------------------------------------------------------------


def stage_cond(
    condition: Tensor, then: Body, other: Body, operands: Sequence[Tensor]
) -> list[Tensor]:
    """The results of the body that the condition chooses.

    Raises
    ------
    ShapeError
        If the two give results of other numbers, shapes or dtypes.
    """
    specs = [spec_of(tensor.shape, tensor.dtype) for tensor in operands]
    blocks = [trace_block("then", then, specs), trace_block("else", other, specs)]
    _check_branches(blocks)
    n_results = len(blocks[0].outputs)
    targets = _merged([block.updates for block in blocks])
    outputs = [[*b.outputs, *(b.update_of(target) for target in targets)] for b in blocks]
    if not outputs[0] and not any(_has_effect(block) for block in blocks):
        return []
    for block, out in zip(blocks, outputs, strict=True):
        if not out:
            out.append(block.graph.add_constant(np.asarray(False)))  # an op has a result
    sources = _merged([block.sources for block in blocks])
    graphs = [
        plain_graph(block, [*block.inputs, *(block.input_of(source) for source in sources)], out)
        for block, out in zip(blocks, outputs, strict=True)
    ]
    inputs = (condition, *operands, *(operand_of(source) for source in sources))
    results = as_list(bind(make_cond_op(*graphs), inputs))
    for target, value in zip(targets, results[n_results:], strict=False):
        _give(target, value)
    return results[:n_results]


def _has_effect(block: Block) -> bool:
    return any(op.has(Trait.EFFECT) for op in dict.fromkeys(block.graph.ops))


def _check_branches(blocks: Sequence[Block]) -> None:
    then, other = ([block.graph.spec(node) for node in block.outputs] for block in blocks)
    if len(then) != len(other):
        raise ShapeError(
            f"cond: true_fn gives {len(then)} tensors, false_fn gives {len(other)}; both must give "
            "the same"
        )
    for number, (a, b) in enumerate(zip(then, other, strict=True)):
        if a != b:
            raise ShapeError(
                f"cond: result {number} is {a.dtype.name} of shape {a.shape} from true_fn, but "
                f"{b.dtype.name} of shape {b.shape} from false_fn; cast or reshape one of them"
            )


# --- loops ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Rows:
    """What a loop reads and writes row by row: arrays of `length` rows; `reverse` begins with the
    last one."""

    xs: Sequence[Tensor] = ()
    length: int = 0
    reverse: bool = False


def stage_while(test: Body, body: Body, state: Sequence[Tensor]) -> list[Tensor]:
    """The state when the test fails."""
    loop = _Loop(test, body, state, ())
    inputs, graphs = loop.lined_up()
    return loop.finish(as_list(bind(make_while_op(graphs[1], graphs[0]), inputs)))


def stage_scan(
    test: Body | None, body: Body, limit: Tensor, state: Sequence[Tensor], rows: Rows
) -> tuple[Tensor, list[Tensor], list[Tensor]]:
    """The number of turns, the state after them, and the rows that the turns gave."""
    loop = _Loop(test, body, state, rows.xs)
    inputs, graphs = loop.lined_up()
    attrs = (loop.n_state, len(rows.xs), rows.length, rows.reverse)
    op = make_scan_op(*graphs)
    count, *results = bind(op, (limit, *inputs), attrs)
    kept = loop.finish(results[: loop.n_state])
    return count, kept, results[loop.n_state :]


class _Loop:
    """The blocks of a loop, with one list of inputs."""

    def __init__(
        self, test: Body | None, body: Body, state: Sequence[Tensor], xs: Sequence[Tensor]
    ) -> None:
        self.state, self.xs = state, xs
        specs = [spec_of(tensor.shape, tensor.dtype) for tensor in state]
        rows = [spec_of(x.shape[1:], x.dtype) for x in xs]
        self.body = trace_block("body", body, [*specs, *rows])
        self.blocks = [self.body]
        if test is not None:
            self.blocks.append(trace_block("test", test, specs))
            _check_test(self.blocks[1])
        _check_state(self.body, specs)
        self.targets = _merged([self.body.updates])
        self.n_given = len(state)

    @property
    def n_state(self) -> int:
        """How many states there are, with what the body changes besides."""
        return self.n_given + len(self.targets)

    def lined_up(self) -> tuple[tuple[Tensor, ...], list[Graph]]:
        """The inputs of the op without a limit, and the graphs: the body, then the test."""
        n = self.n_given
        changed = {id(target) for target in self.targets}
        sources = _merged([block.sources for block in self.blocks])
        sources = [source for source in sources if id(source) not in changed]
        graphs = []
        for block in self.blocks:
            is_body = block is self.body
            inputs = block.inputs[:n] + [block.input_of(target) for target in self.targets]
            if is_body:
                inputs += block.inputs[n:]
            inputs += [block.input_of(source) for source in sources]
            outputs = list(block.outputs)
            if is_body:
                outputs[n:n] = [block.update_of(target) for target in self.targets]
            graphs.append(plain_graph(block, inputs, outputs))
        operands = (
            *self.state, *map(operand_of, self.targets), *self.xs, *map(operand_of, sources)
        )  # fmt: skip
        return operands, graphs

    def finish(self, state: Sequence[Tensor]) -> list[Tensor]:
        """Gives Variables and written tensors their values; returns the given states'."""
        for target, value in zip(self.targets, state[self.n_given :], strict=True):
            _give(target, value)
        return list(state[: self.n_given])


def _check_test(test: Block) -> None:
    specs = [test.graph.spec(node) for node in test.outputs]
    if len(specs) != 1 or specs[0].ndim or specs[0].dtype.kind != "b":
        raise ShapeError(f"while_loop: cond must give one bool, got {specs}")
    if test.updates:
        raise TracingError("while_loop: cond must not assign Variables nor change tensors")


def _check_state(body: Block, specs: Sequence[TensorSpec]) -> None:
    given = [body.graph.spec(node) for node in body.outputs[: len(specs)]]
    if len(given) != len(specs):
        raise ShapeError(
            f"while_loop: the body takes {len(specs)} tensors, but gives {len(given)}; it must "
            "give the next value of each"
        )
    for number, (before, after) in enumerate(zip(specs, given, strict=True)):
        if before != after:
            raise ShapeError(
                f"while_loop: state {number} is {before.dtype.name} of shape {before.shape} before "
                f"a turn, but {after.dtype.name} of shape {after.shape} after it; it must stay the "
                "same: cast or reshape it before the loop, or in the body"
            )


def limit_tensor(limit: int) -> Tensor:
    """A number of turns as a constant of the trace, or as one of its open sizes."""
    return as_tensor(limit, np.int64)
