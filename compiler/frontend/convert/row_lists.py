"""Lists of which a tensor decides how long they are: rows of tensors.

In a loop such a list is a `LoopList`: tensors with room for a number of items, and how many there
are. After the loop it is a `RowList`, whose length is a size that values tell. It can be used as
a list; where it has to be one, the trace serves the length of the call at hand alone. A compiled
function gives it back as a list.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

import numpy as np

from tapeline.compiler.frontend.convert.blocktrace import Leaf
from tapeline.compiler.frontend.convert.carried import initial_tensor, input_form
from tapeline.compiler.frontend.convert.nodes import mark_weak
from tapeline.compiler.frontend.convert.state import LOOPS, tracing_graph
from tapeline.compiler.frontend.convert.unify import Joined, MismatchError, join_leaves
from tapeline.runtime import nest
from tapeline.runtime.errors import ArgumentError, DynamicShapeError
from tapeline.runtime.ops.assignment import setitem
from tapeline.runtime.ops.creation import zeros
from tapeline.runtime.ops.indexing import getitem
from tapeline.runtime.ops.joining import concat, stack
from tapeline.runtime.ops.logic import logical_or
from tapeline.runtime.ops.selection import minimum, where
from tapeline.runtime.tensor import Tensor, as_tensor


class Form:
    """What the items of a list have in common: a structure, and the spec of each tensor in it."""

    def __init__(self, structure: Any, leaves: tuple[Joined, ...]) -> None:
        self.structure = structure
        self.leaves = leaves

    @classmethod
    def of(cls, item: Any) -> Form:
        """The form of one item.

        Raises
        ------
        DynamicShapeError
            If there is more in it than tensors and numbers.
        """
        leaves = [input_form(leaf) for leaf in nest.flatten(item)]
        for leaf in leaves:
            if type(leaf) is not Joined:
                raise DynamicShapeError(
                    f"a list of which a tensor decides how long it is gets {item!r}; only tensors "
                    "and numbers, and structures of them, can be in such a list"
                )
        return cls(nest.map_structure(lambda _: 0, item), tuple(leaves))

    def joined(self, other: Form) -> Form:
        """The form of the items of both.

        Raises
        ------
        DynamicShapeError
            If there is none.
        """
        try:
            nest.assert_same_structure(self.structure, other.structure)
            pairs = zip(self.leaves, other.leaves, strict=True)
            leaves = [
                join_leaves(Leaf(0, a.spec, a.weak), Leaf(0, b.spec, b.weak)) for a, b in pairs
            ]
        except (ArgumentError, MismatchError) as error:
            raise DynamicShapeError(
                f"a list of which a tensor decides how long it is gets items of two kinds: {error}"
            ) from None
        return Form(self.structure, tuple(leaves))

    def tensors(self, item: Any) -> list[Tensor]:
        """The tensors of an item, in this form."""
        pairs = zip(nest.flatten(item), self.leaves, strict=True)
        return [initial_tensor(leaf, wanted) for leaf, wanted in pairs]

    def item(self, parts: Sequence[Tensor]) -> Any:
        """An item of these tensors."""
        pairs = zip(parts, self.leaves, strict=True)
        return nest.unflatten(self.structure, [mark_weak(part, x.weak) for part, x in pairs])

    def blank(self, count: Any) -> list[Tensor]:
        """Zeros for so many items."""
        return [zeros((count, *x.spec.static_shape), dtype=x.spec.dtype) for x in self.leaves]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Form) or self.leaves != other.leaves:
            return False
        try:
            nest.assert_same_structure(self.structure, other.structure)
        except ArgumentError:
            return False
        return True

    def __hash__(self) -> int:
        return hash(self.leaves)


class FormNeededError(BaseException):
    """A list gets its first item, or one of another form; the loop is to be traced anew. No
    handler of the user's is to meet it."""

    def __init__(self, name: str, form: Form) -> None:
        super().__init__(name)
        self.name = name
        self.form = form


class LoopList:
    """A list within a loop; each `append` makes another one.

    Attributes
    ----------
    name : str
        The variable.
    form : Form or None
        That of the items; None while there is none.
    rows : list of Tensor, shape (room, ...)
        The items, and room for more.
    filled : Tensor of int64, shape ()
        How many items there are; more than there is room for where the loop has to end.
    is_exact : bool
        Whether there is room for all that can come.
    """

    is_list = True

    def __init__(
        self, name: str, form: Form | None, rows: list[Tensor], filled: Any, is_exact: bool
    ) -> None:
        self.name = name
        self.form = form
        self.rows = rows
        self.filled = filled
        self.is_exact = is_exact

    @property
    def room(self) -> Any:
        """For how many items there is room."""
        return self.rows[0].shape[0]

    def with_item(self, item: Any) -> LoopList:
        """The list with an item more."""
        own = Form.of(item)
        if self.form is None:
            raise FormNeededError(self.name, own)
        form = self.form if own == self.form else self.form.joined(own)
        if form != self.form:
            raise FormNeededError(self.name, form)
        place = self.filled if self.is_exact else minimum(self.filled, self.room - 1)
        pairs = zip(self.rows, form.tensors(item), strict=True)
        rows = [setitem(row, place, part) for row, part in pairs]
        return LoopList(self.name, form, rows, self.filled + 1, self.is_exact)

    def size(self) -> Any:
        """How many items there are."""
        return 0 if self.form is None else mark_weak(self.filled, int)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice) or self.form is None:
            raise DynamicShapeError(
                f"{self.name}[{index}]: of a list of which a tensor decides how long it is, a loop "
                "can read single items, once there is one"
            )
        place = as_tensor(index, np.int64)
        filled = self.filled if self.is_exact else minimum(self.filled, self.room)
        place = where(place < 0, place + filled, place)
        missing = logical_or(place < 0, place >= filled)
        place = where(missing, self.room, place)  # which is an error
        return self.form.item([getitem(row, place) for row in self.rows])

    def _refuse(self, *_: Any) -> NoReturn:
        raise DynamicShapeError(
            f"a tensor decides how long the list {self.name!r} is, so the loop can append to it, "
            "read items of it and ask for its length; what else is done with it there"
        )

    __iter__ = __len__ = __bool__ = __contains__ = _refuse


def _flatten_loop_list(x: LoopList) -> tuple[Sequence[Any], Any]:
    children = [*x.rows, x.filled] if x.form is not None else []
    return children, (x.name, x.form, x.is_exact)


def _unflatten_loop_list(auxiliary: Any, children: Sequence[Any]) -> LoopList:
    name, form, is_exact = auxiliary
    if form is None:
        return LoopList(name, None, [], None, is_exact)
    *rows, filled = children
    return LoopList(name, form, rows, filled, is_exact)


nest.register(LoopList, _flatten_loop_list, _unflatten_loop_list)


class RowList:
    """A list in a trace, as rows of tensors.

    Parameters
    ----------
    form : Form
        That of the items.
    rows : list of Tensor, shape (n, ...)
        The items.
    """

    is_list = True
    __hash__ = None  # type: ignore[assignment]  # as of a list

    def __init__(self, form: Form, rows: list[Any]) -> None:
        self.form = form
        self.rows = rows

    @property
    def count(self) -> Any:
        """How many items there are, a size."""
        return self.rows[0].shape[0]

    @property
    def is_flat(self) -> bool:
        """Whether each item is a tensor or a number."""
        return nest.is_leaf(self.form.structure)

    def item(self, index: Any) -> Any:
        """The item at an index, which may be a tensor."""
        return self.of_parts([getitem(row, index) for row in self.rows])

    def of_parts(self, parts: Sequence[Tensor]) -> Any:
        """The item that is made of these rows."""
        return self.form.item(parts)

    def with_item(self, item: Any) -> RowList:
        """This list, with an item more."""
        self.append(item)
        return self

    def append(self, item: Any) -> None:
        """Adds an item."""
        self.extend([item])

    def extend(self, items: Any) -> None:
        """Adds items."""
        graph = tracing_graph()
        own = self.rows[0]._value
        if graph is None or getattr(own, "graph", None) is not graph:
            raise DynamicShapeError(
                "a tensor decides how long a list is, and whether there is more in it; append to "
                "it with tl.where, or in a loop"
            )
        more = items if type(items) is RowList else list(items)
        self.rows = (self + more).rows

    def __add__(self, other: Any) -> RowList:
        form, rows = _rows_of(other, self.form)
        return RowList(form, [concat(pair) for pair in zip(self._as(form), rows, strict=True)])

    def __radd__(self, other: Any) -> RowList:
        form, rows = _rows_of(other, self.form)
        return RowList(form, [concat(pair) for pair in zip(rows, self._as(form), strict=True)])

    __iadd__ = __add__

    def _as(self, form: Form) -> list[Tensor]:
        pairs = zip(self.rows, form.leaves, strict=True)
        return [as_tensor(row, x.spec.dtype) for row, x in pairs]

    def copy(self) -> RowList:
        """Another list of the same items."""
        return RowList(self.form, list(self.rows))

    def stacked(self) -> Tensor:
        """The items as one tensor."""
        if not self.is_flat:
            return as_tensor(list(self))
        row: Tensor = self.rows[0]
        return row

    def __tapeline_tensor__(self) -> Tensor:
        return self.stacked()

    def __array_function__(self, function: Any, _: Any, args: Any, kwargs: Any) -> Any:
        def given(x: Any) -> Any:
            return x.stacked() if type(x) is RowList else x

        return function(*map(given, args), **{name: given(x) for name, x in kwargs.items()})

    # ---- as a list

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, slice):
            return RowList(self.form, [row[key] for row in self.rows])
        return self.item(key)

    def __len__(self) -> int:
        return int(self.count)

    def __iter__(self) -> Iterator[Any]:
        return (self.item(k) for k in range(len(self)))

    def __reversed__(self) -> Iterator[Any]:
        return iter(list(iter(self))[::-1])

    def __bool__(self) -> bool:
        return bool(self.count > 0)

    def __repr__(self) -> str:
        return f"[{self.count} items]"

    def __getattr__(self, name: str) -> Any:
        if name in ("index", "count"):
            return getattr(list(self), name)
        if hasattr(list, name) and not name.startswith("__"):
            raise DynamicShapeError(
                f"a tensor decides how long a list is on which {name!r} is called"
            )
        raise AttributeError(f"'list' object has no attribute {name!r}")


def with_item(items: Any, item: Any) -> Any:
    """What a variable that held a list holds after `items.append(item)`."""
    for loop in filter(None, LOOPS.stack):
        if type(items) is LoopList or id(items) in loop.growing:
            tensors = [leaf for leaf in nest.flatten(item) if type(leaf) is Tensor]
            loop.appended += [(leaf, leaf._value) for leaf in tensors]
    if isinstance(items, LoopList | RowList):
        return items.with_item(item)
    items.append(item)
    return items


def _rows_of(items: Any, like: Form | None) -> tuple[Form, list[Tensor]]:
    """Items as rows, in a form that fits another one too."""
    if type(items) is RowList:
        form = items.form if like is None else like.joined(items.form)
        return form, items._as(form)
    found = like
    for item in items:
        own = Form.of(item)
        found = own if found is None or found == own else found.joined(own)
    assert found is not None
    columns = [found.tensors(item) for item in items]
    if not columns:
        return found, found.blank(0)
    return found, [stack(list(column)) for column in zip(*columns, strict=True)]


def form_of(items: Any) -> Form | None:
    """The form of the items of a list; None where there are none."""
    if type(items) is RowList or items:
        return _rows_of(items, None)[0]
    return None


def loop_list(name: str, items: Any, form: Form | None, room: Any, is_exact: bool) -> LoopList:
    """A list as a loop has it, with room for `room` items more."""
    if form is None:
        return LoopList(name, None, [], None, is_exact)
    blank = form.blank(room)
    if type(items) is RowList:
        count = as_tensor(items.count, np.int64)
    else:
        count = as_tensor(len(items), np.int64)
    if type(items) is RowList or items:
        _, rows = _rows_of(items, form)
        blank = [concat(pair) for pair in zip(rows, blank, strict=True)]
    return LoopList(name, form, blank, count, is_exact)


def _unflatten_row_list(form: Any, children: Sequence[Any]) -> Any:
    if all(type(x) is Tensor and isinstance(x._value, np.ndarray) for x in children):
        count = len(children[0])
        return [nest.unflatten(form.structure, [row[k] for row in children]) for k in range(count)]
    return RowList(form, list(children))


nest.register(RowList, lambda x: (x.rows, x.form), _unflatten_row_list)
