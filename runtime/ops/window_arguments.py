"""Arguments of whatever moves windows over the inner axes: sizes and strides, and padding around.

Tensors are (batch, ..., channels).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from tapeline.runtime.errors import ArgumentError
from tapeline.runtime.ops.axes import as_index
from tapeline.runtime.ops.joining import PAD
from tapeline.runtime.ops.pointwise import call
from tapeline.runtime.ops.windows import Window
from tapeline.runtime.spec import Shape

Pads: TypeAlias = tuple[tuple[int, int], ...]
Padding: TypeAlias = str | int | Sequence[int] | Sequence[Sequence[int]]
PerAxis: TypeAlias = int | Sequence[int]


def per_axis(op_name: str, argument: str, given: PerAxis, count: int) -> tuple[int, ...]:
    """An argument that is one int for all axes or one for each, all above 0."""
    values = [given] * count if hasattr(given, "__index__") else list(given)
    numbers = tuple(as_index(op_name, value) for value in values)
    if len(numbers) != count or min(numbers, default=1) < 1:
        raise ArgumentError(
            f"{op_name}: {argument} must be an int above 0 or {count} of them, got {given!r}"
        )
    return numbers


def resolve_pads(op_name: str, padding: Padding, window: Window, shape: Shape) -> Pads:
    """What to put before and after each windowed axis.

    "valid" is nothing; "same" is so much that there is a window for each stride, the odd one of it
    after; an int is for both sides of all axes; else one int or pair for each axis.
    """
    count = len(window.sizes)
    if padding == "valid":
        return ((0, 0),) * count
    if padding == "same":
        extents = shape[window.start : window.end]
        pads = []
        for extent, reach, stride in zip(extents, window.reach(), window.strides, strict=True):
            total = max((-(-extent // stride) - 1) * stride + reach - extent, 0)
            pads.append((total // 2, total - total // 2))
        return tuple(pads)
    if isinstance(padding, str):
        raise ArgumentError(f"{op_name}: padding must be 'valid', 'same' or ints, got {padding!r}")
    listed: list[Any] = [padding] * count if hasattr(padding, "__index__") else list(padding)
    found = []
    for item in listed:
        pair = (item, item) if hasattr(item, "__index__") else tuple(item)
        found.append(tuple(as_index(op_name, side) for side in pair))
    if len(found) != count or any(len(p) != 2 or min(p) < 0 for p in found):
        raise ArgumentError(
            f"{op_name}: padding must be 'valid', 'same', an int, or {count} ints or pairs of them "
            f"of at least 0, got {padding!r}"
        )
    return tuple((low, high) for low, high in found)


def padded(x: Any, pads: Pads, value: float) -> Any:
    """The tensor with the inner axes padded."""
    return call(PAD, x, attrs=(((0, 0), *pads, (0, 0)), value)) if any(map(any, pads)) else x


def padded_shape(shape: Shape, pads: Pads) -> Shape:
    """The shape of what `padded` gives."""
    inner = [low + n + high for n, (low, high) in zip(shape[1:-1], pads, strict=True)]
    return (shape[0], *inner, shape[-1])
