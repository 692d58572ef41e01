"""What is computed in which pass, what waits in an output, and when inputs may be overwritten."""

from __future__ import annotations

import numpy as np
import pytest

from tapeline.compiler.codegen.nest import Nest, Operand, Step
from tapeline.compiler.codegen.passplan import Plan, plan_passes
from tapeline.compiler.codegen.schedule import schedule

F4, F8 = np.dtype(np.float32), np.dtype(np.float64)


def softmax(in_place: bool = False, out: np.dtype[np.floating] = F4) -> Nest:
    """max, exp of the difference, sum, quotient."""
    steps = (
        Step("max", F4, (0,)),
        Step("map", F4, (0, 1), key="exp"),
        Step("sum", F4, (2,)),
        Step("map", F4, (2, 3), key="div"),
        Step("map", out, (4,), key="to"),
    )
    size = out.itemsize
    operands = (Operand(F4, (400, 4)), Operand(out, (100 * size, size)))
    return Nest((50, 100), (1,), operands, 1, steps, (5,), ((0, 1),) if in_place else ())


def planned(nest: Nest) -> Plan:
    """The passes where "exp" costs 20 instructions and everything else 1."""
    return plan_passes(nest, schedule(nest, 16), lambda step, _: 20 if step.key == "exp" else 1)


def shown(plan: Plan) -> list[str]:
    """Each pass in short."""
    return [
        f"reduce {list(p.reductions)} store {list(p.stores)} load {list(p.loads)}"
        for p in plan.passes
    ]


def test_softmax_takes_three_passes_and_keeps_exponentials_in_its_output() -> None:
    assert shown(planned(softmax())) == [
        "reduce [1] store [] load []",
        "reduce [3] store [(2, 1)] load []",
        "reduce [] store [(5, 1)] load [(2, 1)]",
    ]


@pytest.mark.parametrize("nest", [softmax(in_place=True), softmax(out=F8)])
def test_exponentials_are_computed_again_where_there_is_no_room(nest: Nest) -> None:
    assert shown(planned(nest)) == [
        "reduce [1] store [] load []",
        "reduce [3] store [] load []",
        "reduce [] store [(5, 1)] load []",
    ]


def test_output_over_an_input_waits_for_the_last_pass_that_reads_it() -> None:
    steps = (
        Step("map", F4, (0,), key="neg"),
        Step("sum", F4, (0,)),
        Step("map", F4, (0, 2), key="sub"),
    )
    operands = (Operand(F4, (400, 4)),) * 3
    nest = Nest((50, 100), (1,), operands, 1, steps, (1, 3), ((0, 1),))
    assert shown(planned(nest)) == [
        "reduce [2] store [] load []",
        "reduce [] store [(3, 2), (1, 1)] load []",
    ]


def test_values_that_do_not_vary_along_rows_are_row_values() -> None:
    steps = (
        Step("map", F4, (1,), key="exp"),
        Step("map", F4, (0, 2), key="mul"),
        Step("sum", F4, (3,)),
        Step("map", F4, (4, 2), key="add"),
    )
    operands = (Operand(F4, (400, 4)), Operand(F4, (4, 0)), Operand(F4, (4, 0)))
    plan = planned(Nest((50, 100), (1,), operands, 2, steps, (5,)))
    assert plan.inner == (True, False, False, True, False, False)
    assert plan.closure(0) == ([0, 3], [2])
    assert plan.row_stores == ((5, 2),)
