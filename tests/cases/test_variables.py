"""Variables inside functions: made, read and assigned in program order."""

from __future__ import annotations

from typing import Any

import numpy as np
from tests.cases.comparing import assert_close, number, tensor

import tapeline as tl


class Holder:
    """A place for a Variable that a function makes when it first runs."""

    v: tl.Variable | None = None


def test_a_variable_made_by_the_first_call_is_used_by_the_later_ones() -> None:
    holder = Holder()
    made = []

    @tl.function
    def f(x: Any) -> Any:
        if holder.v is None:
            holder.v = tl.Variable(1.0)
            made.append(holder.v)
        holder.v.assign_add(x)
        return holder.v * 1.0

    assert [number(f(tensor(1.0))) for _ in range(3)] == [2.0, 3.0, 4.0]
    assert holder.v is not None
    assert number(holder.v) == 4.0
    assert len(made) == 1


def test_reads_and_assignments_keep_their_order() -> None:
    v = tl.Variable(1.0)

    @tl.function
    def f(x: Any) -> Any:
        old = v * 1.0
        v.assign(v + x)
        new = v * 1.0
        v.assign(v * 10.0)
        return old, new

    assert [number(y) for y in f(tensor(2.0))] == [1.0, 3.0]
    assert number(v) == 30.0
    assert [number(y) for y in f(tensor(2.0))] == [30.0, 32.0]
    assert number(v) == 320.0


def test_a_copy_of_a_variable_has_the_value_before_the_later_update() -> None:
    target, source = tl.Variable(np.zeros(3)), tl.Variable(np.arange(3.0))

    @tl.function
    def copy_then_add() -> None:
        target.assign(source)
        source.assign_add(np.ones(3))

    for k in range(3):
        copy_then_add()
        assert_close(target, [0.0 + k, 1.0 + k, 2.0 + k])
        assert_close(source, [1.0 + k, 2.0 + k, 3.0 + k])


def test_two_variables_swap_their_values() -> None:
    a, b = tl.Variable([1.0, 2.0]), tl.Variable([3.0, 4.0])

    @tl.function
    def swap() -> None:
        kept = a.read_value()
        a.assign(b)
        b.assign(kept)

    for k in range(3):
        swap()
        assert_close(a, [3.0, 4.0] if k % 2 == 0 else [1.0, 2.0])
        assert_close(b, [1.0, 2.0] if k % 2 == 0 else [3.0, 4.0])
