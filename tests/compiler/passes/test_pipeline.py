"""The pipeline as a whole."""

from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import pytest
from tests.sampling import op_cases, sampled_ops

from tapeline.compiler.frontend.replay import trace_into
from tapeline.compiler.ir.graph import Graph
from tapeline.compiler.ir.interpret import run_graph
from tapeline.compiler.passes.base import PassResult
from tapeline.compiler.passes.pipeline import DEFAULT, default_passes, run_pipeline
from tapeline.runtime.errors import GraphError
from tapeline.runtime.op import Op, Trait, define_op
from tapeline.runtime.spec import TensorSpec


@dataclass(frozen=True)
class _Breaks:
    name: str = "breaks"

    def run(self, graph: Graph, /) -> PassResult:
        broken = Graph()
        broken.outputs = [3]
        return PassResult(broken, True)


def test_run_pipeline_names_the_pass_that_broke_the_graph() -> None:
    with pytest.raises(GraphError, match=r"after the pass breaks: .* output %3"):
        run_pipeline(Graph(), [_Breaks()], verify=True)


def test_default_passes_have_names_and_expand_comes_after_inlining() -> None:
    names = [p.name for p in default_passes(lambda *_: ())]
    assert names.index("expand") == names.index("inline_calls") + 1
    assert [n for n in names if n != "expand"] == [p.name for p in DEFAULT]


def test_run_pipeline_runs_everything_verified(read: Any) -> None:
    graph = read("""
graph g:
  %0 = placeholder(name='x') : float64[2]
  %1 = constant([1.0, 2.0]) : float64[2]
  %2 = exp(%1) : float64[2]
  %3 = call(%0, %2) [@1] : float64[2]
  %4 = exp(%0) : float64[2]
  %5 = dice(%4) : float64[2]
  return %3

graph @1 body:
  %0 = placeholder(name='a') : float64[2]
  %1 = placeholder(name='b') : float64[2]
  %2 = add(%0, %1) : float64[2]
  %3 = add(%1, %0) : float64[2]
  %4 = sub(%2, %3) : float64[2]
  return %4""")
    after = run_pipeline(graph, verify=True)
    assert [op.name for op in after.ops] == ["placeholder", "constant", "add", "sub"]
    x = [3.0, 4.0]
    np.testing.assert_array_equal(run_graph(after, [x]), run_graph(graph, [x]))


def _same(x: TensorSpec, *_: object) -> TensorSpec:
    return x


CHAIN: list[Op] = [
    define_op("one", kernel=np.sin, infer=_same, register=False),
    define_op(
        "two", kernel=np.add, infer=_same, n_inputs=2, traits=Trait.COMMUTATIVE, register=False
    ),
]


def test_hundred_thousand_nodes_pass_through() -> None:
    graph = Graph("long")
    x = y = graph.add_placeholder(TensorSpec((2,)), "x")
    for _ in range(50_000):
        y = graph.add(CHAIN[1], (graph.add(CHAIN[0], (y,)), x))
    graph.outputs = [y]
    assert len(run_pipeline(graph)) == len(graph)


@pytest.mark.parametrize("op", sampled_ops(), ids=lambda op: op.name)
def test_the_passes_keep_the_values_of_every_op(op: Op) -> None:
    passes = default_passes(trace_into, differentiated=True)
    for arrays, attrs in islice(op_cases(op), 0, None, 5):
        graph = Graph(op.name)
        inputs = [graph.add_placeholder(TensorSpec(a.shape, a.dtype)) for a in arrays]
        graph.outputs = list(graph.picks(graph.add(op, inputs, attrs)))
        after = run_pipeline(graph, passes, verify=True)
        for want, got in zip(run_graph(graph, arrays), run_graph(after, arrays), strict=True):
            rtol = 1e-4 if want.dtype in ("float32", "complex64") else 1e-10
            np.testing.assert_allclose(got, want, rtol=rtol, atol=rtol)
