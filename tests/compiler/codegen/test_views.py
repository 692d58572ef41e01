"""Index maps of view ops against the arrays that NumPy makes."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

import tapeline as tl  # registers the ops
from tapeline.compiler.codegen.views import (
    Layout,
    dense_layout,
    dimension_map,
    is_dense,
    layout_of,
    view_layout,
)
from tapeline.runtime.op import IndexMap, Sample, get_op, registered_ops

VIEW_CASES = [
    (op, sample)
    for op in registered_ops()
    if isinstance(op.lowering, IndexMap)
    for sample in op.samples
    if isinstance(sample.inputs[0], tuple) and 0 not in sample.inputs[0]
]


def strided(shape: tuple[int, ...], kind: str) -> Any:
    """An array of this shape that lies in memory as `kind` says."""
    count = int(np.prod(shape))
    if kind == "every other":
        whole = np.arange(2.0 ** len(shape) * count).reshape([2 * extent for extent in shape])
        return whole[(slice(None, None, 2),) * len(shape)]
    if kind == "transposed":
        return np.arange(float(count)).reshape(shape[::-1]).T
    array = np.arange(float(count)).reshape(shape)
    return array if kind == "dense" else array[(slice(None, None, -1),) * len(shape)]


def at_layout(array: Any, layout: Layout, shape: tuple[int, ...]) -> Any:
    start = array.__array_interface__["data"][0] + layout.offset
    low = start + sum(min(0, s * (e - 1)) for s, e in zip(layout.strides, shape, strict=True))
    high = start + sum(max(0, s * (e - 1)) for s, e in zip(layout.strides, shape, strict=True)) + 8
    buffer: Any = (ctypes.c_char * (high - low)).from_address(low)
    return np.ndarray(shape, array.dtype, buffer, start - low, layout.strides)


def test_there_are_view_ops() -> None:
    assert len(VIEW_CASES) > 10


@pytest.mark.parametrize("kind", ["dense", "every other", "reversed", "transposed"])
@pytest.mark.parametrize(
    ("op", "sample"), VIEW_CASES, ids=[f"{op.name}-{k}" for k, (op, _) in enumerate(VIEW_CASES)]
)
def test_view_layout_finds_numpys_elements(op: Any, sample: Sample, kind: str) -> None:
    (shape,) = sample.inputs
    array = strided(shape, kind)
    expected = op.kernel(array, *sample.attrs)
    layout = view_layout(op, sample.attrs, shape, 8, Layout(0, array.strides))
    if layout is None:
        assert kind != "dense"
        return
    np.testing.assert_array_equal(at_layout(array, layout, expected.shape), expected)


def test_a_reshape_of_a_strided_array_needs_a_copy_only_where_dimensions_merge() -> None:
    reshape = get_op("reshape")
    rows = Layout(0, (64, 8))  # every other row of (6, 4)
    assert view_layout(reshape, ((3, 2, 4),), (6, 4), 8, rows) == Layout(0, (128, 64, 8))
    assert view_layout(reshape, ((6, 2, 2),), (6, 4), 8, rows) == Layout(0, (64, 16, 8))
    assert view_layout(reshape, ((24,),), (6, 4), 8, rows) is None
    assert view_layout(reshape, ((4, 6),), (6, 4), 8, rows) is None


def test_dimension_map_tells_pure_rearrangements() -> None:
    permute, expand = get_op("permute_dims"), get_op("expand_dims")
    assert dimension_map(permute, ((1, 0),), (2, 3), (3, 2)) == (1, 0)
    assert dimension_map(expand, ((1,),), (4,), (4, 1)) == (0, -1)
    broadcast = get_op("broadcast_to")
    assert dimension_map(broadcast, ((3, 4),), (4,), (3, 4)) == (-1, 0)
    graph = tl.function(lambda x: x[0]).get_concrete_function(tl.TensorSpec([3, 4])).graph
    node = graph.outputs[0]
    assert dimension_map(graph.ops[node], graph.attrs[node], (3, 4), (4,)) is None
    assert dimension_map(get_op("flip"), ((0,),), (4,), (4,)) is None


def test_dense_layouts() -> None:
    assert dense_layout((2, 3, 4), 4) == Layout(0, (48, 16, 4))
    assert is_dense((2, 1, 4), Layout(0, (16, 999, 4)), 4)
    assert not is_dense((2, 3), Layout(0, (4, 8)), 4)
    assert layout_of(np.zeros((3, 2))) is None
    assert layout_of(np.zeros((3, 2)).T) == Layout(0, (8, 16))
