"""ONNX rules of views: ops that move elements, where ONNX has more than a table of places."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from tapeline.compiler.export.onnx.model import Ref, is_open
from tapeline.compiler.export.onnx.rules import NamedRule, Use, spread, take_places
from tapeline.compiler.export.onnx.scalar import computing_dtype


def _reshape(use: Use) -> Ref:
    return use.graph.reshape(use.inputs[0], use.shape)


def _broadcast_to(use: Use) -> Ref:
    return spread(use, use.inputs[0], use.shape)


def _permute_dims(use: Use) -> Ref:
    return use.graph.add("Transpose", use.inputs[0], perm=list(cast(Any, use.attrs[0])))


def _slice(use: Use, x: Ref, cuts: list[tuple[int, int, int, int]]) -> Ref:
    """x cut along axes: (axis, start, stop, step) each."""
    if not cuts:
        return x
    axes, starts, stops, steps = (use.graph.ints(numbers) for numbers in zip(*cuts, strict=True))
    return use.graph.add("Slice", x, starts, stops, axes, steps)


_BEFORE_ALL = -(2**31)
"""Where a slice that runs backwards to the first element ends."""


def _flip(use: Use) -> Ref | None:
    axes = cast("tuple[int, ...]", use.attrs[0])
    return _slice(use, use.inputs[0], [(axis, -1, _BEFORE_ALL, -1) for axis in axes])


def _getitem(use: Use) -> Ref | None:
    if not use.outputs[0].size:
        return use.graph.constant(np.zeros(use.shape, use.dtype))
    cuts = []
    axis = 0
    for entry in cast("tuple[Any, ...]", use.attrs[0]):
        if entry is None:
            continue
        if type(entry) is not tuple:
            cuts.append((axis, entry, entry + 1, 1))
        elif entry[1] is not None:
            _, start, stop, step = entry
            cuts.append((axis, start, _BEFORE_ALL if stop is None else stop, step))
        axis += 1
    return use.graph.reshape(_slice(use, use.inputs[0], cuts), use.shape)


def _getitem_grad(use: Use) -> Ref | None:
    """Zeros around what was cut out, where a size is open and no element was left out between."""
    index, shape = cast("tuple[Any, tuple[int, ...]]", use.attrs)
    if not any(is_open(extent) for extent in shape):
        return None
    low, high, inner = [], [], []
    entries = [entry for entry in index if entry is not None]
    entries += [("slice", None, None, None)] * (len(shape) - len(entries))
    cuts = []
    for axis, (entry, extent) in enumerate(zip(entries, shape, strict=True)):
        start, stop, step = (entry, entry + 1, 1) if type(entry) is not tuple else entry[1:]
        if start is None:
            start, stop, step = 0, extent, 1
        elif step == -1 and stop is None:
            start, stop, step = 0, start + 1, 1
            cuts.append((axis, -1, _BEFORE_ALL, -1))
        if step != 1:
            return None
        low.append(start)
        high.append(extent - stop)
        inner.append(stop - start)
    rows = _slice(use, use.graph.reshape(use.inputs[0], inner), cuts)
    zero = use.graph.constant(np.zeros((), use.dtype))
    return use.graph.add("Pad", rows, use.graph.ints([*low, *high]), zero, mode="constant")


def _concat(use: Use) -> Ref:
    return use.graph.add("Concat", *use.inputs, axis=cast(int, use.attrs[0]))


def _pad(use: Use) -> Ref | None:
    if not use.specs[0].size or not use.shape:
        return None
    pads, value = cast("tuple[Any, Any]", use.attrs)
    wide = computing_dtype(use.dtype)
    ends = [low for low, _ in pads] + [high for _, high in pads]
    fill = use.graph.cast(use.graph.constant(np.asarray(value).astype(use.dtype)), wide)
    x = use.graph.cast(use.inputs[0], wide)
    found = use.graph.add("Pad", x, use.graph.ints(ends), fill, mode="constant")
    return use.graph.cast(found, use.dtype)


def _diagonal_grad(use: Use) -> Ref:
    """Where each element goes, the kernel says for their numbers; place 0 is a zero."""
    numbers = np.arange(1, use.specs[0].size + 1).reshape(use.shape_of(0))
    places = np.asarray(use.op.kernel(numbers, *use.attrs))
    zero = use.graph.constant(np.zeros(1, use.dtype))
    return take_places(use, use.graph.add("Concat", zero, use.flat(0), axis=0), places)


VIEWS: dict[str, NamedRule] = {
    "reshape": _reshape,
    "expand_dims": _reshape,
    "squeeze": _reshape,
    "broadcast_to": _broadcast_to,
    "permute_dims": _permute_dims,
    "flip": _flip,
    "getitem": _getitem,
    "getitem_grad": _getitem_grad,
    "concat": _concat,
    "pad": _pad,
    "diagonal_grad": _diagonal_grad,
}
