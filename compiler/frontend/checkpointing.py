"""Stages a checkpoint in a trace: a use of one op that stands for a function, whose gradient runs
the function again.

What runs again takes its arguments through `after`, so it is not shared with the first run and
waits for the cotangents. So what lies between arguments and results is not kept in memory
meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tapeline.compiler.frontend.control import as_list, operand_of, plain_graph, trace_block
from tapeline.compiler.frontend.replay import replay, replay_on_tape
from tapeline.compiler.ir.graph import Graph
from tapeline.runtime.backprop import imperative_grad
from tapeline.runtime.dispatch import bind
from tapeline.runtime.errors import TracingError
from tapeline.runtime.op import Attrs, Expansion, Op, Trait, define_op
from tapeline.runtime.ops.ordering import after
from tapeline.runtime.spec import spec_of
from tapeline.runtime.tensor import Tensor, wrap


def stage_checkpoint(
    name: str, function: Callable[..., Sequence[Any]], inputs: Sequence[Tensor]
) -> list[Tensor]:
    """The results of the function for these inputs, as those of one op.

    Raises
    ------
    TracingError
        If the function assigns Variables, changes tensors, or has other effects.
    """
    block = trace_block(name, function, [spec_of(x.shape, x.dtype) for x in inputs])
    if block.updates or any(op.has(Trait.EFFECT) for op in dict.fromkeys(block.graph.ops)):
        raise TracingError(
            f"checkpoint: {name} assigns Variables, changes tensors or prints, and would do so "
            "again for its gradient; do that outside of the checkpoint"
        )
    sources = list(block.sources.values())
    nodes = [*block.inputs, *(node for _, node in sources)]
    graph = plain_graph(block, nodes, block.outputs)
    operands = [*inputs, *(operand_of(source) for source, _ in sources)]
    return as_list(bind(_make_op(name, graph, len(inputs)), operands))


def _make_op(name: str, graph: Graph, n_arguments: int) -> Op:
    specs = [graph.spec(node) for node in graph.outputs]
    single = len(specs) == 1
    floats = [k for k, spec in enumerate(specs) if spec.dtype.kind in "fc"]

    def run(*values: Any) -> Any:
        tensors = [v if type(v) is Tensor else wrap(np.asarray(v)) for v in values]
        found = replay(graph, tensors)
        if all(type(value) is not Tensor for value in values):
            found = [x._value for x in found]
        return found[0] if single else tuple(found)

    def infer(*_: Any) -> Any:
        return specs[0] if single else tuple(specs)

    def joint_vjp(
        cts: Sequence[Any], attrs: Attrs, needed: Sequence[bool], *saved: Any
    ) -> tuple[Any, ...]:
        given = [cts[k] for k in floats]
        tensors = [v if type(v) is Tensor else wrap(np.asarray(v)) for v in (*saved, *given)]
        values, seeds = tensors[: len(saved)], tensors[len(saved) :]
        token = next((seed for seed in seeds if 0 not in seed.shape), None)
        if token is not None:
            values[:n_arguments] = [after(x, token) for x in values[:n_arguments]]
        wrt = [k for k, wanted in enumerate(needed) if wanted and values[k].dtype.kind in "fc"]
        tape, outputs = replay_on_tape(graph, values, wrt)
        targets = [outputs[k] for k in floats]
        found = imperative_grad(None, tape, targets, [values[k] for k in wrt], seeds)
        parts: list[Any] = [None] * len(values)
        for k, part in zip(wrt, found, strict=True):
            parts[k] = part
        return tuple(parts)

    count = len(graph.placeholders)
    return define_op(
        name,
        kernel=run,
        infer=infer,
        n_inputs=count,
        n_outputs=None if single else len(specs),
        joint_vjp=joint_vjp,
        saves=tuple(range(count)),
        emit=Expansion(run),
        kinds="biufc",
        register=False,
    )
