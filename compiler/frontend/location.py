"""Finds the user's line: the nearest frame that is not the library's own."""

from __future__ import annotations

import os
import sys
from types import CodeType

import tapeline.runtime
from tapeline.compiler.ir.location import Location

_ROOTS = tuple(
    {
        os.path.dirname(os.path.dirname(os.path.abspath(tapeline.runtime.__file__))) + os.sep,
        os.path.dirname(os.path.realpath(tapeline.runtime.__file__)) + os.sep,
        os.path.dirname(os.path.dirname(os.path.realpath(__file__))) + os.sep,
    }
)
_IS_OURS: dict[CodeType, bool] = {}
_IS_OURS_LIMIT = 16384


def is_library_code(code: CodeType) -> bool:
    """Whether the code is the library's own, generated operators included."""
    found = _IS_OURS.get(code)
    if found is None:
        name = code.co_filename
        found = name.startswith("<operator") or name.startswith(_ROOTS)
        if len(_IS_OURS) >= _IS_OURS_LIMIT:
            _IS_OURS.clear()
        _IS_OURS[code] = found
    return found


def user_location() -> Location | None:
    """The line of the user's code that is running, None where there is none."""
    frame = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if not is_library_code(code):
            return Location(code, frame.f_lasti)
        if frame.f_back is None:
            return None
        frame = frame.f_back
    return None


def frames_of_library() -> int:
    """How many frames lie between a warning and the user's line."""
    frame, depth = sys._getframe(1), 1
    while frame is not None and is_library_code(frame.f_code):
        frame, depth = frame.f_back, depth + 1  # type: ignore[assignment]  # None ends the loop
    return depth
