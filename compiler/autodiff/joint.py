"""Differentiates a graph: the graph of its outputs and of the gradients that belong to them.

The forward nodes are replayed under a tape inside a trace, and the tape's own backward walk adds
the rest. So a
gradient rule is written once and serves eager and compiled code alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

from tapeline.compiler.frontend.capture import CapturingGraph
from tapeline.compiler.frontend.replay import replay_on_tape
from tapeline.compiler.ir.graph import Graph
from tapeline.runtime.backprop import imperative_grad
from tapeline.runtime.dispatch import STATE, guarding
from tapeline.runtime.indexed_slices import IndexedSlices
from tapeline.runtime.spec import Shape


@dataclass(frozen=True, slots=True)
class Joint:
    """A graph with outputs and gradients.

    `graph.placeholders` are those of the function, then one cotangent per differentiable output, in
    order.
    `graph.outputs` are those of the function, then the gradients that exist.
    """

    graph: CapturingGraph
    n_outputs: int
    cotangents: tuple[int, ...]
    """Placeholders of the cotangents."""
    differentiable: tuple[int, ...]
    """Which outputs have a cotangent."""
    gradients: tuple[int | None, ...]
    """Per asked input the position among the gradients in `graph.outputs`, None where there is no
    path."""
    masks: bool
    """Whether a rule on the way made exact zeros or infinities: see `STATE.masked`."""
    row_shapes: tuple[Shape | None, ...]
    """Per asked input the shape of the whole where the gradient is rows of it: their values stand
    at the position, their indices at the next one. None otherwise."""

    def gather(self, gradients: Sequence[Any]) -> list[Any]:
        """One gradient or None per asked input, from those that exist."""
        found: list[Any] = []
        for at, shape in zip(self.gradients, self.row_shapes, strict=True):
            if at is None or shape is None:
                found.append(None if at is None else gradients[at])
            else:
                found.append(IndexedSlices(gradients[at], gradients[at + 1], shape))
        return found


def is_differentiable_kind(kind: str) -> bool:
    """Whether values of this dtype kind have gradients."""
    return kind in "fcV"


def build_joint(
    graph: Graph, wrt: tuple[int, ...], guarded: bool = False, sparse: bool = False
) -> Joint:
    """The joint graph for gradients with respect to the inputs at these positions.

    Parameters
    ----------
    graph : Graph
        What to differentiate.
    wrt : tuple of int
        Positions of inputs.
    guarded : bool
        Whether the cotangents may hold exact zeros that win over infinities and NaN.
    sparse : bool
        Whether gradients of rows that were looked up stay rows.
    """
    with guarding() if guarded else nullcontext():
        return _build_joint(graph, wrt, sparse)


def _build_joint(graph: Graph, wrt: tuple[int, ...], sparse: bool) -> Joint:
    joint = CapturingGraph(f"{graph.name}_joint")
    joint.holds_arrays = True
    joint.origins = {}
    with joint.tracing():
        inputs = [
            joint.placeholder_tensor(graph.spec(node), str(graph.attrs[node][0]))
            for node in graph.placeholders
        ]
        tape, outputs = replay_on_tape(graph, inputs, wrt)
        differentiable = tuple(
            k for k, tensor in enumerate(outputs) if is_differentiable_kind(tensor.dtype.kind)
        )
        cotangents = [
            joint.placeholder_tensor(graph.spec(graph.outputs[k]), f"cotangent{k}")
            for k in differentiable
        ]
        before, STATE.masked = STATE.masked, False
        gradients = imperative_grad(
            None,
            tape,
            [outputs[k] for k in differentiable],
            [inputs[position] for position in wrt],
            output_gradients=cotangents,
            sparse=sparse,
        )
        masks = STATE.masked
        STATE.masked = before or masks
        joint.origins = joint.location = None
        found: list[int | None] = []
        shapes: list[Shape | None] = []
        nodes = [joint.value_id(tensor) for tensor in outputs]
        for gradient in gradients:
            found.append(None if gradient is None else len(nodes) - len(outputs))
            is_rows = type(gradient) is IndexedSlices
            shapes.append(gradient.dense_shape if is_rows else None)
            if gradient is not None:
                parts = (gradient.values, gradient.indices) if is_rows else (gradient,)
                nodes += [joint.value_id(part) for part in parts]
        joint.outputs = nodes
        placeholders = tuple(joint.value_id(tensor) for tensor in cotangents)
    return Joint(
        joint, len(outputs), placeholders, differentiable, tuple(found), masks, tuple(shapes)
    )
