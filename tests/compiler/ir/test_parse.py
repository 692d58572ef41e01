"""Text of a graph reads back as the same graph."""

from itertools import islice

import numpy as np
import pytest
from tests.sampling import op_cases, sampled_ops

import tapeline as tl
from tapeline.compiler.ir.graph import Graph, graphs_equal
from tapeline.compiler.ir.interpret import run_graph
from tapeline.compiler.ir.parse import parse_graph
from tapeline.compiler.ir.structure_ops import make_call_op
from tapeline.compiler.ir.text import constant_table
from tapeline.runtime.errors import GraphError
from tapeline.runtime.op import Op, define_op
from tapeline.runtime.spec import SUPPORTED_DTYPES, TensorSpec


def _same(x: TensorSpec, *_: object) -> TensorSpec:
    return x


def _twice(x: TensorSpec) -> tuple[TensorSpec, TensorSpec]:
    return x, x


ADD = define_op("t_add", kernel=np.add, infer=_same, n_inputs=2, register=False)
TAG = define_op(
    "t_tag", kernel=lambda x, *_: x, infer=_same, attr_names=("tag", "more"), register=False
)
TWO = define_op(
    "t_two", kernel=lambda x: (x, x), infer=_twice, n_outputs=2, n_inputs=1, register=False
)
OPS: dict[str, Op] = {op.name: op for op in (ADD, TAG, TWO)}


def _round_trip(graph: Graph) -> Graph:
    text = str(graph)
    again = parse_graph(text, OPS, constant_table(graph))
    assert graphs_equal(graph, again)
    assert "\n".join(line.split("  #")[0].rstrip() for line in text.splitlines()) == str(again)
    return again


@pytest.mark.parametrize(
    "attr",
    [
        1, -1, True, None, 1.5, -0.0, float("inf"), float("-inf"), "a) : int8[2] # no", "it's",
        (), (1,), ((1, None), (2.0, "x")), np.dtype("int8"), complex(-0.0, 2.0), Ellipsis,
        np.float32(0.1), np.int64(3), 10**30,
    ],
)  # fmt: skip
def test_attributes_read_back(attr: object) -> None:
    graph = Graph()
    x = graph.add_placeholder(TensorSpec((2,)), "x")
    graph.outputs = [graph.add(TAG, (x,), (attr,))]
    _round_trip(graph)


@pytest.mark.parametrize("dtype", SUPPORTED_DTYPES, ids=str)
def test_constants_of_every_dtype_read_back(dtype: np.dtype[np.generic]) -> None:
    rng = np.random.default_rng(0)
    values = rng.integers(0, 2, 6) if dtype.kind in "biu" else rng.normal(size=6)
    graph = Graph()
    for shape in [(), (6,), (2, 3), (0, 4), (64,)]:
        graph.add_constant(np.resize(values, shape).astype(dtype))
    graph.add_constant(np.array([[1, 0], [0, 1]]).astype(dtype).T)
    _round_trip(graph)


def test_extreme_constants_read_back_bit_for_bit() -> None:
    graph = Graph()
    graph.add_constant([0.0, -0.0, np.inf, -np.inf, 5e-324])
    graph.add_constant(np.array([np.nan, -np.nan]))
    graph.add_constant(np.array([complex(-0.0, np.inf), complex(0.0, -0.0)]))
    graph.add_constant(np.array([2**64 - 1, 2**63], dtype="uint64"))
    graph.add_constant(np.array([0.1, 1e-45], dtype="float32"))
    _round_trip(graph)


def test_subgraphs_follow_and_read_back() -> None:
    inner = Graph("inner")
    inner.outputs = [inner.add(TAG, (inner.add_placeholder(TensorSpec((2,)), "a"),), (1,))]
    middle = Graph("middle")
    a = middle.add_placeholder(TensorSpec((2,)), "a")
    middle.outputs = [middle.add(make_call_op("call", inner, kernel=np.add), (a,))]
    outer = Graph("outer")
    x = outer.add_placeholder(TensorSpec((2,)), "x")
    y = outer.add(make_call_op("call", inner, kernel=np.add), (x,))
    outer.outputs = [outer.add(make_call_op("call", middle, kernel=np.add), (y,))]

    def make(graphs: tuple[Graph, ...]) -> Op:
        return make_call_op("call", graphs[0], kernel=np.add)

    text = str(outer)
    assert "%1 = call(%0) [@2]" in text
    assert "graph @1 middle:" in text
    again = parse_graph(text, {**OPS, "call": make})
    assert graphs_equal(outer, again)
    assert str(again) == text
    with pytest.raises(GraphError, match="call has sub-graphs"):
        parse_graph(text, OPS)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("%0 = nothing() : float64[]\nreturn %0", "no op named 'nothing'"),
        ("%0 = what", "line 2: cannot read"),
        ("%0 = t_add(%1, %1) : float64[]\nreturn", "%1 is used before its line"),
        ("%0 = placeholder(name='x') : float64[2]\n%1 = t_add(%0, %0) : float64[3]", "t_add gives"),
        ("%1 = placeholder(name='x') : float64[2]", "%1 should be %0"),
        ("%0 = placeholder(nom='x') : float64[2]", "attribute 0 is 'name', not 'nom'"),
        ("%0 = placeholder(name=os) : float64[2]", "cannot read the value 'os'"),
        ("%0 = placeholder(name='x') : float128[2]", "float128 is not supported"),
        ("%0 = constant(#12) : float64[2]", "not in the table"),
        ("return %0", "%0 is used before"),
        ("return\nreturn", "nothing may follow"),
        ("", "has no line 'return"),
    ],
)
def test_bad_text_is_refused_with_its_line(body: str, message: str) -> None:
    with pytest.raises(GraphError, match=message):
        parse_graph(f"graph g:\n{body}", OPS)


def test_parse_graph_rejects_text_without_a_graph() -> None:
    with pytest.raises(GraphError, match="no graph"):
        parse_graph("")
    with pytest.raises(GraphError, match="expected 'graph <name>:'"):
        parse_graph("%0 = placeholder(name='x') : float64[2]")


def test_fifty_thousand_nodes_read_back() -> None:
    graph = Graph()
    x = graph.add_placeholder(TensorSpec((2,)), "x")
    for i in range(50_000):
        x = graph.add(TAG, (x,), (i % 7,))
    graph.outputs = [x]
    assert graphs_equal(graph, parse_graph(str(graph), OPS))


@pytest.mark.parametrize("op", sampled_ops(), ids=lambda op: op.name)
def test_every_op_of_the_registry_reads_back(op: Op) -> None:
    for arrays, attrs in islice(op_cases(op), 0, None, 7):
        graph = Graph(op.name)
        inputs = [graph.add_placeholder(TensorSpec(a.shape, a.dtype)) for a in arrays]
        graph.outputs = list(graph.picks(graph.add(op, inputs, attrs)))
        assert graphs_equal(graph, parse_graph(str(graph)))


def test_calls_of_compiled_functions_come_back() -> None:
    inner = tl.function(lambda x: tl.sin(x) * 2, name="inner")
    outer = tl.function(lambda x: inner(x) + inner(x + 1), name="outer")
    graph = outer.get_concrete_function(tl.ones(3)).graph
    assert "call:inner" in str(graph)
    again = parse_graph(str(graph))
    assert graphs_equal(again, graph)
    x = np.array([0.5, 1.0, 2.0])
    np.testing.assert_array_equal(run_graph(again, [x])[0], run_graph(graph, [x])[0])
