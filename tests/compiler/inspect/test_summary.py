"""The summary counts what is there and keeps within 80 columns."""

from __future__ import annotations

import numpy as np
import pytest

from tapeline.compiler.inspect.summary import bytes_text, spec_bytes, summarize_graph
from tapeline.compiler.ir.graph import Graph
from tapeline.runtime.op import Reduction, define_op
from tapeline.runtime.spec import TensorSpec, spec_of

TANH = define_op("tanh", kernel=np.tanh, infer=lambda x: x, emit=lambda b, x: x, register=False)
SUM = define_op(
    "sum",
    kernel=np.sum,
    infer=lambda x: spec_of((), x.dtype),
    emit=Reduction("sum"),
    register=False,
)


def example(inputs: int) -> Graph:
    graph = Graph("example")
    for number in range(inputs):
        value = graph.add_placeholder(TensorSpec((64, 64), "float32"), f"weights_{number}")
        graph.outputs.append(graph.add(SUM, (graph.add(TANH, (value,)),)))
    return graph


def test_summary_counts_ops_by_family() -> None:
    lines = summarize_graph(example(2)).splitlines()
    assert lines[0] == "graph example: 6 nodes, 4 of them ops"
    assert lines[1].split() == ["elementwise", "2", "tanh", "x2"]
    assert lines[2].split() == ["reduction", "2", "sum", "x2"]


def test_summary_states_bytes() -> None:
    text = " ".join(summarize_graph(example(1)).split())
    assert "inputs 16.0 KiB, outputs 4 B, between 16.0 KiB, constants 0 B" in text


@pytest.mark.parametrize("inputs", [0, 1, 30])
def test_summary_keeps_within_80_columns(inputs: int) -> None:
    for line in summarize_graph(example(inputs)).splitlines():
        assert len(line) <= 80
        assert line == line.rstrip()


def test_summary_is_a_method_of_the_graph() -> None:
    assert example(1).summary() == summarize_graph(example(1))


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (3 << 30, "3.0 GiB")]
)
def test_bytes_are_said_as_people_say_them(count: int, text: str) -> None:
    assert bytes_text(count) == text


def test_bytes_of_a_spec_count_every_value() -> None:
    spec = TensorSpec((2, 3), "float64")
    assert spec_bytes(spec) == 48
    assert spec_bytes((spec, spec)) == 96
    assert spec_bytes(TensorSpec((None, 4), "float32")) == 16
