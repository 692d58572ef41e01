"""The Graphviz form names every node and edge, and `dot` reads it."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest

import tapeline as tl
from tapeline.compiler.inspect.dot import quoted
from tapeline.compiler.ir.graph import Graph


def example() -> Graph:
    @tl.function
    def odd(x: tl.Tensor, n: tl.Tensor) -> tl.Tensor:
        for _ in range(n):
            x = x - tl.sum(x * 2, axis=0)
        return tl.tanh(x)

    given = tl.TensorSpec([4, 3], "float32"), tl.TensorSpec([], "int64")
    return odd.get_concrete_function(*given).graph


def test_dot_names_every_node_and_edge() -> None:
    graph = example()
    text = graph.to_dot()
    assert len(re.findall(r"^  g0n\d+ \[label", text, re.MULTILINE)) == len(graph)
    edges = re.findall(r"^  g0n(\d+) -> g0n(\d+)", text, re.MULTILINE)
    assert len(edges) == sum(map(len, graph.inputs))
    assert "float32[4, 3]" in text
    assert "test_dot.py:" in text


def test_dot_puts_subgraphs_into_clusters() -> None:
    text = example().to_dot()
    assert "subgraph cluster_1 {" in text
    assert re.search(r"-> g1n0 \[style=dashed", text)


def test_dot_quotes_names() -> None:
    assert quoted('a "b" \\ <c>') == '"a \\"b\\" \\\\ <c>"'


@pytest.mark.skipif(shutil.which("dot") is None, reason="Graphviz is not installed")
def test_dot_is_read_by_graphviz() -> None:
    done = subprocess.run(
        ["dot", "-Tsvg"], input=example().to_dot(), capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "tanh" in done.stdout
