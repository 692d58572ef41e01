"""Index maps of view ops, learnt from their NumPy kernels, and their effect on memory layouts.

A view op reads no element, so its kernel can run on an array that has a shape and strides but no
memory.
Where it lands tells the map. Only contiguous stand-ins are used: a kernel never has a reason to
copy those.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from tapeline.runtime.op import Attrs, Op
from tapeline.runtime.spec import Shape

if TYPE_CHECKING:
    import numpy.typing as npt


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the elements of an array lie in its buffer: byte offset and byte stride per
    dimension."""

    offset: int
    strides: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class IndexMapping:
    """Each output dimension walks along one input dimension.

    `start[k]` is the first index along input dimension k; output dimension d moves `steps[d]`
    elements along
    input dimension `sources[d]` (-1: it is a broadcast or has one element).
    """

    start: tuple[int, ...]
    sources: tuple[int, ...]
    steps: tuple[int, ...]


def dense_layout(shape: Shape, itemsize: int) -> Layout:
    """The layout of a C-contiguous array."""
    strides = []
    step = itemsize
    for extent in reversed(shape):
        strides.append(step)
        step *= max(extent, 1)
    return Layout(0, tuple(reversed(strides)))


def layout_of(array: npt.NDArray[Any]) -> Layout | None:
    """The layout to compile for so that this array need not be copied; None is C-contiguous."""
    return None if array.flags.c_contiguous else Layout(0, array.strides)


def is_dense(shape: Shape, layout: Layout, itemsize: int) -> bool:
    """Whether the elements lie one after the other in C order."""
    expected = dense_layout(shape, itemsize).strides
    return all(
        extent == 1 or have == want
        for extent, have, want in zip(shape, layout.strides, expected, strict=True)
    )


@lru_cache(maxsize=4096)
def _on_contiguous(op: Op, attrs: Attrs, shape: Shape) -> tuple[int, tuple[int, ...], Shape]:
    """Element offset, element strides and shape of the view of a contiguous array of this shape."""
    memory = np.zeros(1, np.int8)
    strides = dense_layout(shape, 1).strides
    array = np.lib.stride_tricks.as_strided(memory, shape, strides)
    view = op.kernel(array, *attrs)
    start = view.__array_interface__["data"][0] - array.__array_interface__["data"][0]
    return start, view.strides, view.shape


@lru_cache(maxsize=4096)
def index_mapping(op: Op, attrs: Attrs, shape: Shape) -> IndexMapping | None:
    """The map of a view op over inputs of this shape; None where a dimension mixes several of the
    input."""
    if 0 in shape:
        return None
    offset, strides, out_shape = _on_contiguous(op, attrs, shape)
    if 0 in out_shape:
        return None
    unit = dense_layout(shape, 1).strides
    start = []
    rest = offset
    for step in unit:
        start.append(rest // step)
        rest %= step
    lowest, highest = list(start), list(start)
    sources, steps = [], []
    for stride, extent in zip(strides, out_shape, strict=True):
        if stride == 0 or extent == 1:
            sources.append(-1)
            steps.append(0)
            continue
        source = next(
            (
                k
                for k, step in enumerate(unit)
                if shape[k] > 1 and abs(stride) >= step and stride % step == 0
            ),
            None,
        )
        if source is None:
            return None
        step = stride // unit[source]
        reach = step * (extent - 1)
        lowest[source] += min(reach, 0)
        highest[source] += max(reach, 0)
        sources.append(source)
        steps.append(step)
    inside = all(
        low >= 0 and high < extent for low, high, extent in zip(lowest, highest, shape, strict=True)
    )
    return IndexMapping(tuple(start), tuple(sources), tuple(steps)) if inside else None


def view_layout(op: Op, attrs: Attrs, shape: Shape, itemsize: int, layout: Layout) -> Layout | None:
    """The layout of the view of an array with this shape and layout; None where a copy has to be
    made first."""
    if 0 in shape or is_dense(shape, layout, itemsize):
        start, strides, _ = _on_contiguous(op, attrs, shape)
        return Layout(layout.offset + start * itemsize, tuple(s * itemsize for s in strides))
    mapping = index_mapping(op, attrs, shape)
    if mapping is None:
        return None
    offset = layout.offset + sum(i * s for i, s in zip(mapping.start, layout.strides, strict=True))
    strides = tuple(
        0 if source < 0 else layout.strides[source] * step
        for source, step in zip(mapping.sources, mapping.steps, strict=True)
    )
    return Layout(offset, strides)


def dimension_map(op: Op, attrs: Attrs, shape: Shape, out_shape: Shape) -> tuple[int, ...] | None:
    """For a view that only drops, adds, permutes or broadcasts dimensions: the input dimension per
    output
    dimension (-1: new, or of one element); None for any other view."""
    mapping = index_mapping(op, attrs, shape)
    if mapping is None:
        return None
    dropped = (extent for k, extent in enumerate(shape) if k not in mapping.sources)
    if any(mapping.start) or any(extent != 1 for extent in dropped):
        return None
    for source, step, extent in zip(mapping.sources, mapping.steps, out_shape, strict=True):
        if source >= 0 and (step != 1 or extent != shape[source]):
            return None
    return mapping.sources
