"""Exact rules: text before and after, and the same bits for all the odd numbers there are."""

import itertools
from typing import Any

import numpy as np
import pytest

from tapeline.compiler.ir.graph import Graph
from tapeline.compiler.ir.interpret import run_graph
from tapeline.compiler.ir.parse import parse_graph
from tapeline.compiler.ir.verify import verify_graph
from tapeline.compiler.passes.algebra import Algebra
from tapeline.compiler.passes.dce import DeadCode
from tapeline.compiler.passes.equivalent_forms import EQUIVALENT_FORMS
from tapeline.compiler.passes.exact_rules import EXACT_RULES

_FLOATS = [
    0.0, -0.0, 1.0, -1.0, 0.1, -3.7, 1e300, -1e300, 5e-324, -5e-324, 2.3e-308, np.inf, -np.inf,
    np.nan, 1.7e308,
]  # fmt: skip
ODD: dict[str, list[Any]] = {
    "float64": _FLOATS,
    "float32": [*_FLOATS[:6], 1e38, -3e38, 1e-45, -1e-45, np.inf, -np.inf, np.nan],
    "int32": [0, 1, -1, 5, -7, 2**31 - 1, -(2**31)],
    "uint8": [0, 1, 2, 100, 200, 255],
    "bool": [False, True],
}


def _read(dtype: str, lines: str) -> Graph:
    """A graph of x, y and the lines given; the last line is the output."""
    body = [line.strip() for line in lines.strip().splitlines()]
    head = [f"%0 = placeholder(name='x') : {dtype}[N]", f"%1 = placeholder(name='y') : {dtype}[N]"]
    nodes = [line if " : " in line else f"{line} : {dtype}[N]" for line in body]
    count = len(ODD[dtype]) ** 2
    text = "\n".join(["graph g:", *head, *nodes, f"return %{len(nodes) + 1}"])
    return parse_graph(text.replace("[N]", f"[{count}]"))


def _body(graph: Graph) -> list[str]:
    """The lines after the placeholders, without types."""
    lines = [line.split(" : ")[0].strip() for line in str(graph).splitlines()[3:]]
    return lines


def _check(dtype: str, before: str, after: str, forms: bool = False) -> None:
    graph = _read(dtype, before)
    verify_graph(graph)
    result = Algebra(equivalent_forms=forms).run(graph)
    verify_graph(result.graph)
    simple = DeadCode().run(result.graph).graph
    verify_graph(simple)
    expected = [line.strip() for line in after.strip().splitlines()]
    assert _body(simple) == expected
    pairs = np.array(list(itertools.product(ODD[dtype], repeat=2)), dtype=dtype)
    inputs = [pairs[:, 0].copy(), pairs[:, 1].copy()]
    (want,) = run_graph(graph, inputs)
    (got,) = run_graph(simple, inputs)
    same = np.isnan(want) & np.isnan(got) if want.dtype.kind == "f" else np.zeros(len(want), bool)
    width = want.dtype.itemsize
    bits = got.view(f"u{width}") == want.view(f"u{width}")
    assert np.all(bits | same)


SIMPLER = [
    ("float64", "%2 = negative(%0)\n%3 = negative(%2)", "return %0"),
    ("bool", "%2 = logical_not(%0)\n%3 = logical_not(%2)", "return %0"),
    ("float32", "%2 = floor(%0)\n%3 = floor(%2)", "%2 = floor(%0)\nreturn %2"),
    ("float64", "%2 = constant(1.0) : float64[]\n%3 = multiply(%0, %2)", "return %0"),
    ("float64", "%2 = constant(-0.0) : float64[]\n%3 = add(%0, %2)", "return %0"),
    ("int32", "%2 = constant(0) : int32[]\n%3 = add(%0, %2)", "return %0"),
    ("bool", "%2 = constant(True) : bool[]\n%3 = logical_and(%0, %2)", "return %0"),
    ("bool", "%2 = constant(True) : bool[]\n%3 = multiply(%0, %2)", "return %0"),
    ("bool", "%2 = constant(False) : bool[]\n%3 = add(%0, %2)", "return %0"),
    ("float64", "%2 = constant(-inf) : float64[]\n%3 = maximum(%0, %2)", "return %0"),
    ("uint8", "%2 = constant(0) : uint8[]\n%3 = bitwise_or(%0, %2)", "return %0"),
    ("float64", "%2 = negative(%1)\n%3 = add(%0, %2)", "%2 = subtract(%0, %1)\nreturn %2"),
    ("float64", "%2 = negative(%1)\n%3 = add(%2, %0)", "%2 = subtract(%0, %1)\nreturn %2"),
    ("float64", "%2 = negative(%1)\n%3 = subtract(%0, %2)", "%2 = add(%0, %1)\nreturn %2"),
    ("float64", "%2 = constant(0.0) : float64[]\n%3 = subtract(%0, %2)", "return %0"),
    (
        "float64",
        "%2 = constant(-0.0) : float64[]\n%3 = subtract(%2, %0)",
        "%2 = negative(%0)\nreturn %2",
    ),
    (
        "int32",
        "%2 = constant(0) : int32[]\n%3 = subtract(%2, %0)",
        "%2 = negative(%0)\nreturn %2",
    ),
    (
        "int32",
        "%2 = constant(2147483647) : int32[]\n%3 = add(%0, %2)\n"
        "%4 = constant(3) : int32[]\n%5 = add(%3, %4)",
        "%2 = constant(-2147483646)\n%3 = add(%0, %2)\nreturn %3",
    ),
    (
        "uint8",
        "%2 = constant(20) : uint8[]\n%3 = multiply(%0, %2)\n%4 = multiply(%3, %2)",
        "%2 = constant(144)\n%3 = multiply(%0, %2)\nreturn %3",
    ),
    (
        "float64",
        "%2 = constant(-1.0) : float64[]\n%3 = multiply(%0, %2)",
        "%2 = negative(%0)\nreturn %2",
    ),
    (
        "float64",
        "%2 = negative(%0)\n%3 = negative(%1)\n%4 = multiply(%2, %3)",
        "%2 = multiply(%0, %1)\nreturn %2",
    ),
    (
        "float64",
        "%2 = negative(%0)\n%3 = constant(0.1) : float64[]\n%4 = multiply(%2, %3)",
        "%2 = constant(-0.1)\n%3 = multiply(%0, %2)\nreturn %3",
    ),
    (
        "int32",
        "%2 = constant(-2147483648) : int32[]\n%3 = multiply(%0, %2)\n%4 = negative(%3)",
        "%2 = constant(-2147483648)\n%3 = multiply(%0, %2)\nreturn %3",
    ),
    ("float64", "%2 = constant(1.0) : float64[]\n%3 = divide(%0, %2)", "return %0"),
    (
        "float64",
        "%2 = constant(-1.0) : float64[]\n%3 = divide(%0, %2)",
        "%2 = negative(%0)\nreturn %2",
    ),
    (
        "float64",
        "%2 = constant(8.0) : float64[]\n%3 = divide(%0, %2)",
        "%2 = constant(0.125)\n%3 = multiply(%0, %2)\nreturn %3",
    ),
    (
        "float32",
        "%2 = constant(-0.25) : float32[]\n%3 = divide(%0, %2)",
        "%2 = constant(-4.0)\n%3 = multiply(%0, %2)\nreturn %3",
    ),
    (
        "float64",
        "%2 = negative(%0)\n%3 = negative(%1)\n%4 = divide(%2, %3)",
        "%2 = divide(%0, %1)\nreturn %2",
    ),
    ("int32", "%2 = constant(1) : int32[]\n%3 = floor_divide(%0, %2)", "return %0"),
    ("uint8", "%2 = constant(0) : uint8[]\n%3 = bitwise_left_shift(%0, %2)", "return %0"),
    ("float64", "%2 = negative(%0)\n%3 = abs(%2)", "%2 = abs(%0)\nreturn %2"),
    ("float64", "%2 = abs(%0)\n%3 = square(%2)", "%2 = square(%0)\nreturn %2"),
    ("float64", "%2 = maximum(%0, %0)", "return %0"),
    (
        "float64",
        "%2 = less(%0, %1) : bool[N]\n%3 = logical_not(%2) : bool[N]\n%4 = where(%3, %0, %1)",
        "%2 = less(%0, %1)\n%3 = where(%2, %1, %0)\nreturn %3",
    ),
    ("float64", "%2 = less(%0, %1) : bool[N]\n%3 = where(%2, %0, %0)", "return %0"),
    ("float64", "%2 = constant(False) : bool[]\n%3 = where(%2, %0, %1)", "return %1"),
    (
        "int32",
        "%2 = less(%0, %1) : bool[N]\n%3 = logical_not(%2) : bool[N]",
        "%2 = greater_equal(%0, %1)\nreturn %2",
    ),
    (
        "float64",
        "%2 = equal(%0, %1) : bool[N]\n%3 = logical_not(%2) : bool[N]",
        "%2 = not_equal(%0, %1)\nreturn %2",
    ),
    (
        "int32",
        "%2 = constant(5) : int32[]\n%3 = integer_power(%0, %2)",
        "%2 = square(%0)\n%3 = square(%2)\n%4 = multiply(%0, %3)\nreturn %4",
    ),
]


@pytest.mark.parametrize(("dtype", "before", "after"), SIMPLER)
def test_exact_rules_simplify_and_keep_every_bit(dtype: str, before: str, after: str) -> None:
    _check(dtype, before, after)


LEFT_ALONE = [
    ("float64", "%2 = constant(0.0)\n%3 = add(%0, %2)"),
    ("float64", "%2 = constant(-0.0)\n%3 = subtract(%0, %2)"),
    ("float64", "%2 = constant(0.0)\n%3 = subtract(%2, %0)"),
    ("float64", "%2 = constant(0.0)\n%3 = multiply(%0, %2)"),
    ("float64", "%2 = constant(10.0)\n%3 = divide(%0, %2)"),
    ("float64", "%2 = constant(5e-324)\n%3 = divide(%0, %2)"),
    ("float64", "%2 = constant(0.0)\n%3 = divide(%0, %2)"),
    ("float64", "%2 = subtract(%0, %1)\n%3 = negative(%2)"),
    ("float64", "%2 = subtract(%0, %0)"),
    ("float64", "%2 = divide(%0, %0)"),
    ("float64", "%2 = constant(0.1)\n%3 = add(%0, %2)\n%4 = constant(0.2)\n%5 = add(%3, %4)"),
    ("float64", "%2 = less(%0, %1)\n%3 = logical_not(%2)"),
    ("float64", "%2 = square(%0)\n%3 = sqrt(%2)"),
]


@pytest.mark.parametrize(("dtype", "lines"), LEFT_ALONE)
def test_exact_rules_leave_alone_what_is_not_exact(dtype: str, lines: str) -> None:
    typed = "\n".join(
        line + (" : float64[]" if "constant" in line else "")
        + (" : bool[N]" if "less" in line or "not" in line else "")
        for line in lines.splitlines()
    )  # fmt: skip
    _check(dtype, typed, f"{lines}\nreturn %{len(lines.splitlines()) + 1}")


def test_a_rule_never_changes_a_shape() -> None:
    graph = parse_graph("""
graph g:
  %0 = placeholder(name='x') : float64[3]
  %1 = constant([[1.0, 1.0, 1.0], [1.0, 1.0, 1.0]]) : float64[2, 3]
  %2 = multiply(%0, %1) : float64[2, 3]
  return %2""")
    assert not Algebra().run(graph).changed


def test_rules_chain_and_keep_locations() -> None:
    before = """
        %2 = negative(%0)
        %3 = constant(-2.0) : float64[]
        %4 = divide(%2, %3)
        %5 = negative(%1)
        %6 = add(%4, %5)"""
    after = "%2 = constant(0.5)\n%3 = multiply(%0, %2)\n%4 = subtract(%3, %1)\nreturn %4"
    _check("float64", before, after)


def test_rules_chain_through_many_nodes_in_linear_time() -> None:
    lines = ["%2 = constant(1) : int32[]", "%3 = add(%0, %2)"]
    lines += [f"%{k} = add(%{k - 1}, %2)" for k in range(4, 3000)]
    _check("int32", "\n".join(lines), "%2 = constant(2997)\n%3 = add(%0, %2)\nreturn %3")


def test_effects_are_never_rewritten() -> None:
    assert all(op.is_pure for table in (EXACT_RULES, EQUIVALENT_FORMS) for op in table)
