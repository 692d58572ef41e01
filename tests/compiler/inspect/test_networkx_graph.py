"""The networkx form holds what the graph holds."""

from __future__ import annotations

import networkx

import tapeline as tl
from tapeline.compiler.ir.graph import Graph


def example() -> Graph:
    @tl.function
    def square_and_sum(x: tl.Tensor) -> tuple[tl.Tensor, tl.Tensor]:
        return x, tl.sum(x * x, axis=0)

    return square_and_sum.get_concrete_function(tl.TensorSpec([3, 2], "float32")).graph


def test_networkx_nodes_say_op_spec_attributes_and_line() -> None:
    graph = example()
    found = graph.to_networkx()
    assert [found.nodes[node]["op"] for node in found] == ["placeholder", "multiply", "sum"]
    total = found.nodes[2]
    assert total["spec"] == tl.TensorSpec([2], "float32")
    assert total["attrs"]["axes"] == (0,)
    assert total["family"] == "reduction"
    assert total["location"].startswith("test_networkx_graph.py:")


def test_networkx_edges_keep_repeated_inputs_in_order() -> None:
    found = example().to_networkx()
    edges = sorted((s, t, data["input"]) for s, t, data in found.edges(data=True))
    assert edges == [(0, 1, 0), (0, 1, 1), (1, 2, 0)]
    assert networkx.is_directed_acyclic_graph(found)


def test_networkx_graph_marks_inputs_and_outputs() -> None:
    found = example().to_networkx()
    assert found.graph["placeholders"] == [0]
    assert found.graph["outputs"] == [0, 2]
    assert found.nodes[0]["outputs"] == (0,)
    assert found.nodes[1]["outputs"] == ()
