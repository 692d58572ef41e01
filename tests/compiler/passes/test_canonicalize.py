"""One form for constants, broadcasts, casts and views."""

import numpy as np
import pytest

from tapeline.compiler.ir.graph import Graph, graphs_equal
from tapeline.compiler.ir.interpret import run_graph
from tapeline.compiler.ir.parse import parse_graph
from tapeline.compiler.ir.verify import verify_graph
from tapeline.compiler.passes.canonicalize import Canonicalize
from tapeline.compiler.passes.dce import DeadCode


def _check(before: str, after: str, differentiated: bool = False) -> None:
    """Both texts are nodes and a return; the first defines the placeholders."""
    graph = parse_graph(f"graph g:\n{before}")
    expected = parse_graph(f"graph g:\n{after}")
    result = Canonicalize(differentiated).run(graph)
    verify_graph(result.graph)
    simple = DeadCode().run(result.graph).graph
    verify_graph(simple)
    assert graphs_equal(simple, expected), f"got\n{simple}"
    assert not Canonicalize(differentiated).run(simple).changed
    _same_values(graph, simple)


def _same_values(graph: Graph, simple: Graph) -> None:
    rng = np.random.default_rng(0)
    inputs = []
    for i in graph.placeholders:
        spec = graph.spec(i)
        inputs.append(rng.integers(-100, 100, spec.static_shape).astype(spec.dtype))
    for x, y in zip(run_graph(graph, inputs), run_graph(simple, inputs), strict=True):
        assert x.dtype == y.dtype
        np.testing.assert_array_equal(x, y)


X = "%0 = placeholder(name='x') : float64[2, 3]\n"


def test_a_constant_goes_to_the_right_of_a_commutative_op() -> None:
    _check(
        X + "%1 = constant(2.0) : float64[]\n%2 = add(%1, %0) : float64[2, 3]\n"
        "%3 = subtract(%1, %2) : float64[2, 3]\nreturn %3",
        X + "%1 = constant(2.0) : float64[]\n%2 = add(%0, %1) : float64[2, 3]\n"
        "%3 = subtract(%1, %2) : float64[2, 3]\nreturn %3",
    )


def test_a_broadcast_is_dropped_where_the_op_broadcasts_anyway() -> None:
    _check(
        X + "%1 = placeholder(name='b') : float64[3]\n"
        "%2 = broadcast_to(%1, shape=(2, 3)) : float64[2, 3]\n"
        "%3 = multiply(%0, %2) : float64[2, 3]\nreturn %3",
        X + "%1 = placeholder(name='b') : float64[3]\n"
        "%2 = multiply(%0, %1) : float64[2, 3]\nreturn %2",
    )


def test_a_broadcast_comes_as_late_as_it_can() -> None:
    _check(
        "%0 = placeholder(name='ct') : float64[]\n"
        "%1 = broadcast_to(%0, shape=(2, 3)) : float64[2, 3]\n"
        "%2 = constant(0.25) : float64[]\n"
        "%3 = multiply(%1, %2) : float64[2, 3]\n"
        "%4 = negative(%3) : float64[2, 3]\n"
        "%5 = sum(%4, axes=(0,), keepdims=False) : float64[3]\nreturn %5",
        "%0 = placeholder(name='ct') : float64[]\n"
        "%1 = constant(0.25) : float64[]\n"
        "%2 = multiply(%0, %1) : float64[]\n"
        "%3 = negative(%2) : float64[]\n"
        "%4 = broadcast_to(%3, shape=(2, 3)) : float64[2, 3]\n"
        "%5 = sum(%4, axes=(0,), keepdims=False) : float64[3]\nreturn %5",
    )


CHANGES_NOTHING = [
    "cast(%0, dtype=float64)",
    "identity(%0)",
    "positive(%0)",
    "reshape(%0, shape=(2, 3))",
    "broadcast_to(%0, shape=(2, 3))",
    "permute_dims(%0, axes=(0, 1))",
    "squeeze(%0, axes=())",
    "expand_dims(%0, axes=())",
    "flip(%0, axes=())",
    "getitem(%0, index=())",
    "max(%0, axes=(), keepdims=False)",
]


@pytest.mark.parametrize("call", CHANGES_NOTHING)
def test_an_op_that_changes_nothing_is_dropped(call: str) -> None:
    _check(X + f"%1 = {call} : float64[2, 3]\nreturn %1", X + "return %0")


SQUARE = "%0 = placeholder(name='x') : float64[3, 3]\n"


@pytest.mark.parametrize(
    "call",
    ["permute_dims(%0, axes=(1, 0))", "flip(%0, axes=(0,))", "sum(%0, axes=(), keepdims=True)"],
)
def test_the_same_shape_is_not_enough(call: str) -> None:
    text = SQUARE + f"%1 = {call} : float64[3, 3]\nreturn %1"
    _check(text, text)


def test_stop_gradient_is_dropped_only_after_differentiation() -> None:
    text = X + "%1 = stop_gradient(%0) : float64[2, 3]\nreturn %1"
    _check(text, text)
    _check(text, X + "return %0", differentiated=True)


@pytest.mark.parametrize(
    ("first", "middle", "last", "casts"),
    [
        ("int32", "int64", "int32", []),
        ("float32", "float64", "float32", []),
        ("int8", "float32", "int8", []),
        ("bool", "float32", "bool", []),
        ("int32", "int64", "int8", ["int8"]),
        ("float32", "float64", "int32", ["int32"]),
        ("uint8", "int32", "float32", ["float32"]),
        ("bool", "int8", "float64", ["float64"]),
        ("int64", "int32", "int64", ["int32", "int64"]),
        ("int64", "float64", "int64", ["float64", "int64"]),
        ("int32", "float32", "int32", ["float32", "int32"]),
        ("int8", "float32", "uint8", ["float32", "uint8"]),
        ("int8", "uint8", "int16", ["uint8", "int16"]),
        ("float64", "complex128", "float64", []),
    ],
)
def test_casts_in_a_row(first: str, middle: str, last: str, casts: list[str]) -> None:
    head = f"%0 = placeholder(name='x') : {first}[4]\n"
    before = (
        f"{head}%1 = cast(%0, dtype={middle}) : {middle}[4]\n"
        f"%2 = cast(%1, dtype={last}) : {last}[4]\nreturn %2"
    )
    graph = parse_graph(f"graph g:\n{before}")
    simple = DeadCode().run(Canonicalize().run(graph).graph).graph
    verify_graph(simple)
    assert [simple.spec(i).dtype.name for i in range(1, len(simple))] == casts
    if first != "int8":
        _same_values(graph, simple)


def test_views_in_a_row_become_one() -> None:
    _check(
        X + "%1 = reshape(%0, shape=(6,)) : float64[6]\n"
        "%2 = expand_dims(%1, axes=(0,)) : float64[1, 6]\n"
        "%3 = reshape(%2, shape=(3, 2)) : float64[3, 2]\nreturn %3",
        X + "%1 = reshape(%0, shape=(3, 2)) : float64[3, 2]\nreturn %1",
    )
    _check(
        X + "%1 = expand_dims(%0, axes=(1,)) : float64[2, 1, 3]\n"
        "%2 = squeeze(%1, axes=(1,)) : float64[2, 3]\nreturn %2",
        X + "return %0",
    )
    _check(
        "%0 = placeholder(name='x') : float64[2, 3, 4]\n"
        "%1 = permute_dims(%0, axes=(2, 0, 1)) : float64[4, 2, 3]\n"
        "%2 = permute_dims(%1, axes=(2, 0, 1)) : float64[3, 4, 2]\n"
        "%3 = permute_dims(%2, axes=(2, 0, 1)) : float64[2, 3, 4]\nreturn %2, %3",
        "%0 = placeholder(name='x') : float64[2, 3, 4]\n"
        "%1 = permute_dims(%0, axes=(1, 2, 0)) : float64[3, 4, 2]\nreturn %1, %0",
    )
    _check(
        "%0 = placeholder(name='x') : float64[3]\n"
        "%1 = broadcast_to(%0, shape=(2, 3)) : float64[2, 3]\n"
        "%2 = broadcast_to(%1, shape=(4, 2, 3)) : float64[4, 2, 3]\nreturn %2",
        "%0 = placeholder(name='x') : float64[3]\n"
        "%1 = broadcast_to(%0, shape=(4, 2, 3)) : float64[4, 2, 3]\nreturn %1",
    )


def test_a_reduction_of_single_elements_is_a_reshape_but_for_float_sums() -> None:
    head = "%0 = placeholder(name='x') : float64[2, 1]\n"
    _check(
        head + "%1 = max(%0, axes=(1,), keepdims=False) : float64[2]\n"
        "%2 = prod(%0, axes=(1,), keepdims=False) : float64[2]\nreturn %1, %2",
        head + "%1 = reshape(%0, shape=(2,)) : float64[2]\nreturn %1, %1",
    )
    text = head + "%1 = sum(%0, axes=(1,), keepdims=False) : float64[2]\nreturn %1"
    _check(text, text)


def test_a_view_of_one_element_spread_out_is_dropped() -> None:
    _check(
        X + "%1 = placeholder(name='ct') : float64[]\n"
        "%2 = expand_dims(%1, axes=(0,)) : float64[1]\n"
        "%3 = broadcast_to(%2, shape=(2,)) : float64[2]\n"
        "%4 = expand_dims(%3, axes=(1,)) : float64[2, 1]\n"
        "%5 = multiply(%4, %0) : float64[2, 3]\nreturn %5",
        X + "%1 = placeholder(name='ct') : float64[]\n"
        "%2 = multiply(%1, %0) : float64[2, 3]\nreturn %2",
    )
    _check(
        "%0 = placeholder(name='x') : float64[]\n"
        "%1 = broadcast_to(%0, shape=(2, 3)) : float64[2, 3]\n"
        "%2 = permute_dims(%1, axes=(1, 0)) : float64[3, 2]\n"
        "%3 = getitem(%2, index=(0,)) : float64[2]\nreturn %3",
        "%0 = placeholder(name='x') : float64[]\n"
        "%1 = broadcast_to(%0, shape=(2,)) : float64[2]\nreturn %1",
    )


def test_new_dimensions_come_before_a_broadcast() -> None:
    _check(
        "%0 = placeholder(name='x') : float64[2, 1]\n"
        "%1 = broadcast_to(%0, shape=(2, 3)) : float64[2, 3]\n"
        "%2 = expand_dims(%1, axes=(1,)) : float64[2, 1, 3]\nreturn %2",
        "%0 = placeholder(name='x') : float64[2, 1]\n"
        "%1 = expand_dims(%0, axes=(1,)) : float64[2, 1, 1]\n"
        "%2 = broadcast_to(%1, shape=(2, 1, 3)) : float64[2, 1, 3]\nreturn %2",
    )


@pytest.mark.parametrize("back", ["reshape(%1, shape=(2, 1))", "expand_dims(%1, axes=(1,))"])
def test_a_reduction_keeps_dimensions_that_come_back(back: str) -> None:
    _check(
        X + f"%1 = sum(%0, axes=(1,), keepdims=False) : float64[2]\n%2 = {back} : float64[2, 1]\n"
        "return %2",
        X + "%1 = sum(%0, axes=(1,), keepdims=True) : float64[2, 1]\nreturn %1",
    )
    text = (
        X + f"%1 = sum(%0, axes=(1,), keepdims=False) : float64[2]\n%2 = {back} : float64[2, 1]\n"
        "return %1, %2"
    )
    _check(text, text)


def test_a_constant_of_one_value_becomes_a_scalar_where_the_shape_stays() -> None:
    _check(
        X + "%1 = constant([2.0, 2.0, 2.0]) : float64[3]\n"
        "%2 = multiply(%0, %1) : float64[2, 3]\n%3 = constant([2.0, 1.0, 2.0]) : float64[3]\n"
        "%4 = multiply(%2, %3) : float64[2, 3]\nreturn %4",
        X + "%1 = constant(2.0) : float64[]\n"
        "%2 = multiply(%0, %1) : float64[2, 3]\n%3 = constant([2.0, 1.0, 2.0]) : float64[3]\n"
        "%4 = multiply(%2, %3) : float64[2, 3]\nreturn %4",
    )
    text = (
        "%0 = placeholder(name='x') : float64[]\n%1 = constant([2.0, 2.0]) : float64[2]\n"
        "%2 = multiply(%0, %1) : float64[2]\nreturn %2"
    )
    _check(text, text)
