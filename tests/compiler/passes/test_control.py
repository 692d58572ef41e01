"""What control flow does not need is left out, and its graphs go through the passes."""

from __future__ import annotations

from tapeline.compiler.ir.parse import parse_graph
from tapeline.compiler.ir.verify import verify_graph
from tapeline.compiler.passes.control import Control
from tapeline.compiler.passes.dce import DeadCode


def simplified(text: str) -> str:
    """The text after the pass, and after dead nodes are gone."""
    graph = parse_graph(text)
    result = Control(lambda g: DeadCode().run(g).graph).run(graph).graph
    result = DeadCode().run(result).graph
    verify_graph(result)
    return str(result)


COND = """
graph f:
  %0 = placeholder(name='p') : bool[]
  %1 = placeholder(name='x') : float64[]
  %2 = placeholder(name='y') : float64[]
  %3 = constant(2.0) : float64[]
  %4 = cond(%0, %1, %2, %3) [@1, @2] : (float64[], float64[], float64[])
  %5 = pick(%4, index=0) : float64[]
  %6 = pick(%4, index=1) : float64[]
  return %5, %6

graph @1 then:
  %0 = placeholder(name='x') : float64[]
  %1 = placeholder(name='y') : float64[]
  %2 = placeholder(name='z') : float64[]
  %3 = multiply(%0, %2) : float64[]
  %4 = sin(%1) : float64[]
  return %3, %0, %4

graph @2 else:
  %0 = placeholder(name='x') : float64[]
  %1 = placeholder(name='y') : float64[]
  %2 = placeholder(name='z') : float64[]
  return %0, %0, %1
"""


def test_cond_loses_results_that_nobody_takes_and_takes_constants_in() -> None:
    text = simplified(COND)
    assert "cond(%0, %1) [@2, @1]" in text
    assert "return %3, %1" in text
    assert "sin" not in text
    assert "%1 = constant(2.0)" in text.rsplit("graph @", maxsplit=1)[-1]


LOOP = """
graph f:
  %0 = placeholder(name='n') : int64[]
  %1 = placeholder(name='x') : float64[]
  %2 = placeholder(name='rows') : float64[5, 2]
  %3 = scan(%0, %1, %1, %1, %2, %1, state=3, xs=1, length=5, reverse=False) [@1] : \
(int64[], float64[], float64[], float64[], float64[5], float64[5, 2])
  %4 = pick(%3, index=1) : float64[]
  %5 = pick(%3, index=3) : float64[]
  return %4, %5

graph @1 body:
  %0 = placeholder(name='a') : float64[]
  %1 = placeholder(name='b') : float64[]
  %2 = placeholder(name='c') : float64[]
  %3 = placeholder(name='row') : float64[2]
  %4 = placeholder(name='k') : float64[]
  %5 = multiply(%0, %2) : float64[]
  %6 = add(%1, %4) : float64[]
  return %5, %6, %2, %1, %3
"""


def test_loop_keeps_only_states_and_rows_that_its_results_need() -> None:
    text = simplified(LOOP)
    assert "scan(%0, %1, %1, state=1, xs=0, length=5, reverse=False)" in text
    assert "return %4, %1" in text
    assert "add" not in text
