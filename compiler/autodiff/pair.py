"""The forward and backward graphs of a compiled call under a tape, and what is kept between
them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tapeline.compiler.autodiff.joint import Joint
from tapeline.compiler.autodiff.partition import partition
from tapeline.compiler.ir.graph import Graph


@dataclass(frozen=True, slots=True)
class Pair:
    """Two graphs that together do what a joint graph does.

    `forward` yields the outputs and then the residuals that are neither inputs nor outputs.
    `backward` takes
    the values that `kept` names, then one cotangent per differentiable output; it yields the
    gradients that
    exist.
    """

    forward: Graph
    backward: Graph
    saved_outputs: tuple[int, ...]
    """The outputs of `forward` that the backward takes."""
    kept: tuple[int, ...]
    """What the backward takes, as positions in (all inputs, then `saved_outputs`)."""
    differentiable: tuple[int, ...]
    gradients: tuple[int | None, ...]


def build_pair(
    joint: Joint, optimize: Callable[[Graph], Graph], max_bytes: int | None = None
) -> Pair:
    """Splits a joint graph by a minimum cut.

    Parameters
    ----------
    joint : Joint
        Outputs and gradients.
    optimize : function Graph -> Graph
        The passes; they run before the cut, so that it sees what will really be computed.
    max_bytes : int, optional
        How much may be kept between the two.
    """
    graph = optimize(joint.graph)
    n_inputs = len(graph.placeholders) - len(joint.cotangents)
    cotangents = graph.placeholders[n_inputs:]
    parts = partition(graph, joint.n_outputs, cotangents, max_bytes=max_bytes)
    forward = parts.forward
    outputs = forward.outputs[: joint.n_outputs]
    saved: list[int] = []
    kept: list[int] = []
    for number, output in enumerate(forward.outputs[joint.n_outputs :]):
        as_input, as_output = parts.input_of_residual[number], parts.output_of_residual[number]
        if as_input is not None:
            kept.append(as_input)
            continue
        if as_output is None:
            as_output = len(outputs)
            outputs.append(output)
        kept.append(n_inputs + len(saved))
        saved.append(as_output)
    forward.outputs = outputs
    return Pair(
        forward, parts.backward, tuple(saved), tuple(kept), joint.differentiable, joint.gradients
    )
