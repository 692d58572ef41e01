"""Copies of objects with compiled methods and Variables."""

from __future__ import annotations

import copy
import pickle
from typing import Any

from tests.cases.comparing import number, tensor

import tapeline as tl


class Model:
    """Owns a Variable, and a compiled method that reads it."""

    def __init__(self) -> None:
        self.v = tl.Variable(3.0)

    @tl.function
    def scale(self, x: Any) -> Any:
        return x * self.v


def test_a_deep_copy_has_its_own_variables() -> None:
    model = Model()
    assert number(model.scale(tensor(2.0))) == 6.0
    other = copy.deepcopy(model)
    other.v.assign(10.0)
    assert [number(m.scale(tensor(2.0))) for m in (model, other)] == [6.0, 20.0]


def test_a_pickled_object_comes_back_with_its_own_variables() -> None:
    model = Model()
    assert number(model.scale(tensor(2.0))) == 6.0
    other = pickle.loads(pickle.dumps(model))
    other.v.assign(100.0)
    assert [number(m.scale(tensor(2.0))) for m in (model, other)] == [6.0, 200.0]


def test_a_shallow_copy_shares_its_variables() -> None:
    model = Model()
    other = copy.copy(model)
    other.v.assign(5.0)
    assert [number(m.scale(tensor(2.0))) for m in (model, other)] == [10.0, 10.0]
