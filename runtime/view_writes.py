"""Tells where a part of a tensor is written to and NumPy would write through to the whole.

`row = x[0]; row[1] = 5` changes `row` alone here, as parts are copies in meaning; in NumPy `row` is
a view, and `x` changes too. Who brings such code along should hear of it.
"""

from __future__ import annotations

import gc
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from tapeline.runtime.errors import ViewWriteWarning
from tapeline.runtime.tensor import Tensor
from tapeline.runtime.user_frames import nearest_user_frame, stores_result_as_item

_SEARCHES = 3
"""How often the tensors that live are looked through for one statement, at most; that takes
milliseconds."""
_searches: dict[tuple[str, int, int], int] = {}
"""How often that was done, by file, function and instruction; `_SEARCHES` where there is no more to
say."""
_MOST_STATEMENTS = 16384
_MESSAGE = (
    "a part of a tensor is written to while the tensor that it was taken from is in use. Parts are "
    "copies in meaning, so that tensor does not change, while in NumPy, where they are views, it "
    "would. Write x[i, j] = v instead of row = x[i]; row[j] = v to change it, or start from "
    "row = x[i].copy() to leave it alone"
)


def warn_of_view_write(cell: Tensor) -> None:
    """Warns, once per statement, if the cell, which is about to be written to, holds a part of
    another tensor that lives.

    Numbers are no views in NumPy either, so `total = x[0]; total += 1` is no matter.
    """
    value = cell._value
    if not value.shape:
        return
    if type(value) is np.ndarray:
        base = value.base
        if type(base) is not np.ndarray or sys.getrefcount(base) <= _HELD_BY_ONE_VIEW:
            return
        if 0 in value.strides:
            return  # spread out: read-only in NumPy
    elif not value.is_view:
        return
    frame, depth = nearest_user_frame()
    code = frame.f_code
    place = code.co_filename, code.co_firstlineno, frame.f_lasti
    done = _searches.get(place, 0)
    if done >= _SEARCHES:
        return
    if len(_searches) >= _MOST_STATEMENTS:
        _searches.clear()
    if stores_result_as_item(frame):
        _searches[place] = _SEARCHES
        return
    found = any(_is_whole_of(other, value) for other in _living_tensors() if other is not cell)
    _searches[place] = _SEARCHES if found else done + 1
    if found:
        warnings.warn(_MESSAGE, ViewWriteWarning, stacklevel=depth)


def _living_tensors() -> Iterator[Tensor]:
    return (thing for thing in gc.get_objects() if type(thing) is Tensor)


def _is_whole_of(tensor: Tensor, part: Any) -> bool:
    """Whether the part is a view of what the tensor holds."""
    whole = tensor._value
    if whole is part:
        return False
    if type(part) is not np.ndarray:
        return bool(part.is_part_of(whole))
    if type(whole) is not np.ndarray or (whole is not part.base and whole.base is not part.base):
        return False
    return _covers(whole, part) and np.may_share_memory(whole, part)


def _covers(whole: npt.NDArray[Any], part: npt.NDArray[Any]) -> bool:
    first, last = np.lib.array_utils.byte_bounds(whole)
    part_first, part_last = np.lib.array_utils.byte_bounds(part)
    return first <= part_first and part_last <= last


def _references_of_one_view() -> int:
    view = np.zeros(2)[1:]
    base = view.base
    return sys.getrefcount(base)


_HELD_BY_ONE_VIEW = _references_of_one_view()
