"""Rebuilding a graph."""

from collections.abc import Callable

from tapeline.compiler.ir.graph import Graph, graphs_equal
from tapeline.compiler.ir.location import Location
from tapeline.compiler.passes.base import Rebuild, rebuild

TEXT = """
graph g:
  %0 = placeholder(name='x') : float64[2]
  %1 = placeholder(name='y') : float64[2]
  %2 = divmod(%0, %1) : (float64[2], float64[2])
  %3 = pick(%2, index=1) : float64[2]
  %4 = add(%3, %1) : float64[2]
  return %4
"""


def test_rebuild_without_rewrites_copies(read: Callable[[str], Graph]) -> None:
    graph = read(TEXT)
    graph.locations[4] = Location.at("/a/b.py", 7)
    graph.placeholders = [1, 0]
    result = rebuild(graph, lambda work, i: None)
    assert not result.changed
    assert graphs_equal(graph, result.graph)
    assert result.graph.placeholders == [1, 0]
    assert result.graph.locations[4] == Location.at("/a/b.py", 7)


def test_rebuild_takes_apart_a_value_that_was_replaced_by_parts(
    read: Callable[[str], Graph],
) -> None:
    graph = read(TEXT)

    def parts(work: Rebuild, node_id: int) -> tuple[int, ...] | None:
        return work.inputs(node_id) if graph.ops[node_id].name == "divmod" else None

    result = rebuild(graph, parts)
    assert result.changed
    assert str(result.graph).splitlines()[3:] == [
        "  %2 = add(%1, %1)           : float64[2]",
        "  return %2",
    ]
