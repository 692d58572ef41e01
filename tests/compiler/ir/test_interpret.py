"""The reference interpreter."""

import numpy as np
import pytest

from tapeline.compiler.ir.graph import Graph
from tapeline.compiler.ir.interpret import last_uses, run_graph
from tapeline.runtime.errors import GraphError
from tapeline.runtime.op import define_op
from tapeline.runtime.spec import TensorSpec


def _same(x: TensorSpec, *_: object) -> TensorSpec:
    return x


def _twice(x: TensorSpec, *_: object) -> tuple[TensorSpec, TensorSpec]:
    return x, x


SUB = define_op("i_sub", kernel=np.subtract, infer=_same, n_inputs=2, register=False)
DIVMOD = define_op(
    "i_divmod", kernel=np.divmod, infer=_twice, n_inputs=2, n_outputs=2, register=False
)


def _graph() -> Graph:
    graph = Graph("g")
    x = graph.add_placeholder(TensorSpec((2,)), "x")
    y = graph.add_placeholder(TensorSpec((2,)), "y")
    d = graph.add(SUB, (x, y))
    q, r = graph.picks(graph.add(DIVMOD, (d, graph.add_constant([2.0, 3.0]))))
    graph.outputs = [r, q, d, x]
    return graph


def test_run_graph_gives_outputs_in_order() -> None:
    r, q, d, x = run_graph(_graph(), [[7.0, 9.0], [1.0, 1.0]])
    assert [v.tolist() for v in (r, q, d, x)] == [[0.0, 2.0], [3.0, 2.0], [6.0, 8.0], [7.0, 9.0]]


def test_run_graph_counts_inputs() -> None:
    with pytest.raises(GraphError, match="takes 2 arrays, got 1"):
        run_graph(_graph(), [[1.0, 2.0]])


def test_last_uses() -> None:
    assert last_uses(_graph()) == [7, 2, 7, 4, 6, 7, 7]
