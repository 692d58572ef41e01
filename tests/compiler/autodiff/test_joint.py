"""A joint graph says of every gradient node where its op came from."""

from __future__ import annotations

import tapeline as tl
from tapeline.compiler.autodiff.joint import build_joint


def test_gradients_come_from_the_line_of_their_op() -> None:
    @tl.function
    def loss(x: tl.Tensor) -> tl.Tensor:
        y = tl.tanh(x)
        z = tl.exp(y)
        return tl.sum(z * y)

    graph = loss.get_concrete_function(tl.TensorSpec([3], "float64")).graph
    lines = {op.name: graph.locations[i] for i, op in enumerate(graph.ops)}
    joint = build_joint(graph, (0,)).graph
    first = next(i for i, op in enumerate(joint.ops) if op.name == "placeholder" and i > 0)
    found = [joint.locations[i] for i in range(first + 1, len(joint))]
    known = {lines["tanh"], lines["exp"], lines["multiply"], lines["sum"]}
    assert set(found) <= known
    assert {lines["tanh"], lines["exp"]} <= set(found)
    assert found[-1] == lines["tanh"]
