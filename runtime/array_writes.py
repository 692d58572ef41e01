"""Tells where a number that a tape follows is written into a NumPy array, which no tape sees.

`out[i] = x` with an array `out` keeps the number alone, and so the gradient of whatever comes from
`out` misses what led to `x`, without a word from Python or NumPy.
"""

from __future__ import annotations

import warnings

from tapeline.runtime.dispatch import STATE
from tapeline.runtime.record import meet
from tapeline.runtime.tensor import Tensor
from tapeline.runtime.user_frames import nearest_user_frame, stores_item

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
    frame, depth = nearest_user_frame()
    place = frame.f_code.co_filename, frame.f_lineno
    if place not in _TOLD and (is_write or stores_item(frame)):
        _TOLD.add(place)
        warnings.warn(_MESSAGE, stacklevel=depth)
