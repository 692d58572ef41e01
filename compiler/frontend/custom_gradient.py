"""Stages a gradient rule of the user's in a trace: a use of one op that passes its results on.

The rule is a Python function that reads tensors of the trace. It is traced at once, into a graph of
its own, and what it reads becomes an input of the op. So the gradient can be asked for in any later
trace, and differentiated again.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tapeline.compiler.frontend.control import Block, as_list, operand_of, plain_graph, trace_block
from tapeline.compiler.frontend.replay import replay
from tapeline.compiler.ir.graph import Graph
from tapeline.runtime.dispatch import bind
from tapeline.runtime.errors import TracingError
from tapeline.runtime.op import Attrs, Expansion, Op, define_op
from tapeline.runtime.spec import spec_of
from tapeline.runtime.tensor import Tensor, wrap


class _Rule:
    """A gradient rule as a graph: from cotangents, and what it reads of outside, to gradients."""

    def __init__(self, name: str, outputs: Sequence[Tensor], backward: Callable[..., Any]) -> None:
        self.error: Exception | None = None
        self.given: list[int] = []
        self.sources: list[Any] = []
        self.graph = Graph(name)
        specs = [spec_of(tensor.shape, tensor.dtype) for tensor in outputs]
        try:
            block = trace_block(name, lambda *cts: self._present(backward(*cts)), specs)
            self._take(name, block)
        except Exception as error:  # raised again where the gradient is asked for, as eagerly
            self.error = error

    def _present(self, parts: Sequence[Any]) -> list[Any]:
        self.given = [index for index, part in enumerate(parts) if part is not None]
        return [parts[index] for index in self.given]

    def _take(self, name: str, block: Block) -> None:
        if block.updates:
            raise TracingError(
                f"{name}: a gradient rule cannot assign Variables or change tensors in a trace"
            )
        self.sources = [source for source, _ in block.sources.values()]
        inputs = [*block.inputs, *(node for _, node in block.sources.values())]
        self.graph = plain_graph(block, inputs, block.outputs)

    def specialize(self, specializer: Any) -> _Rule:
        """The rule for given sizes."""
        made = copy.copy(self)
        made.graph, _ = specializer.graph(self.graph)
        return made

    def run(self, count: int, values: Sequence[Any]) -> tuple[Any, ...]:
        """The gradients of `count` inputs, for the cotangents and what the rule reads."""
        if self.error is not None:
            raise self.error
        tensors = [v if type(v) is Tensor else wrap(np.asarray(v)) for v in values]
        found: list[Any] = replay(self.graph, tensors)
        if all(type(value) is not Tensor for value in values):
            found = [part if part._node is not None else part._value for part in found]
        parts: list[Any] = [None] * count
        for index, part in zip(self.given, found, strict=True):
            parts[index] = part
        return tuple(parts)


def stage_gradient(
    name: str, outputs: Sequence[Tensor], inputs: Sequence[Tensor], backward: Callable[..., Any]
) -> list[Tensor]:
    """The same values as `outputs`, as results of an op whose gradients `backward` gives."""
    rule = _Rule(f"{name}_gradient", outputs, backward)
    operands = [*inputs, *(operand_of(source) for source in rule.sources), *outputs]
    op = _make_op(name, rule, len(inputs), len(outputs), len(operands))
    return as_list(bind(op, operands))


def _make_op(name: str, rule: _Rule, n_inputs: int, n_outputs: int, total: int) -> Op:
    single = n_outputs == 1

    def last(*values: Any) -> Any:
        return values[-1] if single else tuple(values[total - n_outputs :])

    def joint_vjp(cts: Sequence[Any], attrs: Attrs, needed: Any, *saved: Any) -> tuple[Any, ...]:
        rest = total - n_inputs
        return (*rule.run(n_inputs, [*cts, *saved]), *[None] * rest)

    return define_op(
        name,
        kernel=last,
        infer=last,
        n_inputs=total,
        n_outputs=None if single else n_outputs,
        joint_vjp=joint_vjp,
        saves=tuple(range(n_inputs, total - n_outputs)),
        emit=Expansion(last),
        kinds="biufc",
        specialize=lambda sizes: _make_op(name, rule.specialize(sizes), n_inputs, n_outputs, total),
        register=False,
    )
