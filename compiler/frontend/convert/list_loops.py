"""Loops that append to lists as often as tensors say.

Each such list goes round as a `LoopList`. Where the number of rounds is known when the loop begins,
if only as a size that values tell, there is room for all that can come. Otherwise there is room for
some number of items; a loop that makes more ends, and whoever called the function has it traced
again with more room.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tapeline.compiler.autodiff.room import room_now
from tapeline.compiler.frontend.convert.blocktrace import LengthChangedError
from tapeline.compiler.frontend.convert.growth import MOST_ITEMS
from tapeline.compiler.frontend.convert.loop_result import finish
from tapeline.compiler.frontend.convert.loop_trace import Loop
from tapeline.compiler.frontend.convert.row_lists import (
    Form,
    FormNeededError,
    LoopList,
    RowList,
    form_of,
    loop_list,
)
from tapeline.compiler.frontend.convert.sequences import Sequence
from tapeline.compiler.frontend.convert.state import State, tracing_graph
from tapeline.runtime.dispatch import bind
from tapeline.runtime.errors import DynamicShapeError, LoopLimitError
from tapeline.runtime.ops.effects import HOST_ASSERT, Message
from tapeline.runtime.ops.indexing import getitem
from tapeline.runtime.ops.searching import span
from tapeline.runtime.tensor import Tensor

FIRST_ROOM = 4096
"""For how many items there is room at first."""


class ListLimitError(LoopLimitError):
    """A loop appends more items to a list than there is room for."""

    def __init__(self, text: str, room: int) -> None:
        super().__init__(text)
        self.room = room


def lists_of(state: State) -> list[Any]:
    """The lists among the variables of a loop, to which it appends."""
    return list(_lists(state).values())


def holds_lists(state: State) -> bool:
    """Whether lists are among the variables of a loop, to which it appends."""
    return bool(_lists(state))


def may_have_rows() -> bool:
    """Whether sizes that values tell are possible where the trace is."""
    graph = tracing_graph()
    return graph is not None and graph.sizes is not None


def with_told_count(items: Sequence) -> Sequence:
    """The same items, with a size for their number instead of a tensor."""
    made = Sequence(
        span(0, items.count).shape[0], items.item, is_explicit=True, rows=items.rows,
        of_rows=items.of_rows,
    )  # fmt: skip
    made.is_parallel = items.is_parallel
    return made


def run_with_lists(
    make: Callable[[], Loop],
    state: State,
    what: str,
    count: Any = None,
    appends_always: bool = False,
) -> None:
    """Traces a loop whose lists have as many items as tensors say, and adds it to the graph.

    Parameters
    ----------
    make : callable
        Makes the loop for what the variables are.
    state : State
        The variables.
    what : str
        What messages call the loop.
    count : int or None
        How many rounds there are at most, if that is known.
    appends_always : bool
        Whether there are so many rounds, and all of them append as often.

    Raises
    ------
    LengthChangedError
        If a list has another name, by which it would not change.
    """
    before = state.get()
    lists = _lists(state)
    forms = {name: form_of(items) for name, items in lists.items()}
    while True:
        state.set(_with_loop_lists(state, before, lists, forms, count))
        loop = make()
        try:
            loop.trace()
            _refuse_aliases(loop, lists)
            break
        except FormNeededError as needed:
            if needed.name not in lists:
                raise
            forms[needed.name] = needed.form
            state.set(before)
        except BaseException as error:
            state.set(before)
            if type(error) is DynamicShapeError:
                raise DynamicShapeError(f"{what}: {error}") from error.__cause__
            raise
    finish(loop)
    after = [
        _after(value, old, what, appends_always) if name in lists else value
        for name, value, old in zip(state.names, state.get(), before, strict=True)
    ]
    state.set(tuple(after))


def _lists(state: State) -> dict[str, Any]:
    told = state.lists
    if told is None:
        return {}
    pairs = zip(state.names, state.get(), strict=True)
    return {name: x for name, x in pairs if name in told.names and type(x) in (list, RowList)}


def _with_loop_lists(
    state: State,
    before: tuple[Any, ...],
    lists: dict[str, Any],
    forms: dict[str, Form | None],
    count: Any,
) -> tuple[Any, ...]:
    assert state.lists is not None
    per_round = dict(state.lists.per_round)
    values = []
    for name, value in zip(state.names, before, strict=True):
        if name in lists:
            is_exact = count is not None and name in per_round
            room = count * per_round[name] if is_exact else FIRST_ROOM * room_now() ** 2
            value = loop_list(name, value, forms[name], room, is_exact)
        values.append(value)
    return tuple(values)


def _refuse_aliases(loop: Loop, lists: dict[str, Any]) -> None:
    """A list that grows becomes another object, so nobody else may have it."""
    own = {id(items): name for name, items in lists.items()}
    for name, value in loop.around.variables:
        found = own.get(id(value))
        if found is not None and name != found:
            raise LengthChangedError(
                f"{loop.what} appends to the list {found!r} as often as tensors say, and {name!r} "
                "is the same list; use one name for it"
            )
    for watched in loop.around.containers.all():
        items = watched.before.values() if isinstance(watched.before, dict) else watched.before
        for item in items if not hasattr(items, "dtype") else ():
            if id(item) in own:
                raise LengthChangedError(
                    f"{loop.what} appends to the list {own[id(item)]!r} as often as tensors say, "
                    f"and {watched.path} holds it; put it there after the loop"
                )


def _after(value: Any, old: Any, what: str, appends_always: bool) -> Any:
    """A list after the loop."""
    if type(value) is not LoopList or value.form is None:
        return old
    if appends_always and value.is_exact:
        made = RowList(value.form, value.rows)
        if type(old) is list and type(made.count) is int and made.count <= MOST_ITEMS:
            old[:] = list(made)
            return old
        return made
    filled: Tensor = value.filled
    if not value.is_exact:
        text = f"{what} appends more than the {value.room} items to a list that there is room for"
        bind(HOST_ASSERT, (filled <= value.room,), (Message((text, value.room), ListLimitError),))
    places = span(0, filled)
    return RowList(value.form, [getitem(row, places) for row in value.rows])
