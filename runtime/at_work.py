"""Which examples of a `vmap` are at work where an op has an effect: not those that took the other
branch, or are done with a loop."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tapeline.runtime.tensor import Tensor


class _AtWork(threading.local):
    mask: Tensor | None = None


_AT_WORK: Final = _AtWork()


def examples_at_work() -> Tensor | None:
    """For the op that is being run on all examples: a bool for each of them; None for all."""
    return _AT_WORK.mask


@contextmanager
def only_at_work(mask: Tensor | None) -> Iterator[None]:
    """Tells the rule of an op which examples are at work."""
    before, _AT_WORK.mask = _AT_WORK.mask, mask
    try:
        yield
    finally:
        _AT_WORK.mask = before
