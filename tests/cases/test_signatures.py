"""Which calls share a trace."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from tests.cases.comparing import number, tensor

import tapeline as tl


@pytest.mark.parametrize("order", list(itertools.permutations([1, True, 1.0])), ids=str)
def test_equal_arguments_of_other_types_do_not_share_a_trace(order: tuple[Any, ...]) -> None:
    @tl.function
    def f(x: Any, k: Any) -> Any:
        return x * 100 if k is True else x + k

    x = tensor(2, "int64")
    for k in (*order, *order):
        y = f(x, k)
        assert number(y) == {bool: 200, int: 3, float: 3.0}[type(k)]
        assert y.dtype.kind == ("f" if type(k) is float else "i")
    assert f.trace_count == 3


def test_one_call_in_four_spellings_is_one_trace() -> None:
    @tl.function
    def f(x: Any, y: Any = 2.0) -> Any:
        return x - y

    x = tensor(5.0)
    assert [number(y) for y in (f(x), f(x, 2.0), f(x, y=2.0), f(y=2.0, x=x))] == [3.0] * 4
    assert f.trace_count == 1


def test_a_dict_filled_in_another_order_is_the_same_argument() -> None:
    @tl.function
    def f(table: dict[str, Any]) -> Any:
        return table["a"] - table["b"]

    assert number(f({"a": tensor(5.0), "b": tensor(2.0)})) == 3.0
    assert number(f({"b": tensor(2.0), "a": tensor(5.0)})) == 3.0
    assert f.trace_count == 1


def test_a_test_of_the_shape_picks_its_branch_in_each_trace() -> None:
    @tl.function
    def f(x: Any) -> Any:
        return x[1] * 1.0 if x.shape[0] == 2 else x[0] * 1.0

    values = [f(tensor([1.0])), f(tensor([1.0, 2.0])), f(tensor([7.0, 8.0, 9.0]))]
    assert [number(y) for y in values] == [1.0, 2.0, 7.0]


def test_a_function_without_source_text_is_traced_like_any_other() -> None:
    scope: dict[str, Any] = {}
    exec("def straight(x):\n    return x * 2.0 + 1.0\n", scope)
    assert number(tl.function(scope["straight"])(tensor(3.0))) == 7.0
