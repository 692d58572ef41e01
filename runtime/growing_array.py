"""A `TensorArray` of dynamic size within a loop that is compiled: room for some elements, and how
many of them there are.

Whoever runs the loop sees to it that there is room: it stops the loop before the last rows are
written, and goes on with more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from tapeline.runtime import nest
from tapeline.runtime.errors import DynamicShapeError
from tapeline.runtime.ops.assignment import setitem
from tapeline.runtime.ops.creation import zeros
from tapeline.runtime.ops.indexing import getitem
from tapeline.runtime.ops.joining import concat
from tapeline.runtime.ops.logic import logical_or
from tapeline.runtime.ops.selection import maximum, where
from tapeline.runtime.tensor import Tensor, TensorLike, as_tensor, wrap
from tapeline.runtime.tensor_array import TensorArray

WRITES: list[int] = [0]
"""How many writes were traced."""


class GrowingArray(TensorArray):
    """The elements as the first rows of a tensor.

    Parameters
    ----------
    rows : Tensor, shape (room, ...)
        Zeros where there is no element yet.
    filled : Tensor of int64, shape ()
        How many elements there are.
    """

    __slots__ = ("filled",)

    def __init__(self, rows: Tensor, filled: Tensor) -> None:
        super().__init__(rows.dtype, 0, True, element_shape=rows.shape[1:])
        self._items, self._rows = None, rows
        self.filled = filled

    @classmethod
    def of(cls, array: TensorArray) -> GrowingArray | None:
        """The elements of an array, with no room for more; None where their form is not known."""
        if array.dtype is None or array.element_shape is None or None in array.element_shape:
            return None
        return cls(array.stack(), as_tensor(array.size()))

    @property
    def room(self) -> int:
        """For how many elements there is room."""
        return self.rows.shape[0]

    @property
    def rows(self) -> Tensor:
        """The elements, and the room for more."""
        assert self._rows is not None
        return self._rows

    def with_room(self, room: int) -> GrowingArray:
        """The same with room for so many elements, at least."""
        more = room - self.room
        if more <= 0:
            return self
        blank = zeros((more, *self.rows.shape[1:]), dtype=self.rows.dtype)
        return GrowingArray(concat([self.rows, blank]), self.filled)

    def whole(self) -> TensorArray:
        """The elements as an array of the usual kind; `filled` must be known."""
        count = int(self.filled)
        made = TensorArray(self.dtype, 0, True, element_shape=self.element_shape)
        made._items, made._rows, made._count = None, self.rows[:count], count
        return made

    def size(self) -> Any:
        """How many elements there are, a tensor."""
        return wrap(self.filled._value, self.filled._node)

    def read(self, index: TensorLike) -> Tensor:
        """The element at an index; see `TensorArray.read`."""
        place = self._from_start(index)
        missing = logical_or(place < 0, place >= self.filled)
        return getitem(self.rows, where(missing, self.room, place))

    __getitem__ = read

    def write(self, index: TensorLike, value: TensorLike) -> TensorArray:
        """The array with another element at an index; see `TensorArray.write`."""
        WRITES[0] += 1
        _, element = self._with_element(value, "write")
        place = self._from_start(index)
        rows = setitem(self.rows, where(place < 0, self.room, place), element)
        return GrowingArray(rows, maximum(self.filled, place + 1))

    def _from_start(self, index: TensorLike) -> Tensor:
        place = as_tensor(index, argument="TensorArray: index")
        return where(place < 0, place + self.filled, place)

    def _refuse(self, *_: Any) -> NoReturn:
        raise DynamicShapeError(
            "a TensorArray of dynamic size in a loop over tensors can be read, written and asked "
            "for its size; what else is done with it there runs op by op"
        )

    stack = unstack = gather = scatter = concat = split = _refuse  # type: ignore[assignment]  # all raise


def _flatten(array: GrowingArray) -> tuple[Sequence[Any], Any]:
    return [array.rows, array.filled], None


def _unflatten(auxiliary: Any, children: Sequence[Any]) -> GrowingArray:
    made = GrowingArray.__new__(GrowingArray)
    made._rows, made.filled = children
    like = made._rows if isinstance(made._rows, Tensor) else None
    made._dtype = None if like is None else like.dtype
    made._shape = None if like is None else like.shape[1:]
    made._dynamic, made._count, made._items, made._newer = True, 0, None, None
    return made


nest.register(GrowingArray, _flatten, _unflatten)
