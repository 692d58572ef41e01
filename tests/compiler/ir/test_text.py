"""How a graph looks."""

import numpy as np

from tapeline.compiler.ir.graph import Graph
from tapeline.compiler.ir.location import Location
from tapeline.compiler.ir.text import constant_table
from tapeline.runtime.op import define_op, get_op
from tapeline.runtime.spec import TensorSpec


def _same(x: TensorSpec, *_: object) -> TensorSpec:
    return x


def _twice(x: TensorSpec) -> tuple[TensorSpec, TensorSpec]:
    return x, x


TAG = define_op(
    "t_tag", kernel=lambda x, *_: x, infer=_same, attr_names=("tag", "more"), register=False
)
TWO = define_op("t_two", kernel=lambda x: (x, x), infer=_twice, n_outputs=2, register=False)


def test_text_is_aligned_and_shows_source_lines() -> None:
    graph = Graph("loss")
    x = graph.add_placeholder(TensorSpec((2, 3), "float32"), "x")
    y = graph.add(get_op("add"), (x, x), (), Location.at("/a/model.py", 7))
    a, _ = graph.picks(graph.add(TWO, (y,)))
    graph.outputs = [graph.add(TAG, (a,), ((0, 1), True))]
    assert (
        str(graph)
        == """\
graph loss:
  %0 = placeholder(name='x')              : float32[2, 3]
  %1 = add(%0, %0)                        : float32[2, 3]                   # model.py:7
  %2 = t_two(%1)                          : (float32[2, 3], float32[2, 3])
  %3 = pick(%2, index=0)                  : float32[2, 3]
  %4 = pick(%2, index=1)                  : float32[2, 3]
  %5 = t_tag(%3, tag=(0, 1), more=True)   : float32[2, 3]
  return %5""".replace("   :", " :")
    )


def test_big_constants_and_odd_attributes_are_shown_shortly() -> None:
    graph = Graph("g")
    c = graph.add_constant(np.zeros(100))
    graph.add(TAG, (c,), (frozenset([1]),))
    (name, value), *_ = constant_table(graph).items()
    assert value is graph.constants[0]
    assert f"%0 = constant(#{name})" in str(graph)
    assert "tag=<frozenset frozenset({1})>" in str(graph)
