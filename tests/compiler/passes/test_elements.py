"""Bodies write elements where they would add arrays of zeros, and read before they write."""

from __future__ import annotations

from tapeline.compiler.ir.parse import parse_graph
from tapeline.compiler.ir.verify import verify_graph
from tapeline.compiler.passes.elements import work_on_elements


def worked_on(text: str) -> str:
    """The text after both steps."""
    graph = work_on_elements(parse_graph(text))
    verify_graph(graph)
    return str(graph)


def test_sum_with_one_element_becomes_a_write() -> None:
    text = worked_on(
        """
graph body:
  %0 = placeholder(name='total') : float64[4]
  %1 = placeholder(name='i') : int64[]
  %2 = placeholder(name='x') : float64[]
  %3 = take_grad(%2, %1, axis=0, size=4) : float64[4]
  %4 = add(%3, %0) : float64[4]
  return %4
"""
    )
    assert "take_grad" not in text
    assert "%3 = check_index(%1, size=4, axis=0)" in text
    assert "%6 = put(%0, %3, %5)" in text


def test_sum_of_arrays_stays() -> None:
    text = """
graph body:
  %0 = placeholder(name='total') : float64[4]
  %1 = placeholder(name='i') : int64[3]
  %2 = placeholder(name='x') : float64[3]
  %3 = take_grad(%2, %1, axis=0, size=4) : float64[4]
  %4 = add(%3, %0) : float64[4]
  return %4
"""
    assert "put" not in worked_on(text)


def test_reads_come_before_writes() -> None:
    text = worked_on(
        """
graph body:
  %0 = placeholder(name='x') : float64[4]
  %1 = placeholder(name='i') : int64[]
  %2 = constant(1.0) : float64[]
  %3 = put(%0, %1, %2) : float64[4]
  %4 = take(%0, %1, axis=0) : float64[]
  %5 = negative(%4) : float64[]
  return %3, %5
"""
    )
    assert text.index("take(") < text.index("negative(") < text.index("put(")
    assert "return %5, %4" in text
