"""What a trace read of the world around it: attributes, globals and closure cells.

Values that may differ at the next call are what guards are made of; see `guards`.
"""

from __future__ import annotations

from types import CellType, FunctionType
from typing import Any, Final

from tapeline.compiler.frontend.convert.state import UNDEF, tracing_graph

ATTRIBUTE: Final = "attribute"
GLOBAL: Final = "global"
CELL: Final = "closure"


class Reads:
    """The reads of one trace, each once: (holder, name, kind) and the first value seen.

    Attributes
    ----------
    entries : dict
        By id of the holder and name: holder, name, kind, value.
    poisoned : dict
        Variables that have a value only on some path, and what to say when one is used.
    """

    __slots__ = ("_scopes", "entries", "poisoned")

    def __init__(self) -> None:
        self.entries: dict[tuple[int, str], tuple[Any, str, str, Any]] = {}
        self.poisoned: dict[str, str] = {}
        self._scopes: set[tuple[int, int]] = set()

    def note(self, holder: Any, name: str, kind: str, value: Any) -> None:
        """Takes down one read; the first one of a place counts."""
        self.entries.setdefault((id(holder), name), (holder, name, kind, value))

    def note_function(self, function: FunctionType, names: tuple[str, ...]) -> None:
        """Takes down the globals and the closure of a function that runs."""
        scope = function.__globals__
        key = id(function), id(scope)
        if key in self._scopes:
            return
        self._scopes.add(key)
        for name in names:
            value = scope.get(name, UNDEF)
            if value is not UNDEF:
                self.note(scope, name, GLOBAL, value)
        for name, cell in zip(
            function.__code__.co_freevars, function.__closure__ or (), strict=True
        ):
            if not name.startswith("@") and name != "__class__":
                self.note(cell, name, CELL, read_cell(cell))


def read_cell(cell: CellType) -> Any:
    """What a closure cell holds, `UNDEF` where it is empty."""
    try:
        return cell.cell_contents
    except ValueError:
        return UNDEF


def note_attribute(holder: Any, name: str) -> Any:
    """`holder.name`, taken down by the trace that is under way."""
    value = getattr(holder, name)
    graph = tracing_graph()
    if graph is not None and graph.reads is not None:
        graph.reads.note(holder, name, ATTRIBUTE, value)
    return value
