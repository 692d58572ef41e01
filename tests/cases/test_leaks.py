"""Symbolic tensors that outlive their trace."""

from __future__ import annotations

from typing import Any

import pytest
from tests.cases.comparing import number, tensor

import tapeline as tl
from tapeline.runtime.errors import LeakedTensorError


def test_a_kept_intermediate_is_refused_where_it_is_used_and_breaks_nothing() -> None:
    kept: list[Any] = []

    @tl.function
    def leaky(x: Any) -> Any:
        y = x * 2.0
        kept.append(y)
        return y + 1.0

    assert number(leaky(tensor(1.0))) == 3.0
    with pytest.raises(LeakedTensorError, match=r"multiply of 'leaky' at .*test_leaks\.py:\d+"):
        kept[0] + 1.0
    assert number(leaky(tensor(2.0))) == 5.0
    assert number(tensor(1.0) + 1.0) == 2.0


@pytest.mark.parametrize(
    "use",
    [lambda y: y.numpy(), float, lambda y: tl.sum(y), lambda y: y[0], lambda y: tl.stack([y, y])],
    ids=["numpy", "float", "sum", "index", "stack"],
)
def test_every_use_of_a_kept_intermediate_names_its_function(use: Any) -> None:
    kept: list[Any] = []

    @tl.function
    def leaky(x: Any) -> Any:
        kept.append(x * 2.0)
        return x

    leaky(tensor([1.0]))
    with pytest.raises(LeakedTensorError, match="leaky"):
        use(kept[0])


def test_a_symbol_of_one_trace_is_refused_in_another() -> None:
    kept: list[Any] = []

    @tl.function
    def leaky(x: Any) -> Any:
        kept.append(x * 2.0)
        return x

    @tl.function
    def other(x: Any) -> Any:
        return x + kept[0]

    leaky(tensor(1.0))
    with pytest.raises(LeakedTensorError, match="leaky"):
        other(tensor(1.0))


def test_a_kept_intermediate_on_a_tape_is_refused_as_target() -> None:
    kept: list[Any] = []

    @tl.function
    def leaky(x: Any) -> Any:
        kept.append(x * 2.0)
        return x * 3.0

    x = tensor(1.0)
    with tl.GradientTape() as tape:
        tape.watch(x)
        y = leaky(x)
        with pytest.raises(LeakedTensorError, match="leaky"):
            kept[0] * 1.0
    assert number(tape.gradient(y, x)) == 3.0
