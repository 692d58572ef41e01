"""Jacobians from one tape: a walk per element of the target."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tapeline.runtime.backprop import Unconnected, walk_from
from tapeline.runtime.errors import ArgumentError, ShapeError
from tapeline.runtime.ops.joining import stack
from tapeline.runtime.ops.shaping import reshape
from tapeline.runtime.record import source_nodes
from tapeline.runtime.recorder import Tape
from tapeline.runtime.spec import Shape
from tapeline.runtime.tensor import Tensor, new_tensor
from tapeline.runtime.walk import TENSOR_SPACE


def tape_jacobian(
    tape: Tape, target: Tensor, sources: Sequence[Any], unconnected: Unconnected
) -> list[Tensor | None]:
    """For each source the array of all derivatives, of shape `target.shape + source.shape`."""
    size = math.prod(target.shape)
    units = np.eye(size, dtype=target.dtype).reshape(size, *target.shape)
    rows = _walks(tape, target, sources, units)
    shapes = [(*target.shape, *source.shape) for source in sources]
    return _join(rows, shapes, target, sources, unconnected, 0)


def tape_batch_jacobian(
    tape: Tape, target: Tensor, source: Any, unconnected: Unconnected
) -> Tensor | None:
    """The Jacobian of each row of the target by the same row of the source."""
    if len(target.shape) < 2 or len(source.shape) < 2:
        raise ShapeError(
            "batch_jacobian: target and source need two dimensions or more, got shapes "
            f"{target.shape} and {source.shape}"
        )
    batch = target.shape[0]
    if batch != source.shape[0]:
        raise ShapeError(
            "batch_jacobian: target and source must have the same first dimension, got shapes "
            f"{target.shape} and {source.shape}"
        )
    inner = target.shape[1:]
    size = math.prod(inner)
    units = np.eye(size, dtype=target.dtype).reshape(size, 1, *inner)
    rows = _walks(tape, target, [source], np.repeat(units, batch, axis=1))
    shape = (*target.shape, *source.shape[1:])
    return _join(rows, [shape], target, [source], unconnected, 1)[0]


def _walks(tape: Tape, target: Tensor, sources: Sequence[Any], seeds: Any) -> list[list[Any]]:
    """The gradients of the sources for each cotangent of the target."""
    own = tape.begin_walk()
    try:
        nodes = source_nodes(own, sources)
        if target._node is None:
            return [[None] * len(nodes) for _ in seeds]
        return [walk_from(TENSOR_SPACE, own, nodes, [(target._node, seed)]) for seed in seeds]
    finally:
        tape.end_walk(own)


def _join(
    rows: list[list[Any]],
    shapes: Sequence[Shape],
    target: Tensor,
    sources: Sequence[Any],
    unconnected: Unconnected,
    axis: int,
) -> list[Tensor | None]:
    """Rows put together along an axis of the result, per source."""
    if unconnected not in ("none", "zero"):
        raise ArgumentError(
            f"jacobian: unconnected_gradients must be 'none' or 'zero', got {unconnected!r}"
        )
    found: list[Tensor | None] = []
    for index, (shape, source) in enumerate(zip(shapes, sources, strict=True)):
        parts = [row[index] for row in rows]
        zeros = all(part is None for part in parts)
        if zeros and (rows or target._node is None) and unconnected == "none":
            found.append(None)
        elif zeros:
            found.append(new_tensor(np.zeros(shape, source.dtype)))
        else:
            zero = new_tensor(np.zeros(source.shape, source.dtype))
            full = [zero if part is None else part for part in parts]
            found.append(reshape(stack(full, axis=axis), shape))
    return found
