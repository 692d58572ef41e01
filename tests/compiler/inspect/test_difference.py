"""Graphs are compared node by node."""

from __future__ import annotations

from typing import Any

import pytest

import tapeline as tl
from tapeline.runtime.errors import ArgumentError, ArgumentTypeError

SPEC = tl.TensorSpec([2], "float32")


def traced(function: Any, *specs: Any) -> Any:
    return tl.function(function).get_concrete_function(*(specs or (SPEC,)))


def test_equal_graphs_have_no_difference() -> None:
    a, b = traced(lambda x: tl.exp(x) * 2), traced(lambda x: tl.exp(x) * 2)
    found = tl.debugging.diff(a, b)
    assert found.is_empty
    assert str(found) == "<lambda> and <lambda>: no difference"


def test_difference_marks_what_is_new_gone_and_fed_otherwise() -> None:
    a, b = traced(lambda x: tl.exp(x) * 2), traced(lambda x: tl.tanh(x) * 2)
    found = tl.debugging.diff(a, b)
    assert not found.is_empty
    marked = {change.mark: change.text for change in found if change.mark != " "}
    assert "exp" in marked["-"]
    assert "tanh" in marked["+"]
    assert "multiply" in marked["~"]


def test_difference_sees_shapes_constants_order_and_outputs() -> None:
    base = traced(lambda x, y: x - y, SPEC, SPEC)
    wide = tl.TensorSpec([3], "float32")
    others = [
        traced(lambda x, y: x - y, wide, wide), traced(lambda x, y: y - x, SPEC, SPEC),
        traced(lambda x, y: (x - y, y), SPEC, SPEC), traced(lambda x, y: x - y - 1, SPEC, SPEC),
    ]  # fmt: skip
    for other in others:
        assert not tl.debugging.diff(base, other).is_empty


def test_difference_leaves_out_what_is_far_from_changes() -> None:
    def long(x: tl.Tensor, last: Any) -> tl.Tensor:
        for _ in range(20):
            x = tl.tanh(x)
        return last(x)  # type: ignore[no-any-return]

    plain = tl.function(autograph=False)
    a = plain(lambda x: long(x, tl.exp)).get_concrete_function(SPEC)
    b = plain(lambda x: long(x, tl.sin)).get_concrete_function(SPEC)
    lines = str(tl.debugging.diff(a, b)).splitlines()
    assert len(lines) < 12
    assert "  ..." in lines


def test_difference_takes_functions_with_one_trace() -> None:
    f = tl.function(lambda x: x * 2)
    with pytest.raises(ArgumentError, match="must have one trace"):
        tl.debugging.diff(f, f)
    f(tl.zeros(2))
    assert tl.debugging.diff(f, f).is_empty
    with pytest.raises(ArgumentTypeError, match="expected a graph or a function"):
        tl.debugging.diff(f, 3)  # type: ignore[arg-type]
