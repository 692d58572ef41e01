"""What functions of the program see of the variables around them, kept for when they run again.

A gradient may run a function later than the program did, and names may stand for something else by
then, as in `x = block(x)` where the block reads `x`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import CellType, FunctionType, MethodType
from typing import Any

from tapeline.runtime.tensor import Tensor


def _as_it_is(value: Any) -> Any:
    return value


class Surroundings:
    """The variables that functions, and functions that these refer to, have from around them.

    Parameters
    ----------
    *functions : callable
        What will run again.
    hold : callable
        What is kept of the value of a variable, in the place of the value itself.
    """

    __slots__ = ("_kept",)

    def __init__(self, *functions: Any, hold: Callable[[Any], Any] = _as_it_is) -> None:
        self._kept = [(cell, hold(value)) for cell, value in _variables(functions)]

    @contextmanager
    def as_before(self) -> Iterator[None]:
        """A block in which the variables have the values that they had; then those of now again."""
        now = []
        for cell, value in self._kept:
            if not _is_empty(cell) and not _is_same(cell.cell_contents, value):
                now.append((cell, cell.cell_contents))
                cell.cell_contents = value
        try:
            yield
        finally:
            for cell, value in now:
                cell.cell_contents = value


def _variables(functions: Any) -> Iterator[tuple[CellType, Any]]:
    waiting, met = list(functions), set[int]()
    while waiting:
        function = waiting.pop()
        if isinstance(function, functools.partial):
            waiting += [function.func, *function.args, *function.keywords.values()]
        elif isinstance(function, MethodType):
            waiting.append(function.__func__)
        elif isinstance(function, FunctionType):
            for cell in function.__closure__ or ():
                if id(cell) not in met and not _is_empty(cell):
                    met.add(id(cell))
                    waiting.append(cell.cell_contents)
                    yield cell, cell.cell_contents


def _is_same(value: Any, before: Any) -> bool:
    """Whether a variable has not changed: other threads may use it as well."""
    if type(value) is Tensor and type(before) is Tensor:
        return value._value is before._value and value._node is before._node
    return value is before


def _is_empty(cell: CellType) -> bool:
    try:
        cell.cell_contents  # noqa: B018  # raises where the variable has no value
    except ValueError:
        return True
    return False
