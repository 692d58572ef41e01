"""How many turns of a loop there is room for, where nobody knows beforehand how many there will be.

What such a loop keeps for its gradient lies in arrays with room for a number of turns; pages that
nothing is written to cost no memory. A loop that makes more turns ends with an error, and whoever
called it has the gradient made again with more room, until memory is used up.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from tapeline.runtime.errors import LoopLimitError

HISTORY_BYTES = 1 << 28
"""The room of one loop at first."""
HISTORY_TURNS = 1 << 24
"""The most turns of such a loop at first."""
_GROWTH = 8


class _Room(threading.local):
    """How many times the first room the gradients that are made in this thread shall have."""

    factor: int = 1


_ROOM = _Room()


def turns_for(nbytes: int) -> int:
    """How many turns there is room for, of which each keeps so many bytes."""
    factor = _ROOM.factor
    return max(1, min(HISTORY_TURNS * factor, HISTORY_BYTES * factor // max(nbytes, 1)))


def room_now() -> int:
    """How many times the first room gradients shall have that are made now."""
    return _ROOM.factor


@contextmanager
def with_room(factor: int) -> Iterator[None]:
    """Makes gradients with so many times the first room, or more if that is asked for already."""
    before = _ROOM.factor
    _ROOM.factor = max(before, factor)
    try:
        yield
    finally:
        _ROOM.factor = before


def larger_room(factor: int, error: LoopLimitError, last: int | None = None) -> int:
    """The factor to try next, after a loop ran out of room.

    Parameters
    ----------
    factor : int
        The one that was too small.
    error : LoopLimitError
        What the loop said.
    last : int, optional
        For how many turns there was room before that.

    Raises
    ------
    LoopLimitError
        The error itself, if its author stated how many turns there may be, or more room did not
        reach that loop.
    MemoryError
        If the memory of the machine is used up.
    """
    if error.room is None or error.room == last:
        raise error
    most = memory_bytes() // HISTORY_BYTES
    if most < 2 * factor:
        raise MemoryError(
            f"while_loop: the loop makes more than {error.room} turns, and the memory of this "
            f"machine, {memory_bytes() / 1e9:.1f} GB, has no room to keep what the gradient needs "
            'of more; pass gradient="checkpoint:k" to keep less, or maximum_iterations='
        ) from error
    return min(factor * _GROWTH, most)


def memory_bytes() -> int:
    """The memory that is free on this machine."""
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:
            for line in lines:
                if line.startswith("MemAvailable:"):
                    return 1024 * int(line.split()[1])
    except (OSError, ValueError):
        pass
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return 1 << 34
