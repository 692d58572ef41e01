"""A gradient rule of the user's in a trace."""

from __future__ import annotations

from typing import Any

import pytest

import tapeline as tl
from tapeline.runtime.errors import TracingError


def test_what_a_rule_reads_becomes_an_input_of_the_op() -> None:
    scale = tl.asarray(3.0)

    @tl.custom_gradient
    def f(x: Any) -> Any:
        return x * 2.0, lambda dy: dy * scale

    compiled = tl.function(lambda x: f(x))
    x = tl.asarray(1.0)
    with tl.GradientTape() as tape:
        tape.watch(scale)
        slope = tl.grad(compiled)(x)
    assert slope.item() == 3.0
    assert tape.gradient(slope, scale).item() == 1.0
    graph = compiled.get_concrete_function(x).graph
    [(op, inputs)] = [(o, i) for o, i in zip(graph.ops, graph.inputs, strict=True) if o.name == "f"]
    assert len(inputs) == op.n_inputs == 3


def test_rule_that_assigns_a_variable_is_refused_where_the_gradient_is_asked_for() -> None:
    v = tl.Variable(1.0)

    @tl.custom_gradient
    def f(x: Any) -> Any:
        def grad_fn(dy: Any) -> Any:
            v.assign_add(1.0)
            return dy

        return x * 2.0, grad_fn

    compiled = tl.function(lambda x: f(x))
    assert compiled(tl.asarray(1.0)).item() == 2.0
    with pytest.raises(TracingError, match="cannot assign Variables"):
        tl.grad(compiled)(tl.asarray(1.0))
