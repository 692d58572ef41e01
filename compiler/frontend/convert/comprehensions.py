"""Comprehensions: over a tensor or a long range they are loops that append to a list."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from tapeline.compiler.frontend.convert.loop_trace import nothing
from tapeline.compiler.frontend.convert.looping import repeat_for
from tapeline.compiler.frontend.convert.row_lists import with_item
from tapeline.compiler.frontend.convert.sequences import sequence_of
from tapeline.compiler.frontend.convert.staging import choose_block
from tapeline.compiler.frontend.convert.state import (
    ListsTold,
    State,
    is_staging,
    is_symbolic,
)
from tapeline.runtime.errors import DynamicShapeError


def collect(
    iterable: Iterable[Any],
    function: Callable[[Any], Any],
    keeps: Callable[[Any], Any] | None = None,
) -> Any:
    """What a function gives for each item that is kept; over a tensor or a long range as one
    loop."""
    if keeps is None:
        keeps = _always
    items = sequence_of(iterable) if is_staging() else None
    if items is None:
        return [function(item) for item in iterable if is_kept(keeps(item))]
    found = _Collected(function, keeps)
    if repeat_for(items, None, found.take, found.state(), function):
        return found.items
    return [function(item) for item in items if is_kept(keeps(item))]


def _always(_: Any) -> bool:
    return True


def is_kept(condition: Any) -> Any:
    """What the `if` of a comprehension says that Python runs."""
    if is_symbolic(condition):
        raise DynamicShapeError(
            "a comprehension leaves items out as a tensor says, so its length depends on data; "
            "keep all items, with tl.where for those that do not count"
        )
    return condition


class _Collected:
    """The list that a comprehension makes, as the variable of a loop."""

    def __init__(self, function: Callable[[Any], Any], keeps: Callable[[Any], Any]) -> None:
        self.items: Any = []
        self._function = function
        self._keeps = keeps

    def state(self) -> State:
        """The variable."""
        told = ListsTold(("a list",), self._keeps is not _always, (("a list", 1),))
        return State(
            ("a list",), lambda: (self.items,), self._put, live=("a list",),
            appended=lambda: (self.items,), lists=told,
        )  # fmt: skip

    def _put(self, values: tuple[Any, ...]) -> None:
        (self.items,) = values

    def take(self, item: Any) -> None:
        """A round."""
        keeps = self._keeps(item)
        if is_symbolic(keeps):
            choose_block(keeps, lambda: self._append(item), nothing, self.state())
        elif keeps:
            self._append(item)

    def _append(self, item: Any) -> None:
        self.items = with_item(self.items, self._function(item))
