"""Every rule of a valid graph is checked."""

from collections.abc import Callable

import numpy as np
import pytest

from tapeline.compiler.ir.graph import Graph
from tapeline.compiler.ir.location import Location
from tapeline.compiler.ir.structure_ops import make_call_op
from tapeline.compiler.ir.verify import verify_graph
from tapeline.runtime.errors import GraphError
from tapeline.runtime.op import define_op
from tapeline.runtime.spec import TensorSpec


def _same(x: TensorSpec, *_: object) -> TensorSpec:
    return x


def _twice(x: TensorSpec) -> tuple[TensorSpec, TensorSpec]:
    return x, x


ADD = define_op("v_add", kernel=np.add, infer=_same, n_inputs=2, register=False)
TWO = define_op("v_two", kernel=lambda x: (x, x), infer=_twice, n_outputs=2, register=False)


def _graph() -> Graph:
    graph = Graph("g")
    x = graph.add_placeholder(TensorSpec((2,)), "x")
    c = graph.add_constant([1.0, 2.0])
    y = graph.add(ADD, (x, c), (), Location.at("/a/b.py", 3))
    two = graph.add(TWO, (y,))
    graph.outputs = [y, *graph.picks(two)]
    return graph


def test_verify_accepts_valid_graphs() -> None:
    verify_graph(_graph())
    verify_graph(Graph())


def _set(name: str, index: int, value: object) -> Callable[[Graph], None]:
    def change(graph: Graph) -> None:
        getattr(graph, name)[index] = value

    return change


def _repeat(graph: Graph) -> None:
    for name in ("ops", "inputs", "attrs", "specs", "locations"):
        getattr(graph, name).append(getattr(graph, name)[2])


def _writeable(graph: Graph) -> None:
    graph.constants[0] = np.array([1.0, 2.0])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda g: g.specs.pop(), "list specs has 5 entries for 6 nodes"),
        (lambda g: g.placeholders.append(0), r"`placeholders` lists \[0, 0\]"),
        (lambda g: g.placeholders.clear(), r"placeholder nodes are \[0\]"),
        (lambda g: g.outputs.append(9), "output %9 is no node"),
        (lambda g: g.outputs.append(3), "output %3 is a value of several parts"),
        (_set("inputs", 2, (0,)), r"%2 = v_add made at b.py:3: takes 2 inputs, but has 1"),
        (_set("inputs", 2, (0, 4)), "input %4 does not come before"),
        (_set("inputs", 2, (0, 2)), "input %2 does not come before"),
        (_set("ops", 4, TWO), "input %3 is a value of several parts"),
        (_set("attrs", 2, (1, 2)), "its op names"),
        (_set("attrs", 4, ([],)), "not hashable"),
        (_set("attrs", 4, (7,)), "refuses the inputs: pick: there is no value 7"),
        (_set("attrs", 1, (3,)), "no constant 3"),
        (_set("specs", 2, TensorSpec((3,))), "its op infers"),
        (_set("specs", 3, TensorSpec((2,))), "n_outputs=2"),
        (_set("specs", 1, TensorSpec((3,))), "its spec is"),
        (_writeable, "not read-only"),
        (_repeat, "repeats %2"),
    ],
)
def test_verify_names_the_broken_rule(change: Callable[[Graph], None], message: str) -> None:
    graph = _graph()
    change(graph)
    with pytest.raises(GraphError, match=message):
        verify_graph(graph)


def test_verify_looks_into_subgraphs() -> None:
    inner = _graph()
    outer = Graph("outer")
    x = outer.add_placeholder(TensorSpec((2,)), "x")
    outer.add(make_call_op("call", inner, kernel=np.add), (x,))
    verify_graph(outer)
    inner.inputs[2] = (0,)
    with pytest.raises(GraphError, match="graph g: %2"):
        verify_graph(outer)
