"""Solutions of equations in a trace: the gradient of the equation, in place of that of the way to
the solution."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tapeline.compiler.frontend.control import operand_of, plain_graph, trace_block
from tapeline.compiler.frontend.replay import replay
from tapeline.runtime.errors import TracingError
from tapeline.runtime.loop_gradients import attach_adjoint
from tapeline.runtime.ops.cast import stop_gradient
from tapeline.runtime.spec import spec_of
from tapeline.runtime.tensor import Tensor


def stage_fixed_point(
    step: Callable[..., Sequence[Tensor]], state: Sequence[Tensor]
) -> list[Tensor]:
    """The state, with the gradients of the solution for what `step` reads."""
    block = trace_block("step", step, [spec_of(x.shape, x.dtype) for x in state])
    if block.updates:
        raise TracingError(
            'gradient="implicit": the body assigns Variables or changes tensors around it; a fixed '
            "point is one of the state alone"
        )
    pairs = list(block.sources.values())
    graph = plain_graph(block, [*block.inputs, *(node for _, node in pairs)], block.outputs)
    sources = [operand_of(source) for source, _ in pairs]
    found = [stop_gradient(x) for x in state]

    def turn(*leaves: Tensor) -> list[Tensor]:
        return replay(graph, [*leaves, *sources])

    for _ in range(2):  # the second one is linearized at a point that has a derivative
        found, _ = attach_adjoint(turn, found, sources)
    return found
