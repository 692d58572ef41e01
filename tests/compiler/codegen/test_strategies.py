"""From a nest's text to its strategy, loops and launches, for each kind of cluster."""

from __future__ import annotations

import numpy as np
import pytest
from tests.compiler.codegen.nest_text import parse_nest, show_kernel

from tapeline.compiler.codegen.along import emit_indexed
from tapeline.compiler.codegen.gather import RowMode, TakeShape
from tapeline.compiler.codegen.kernels import emit_nest
from tapeline.compiler.codegen.schedule import schedule
from tapeline.compiler.codegen.strategies import choose, lanes_of
from tapeline.compiler.codegen.target import named_target

WIDE, NARROW = named_target("x86-64-v4"), named_target("x86-64-v3")

CLUSTERS = {
    "elementwise": (
        """
nest [40, 60] reduce []
  %0 = in float32 strides [240, 4]
  %1 = in float32 strides [0, 4]
  out float32 strides [240, 4]
  %2 = add(%0, %1) : float32
  %3 = exp(%2) : float32
  store %3
""",
        "elementwise; 2 loops over 40 by 1",
        "elementwise; 3 loops over 40 by 1",
    ),
    "one row of elements": (
        """
nest [40, 60] reduce []
  %0 = in float32 strides [240, 4]
  out float32 strides [240, 4]
  %1 = square(%0) : float32
  store %1
""",
        "elementwise; 1 loops over 2400 by 32",
        "elementwise; 1 loops over 2400 by 16",
    ),
    "short rows": (
        """
nest [1000, 3] reduce []
  %0 = in float32 strides [12, 4]
  %1 = in float32 strides [0, 4]
  out float32 strides [12, 4]
  %2 = multiply(%0, %1) : float32
  store %2
""",
        "flat; 2 loops over 1000 by 16",
        "flat; 1 loops over 1000 by 8",
    ),
    "transposed": (
        """
nest [70, 100] reduce []
  %0 = in float32 strides [4, 280]
  out float32 strides [400, 4]
  %1 = square(%0) : float32
  store %1
""",
        "tiles; 6 loops over 70 by 64",
        "tiles; 6 loops over 70 by 64",
    ),
    "rows": (
        """
nest [40, 60] reduce [1]
  %0 = in float32 strides [240, 4]
  out float32 strides [4, 0]
  %1 = square(%0) : float32
  %2 = sum(%1) : float32
  store %2
""",
        "rows; 3 loops over 40 by 1",
        "rows; 3 loops over 40 by 1",
    ),
    "columns": (
        """
nest [40, 60] reduce [0]
  %0 = in float32 strides [240, 4]
  out float32 strides [0, 4]
  %1 = sum(%0) : float32
  store %1
""",
        "lanes; 4 loops over 60 by 32",
        "lanes; 4 loops over 60 by 16",
    ),
    "wide columns": (
        """
nest [1024, 4096] reduce [0]
  %0 = in float32 strides [16384, 4]
  out float32 strides [0, 4]
  %1 = sum(%0) : float32
  store %1
""",
        "sheet; 10 loops over 4096 by 256",
        "sheet; 12 loops over 4096 by 256",
    ),
    "whole": (
        """
nest [1000, 300] reduce [0, 1]
  %0 = in float32 strides [1200, 4]
  out float32 strides [0, 0]
  %1 = sum(%0) : float32
  store %1
""",
        "rows in parts, rows; 4 loops over 37 by 1; 2 loops over 1 by 1",
        "rows in parts, rows; 3 loops over 37 by 1; 2 loops over 1 by 1",
    ),
    "short whole": (
        """
nest [300] reduce [0]
  %0 = in float32 strides [4]
  out float32 strides [0]
  %1 = max(%0) : float32
  store %1
""",
        "rows; 2 loops over 1 by 1",
        "rows; 2 loops over 1 by 1",
    ),
    "middle": (
        """
nest [20, 30, 64] reduce [1]
  %0 = in float32 strides [7680, 256, 4]
  out float32 strides [256, 0, 4]
  %1 = sum(%0) : float32
  store %1
""",
        "lanes; 3 loops over 20 by 1",
        "lanes; 3 loops over 20 by 1",
    ),
    "outer axes": (
        """
nest [20, 30, 64] reduce [0, 2]
  %0 = in float32 strides [7680, 256, 4]
  out float32 strides [0, 4, 0]
  %1 = sum(%0) : float32
  store %1
""",
        "rows; 3 loops over 30 by 1",
        "rows; 3 loops over 30 by 1",
    ),
    "across short rows": (
        """
nest [1000, 5] reduce [1]
  %0 = in float32 strides [20, 4]
  out float32 strides [4, 0]
  %1 = sum(%0) : float32
  store %1
""",
        "across; 3 loops over 1000 by 8",
        "across; 3 loops over 1000 by 8",
    ),
    "rows cluster": (
        """
nest [64, 200] reduce [1]
  %0 = in float32 strides [800, 4]
  out float32 strides [800, 4]
  %1 = max(%0) : float32
  %2 = subtract(%0, %1) : float32
  %3 = exp(%2) : float32
  %4 = sum(%3) : float32
  %5 = divide(%3, %4) : float32
  store %5
""",
        "rows; 6 loops over 64 by 1",
        "rows; 7 loops over 64 by 1",
    ),
    "columns cluster": (
        """
nest [200, 64] reduce [0]
  %0 = in float32 strides [256, 4]
  out float32 strides [256, 4]
  %1 = max(%0) : float32
  %2 = subtract(%0, %1) : float32
  %3 = exp(%2) : float32
  %4 = sum(%3) : float32
  %5 = divide(%3, %4) : float32
  store %5
""",
        "lanes; 5 loops over 64 by 16",
        "lanes; 5 loops over 64 by 16",
    ),
    "two results": (
        """
nest [64, 200] reduce [1]
  %0 = in float32 strides [800, 4]
  out float32 strides [800, 4]
  out float32 strides [4, 0]
  %1 = square(%0) : float32
  %2 = sum(%1) : float32
  store %1, %2
""",
        "rows; 3 loops over 64 by 1",
        "rows; 3 loops over 64 by 1",
    ),
    "position of the largest": (
        """
nest [64, 200] reduce [1]
  %0 = in float32 strides [800, 4]
  out int64 strides [8, 0]
  %1 = argmax(%0) : int64
  store %1
""",
        "rows; 3 loops over 64 by 1",
        "rows; 3 loops over 64 by 1",
    ),
    "general strides": (
        """
nest [6, 7, 9] reduce []
  %0 = in float64 strides [8, 432, 48]
  %1 = in float64 strides [-56, 16, 0]
  out float64 strides [504, 72, 8]
  %2 = multiply(%0, %1) : float64
  store %2
""",
        "elementwise; 3 loops over 9 by 8",
        "elementwise; 4 loops over 9 by 4",
    ),
    "no elements": (
        """
nest [0, 7] reduce []
  %0 = in float64 strides [56, 8]
  out float64 strides [56, 8]
  %1 = square(%0) : float64
  store %1
""",
        "empty",
        "empty",
    ),
}


@pytest.mark.parametrize("kind", CLUSTERS)
def test_strategy_and_loops_of_a_cluster(kind: str) -> None:
    text, wide, narrow = CLUSTERS[kind]
    nest = parse_nest(text)
    assert str(nest) == text.strip()
    assert show_kernel(emit_nest(nest, WIDE, "k")) == wide
    assert show_kernel(emit_nest(nest, NARROW, "k")) == narrow


@pytest.mark.parametrize(
    ("mode", "expected"),
    [("take", "take; 6 loops over 33 by 1"), ("take_grad", "take_grad; 8 loops over 50 by 7")],
)
def test_loops_of_rows_taken_by_index(mode: RowMode, expected: str) -> None:
    shape = TakeShape(np.dtype(np.float32), np.dtype(np.int64), 1, 50, 33, 64, mode)
    assert show_kernel(emit_indexed(shape, WIDE, "k")) == expected
    assert show_kernel(emit_indexed(shape, NARROW, "k")) == expected


ROWS = """
nest [{rows}, {columns}] reduce [1]
  %0 = in float32 strides [{stride}, 4]
  %1 = in float32 strides [0, 4]
  out float32 strides [{stride}, 4]
  %2 = sum(%0) : float32
  %3 = subtract(%0, %2) : float32
  %4 = square(%3) : float32
  %5 = sum(%4) : float32
  %6 = divide(%3, %5) : float32
  %7 = multiply(%6, %1) : float32
  store %7
"""


@pytest.mark.parametrize(
    ("rows", "columns", "expected"),
    [
        (512, 1024, [(), (2,), (0,)]),  # results before they are stored, then the next row
        (16, 1024, [(), (), ()]),  # near anyway
        (512, 8192, [(), (), ()]),  # a row would drive itself out
    ],
)
def test_rows_call_for_memory_ahead(
    rows: int, columns: int, expected: list[tuple[int, ...]]
) -> None:
    nest = parse_nest(ROWS.format(rows=rows, columns=columns, stride=4 * columns))
    lanes = lanes_of(nest, WIDE)
    choice = choose(nest, schedule(nest, lanes), WIDE)
    assert [form.ahead for form in choice.forms] == expected
    (launch,) = emit_nest(nest, WIDE, "k").launches
    assert ("llvm.prefetch" in launch.function.text) == any(expected)


TURNED = """
nest [{side}, {side}] reduce []
  %0 = in float32 strides [4, {stride}]
  %1 = in float32 strides [{stride}, 4]
  out float32 strides [{stride}, 4]
  %2 = add(%0, %1) : float32
  store %2
"""


@pytest.mark.parametrize(("side", "expected"), [(1000, (0, 1, 2)), (500, ())])
def test_tiles_call_for_the_next_one_where_memory_is_far(
    side: int, expected: tuple[int, ...]
) -> None:
    nest = parse_nest(TURNED.format(side=side, stride=4 * side))
    choice = choose(nest, schedule(nest, lanes_of(nest, WIDE)), WIDE)
    assert choice.strategy == "tiles"
    assert choice.forms[0].ahead == expected
    (launch,) = emit_nest(nest, WIDE, "k").launches
    assert launch.function.text.count("call void @llvm.prefetch") == 8 * len(expected)
