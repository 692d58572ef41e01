"""Structures of arguments and results."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from tests.cases.comparing import assert_close, number, tensor

import tapeline as tl


class Pair(NamedTuple):
    """Two of something."""

    left: Any
    right: Any


@dataclass
class Weights:
    """A tensor and a name."""

    w: Any
    name: str = "times"


def test_every_kind_of_parameter_and_result() -> None:
    @tl.function
    def f(pair: Pair, *rest: Any, scale: Any = None, **named: Any) -> Any:
        y = pair.left * 2.0 + sum(rest, pair.right)
        if scale is not None:
            y = y * scale
        values = [named[key] + 1.0 for key in sorted(named)]
        return Pair(y, None), {"names": sorted(named), "values": values}, "text", ()

    pair = Pair(tensor(1.0), tensor(10.0))
    out, table, text, empty = f(pair, tensor(100.0), tensor(1000.0), b=tensor(2.0), a=tensor(1.0))
    assert type(out) is Pair
    assert out.right is None
    assert (text, empty) == ("text", ())
    assert number(out.left) == 1112.0
    assert table["names"] == ["a", "b"]
    assert [number(y) for y in table["values"]] == [2.0, 3.0]
    assert number(f(pair, scale=2.0)[0].left) == 24.0
    assert number(f(Pair(tensor(3.0), tensor(0.0)))[0].left) == 6.0


def test_a_dataclass_argument_counts_by_its_fields() -> None:
    @tl.function
    def f(weights: Weights, x: Any) -> Any:
        return weights.w * x if weights.name == "times" else weights.w - x

    assert number(f(Weights(tensor(3.0)), tensor(2.0))) == 6.0
    assert number(f(Weights(tensor(5.0)), tensor(2.0))) == 10.0
    assert f.trace_count == 1
    assert number(f(Weights(tensor(5.0), "minus"), tensor(2.0))) == 3.0
    assert f.trace_count == 2


def test_results_that_are_arguments_keep_their_places() -> None:
    @tl.function
    def f(x: Any, y: Any) -> Any:
        return {"y": y, "both": [x, (x, y)], "none": None, "again": x}

    x, y = tensor([1.0]), tensor([2.0, 3.0])
    for _ in range(3):
        got = f(x, y)
        assert list(got) == ["y", "both", "none", "again"]
        assert_close(got["y"], [2.0, 3.0])
        assert_close(got["both"][0], [1.0])
        assert type(got["both"][1]) is tuple
        assert_close(got["both"][1][1], [2.0, 3.0])
        assert got["none"] is None
        assert_close(got["again"], [1.0])
