"""JSON holds a graph whole, and text that is no such graph is refused."""

from __future__ import annotations

import copy
import json
from typing import Any

import numpy as np
import pytest
from tests.compiler.passes.test_fuzz import _Maker
from tests.sampling import op_cases, sampled_ops

import tapeline as tl
from tapeline.compiler.ir.graph import Graph, graphs_equal
from tapeline.compiler.ir.interchange import (
    VERSION,
    graph_from_document,
    graph_from_json,
    graph_to_document,
    graph_to_json,
    opaque_attributes,
)
from tapeline.compiler.ir.interchange_values import attr_from_document
from tapeline.compiler.ir.interpret import run_graph
from tapeline.compiler.ir.text import print_graph
from tapeline.compiler.ir.verify import verify_graph
from tapeline.runtime.errors import GraphError
from tapeline.runtime.op import Op, get_op, registered_ops
from tapeline.runtime.spec import TensorSpec


def example() -> Graph:
    @tl.function
    def loss(x: tl.Tensor, w: tl.Tensor) -> tl.Tensor:
        return tl.mean((x @ w - 2.5) ** 2, axis=(0, 1))

    given = tl.TensorSpec([4, 3], "float32"), tl.TensorSpec([3, 2], "float32")
    return loss.get_concrete_function(*given).graph


def controlled() -> Graph:
    @tl.function
    def steps(x: tl.Tensor, n: tl.Tensor) -> tl.Tensor:
        for _ in range(n):
            x = x / 2 if tl.sum(x) > 1 else x + 0.25
        while tl.sum(x) < 10:
            x = x * 2
        return x

    given = tl.TensorSpec([3], "float64"), tl.TensorSpec([], "int64")
    return steps.get_concrete_function(*given).graph


@pytest.mark.parametrize("make", [example, controlled])
def test_json_reads_back_as_the_same_graph(make: Any) -> None:
    graph = make()
    found = Graph.from_json(graph.to_json())
    verify_graph(found)
    assert graphs_equal(graph, found)
    assert print_graph(found) == print_graph(graph)
    assert found.locations == graph.locations


def test_json_keeps_loops_and_branches_that_run() -> None:
    graph = controlled()
    given = np.array([0.1, 0.2, 0.3]), np.array(3)
    expected = run_graph(graph, given)
    found = run_graph(Graph.from_json(graph.to_json()), given)
    np.testing.assert_array_equal(found[0], expected[0])


@pytest.mark.parametrize("dtype", ["float64", "float32", "int32"])
def test_json_reads_back_random_graphs(dtype: str) -> None:
    for seed in range(70):
        maker = _Maker(seed, dtype)
        for _ in range(30):
            maker.step()
        maker.graph.outputs = maker.ids[-3:]
        text = graph_to_json(maker.graph)
        found = graph_from_json(text)
        assert graphs_equal(maker.graph, found)
        assert graph_to_json(found) == text


def test_json_keeps_numbers_bit_for_bit() -> None:
    graph = Graph("bits")
    values = np.array([np.nan, np.inf, -0.0, 1e-310, 0.1])
    graph.outputs.append(graph.add_constant(values))
    found = Graph.from_json(graph.to_json())
    assert found.constants[0].tobytes() == values.tobytes()


def test_json_keeps_the_types_of_attributes() -> None:
    odd = (1, 1.0, True, None, "a", float("inf"), -0.0, 2 + 3j, np.dtype("int8"), np.float32(0.1))
    graph = Graph("attrs")
    x = graph.add_placeholder(TensorSpec((2,), "float32"), "x")
    op = next(op for op in registered_ops() if op.name == "negative")
    graph.outputs.append(graph.add(op, (x,)))
    graph.attrs[1] = (odd, (Ellipsis, ()))
    document = json.loads(json.dumps(graph_to_document(graph)))
    found = tuple(attr_from_document(value) for value in document["graphs"][0]["nodes"][1]["attrs"])
    assert repr(found) == repr(graph.attrs[1])


def test_json_is_one_line_unless_asked() -> None:
    graph = example()
    assert "\n" not in graph.to_json()
    assert json.loads(graph.to_json(indent=1)) == json.loads(graph.to_json())


def test_json_keeps_checks_with_their_messages() -> None:
    @tl.function
    def checked(x: tl.Tensor) -> tl.Tensor:
        assert tl.sum(x) > 0, "must be positive"
        return x

    graph = checked.get_concrete_function(tl.TensorSpec([2], "float64")).graph
    assert not opaque_attributes(graph)
    found = Graph.from_json(graph.to_json())
    run_graph(found, [np.ones(2)])
    with pytest.raises(AssertionError, match="must be positive"):
        run_graph(found, [-np.ones(2)])


def test_json_names_no_exceptions_but_those_of_python() -> None:
    for name in ("system", "print", "SystemExit", "KeyboardInterrupt", "__import__"):
        with pytest.raises(GraphError, match="is no exception that Python or Tapeline has"):
            attr_from_document({"error": [name, []]})
    assert attr_from_document({"error_type": ["ValueError", []]}) is ValueError


def test_json_of_an_attribute_that_is_an_object_is_not_read() -> None:
    @tl.function
    def shown(x: tl.Tensor) -> tl.Tensor:
        tl.print("x is", x)
        return x

    graph = shown.get_concrete_function(tl.TensorSpec([2], "float64")).graph
    assert len(opaque_attributes(graph)) == 1
    with pytest.raises(GraphError, match="is an object of the process that wrote it"):
        Graph.from_json(graph.to_json())


def test_json_of_a_newer_version_is_refused() -> None:
    document = graph_to_document(example())
    document["version"] = VERSION + 1
    with pytest.raises(GraphError, match=f"version {VERSION + 1}, and this Tapeline reads"):
        graph_from_document(document)


def _broken() -> list[tuple[str, str]]:
    """Changes to the document as Python statements on `g`, the first graph, and what they say."""
    return [
        ("g['nodes'][2]['inputs'] = [0, 9]", "9 is not the id of an earlier node"),
        ("g['nodes'][2]['inputs'] = [0, 2]", "2 is not the id of an earlier node"),
        ("g['nodes'][2]['inputs'] = [0, True]", "True is not the id"),
        ("g['nodes'][2]['inputs'] = 5", "'inputs' must be a list"),
        ("g['nodes'][2]['op'] = 'rm_rf'", "no op named 'rm_rf'"),
        ("g['nodes'][2]['op'] = ['matmul']", "must name its op"),
        ("g['nodes'][2]['spec'] = ['float32', [4, 9]]", "is written"),
        ("g['nodes'][2]['spec'] = ['object', [4, 2]]", "a spec must be"),
        ("g['nodes'][0]['spec'] = ['float32', [1 << 40]]", "larger than any array"),
        ("g['nodes'][0]['spec'] = ['float32', [-1]]", "a shape must be"),
        ("g['outputs'] = [99]", "99 is not the id"),
        ("g['placeholders'] = [1, 0]", "placeholders listed are not"),
        ("g['constants'][0]['base64'] = 'AAAA'", "comes with 3 bytes"),
        ("g['constants'][0]['base64'] = '!'", "not base64"),
        ("g['constants'] = []", "names its place"),
        ("g['nodes'][3] = 7", "a node must be an object"),
        ("g['name'] = None", "must be an object with a name"),
        ("g['nodes'][2]['graphs'] = [0]", "does not follow it"),
        ("g['nodes'][2]['location'] = 'x'", "a location is"),
    ]


@pytest.mark.parametrize(("change", "message"), _broken())
def test_json_that_does_not_fit_together_is_refused(change: str, message: str) -> None:
    document: Any = copy.deepcopy(graph_to_document(example()))
    exec(change, {"g": document["graphs"][0]})
    with pytest.raises(GraphError, match=message):
        graph_from_document(document)


@pytest.mark.parametrize("text", ["", "[]", "{}", "[" * 100000, '{"format": 1}', "\0"])
def test_text_that_is_no_graph_is_refused(text: str) -> None:
    with pytest.raises(GraphError):
        graph_from_json(text)


def test_equal_nodes_are_refused() -> None:
    document = graph_to_document(example())
    nodes = document["graphs"][0]["nodes"]
    nodes.append(copy.deepcopy(nodes[-1]))
    with pytest.raises(GraphError, match="equal nodes are written once"):
        graph_from_document(document)


def test_calls_of_traced_functions_read_back() -> None:
    @tl.function
    def inner(x: tl.Tensor) -> tl.Tensor:
        return x * 2

    @tl.function
    def outer(x: tl.Tensor) -> tl.Tensor:
        return inner(x) + 1

    graph = outer.get_concrete_function(tl.TensorSpec([2], "float64")).graph
    found = Graph.from_json(graph.to_json())
    given = [np.array([1.0, 2.0])]
    np.testing.assert_array_equal(run_graph(found, given)[0], [3.0, 5.0])
    assert get_op("add") in found.ops


@pytest.mark.parametrize("op", sampled_ops(), ids=lambda op: op.name)
def test_json_keeps_every_op_with_its_attributes(op: Op) -> None:
    graph = Graph(op.name)
    for case in op_cases(op):
        specs = [TensorSpec(array.shape, array.dtype) for array in case.arrays]
        inputs = [graph.add_placeholder(spec) for spec in specs]
        graph.outputs += graph.picks(graph.add(op, inputs, case.attrs))
    assert not opaque_attributes(graph)
    found = Graph.from_json(graph.to_json())
    assert graphs_equal(graph, found)
    for before, after in zip(graph.attrs, found.attrs, strict=True):
        assert repr(before) == repr(after)
