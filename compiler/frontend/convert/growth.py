"""Lists that a loop appends to: what the rounds append are rows of arrays, and after the loop the
items of the list.

That is only so where the loop reads nothing of the list, which `only_appended` in `appends` sees,
and where it is known how many rounds there are, and that each appends as often. `list_loops` has
the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tapeline.compiler.frontend.convert.blocktrace import BlockTrace, Value
from tapeline.compiler.frontend.convert.carried import output_form
from tapeline.compiler.frontend.convert.row_lists import Form, RowList
from tapeline.compiler.frontend.convert.state import State, appended_lists
from tapeline.compiler.frontend.convert.unify import Joined, node_of
from tapeline.compiler.frontend.symbol import Symbol
from tapeline.runtime import nest
from tapeline.runtime.errors import TracingError
from tapeline.runtime.op import get_op
from tapeline.runtime.tensor import Tensor

MOST_ITEMS = 20_000
"""A list of more items is no matter for a graph; an array is."""


def growing_lists(state: State) -> dict[int, list[Any]]:
    """By id, the lists that the loop does nothing with but append to them."""
    return {id(x): x for x in appended_lists(state)}


class Growth:
    """What a round appends to one list, as nodes of its graph."""

    def __init__(self, traced: BlockTrace, items: list[Any], new: Value) -> None:
        self._items = items
        self._new = new
        self._forms = [output_form(leaf) for leaf in new.leaves]
        self.nodes = [
            node_of(traced, leaf, form)
            for leaf, form in zip(new.leaves, self._forms, strict=True)
            if type(form) is Joined
        ]

    def extend(self, rows: Sequence[Tensor], count: Any, state: State, what: str) -> None:
        """Appends what all rounds appended, from the arrays whose rows they are."""
        per_round = len(self._new.original)
        if type(count) is int and count * per_round <= MOST_ITEMS:
            for number in range(count):
                parts = iter([row[number] for row in rows])
                leaves = [next(parts) if type(form) is Joined else form for form in self._forms]
                self._items.extend(nest.unflatten(self._new.original, leaves))
            return
        variables = list(state.get())
        places = [k for k, value in enumerate(variables) if value is self._items]
        if not places or per_round != 1 or any(type(form) is not Joined for form in self._forms):
            raise TracingError(
                f"{what} appends {count * per_round} items to a list; keep them in a "
                f"tl.TensorArray of size {count * per_round} instead"
            )
        form = Form.of(nest.unflatten(self._new.original[0], [row[0] for row in rows]))
        form = Form(form.structure, tuple(self._forms))
        variables[places[0]] = self._items + RowList(form, list(rows))
        state.set(tuple(variables))


def take_growth(traced: BlockTrace) -> list[Growth]:
    """What a round appends to each list."""
    return [Growth(traced, items, new) for items, new in traced.grown.values()]


def whole_of(items: Sequence[Any]) -> Tensor | None:
    """The tensor whose parts along the first axis are the items, if there is one in the trace."""
    first = items[0]._value if items and type(items[0]) is Tensor else None
    if type(first) is not Symbol or first.graph.ops[first.id] is not get_op("getitem"):
        return None
    graph = first.graph
    (source,) = graph.inputs[first.id]
    if graph.spec(source).shape[:1] != (len(items),):
        return None
    for number, item in enumerate(items):
        held = item._value if type(item) is Tensor else None
        if type(held) is not Symbol or held.graph is not graph:
            return None
        if graph.ops[held.id] is not get_op("getitem") or graph.inputs[held.id] != (source,):
            return None
        if graph.attrs[held.id] != ((number,),):
            return None
    return graph.tensor(source)
