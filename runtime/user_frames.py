"""The user's line for a warning, that of the nearest frame which is not the library's own, and
what it is about to do."""

from __future__ import annotations

import sys
from types import FrameType


def nearest_user_frame() -> tuple[FrameType, int]:
    """The frame, and the `stacklevel` with which the caller of this function warns at its line."""
    frame, depth = sys._getframe(1), 1
    while str(frame.f_globals.get("__name__")).startswith("tapeline.") and frame.f_back is not None:
        frame, depth = frame.f_back, depth + 1
    return frame, depth


_STORES = ("STORE_SUBSCR", "STORE_SLICE")
_BETWEEN = ("CACHE", "COPY", "SWAP", "NOP", "EXTENDED_ARG")
"""What comes between the operator of `x[i] += y` and its assignment to the item."""


def stores_item(frame: FrameType) -> bool:
    """Whether the frame is at an assignment to an item or a slice."""
    return _operation(frame, frame.f_lasti) in _STORES


def stores_result_as_item(frame: FrameType) -> bool:
    """Whether an item or a slice is assigned what the frame is computing, as in `x[i] += y`."""
    at = frame.f_lasti + 2
    while (name := _operation(frame, at)) in _BETWEEN:
        at += 2
    return name in _STORES


def _operation(frame: FrameType, at: int) -> str:
    import opcode  # hardly a program comes here

    code = frame.f_code.co_code
    return opcode.opname[code[at]] if at < len(code) else ""
