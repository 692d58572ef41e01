"""Arguments that a function changes in place, written over where they lie.

A call gives a changed argument a new array, which a loop over its elements first fills with the
old ones. Where nobody else holds the old array that is work for nothing: the loop writes over it,
unless something might fail on the way.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from tapeline.runtime.tensor import Tensor, wrap

if TYPE_CHECKING:
    import numpy.typing as npt

Array: TypeAlias = "npt.NDArray[Any]"


def _references(arrays: Sequence[Array], position: int) -> int:
    return sys.getrefcount(arrays[position])


def _references_of_one_holder() -> int:
    """How many references are seen where one tensor holds an array."""
    holder = [np.empty(1)]
    return _references([holder[0]], 0)


_OURS = _references_of_one_holder()


def results_in_place(
    compiled: Any, inputs: Sequence[Any], changed: Iterable[tuple[int, int]]
) -> tuple[Tensor, ...] | None:
    """The outputs of a compiled graph, with arguments written over; None where that cannot be.

    Parameters
    ----------
    compiled : Compiled
        What is called.
    inputs : sequence
        Tensors, as they are passed on.
    changed : iterable of (int, int)
        The inputs that get new values, and the outputs that these are.
    """
    if any(type(x) is not Tensor or type(x._value) is not np.ndarray for x in inputs):
        return None
    arrays = [x._value for x in inputs]
    executable = compiled.executable(arrays)
    may_share = executable.module.shared
    if not may_share:
        return None
    shared = {}
    for position, output in changed:
        first = executable.first_of(output)
        if (first, position) in may_share and _is_free(arrays, position):
            shared[first] = arrays[position]
    return tuple(map(wrap, executable(arrays, shared=shared))) if shared else None


def _is_free(arrays: Sequence[Array], position: int) -> bool:
    """Whether an array of its own memory is held by one tensor only."""
    if _references(arrays, position) > _OURS:
        return False
    flags = arrays[position].flags
    return flags.owndata and flags.c_contiguous and flags.writeable
