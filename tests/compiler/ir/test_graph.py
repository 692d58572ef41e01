"""The graph: value numbering, constants, specs, views."""

import pickle

import numpy as np
import pytest

from tapeline.compiler.ir.graph import Graph, attrs_key, graphs_equal
from tapeline.compiler.ir.location import Location
from tapeline.compiler.ir.structure_ops import CONSTANT
from tapeline.runtime.errors import GraphError
from tapeline.runtime.op import Op, Trait, define_op, get_op
from tapeline.runtime.spec import TensorSpec, broadcast_shapes, spec_of


def _infer(x: TensorSpec, y: TensorSpec) -> TensorSpec:
    return spec_of(broadcast_shapes("plus", x.static_shape, y.static_shape), x.dtype)


def _divmod_infer(x: TensorSpec, y: TensorSpec) -> tuple[TensorSpec, TensorSpec]:
    return _infer(x, y), _infer(x, y)


def _noisy_infer(x: TensorSpec) -> TensorSpec:
    return x


PLUS = define_op("plus", kernel=np.add, infer=_infer, n_inputs=2, register=False)
SCALE = define_op(
    "scale",
    kernel=lambda x, k: x * k,
    infer=lambda x, k: x,
    attr_names=("factor",),
    register=False,
)
DIVMOD = define_op(
    "divmod", kernel=np.divmod, infer=_divmod_infer, n_inputs=2, n_outputs=2, register=False
)
SAY = define_op("say", kernel=lambda x: x, infer=_noisy_infer, traits=Trait.EFFECT, register=False)
DICE = define_op(
    "dice", kernel=lambda x: x, infer=_noisy_infer, traits=Trait.RANDOM, register=False
)


def _graph() -> tuple[Graph, int, int]:
    graph = Graph("g")
    x = graph.add_placeholder(TensorSpec((2, 3)), "x")
    y = graph.add_placeholder(TensorSpec((3,)), "y")
    return graph, x, y


def test_add_infers_spec_and_keeps_location() -> None:
    graph, x, y = _graph()
    where = Location.at("/home/me/model.py", 12, "loss")
    z = graph.add(PLUS, (x, y), (), where)
    assert graph.spec(z) == TensorSpec((2, 3))
    assert str(graph.node(z).location) == "model.py:12"
    assert repr(graph.node(z)) == "<node %2 = plus(%0, %1)>"


def test_add_shares_pure_nodes() -> None:
    graph, x, y = _graph()
    assert graph.add(PLUS, (x, y)) == graph.add(PLUS, [x, y])
    assert graph.add(PLUS, (y, x)) != graph.add(PLUS, (x, y))


@pytest.mark.parametrize("op", [SAY, DICE])
def test_add_never_shares_effects_or_random_ops(op: Op) -> None:
    graph, x, _ = _graph()
    assert graph.add(op, (x,)) != graph.add(op, (x,))


@pytest.mark.parametrize(
    ("a", "b"), [(1, True), (1, 1.0), (0.0, -0.0), ((1,), (True,)), (1, np.int64(1))]
)
def test_add_tells_attributes_apart_that_python_holds_equal(a: object, b: object) -> None:
    graph, x, _ = _graph()
    assert graph.add(SCALE, (x,), (a,)) != graph.add(SCALE, (x,), (b,))


def test_add_shares_nan_attributes() -> None:
    assert attrs_key((float("nan"),)) == attrs_key((float("nan"),))


def test_constants_are_copies_shared_by_content() -> None:
    graph, _, _ = _graph()
    value = np.arange(3.0)
    c = graph.add_constant(value)
    value[0] = 9.0
    kept = graph.constant_value(c)
    assert kept is not None
    assert kept.tolist() == [0.0, 1.0, 2.0]
    assert not kept.flags.writeable
    assert graph.add_constant([0.0, 1.0, 2.0]) == c
    assert graph.add_constant(np.arange(3)) != c
    assert graph.add_constant(0.0) != graph.add_constant(-0.0)
    assert graph.ops[c] is CONSTANT
    assert graph.constant_value(0) is None


def test_copy_node_shares_big_constants() -> None:
    source, target = Graph(), Graph()
    c = source.add_constant(np.zeros(4096))
    first = target.copy_node(source, c, ())
    assert target.copy_node(source, c, ()) == first
    assert target.constant_value(first) is source.constant_value(c)


def test_picks_take_a_tuple_apart() -> None:
    graph, x, y = _graph()
    both = graph.add(DIVMOD, (x, y))
    q, r = graph.picks(both)
    assert graph.spec(q) == graph.spec(r) == TensorSpec((2, 3))
    assert graph.picks(both) == (q, r)
    assert graph.picks(q) == (q,)
    with pytest.raises(GraphError, match="yields 2 values; pick one"):
        graph.spec(both)


def test_users_lists_each_user_once() -> None:
    graph, x, y = _graph()
    twice = graph.add(PLUS, (x, x))
    z = graph.add(PLUS, (x, y))
    assert graph.users()[x] == [twice, z]
    assert graph.users()[y] == [z]


def test_graphs_equal_compares_constants_bit_for_bit() -> None:
    graphs = []
    for value in (0.0, 0.0, -0.0):
        graph, x, _ = _graph()
        graph.outputs = [graph.add(PLUS, (x, graph.add_constant(value)))]
        graphs.append(graph)
    assert graphs_equal(graphs[0], graphs[1])
    assert not graphs_equal(graphs[0], graphs[2])


def test_hundred_thousand_nodes_are_no_trouble() -> None:
    graph, x, y = _graph()
    z = x
    for _ in range(100_000):
        z = graph.add(PLUS, (z, y))
    graph.outputs = [z]
    assert len(graph) == 100_002
    assert len(graph.users()) == len(graph)


def test_graphs_pickle_and_go_on_sharing() -> None:
    add = get_op("add")
    graph = Graph("g")
    x = y = graph.add_placeholder(TensorSpec((2,)), "x")
    graph.add_constant(1.0)
    graph.add_constant(np.zeros(1000))
    for _ in range(20_000):
        y = graph.add(add, (y, x), (), Location.at("/a.py", 1))
    graph.outputs = [y]
    again = pickle.loads(pickle.dumps(graph))
    assert graphs_equal(graph, again)
    assert again.add(add, (x, x)) == graph.add(add, (x, x))
    assert again.add_constant(1.0) == 1
    assert again.locations[-1] == Location.at("/a.py", 1)
    assert not any(array.flags.writeable for array in again.constants)
