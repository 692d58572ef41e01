"""Arrays of NumPy in a trace: `table[x]` where a tensor says which elements, `np.ndenumerate`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tapeline.compiler.frontend.convert.state import is_symbolic, outer_graph
from tapeline.runtime.tensor import as_tensor, known_value


def is_unknown(x: Any) -> bool:
    """Whether `x` is a tensor whose elements the trace does not know."""
    return is_symbolic(x) and known_value(as_tensor(x)) is None


def enumerated(array: Any) -> Iterator[tuple[tuple[int, ...], Any]]:
    """`np.ndenumerate`."""
    if not is_unknown(array):
        return iter(np.ndenumerate(array))
    x = as_tensor(array)
    return ((place, x[place]) for place in np.ndindex(x.shape))


class Table:
    """An array of NumPy in the place of `array` in `array[key]`: a tensor may be the key."""

    __slots__ = ("_array",)

    def __init__(self, array: Any) -> None:
        self._array = array

    def __getitem__(self, key: Any) -> Any:
        parts = key if type(key) is tuple else (key,)
        if any(map(is_unknown, parts)):
            return as_tensor(self._array)[key]
        found = self._array[key]
        graph = outer_graph()
        is_view = isinstance(found, np.ndarray) and found.base is not None
        if graph is not None and graph.reads is not None and not is_view:
            graph.reads.note_contents(self._array)
        return found


def subscripted(holder: Any) -> Any:
    """What stands in the place of `holder` in `holder[key]`."""
    is_table = type(holder) is np.ndarray and holder.dtype.kind in "biufc"
    return Table(holder) if is_table else holder
