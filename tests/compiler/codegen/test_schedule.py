"""Loop orders: which dimensions merge, which one is vectorised, what launches split."""

from __future__ import annotations

import numpy as np
import pytest

from tapeline.compiler.codegen.nest import Nest, Operand, Step
from tapeline.compiler.codegen.schedule import Schedule, schedule, space_of

F4 = np.dtype(np.float32)


def add_nest(shape: tuple[int, ...], *strides: tuple[int, ...]) -> Nest:
    """An addition of all operands but the last into the last; strides count elements."""
    operands = tuple(Operand(F4, tuple(4 * s for s in each)) for each in strides)
    step = Step("map", F4, tuple(range(len(strides) - 1)), key="add")
    count = len(strides) - 1
    return Nest(shape, (), operands, count, (step,), (count,))


def sum_nest(
    shape: tuple[int, ...], axes: tuple[int, ...], x: tuple[int, ...], out: tuple[int, ...]
) -> Nest:
    """A sum; strides count elements."""
    operands = tuple(Operand(F4, tuple(4 * s for s in each)) for each in (x, out))
    return Nest(shape, axes, operands, 1, (Step("sum", F4, (0,)),), (1,))


def shown(found: Schedule) -> str:
    """A schedule in short: kept dimensions, reduced ones marked, the vector one in brackets, the
    chunked one starred."""
    words = []
    for d, extent in enumerate(found.space.extents):
        word = f"{extent}{'r' if found.space.reduced[d] else ''}"
        word = f"[{word}]" if d == found.vector else word
        words.append(word + ("*" if d == found.chunked else ""))
    return f"{found.mode} {' '.join(words)}"


@pytest.mark.parametrize(
    ("nest", "expected"),
    [
        (add_nest((4, 5, 6), (30, 6, 1), (30, 6, 1)), "rows [120]*"),
        (add_nest((4, 1, 6), (6, 6, 1), (6, 6, 1)), "rows [24]*"),
        (add_nest((), (), ()), "rows [1]*"),
        (add_nest((40, 60), (60, 1), (0, 1), (60, 1)), "rows 40* [60]"),
        (add_nest((40, 60), (60, 1), (1, 0), (60, 1)), "rows 40* [60]"),
        (add_nest((3, 60), (60, 1), (0, 1), (60, 1)), "rows 3 [60]*"),
        (add_nest((60, 40), (1, 60), (1, 60)), "rows [2400]*"),
        (add_nest((9, 60), (120, 2), (120, 2), (60, 1)), "rows [540]*"),
        (add_nest((2, 500, 64), (64, 128, 1), (0, 0, 1), (32000, 64, 1)), "rows 500* 2 [64]"),
    ],
)
def test_elementwise_orders(nest: Nest, expected: str) -> None:
    assert shown(schedule(nest, 16)) == expected


@pytest.mark.parametrize(
    ("nest", "expected"),
    [
        (sum_nest((500,), (0,), (1,), (0,)), "rows [500r]"),
        (sum_nest((40, 60), (0, 1), (60, 1), (0, 0)), "rows [2400r]"),
        (sum_nest((40, 60), (1,), (60, 1), (1, 0)), "rows 40* [60r]"),
        (sum_nest((40, 60), (0,), (60, 1), (0, 1)), "lanes [60]* 40r"),
        (sum_nest((20, 30, 64), (1,), (1920, 64, 1), (64, 0, 1)), "lanes 20* [64] 30r"),
        (sum_nest((20, 30, 64), (0, 2), (1920, 64, 1), (0, 1, 0)), "rows 30* 20r [64r]"),
        (sum_nest((20, 1, 64), (0, 2), (64, 64, 1), (0, 1, 0)), "rows [1280r]"),
    ],
)
def test_reduction_orders(nest: Nest, expected: str) -> None:
    assert shown(schedule(nest, 16)) == expected


def test_argmax_keeps_the_order_of_reduced_dimensions() -> None:
    operands = (Operand(F4, (4, 160)), Operand(np.dtype(np.int64), (0, 0)))
    step = Step("argmax", np.dtype(np.int64), (0,))
    nest = Nest((40, 60), (0, 1), operands, 1, (step,), (1,))
    space = space_of(nest)
    assert space.extents == (40, 60)
    assert space.streams[-1].strides == (60, 1)
    assert schedule(nest, 16).vector == 1


def test_index_steps_keep_their_dimension_apart() -> None:
    nest = add_nest((40, 60), (60, 1), (60, 1))
    index = Step("index", np.dtype(np.int64), axis=1)
    space = space_of(Nest(nest.shape, (), nest.operands, 1, (index, *nest.steps), (2,)))
    assert space.extents == (40, 60)
    assert space.streams[-1].strides == (0, 1)
