"""The picture of a graph is valid SVG that shows every node once."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree

import numpy as np

import tapeline as tl
from tapeline.compiler.inspect.fold import MAX_ROWS, SMALL_GRAPH, fold_graph
from tapeline.compiler.inspect.svg import graph_to_svg
from tapeline.compiler.ir.graph import Graph
from tapeline.compiler.ir.location import Location
from tapeline.runtime.op import Op, Reduction, Trait, define_op
from tapeline.runtime.spec import TensorSpec, spec_of

SVG = "{http://www.w3.org/2000/svg}"
FLOAT = np.dtype("float32")


def pointwise(name: str, n_inputs: int, traits: Trait = Trait.ELEMENTWISE) -> Op:
    def infer(*specs: TensorSpec) -> TensorSpec:
        return specs[0]

    return define_op(
        name,
        kernel=np.add,
        infer=infer,
        n_inputs=n_inputs,
        emit=lambda b, *args: args[0],
        traits=traits,
        register=False,
    )


TANH = pointwise("tanh", 1)
ADD = pointwise("add", 2, Trait.ELEMENTWISE | Trait.COMMUTATIVE)
SUBTRACT = pointwise("subtract", 2)
SUM = define_op(
    "sum",
    kernel=np.sum,
    infer=lambda spec, axes, keepdims: spec_of((), spec.dtype),
    attr_names=("axes", "keepdims"),
    emit=Reduction("sum"),
    register=False,
)


def diamond() -> Graph:
    """sum(tanh(x) + (1 - tanh(x)))"""
    graph = Graph("diamond")
    x = graph.add_placeholder(TensorSpec((4, 3), FLOAT), "x")
    y = graph.add(TANH, (x,), (), Location.at("model.py", 7, "loss"))
    one = graph.add_constant(np.float32(1))
    z = graph.add(SUBTRACT, (one, y))
    graph.outputs.append(graph.add(SUM, (graph.add(ADD, (y, z)),), ((0, 1), False)))
    return graph


def ladder(steps: int) -> Graph:
    """Steps that each use the two values before them."""
    graph = Graph("ladder")
    values = [graph.add_placeholder(TensorSpec((8,), FLOAT), name) for name in ("a", "b")]
    for _ in range(steps):
        values.append(graph.add(SUBTRACT, (values[-1], values[-2])))
        values.append(graph.add(TANH, (values[-1],)))
    values.append(graph.add(ADD, (values[-1], values[3])))
    graph.outputs.append(values[-1])
    return graph


def parse(text: str) -> ElementTree.Element:
    root = ElementTree.fromstring(text)
    assert root.tag == f"{SVG}svg"
    return root


def shown(root: ElementTree.Element) -> list[int]:
    marks = (element.get("id") or "" for element in root.iter(f"{SVG}g"))
    return sorted(int(mark[1:]) for mark in marks if re.fullmatch(r"n\d+", mark))


def test_svg_shows_every_node_but_folded_constants_once() -> None:
    graph = diamond()
    assert shown(parse(graph_to_svg(graph))) == [0, 1, 3, 4, 5]


def test_svg_says_op_spec_and_source_line() -> None:
    text = graph_to_svg(diamond())
    assert ">tanh<" in text
    assert ">float32[4, 3]<" in text
    assert "model.py:7 in loss" in text


def test_svg_marks_outputs_and_draws_edges() -> None:
    text = graph_to_svg(diamond())
    assert ">out 0<" in text
    edges = [e for e in parse(text).iter(f"{SVG}path") if e.get("class") == "edge"]
    assert len(edges) == 4


def test_svg_is_the_same_every_time() -> None:
    assert graph_to_svg(ladder(20)) == graph_to_svg(ladder(20))


def test_svg_of_three_hundred_nodes_is_complete_and_not_a_strip() -> None:
    graph = ladder(150)
    root = parse(graph_to_svg(graph))
    assert shown(root) == list(range(len(graph)))
    width, height = float(root.get("width", 0)), float(root.get("height", 0))
    assert 0.4 < width / height < 4


def test_svg_references_lead_to_nodes_that_are_shown() -> None:
    text = graph_to_svg(ladder(60))
    nodes = {f"n{node}" for node in shown(parse(text))}
    linked = set(re.findall(r'href="#(n\d+)"', text))
    assert linked
    assert linked <= nodes


def test_svg_draws_branches_and_loop_bodies_beneath() -> None:
    @tl.function
    def program(xs: tl.Tensor) -> tl.Tensor:
        total = tl.asarray(0.0)
        for x in xs:
            if x > 0:
                total = total + tl.exp(x)
        return total

    graph = program.get_concrete_function(tl.ones(500)).graph
    text = graph_to_svg(graph)
    titles = re.findall(r'class="title">([^<]+)<', text)
    assert titles[0] == "program"
    assert re.fullmatch(r"body of %\d+ scan", titles[1])
    assert any(title.startswith("then of %") for title in titles)
    assert ">exp<" in text
    ids = re.findall(r'<g id="([^"]+)"', text)
    assert len(ids) == len(set(ids))
    assert set(re.findall(r'href="#([^"]+)"', text)) <= set(ids)


def test_svg_of_an_empty_graph_is_valid() -> None:
    assert shown(parse(graph_to_svg(Graph("empty")))) == []


def test_svg_escapes_names() -> None:
    graph = Graph("<lambda>")
    graph.outputs.append(graph.add_placeholder(TensorSpec((2,), FLOAT), "a<b & c"))
    assert "&lt;lambda&gt;" in graph_to_svg(graph)
    parse(graph_to_svg(graph))


def test_svg_shows_a_constant_that_is_an_output() -> None:
    graph = Graph("constant")
    graph.outputs.append(graph.add_constant(np.arange(3.0)))
    assert shown(parse(graph_to_svg(graph))) == [0]


def test_svg_is_a_method_of_the_graph() -> None:
    assert diamond().to_svg() == graph_to_svg(diamond())


def test_fold_puts_a_chain_into_one_block() -> None:
    graph = Graph("chain")
    value = graph.add_placeholder(TensorSpec((2,), FLOAT), "x")
    for _ in range(MAX_ROWS):
        value = graph.add(TANH, (value,))
    graph.outputs.append(value)
    folded = fold_graph(graph)
    assert [len(block) for block in folded.blocks] == [1, MAX_ROWS]
    assert folded.edges == [(0, 1)]


def test_fold_names_the_place_of_a_drawn_input_only_where_order_matters() -> None:
    rows = {row.title: row for block in fold_graph(diamond()).blocks for row in block}
    assert [reference.text for reference in rows["subtract"].references] == ["1", "·"]
    assert rows["add"].references == ()


def test_fold_lists_the_inputs_of_a_large_graph() -> None:
    small, large = ladder(SMALL_GRAPH // 4), ladder(SMALL_GRAPH)
    assert fold_graph(small).listed == []
    assert [row.title for row in fold_graph(large).listed] == ["a", "b"]


def test_fold_names_values_from_far_away() -> None:
    last = fold_graph(ladder(60)).blocks[-1][-1]
    assert "%3" in [reference.text for reference in last.references]


def block(x: tl.Tensor, k: float) -> tl.Tensor:
    y = tl.sin(x) * k
    return y + tl.cos(x)


def texts_of(picture: str) -> list[str]:
    return [one.text or "" for one in ElementTree.fromstring(picture).iter(f"{SVG}text")]


def test_long_graphs_are_folded_by_source_function() -> None:
    def long(x: tl.Tensor, *more: tl.Tensor) -> tl.Tensor:
        for k in range(120):
            x = block(x, k + 1.0)
        return tl.sum(x) + sum(tl.sum(one) for one in more)

    function = tl.function(long, autograph=False)
    graph = function.get_concrete_function(*[tl.ones(3)] * 15).graph
    assert len(graph) > 400
    folded = texts_of(graph.to_svg())
    assert "block x120" in folded
    assert "long" in folded
    assert any(text.startswith("sin x120, multiply x120, cos x120") for text in folded)
    assert "3 more" in folded  # of the inputs
    assert len(folded) < 80
    assert len(texts_of(graph.to_svg(fold=False))) > 400
    small = tl.function(lambda x: block(x, 2.0)).get_concrete_function(tl.ones(3)).graph
    assert "block" not in texts_of(small.to_svg())
    assert "block" in texts_of(small.to_svg(fold=True))
