"""Calls become the nodes of what they call."""

from typing import Any

import numpy as np

from tapeline.compiler.ir.graph import Graph
from tapeline.compiler.ir.interpret import run_graph
from tapeline.compiler.ir.structure_ops import make_call_op
from tapeline.compiler.ir.verify import verify_graph
from tapeline.compiler.passes.inline_calls import InlineCalls
from tapeline.runtime.op import define_op
from tapeline.runtime.spec import TensorSpec


def test_inline_calls_goes_into_nested_calls_in_program_order(transform: Any) -> None:
    before = """
graph g:
  %0 = placeholder(name='x') : float64[2]
  %1 = placeholder(name='y') : float64[2]
  %2 = call(%1, %0) [@1] : (float64[2], float64[2])
  %3 = pick(%2, index=0) : float64[2]
  %4 = pick(%2, index=1) : float64[2]
  %5 = say(%3) : float64[2]
  %6 = call(%4) [@2] : float64[2]
  %7 = add(%6, %5) : float64[2]
  return %7

graph @1 outer:
  %0 = placeholder(name='a') : float64[2]
  %1 = placeholder(name='b') : float64[2]
  %2 = sub(%0, %1) : float64[2]
  %3 = call(%2) [@2] : float64[2]
  return %3, %1

graph @2 inner:
  %0 = placeholder(name='p') : float64[2]
  %1 = say(%0) : float64[2]
  %2 = exp(%1) : float64[2]
  return %2"""
    after = """\
graph g:
  %0 = placeholder(name='x') : float64[2]
  %1 = placeholder(name='y') : float64[2]
  %2 = sub(%1, %0)           : float64[2]
  %3 = say(%2)               : float64[2]
  %4 = exp(%3)               : float64[2]
  %5 = say(%4)               : float64[2]
  %6 = say(%0)               : float64[2]
  %7 = exp(%6)               : float64[2]
  %8 = add(%7, %5)           : float64[2]
  return %8"""
    assert transform(InlineCalls(), before) == after
    assert transform(InlineCalls(), after) == after


def _same(x: TensorSpec) -> TensorSpec:
    return x


SIN = define_op("sin_", kernel=np.sin, infer=_same, register=False)


def _nested(depth: int, times: int) -> Graph:
    graph = Graph("leaf")
    graph.outputs = [graph.add(SIN, (graph.add_placeholder(TensorSpec((2,)), "x"),))]
    for level in range(depth):
        outer = Graph(f"level{level}")
        x = outer.add_placeholder(TensorSpec((2,)), "x")
        op = make_call_op("call", graph, lambda v, g=graph: run_graph(g, [v])[0])
        for _ in range(times):
            x = outer.add(op, (x,))
        outer.outputs = [x]
        graph = outer
    return graph


def test_inline_calls_does_not_recurse() -> None:
    result = InlineCalls().run(_nested(3000, 1))
    verify_graph(result.graph)
    assert len(result.graph) == 2


def test_inline_calls_stops_at_its_limit() -> None:
    graph = _nested(12, 2)
    full = InlineCalls().run(graph).graph
    assert len(full) == 4097
    partly = InlineCalls(limit=100).run(graph).graph
    verify_graph(partly)
    assert len(partly) < 200
    x = [0.1, 0.2]
    np.testing.assert_array_equal(run_graph(full, [x]), run_graph(partly, [x]))


def test_inline_calls_keeps_a_body_that_returns_its_argument() -> None:
    body = Graph("body")
    body.outputs = [body.add_placeholder(TensorSpec((2,)), "x")]
    graph = Graph("g")
    x = graph.add_placeholder(TensorSpec((2,)), "x")
    graph.outputs = [graph.add(make_call_op("call", body, kernel=np.array), (x,)), x]
    assert InlineCalls().run(graph).graph.outputs == [0, 0]
