"""Updates of the rows that a sparse gradient names, and of nothing else.

Rows that the gradient names more than once are added up first, for most updates are not linear.
How many there are is not asked, so that all of this can be compiled: there are as many as entries.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tapeline.runtime import nest
from tapeline.runtime.indexed_slices import IndexedSlices
from tapeline.runtime.ops.assignment import PUT
from tapeline.runtime.ops.cast import astype
from tapeline.runtime.ops.comparison import not_equal
from tapeline.runtime.ops.gather import TAKE_GRAD, take
from tapeline.runtime.ops.joining import concat
from tapeline.runtime.ops.pointwise import apply
from tapeline.runtime.ops.scan import cumulative_sum
from tapeline.runtime.ops.selection import where
from tapeline.runtime.ops.shaping import reshape
from tapeline.runtime.ops.sorting import argsort
from tapeline.runtime.tensor import Tensor, new_tensor
from tapeline.runtime.variable import Variable

_INT64 = np.dtype(np.int64)


def _grouped(rows: IndexedSlices) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The indices in order; which of them are new; the number of the group of equal ones that each
    belongs to; and the sum of the rows of each group, zeros after the last group."""
    size, count = rows.dense_shape[0], rows.indices.shape[0]
    given = astype(rows.indices, _INT64)
    indices = where(given < 0, given + size, given)
    order = argsort(indices)
    ordered = take(indices, order, axis=0)
    first = new_tensor(np.ones(1, np.int64))
    is_new = concat([first, astype(not_equal(ordered[1:], ordered[:-1]), _INT64)])
    group = cumulative_sum(is_new) - 1
    values = take(rows.values, order, axis=0)
    return ordered, is_new, group, apply(TAKE_GRAD, values, group, attrs=(0, count))


def added_up(rows: IndexedSlices) -> IndexedSlices:
    """The same array with the sum of all rows of an index in one place, and zeros elsewhere."""
    if rows.indices.shape == (0,):
        return rows
    ordered, is_new, group, sums = _grouped(rows)
    places = apply(TAKE_GRAD, ordered * is_new, group, attrs=(0, rows.indices.shape[0]))
    return IndexedSlices(sums, places, rows.dense_shape)


def map_gradients(function: Callable[[Any], Any], gradients: Any) -> Any:
    """`function` of each gradient in a structure; sparse ones are taken as a whole."""
    if type(gradients) is IndexedSlices or nest.is_leaf(gradients):
        return function(gradients)
    parts = [map_gradients(function, part) for part in nest.children(gradients)]
    return nest.rebuild(gradients, parts)


class RowSlot:
    """Rows of a Variable, in its place in an update."""

    __slots__ = ("_indices", "_value", "_variable")

    def __init__(self, variable: Variable, indices: Tensor) -> None:
        self._variable = variable
        self._indices = indices
        self._value: Tensor | None = None

    def read_value(self) -> Tensor:
        """The rows as they are now."""
        if self._value is None:
            self._value = take(self._variable.read_value(), self._indices, axis=0)
        return self._value

    def assign(self, value: Tensor) -> None:
        """Give the rows new values. Entries of one index must have the same."""
        self._value = value
        whole = self._variable.read_value()
        width = math.prod(whole.shape[1:])
        count = self._indices.shape[0]
        columns = new_tensor(np.arange(width))
        places = reshape(self._indices, (count, 1)) * width + columns
        self._variable.assign(apply(PUT, whole, places, reshape(value, (count, width))))


def update_rows(
    rows: IndexedSlices,
    variable: Variable,
    slots: dict[str, Variable],
    update: Callable[[Tensor, Tensor, dict[str, RowSlot]], Tensor],
) -> None:
    """Give the rows of a variable that a gradient names their new values.

    `update(gradient, value, slots)` gives them, of rows of all three.
    """
    if rows.indices.shape == (0,):
        return
    indices, _, group, sums = _grouped(rows)
    target = RowSlot(variable, indices)
    own = {name: RowSlot(slot, indices) for name, slot in slots.items()}
    target.assign(update(take(sums, group, axis=0), target.read_value(), own))
