"""Calls of sub-graphs."""

import numpy as np
import pytest

from tapeline.compiler.ir.graph import Graph
from tapeline.compiler.ir.structure_ops import make_call_op
from tapeline.runtime.errors import GraphError
from tapeline.runtime.op import Trait, define_op, get_op
from tapeline.runtime.spec import TensorSpec


def _same(x: TensorSpec) -> TensorSpec:
    return x


SAY = define_op("say", kernel=np.copy, infer=_same, traits=Trait.EFFECT, register=False)


def _graph() -> tuple[Graph, int, int]:
    graph = Graph("g")
    x = graph.add_placeholder(TensorSpec((2, 3)), "x")
    y = graph.add_placeholder(TensorSpec((3,)), "y")
    return graph, x, y


def test_call_op_takes_specs_and_effects_from_its_graph() -> None:
    inner, x, y = _graph()
    inner.outputs = [inner.add(SAY, (inner.add(get_op("add"), (x, y)),))]
    call = make_call_op("inner", inner, kernel=np.add)
    assert call.has(Trait.EFFECT)
    assert call.subgraphs == (inner,)
    outer, a, b = _graph()
    assert outer.spec(outer.add(call, (a, b))) == TensorSpec((2, 3))
    with pytest.raises(GraphError, match="inner: called with"):
        outer.add(call, (b, a))
