"""Arguments that are given away: their memory is what later calls write their results to.

A donated tensor has no values after the call. Its array is kept if nobody else holds it, and the
next call of the same trace writes a result of that shape and dtype there, where it would have to
ask the system for memory otherwise. So a loop such as `x = step(x)` runs in two arrays.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from tapeline.runtime.dispatch import STATE
from tapeline.runtime.donated import Donated
from tapeline.runtime.tensor import Tensor, wrap

if TYPE_CHECKING:
    import numpy.typing as npt

Array: TypeAlias = "npt.NDArray[Any]"
_OURS = 2
"""References to an array that only the code at hand holds."""


class Donation:
    """The arrays that a trace was given.

    Parameters
    ----------
    name : str
        Of the function, for messages.
    positions : sequence of int
        The inputs that are donated.
    """

    def __init__(self, name: str, positions: Sequence[int]) -> None:
        self.name = name
        self.positions = tuple(positions)
        self._spare: list[Array] = []

    @staticmethod
    def is_possible() -> bool:
        """Whether nothing else may want the values: no trace and no tape is under way."""
        return STATE.handler is None and STATE.active is None

    def results(self, compiled: Any, inputs: Sequence[Tensor]) -> tuple[Tensor, ...]:
        """The outputs of a compiled graph, in memory that was given before as far as it fits."""
        arrays = [tensor._value for tensor in inputs]
        executable = compiled.executable(arrays)
        return tuple(map(wrap, executable(arrays, self._spare)))

    def take(self, tensors: Sequence[Any]) -> None:
        """Takes the values out of the donated tensors, and keeps their memory."""
        for position in self.positions:
            tensor = tensors[position]
            if type(tensor) is not Tensor or type(tensor._value) is not np.ndarray:
                continue
            array = tensor._value
            tensor._value = Donated(array.shape, array.dtype, self.name)
            is_plain = array.flags.owndata and array.flags.c_contiguous and array.flags.writeable
            if is_plain and sys.getrefcount(array) <= _OURS:
                self._spare.append(array)
        del self._spare[: -len(self.positions) or None]
