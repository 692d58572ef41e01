"""Equal pure values are computed once."""

from typing import Any

import numpy as np

from tapeline.compiler.ir.graph import Graph
from tapeline.compiler.ir.verify import verify_graph
from tapeline.compiler.passes.cse import CommonSubexpressions
from tapeline.compiler.passes.dce import DeadCode


def test_cse_shares_swapped_operands_of_commutative_ops_only(transform: Any) -> None:
    before = """
graph g:
  %0 = placeholder(name='x') : float64[2]
  %1 = placeholder(name='y') : float64[2]
  %2 = add(%1, %0) : float64[2]
  %3 = add(%0, %1) : float64[2]
  %4 = sub(%1, %0) : float64[2]
  %5 = sub(%0, %1) : float64[2]
  %6 = exp(%2) : float64[2]
  %7 = exp(%3) : float64[2]
  return %6, %7, %4, %5"""
    after = """\
graph g:
  %0 = placeholder(name='x') : float64[2]
  %1 = placeholder(name='y') : float64[2]
  %2 = add(%1, %0)           : float64[2]
  %3 = sub(%1, %0)           : float64[2]
  %4 = sub(%0, %1)           : float64[2]
  %5 = exp(%2)               : float64[2]
  return %5, %5, %3, %4"""
    assert transform(CommonSubexpressions(), before) == after


def test_cse_never_shares_effects_or_random_ops(transform: Any) -> None:
    before = """\
graph g:
  %0 = placeholder(name='x') : float64[2]
  %1 = say(%0)               : float64[2]
  %2 = say(%0)               : float64[2]
  %3 = dice(%0)              : float64[2]
  %4 = dice(%0)              : float64[2]
  return %1, %2, %3, %4"""
    assert transform(CommonSubexpressions(), before) == before


def test_cse_shares_big_constants_with_the_same_bits() -> None:
    graph = Graph("g")
    zeros = np.zeros(1000)
    other = zeros.copy()
    other[-1] = -0.0
    graph.outputs = [graph.add_constant(v) for v in (zeros, zeros.copy(), other)]
    result = CommonSubexpressions().run(graph)
    assert result.changed
    verify_graph(result.graph)
    assert result.graph.outputs == [0, 0, 1]
    assert len(DeadCode().run(result.graph).graph) == 2
