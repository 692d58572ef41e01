"""Compiled functions as methods: one cache per object, held weakly."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest

import tapeline as tl
from tapeline.compiler.codegen.layout import native_entry_allowed


class Scaler:
    """Owns a number and a compiled method."""

    def __init__(self, factor: float) -> None:
        self.factor = factor

    @tl.function
    def scale(self, x: Any) -> Any:
        """Scales."""
        return x * self.factor

    @classmethod
    @tl.function
    def inside(cls, x: Any) -> Any:
        return x + 1.0

    @tl.function
    @classmethod
    def outside(cls, x: Any) -> Any:
        assert cls is Scaler
        return x + 2.0

    @staticmethod
    @tl.function
    def below(x: Any) -> Any:
        return x + 3.0

    @tl.function
    @staticmethod
    def above(x: Any) -> Any:
        return x + 4.0

    @property
    @tl.function
    def double(self) -> Any:
        return tl.asarray(self.factor) * 2

    def _triple(self) -> Any:
        return tl.asarray(self.factor) * 3

    triple: Any = tl.function(property(_triple))  # type: ignore[call-overload]


def test_each_object_has_a_cache_of_its_own() -> None:
    a, b = Scaler(2.0), Scaler(3.0)
    x = tl.asarray([1.0, 2.0])
    before = Scaler.scale.trace_count
    for _ in range(3):
        np.testing.assert_array_equal(a.scale(x).numpy(), [2.0, 4.0])
        np.testing.assert_array_equal(b.scale(x).numpy(), [3.0, 6.0])
    a.scale(tl.asarray(1.0))
    assert (a.scale.trace_count, b.scale.trace_count) == (2, 1)
    assert Scaler.scale.trace_count - before == 3
    a.factor = 5.0
    np.testing.assert_array_equal(a.scale(x).numpy(), [5.0, 10.0])
    assert b.scale.trace_count == 1
    a.scale.cache_clear()
    assert len(a.scale.concrete_functions) == 0
    assert len(b.scale.concrete_functions) == 1


def test_a_concrete_function_of_a_method_is_that_of_its_object() -> None:
    a = Scaler(2.0)
    concrete = a.scale.get_concrete_function(tl.TensorSpec([2]))
    assert concrete is Scaler.scale.__get__(a).get_concrete_function(tl.TensorSpec([2]))
    np.testing.assert_array_equal(concrete(np.array([1.0, 2.0])).numpy(), [2.0, 4.0])
    assert a.scale.__doc__ == "Scales."


def test_decorators_stack_in_both_orders() -> None:
    x, a = tl.asarray(1.0), Scaler(2.0)
    for holder in (a, Scaler):
        found = [f(x).item() for f in (holder.inside, holder.outside, holder.below, holder.above)]
        assert found == [2.0, 3.0, 4.0, 5.0]
    assert (a.double.item(), a.triple.item()) == (4.0, 6.0)


def test_a_bound_method_outlives_the_name_of_its_object_and_no_more() -> None:
    a = Scaler(2.0)
    method = a.scale
    alive = weakref.ref(a)
    x = tl.asarray(1.0)
    assert method(x).item() == 2.0
    del a
    assert method(x).item() == 2.0
    del method
    gc.collect()
    assert alive() is None


def test_objects_come_and_go_without_a_trace() -> None:
    x = tl.asarray(1.0)
    kept = len(Scaler.scale.concrete_functions)
    for k in range(20):
        assert Scaler(float(k)).scale(x).item() == k
    gc.collect()
    assert len(Scaler.scale.concrete_functions) == kept


def test_objects_without_weak_references_work() -> None:
    class Bare:
        __slots__ = ("factor",)

        def __init__(self, factor: float) -> None:
            self.factor = factor

        @tl.function
        def scale(self, x: Any) -> Any:
            return x * self.factor

    assert [Bare(k).scale(tl.asarray(2.0)).item() for k in (1.0, 2.0)] == [2.0, 4.0]


def test_a_class_of_equal_objects_keeps_them_apart() -> None:
    class Alike(Scaler):
        def __eq__(self, other: object) -> bool:
            return type(other) is Alike

        def __hash__(self) -> int:
            return 1

    a, b = Alike(2.0), Alike(3.0)
    x = tl.asarray(1.0)
    assert [a.scale(x).item(), b.scale(x).item(), a.scale(x).item()] == [2.0, 3.0, 2.0]


@pytest.mark.parametrize("count", [12])
def test_more_objects_than_a_function_serves_natively(count: int) -> None:
    models = [Scaler(float(k)) for k in range(count)]
    x = tl.asarray([1.0])
    for _ in range(4):
        assert [m.scale(x).item() for m in models] == [float(k) for k in range(count)]
    assert all(m.scale.trace_count == 1 for m in models)


@pytest.mark.skipif(not native_entry_allowed(), reason="calls take the Python path here")
def test_native_entries_hold_their_objects_weakly_and_know_them() -> None:
    class Node:
        """An argument that counts as itself."""

    f = tl.function(lambda x, node: x * node.k)
    node, v, x = Node(), tl.Variable(5.0), tl.asarray([1.0, 2.0])
    node.k = 3.0  # type: ignore[attr-defined]
    g = tl.function(lambda x, v: x * v)
    for _ in range(4):
        assert f(x, node).tolist() == [3.0, 6.0]
        assert g(x, v).tolist() == [5.0, 10.0]
    calls: list[Any] = []

    def spy(function: Any) -> Any:
        def slow(*args: Any) -> Any:
            calls.append(args)
            return function._call(*args)

        return slow

    f._slow, g._slow = spy(f), spy(g)
    assert f(x, node).tolist() == [3.0, 6.0]
    assert g(x, v).tolist() == [5.0, 10.0]
    assert not calls
    assert f(x, Alike(node)).tolist() == [4.0, 8.0]
    assert g(x, tl.Variable(7.0)).tolist() == [7.0, 14.0]
    assert len(calls) == 2
    alive = weakref.ref(node)
    calls.clear()
    del node
    assert alive() is None
    with pytest.raises(AttributeError):
        f(x, None)


class Alike:
    """Another object of the same look."""

    def __init__(self, other: Any) -> None:
        self.k = other.k + 1.0
