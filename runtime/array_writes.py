"""Tells where a number that a tape follows is written into a NumPy array, which no tape sees.

`out[i] = x` with an array `out` keeps the number alone, and so the gradient of whatever comes from
`out` misses what led to `x`, without a word from Python or NumPy.
"""

from __future__ import annotations

import sys
import warnings
from types import FrameType

from tapeline.runtime.dispatch import STATE
from tapeline.runtime.record import meet
from tapeline.runtime.tensor import Tensor

_TOLD: set[tuple[str, int]] = set()
"""The lines that were spoken of."""
_MESSAGE = (
    "a tensor whose gradient is recorded is written into a NumPy array, which keeps the number and "
    "not how it came about, so no gradient flows through the array. Write into a tensor instead, "
    "such as out = tl.zeros(n), or collect tensors in a list and use tl.stack; where the number "
    "alone is meant, write float(x) or x.numpy()"
)


def warn_of_write(tensor: Tensor, is_write: bool) -> None:
    """Warns, once per line, if the user's line writes the values of a recorded tensor into an
    array.

    Parameters
    ----------
    tensor : Tensor
        One that has a node, and whose values were asked for.
    is_write : bool
        Whether that is known to be for such a write; otherwise the instruction that is under way in
        the user's code tells, so that `float(loss)` is no matter.
    """
    node, active = tensor._node, STATE.active
    if node is None or active is None or STATE.handler is not None:
        return
    if tensor._value.dtype.kind not in "fc" or meet(node.tapes, active) is None:
        return
    frame, depth = sys._getframe(1), 2
    while str(frame.f_globals.get("__name__")).startswith("tapeline.") and frame.f_back is not None:
        frame, depth = frame.f_back, depth + 1
    place = frame.f_code.co_filename, frame.f_lineno
    if place not in _TOLD and (is_write or _stores_item(frame)):
        _TOLD.add(place)
        warnings.warn(_MESSAGE, stacklevel=depth)


def _stores_item(frame: FrameType) -> bool:
    """Whether the frame is at an assignment to an item or a slice."""
    import opcode  # hardly a program comes here

    instruction = opcode.opname[frame.f_code.co_code[frame.f_lasti]]
    return instruction in ("STORE_SUBSCR", "STORE_SLICE")
