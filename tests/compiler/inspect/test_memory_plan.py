"""The memory plan shows values that never overlap while both live."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree

import tapeline as tl
from tapeline.compiler.inspect.memory_plan import MemoryPlan


def plan_of(function: Any, *specs: Any) -> MemoryPlan:
    plan = tl.function(function).get_concrete_function(*specs).memory_plan()
    assert isinstance(plan, MemoryPlan)
    return plan


def chain(x: tl.Tensor, w: tl.Tensor) -> tl.Tensor:
    for _ in range(4):
        x = tl.tanh(x @ w)
    return tl.sum(tl.sort(x, axis=0))


SPECS = tl.TensorSpec([32, 8], "float32"), tl.TensorSpec([8, 8], "float32")


def test_values_that_live_together_lie_apart() -> None:
    plan = plan_of(chain, *SPECS)
    assert len(plan.intervals) >= 8
    for a in plan.intervals:
        assert a.offset + a.nbytes <= plan.nbytes
        for b in plan.intervals:
            together = a is not b and a.first <= b.last and b.first <= a.last
            apart = a.offset + a.nbytes <= b.offset or b.offset + b.nbytes <= a.offset
            assert apart or not together


def test_plan_states_how_much_sharing_saves() -> None:
    plan = plan_of(chain, *SPECS)
    assert plan.peak <= plan.nbytes < plan.unshared


def test_plan_prints_within_80_columns() -> None:
    lines = str(plan_of(chain, *SPECS)).splitlines()
    assert lines[0].startswith("memory of chain: ")
    assert any("matmul float32[32, 8]" in line for line in lines)
    assert max(map(len, lines)) <= 80


def test_plan_draws_every_value() -> None:
    plan = plan_of(chain, *SPECS)
    root = ElementTree.fromstring(plan.to_svg())
    titles = [title.text or "" for title in root.iter("{http://www.w3.org/2000/svg}title")]
    assert len(titles) == len(plan.intervals)


def test_plan_of_a_function_without_values_in_between() -> None:
    plan = plan_of(lambda x: x * 2, tl.TensorSpec([3], "float64"))
    assert plan.intervals == ()
    ElementTree.fromstring(plan.to_svg())
    assert "0 values" in str(plan)
