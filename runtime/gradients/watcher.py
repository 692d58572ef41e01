"""Telling which Variables a block reads."""

from __future__ import annotations

from types import TracebackType
from typing import Any

from tapeline.runtime.recorder import Tape


class VariableWatcher:
    """A block that keeps account of the trainable Variables that are read in it.

    Examples
    --------
    >>> import tapeline as tl
    >>> v, w = tl.Variable(1.0, name="v"), tl.Variable(2.0, name="w")
    >>> with tl.VariableWatcher() as watcher:
    ...     y = w * 2
    >>> [variable.name for variable in watcher.watched_variables()]
    ['w']
    """

    __slots__ = ("_tape",)

    def __init__(self) -> None:
        self._tape = Tape()

    def __enter__(self) -> VariableWatcher:
        self._tape.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._tape.stop()

    def watched_variables(self) -> tuple[Any, ...]:
        """The Variables in the order in which they were created."""
        return self._tape.list_variables()
