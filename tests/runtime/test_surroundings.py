"""Functions that run again see the variables that they had."""

from __future__ import annotations

import functools
from typing import Any

from tapeline.runtime.surroundings import Surroundings
from tapeline.runtime.tensor import as_tensor, wrap


def test_variables_of_functions_within_functions_are_as_before() -> None:
    number = 1

    def inner(step: int) -> int:
        return number + step

    def outer(step: int) -> int:
        return inner(step)

    around = Surroundings(functools.partial(outer, 10))
    number = 2
    with around.as_before():
        assert outer(10) == 11
    assert outer(10) == 12
    assert number == 2


def test_a_variable_without_a_value_is_no_matter() -> None:
    def reader() -> Any:
        return later

    around = Surroundings(reader)
    later = 3
    with around.as_before():
        assert reader() == 3


def test_a_tensor_that_was_written_to_is_as_before() -> None:
    x = as_tensor([1.0, 2.0])

    def reader() -> Any:
        return x.tolist()

    around = Surroundings(reader, hold=lambda value: wrap(value._value, value._node))
    x[0] = 5.0
    with around.as_before():
        assert reader() == [1.0, 2.0]
    assert reader() == [5.0, 2.0]
