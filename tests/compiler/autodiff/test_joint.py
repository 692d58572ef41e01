"""A joint graph holds what gradient rules make, and says of every gradient node where its op came
from."""

from __future__ import annotations

from typing import Any

import numpy as np

import tapeline as tl
from tapeline.compiler.autodiff.joint import build_joint
from tapeline.compiler.frontend.capture import CapturingGraph
from tapeline.runtime.dispatch import bind
from tapeline.runtime.op import define_op
from tapeline.runtime.spec import TensorSpec


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


def _infer(x: TensorSpec) -> TensorSpec:
    return x


def _vjp(ct: Any, attrs: Any) -> Any:
    return ct * np.asarray([1.0, 2.0])


RAMP = define_op("ramp", kernel=np.positive, infer=_infer, vjps=(_vjp,), register=False)
"""An op whose gradient rule makes an array."""


def test_arrays_that_gradient_rules_make_are_constants_of_the_graph() -> None:
    graph = CapturingGraph("f")
    with graph.tracing():
        x = graph.placeholder_tensor(TensorSpec((2,)), "x")
        graph.outputs = [graph.value_id(bind(RAMP, (x,)))]
    joint = build_joint(graph, (0,))
    assert not joint.graph.captures
    assert len(joint.graph.placeholders) == 2


def test_a_compiled_gradient_may_use_arrays_of_its_rule() -> None:
    x = tl.asarray([3.0, 4.0])
    f = tl.function(lambda x: bind(RAMP, (x,)))
    with tl.GradientTape() as tape:
        tape.watch(x)
        y = f(x)
    np.testing.assert_array_equal(tape.gradient(y, x).numpy(), [1.0, 2.0])
