"""Ops defined by simpler ops are replaced by them."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from tapeline.compiler.ir.graph import Graph
from tapeline.compiler.ir.location import Location
from tapeline.compiler.ir.verify import verify_graph
from tapeline.compiler.passes.expand import Expand
from tapeline.runtime.errors import GraphError
from tapeline.runtime.op import Attrs, Expansion, Op, define_op
from tapeline.runtime.spec import TensorSpec


def _same(x: TensorSpec, *_: object) -> TensorSpec:
    return x


def _two(x: TensorSpec) -> tuple[TensorSpec, TensorSpec]:
    return x, x


TIMES = define_op(
    "times", kernel=lambda x, k: x * k, infer=_same, attr_names=("k",), register=False
)
DOUBLE = define_op(
    "double", kernel=lambda x: 2 * x, infer=_same, register=False,
    emit=Expansion(lambda b, x: b(TIMES, x, 2)),
)  # fmt: skip
BOTH = define_op(
    "both", kernel=lambda x: (2 * x, x), infer=_two, n_outputs=2, register=False,
    emit=Expansion(lambda b, x: (b(DOUBLE, x), x)),
)  # fmt: skip
ENDLESS: Op = define_op(
    "endless", kernel=lambda x: x, infer=_same, register=False, attr_names=("n",),
    emit=Expansion(lambda b, x, n: b(ENDLESS, x, n + 1)),
)  # fmt: skip
WRONG = define_op(
    "wrong", kernel=lambda x: x, infer=_same, register=False, emit=Expansion(lambda b, x: (x, x))
)


def _trace_into(
    graph: Graph, function: Callable[..., Any], inputs: Sequence[int], attrs: Attrs
) -> Sequence[int]:
    def bind(op: Any, x: int, *op_attrs: Any) -> int:
        return graph.add(op, (x,), op_attrs)

    result = function(bind, *inputs, *attrs)
    return result if isinstance(result, tuple) else (result,)


def test_expand_goes_on_until_nothing_expands() -> None:
    graph = Graph("g")
    x = graph.add_placeholder(TensorSpec((2,)), "x")
    a, b = graph.picks(graph.add(BOTH, (x,), (), Location.at("/a/b.py", 5)))
    graph.outputs = [b, a]
    result = Expand(_trace_into).run(graph)
    assert result.changed
    verify_graph(result.graph)
    assert str(result.graph).splitlines()[2:] == [
        "  %1 = times(%0, k=2)        : float64[2]  # b.py:5",
        "  return %0, %1",
    ]
    assert not Expand(_trace_into).run(result.graph).changed


def test_expand_refuses_endless_expansions() -> None:
    graph = Graph("g")
    graph.outputs = [graph.add(ENDLESS, (graph.add_placeholder(TensorSpec((2,)), "x"),), (0,))]
    with pytest.raises(GraphError, match="endless: still there after 8 rounds"):
        Expand(_trace_into, rounds=8).run(graph)


def test_expand_compares_specs() -> None:
    graph = Graph("g")
    graph.outputs = [graph.add(WRONG, (graph.add_placeholder(TensorSpec((2,)), "x"),))]
    with pytest.raises(GraphError, match="wrong should give"):
        Expand(_trace_into).run(graph)
