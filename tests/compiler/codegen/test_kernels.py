"""From a nest's text to the strategy and the shape of the code; and nests taken apart."""

from __future__ import annotations

import re

import numpy as np
import pytest
from tests.compiler.codegen import harness
from tests.compiler.codegen.test_rows import softmax_nest

from tapeline.compiler.codegen.kernels import emit_nest
from tapeline.compiler.codegen.nest import Kernel, Nest, Operand, Step
from tapeline.compiler.codegen.simplify import simplify
from tapeline.compiler.codegen.target import named_target

F4 = np.dtype(np.float32)
WIDE, NARROW = named_target("x86-64-v4"), named_target("x86-64-v3")


def summary(kernel: Kernel) -> list[str]:
    """For each launch: how many loops its function has, its extent and its grain."""
    return [
        f"loops {len(re.findall(r'^loop', launch.function.text, re.M))}"
        f" extent {launch.extent} grain {launch.grain}"
        for launch in kernel.launches
    ]


def sum_nest(shape: tuple[int, ...], axes: tuple[int, ...]) -> Nest:
    x = np.broadcast_to(np.float32(0), shape).copy()
    out = np.zeros([n for d, n in enumerate(shape) if d not in axes], F4)
    operands = (harness.operand_of(x, shape), harness.operand_of(out, shape, axes))
    return Nest(shape, axes, operands, 1, (Step("sum", F4, (0,)),), (1,))


def test_text_of_a_nest() -> None:
    assert str(sum_nest((3, 4), (1,))).splitlines() == [
        "nest [3, 4] reduce [1]",
        "  %0 = in float32 strides [16, 4]",
        "  out float32 strides [4, 0]",
        "  %1 = sum(%0) : float32",
        "  store %1",
    ]


@pytest.mark.parametrize(
    ("nest", "strategy", "wide", "narrow"),
    [
        (sum_nest((40, 60), (1,)), "rows",
         ["loops 3 extent 40 grain 1"], ["loops 3 extent 40 grain 1"]),
        (sum_nest((40, 60), (0,)), "lanes",
         ["loops 4 extent 60 grain 32"], ["loops 4 extent 60 grain 16"]),
        (sum_nest((1000, 300), (0, 1)), "rows in parts, rows",
         ["loops 4 extent 37 grain 1", "loops 2 extent 1 grain 1"],
         ["loops 3 extent 37 grain 1", "loops 2 extent 1 grain 1"]),
        (sum_nest((600, 20, 600), (0, 2)), "rows",
         ["loops 5 extent 20 grain 1"], ["loops 5 extent 20 grain 1"]),
    ],
)  # fmt: skip
def test_strategies(nest: Nest, strategy: str, wide: list[str], narrow: list[str]) -> None:
    for target, expected in ((WIDE, wide), (NARROW, narrow)):
        kernel = emit_nest(nest, target, "k")
        assert kernel.strategy == strategy
        assert summary(kernel) == expected


def test_softmax_keeps_its_exponentials_in_the_output() -> None:
    x = np.zeros((64, 200), F4)
    kernel = emit_nest(softmax_nest(x, x.copy(), 1), WIDE, "k")
    assert kernel.strategy == "rows"
    (launch,) = kernel.launches
    assert launch.function.text.count("0x3F50000000000000") == 3  # the factor of `power_emit`


def test_functions_of_equal_kernels_share_key_and_text() -> None:
    first, second = (emit_nest(sum_nest((n, 100), (1,)), WIDE, f"k{n}") for n in (30, 31))
    one, two = first.launches[0].function, second.launches[0].function
    assert one.key == two.key
    assert one.text.replace("@k30(", "@k31(") == two.text
    assert one.slots == two.slots


def test_scratch_is_where_the_kernel_says() -> None:
    kernel = emit_nest(sum_nest((1 << 20,), (0,)), WIDE, "k")
    assert kernel.scratch_bytes == 512
    first, second = (launch.values for launch in kernel.launches)
    assert ("scratch", 0, 0) in first
    assert ("scratch", 0, 0) in second
    assert ("operand", 0, 0) in first


def test_simplify_drops_what_no_result_needs() -> None:
    nest = sum_nest((3, 4), (1,))
    unused = Operand(F4, (16, 4))
    wider = Nest(
        nest.shape, nest.axes, (nest.operands[0], unused, nest.operands[1]), 2,
        (Step("max", F4, (1,)), Step("sum", F4, (0,))), (3,),
    )  # fmt: skip
    simple, numbers = simplify(wider)
    assert [step.kind for step in simple.steps] == ["sum"]
    assert simple.operands[1].strides == (0, 0)
    assert numbers == (0, 1, 2)


def test_reductions_of_one_point_are_maps() -> None:
    simple, _ = simplify(sum_nest((5, 1), (1,)))
    assert simple.axes == ()
    assert [step.kind for step in simple.steps] == ["map"]


def test_results_that_stand_still_are_computed_once_and_over_their_input_last() -> None:
    x = np.arange(3, dtype=F4)
    total = np.zeros((4, 3), F4)
    double = harness.map_step(F4, (0,), lambda b, v: b.add(v, v), "double")
    operands = (Operand(F4, (0, 4)), Operand(F4, (0, 4)), Operand(F4, (12, 4)))
    nest = Nest((4, 3), (0,), operands, 1, (double,), (1, 1), ((0, 1),))
    harness.Runner(nest).run([x, x, total])
    assert np.array_equal(x, [0, 2, 4])
    assert np.array_equal(total, np.broadcast_to(x, (4, 3)))
