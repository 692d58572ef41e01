"""What a trace read of the world around it: attributes, globals and closure cells.

Values that may differ at the next call are what guards are made of; see `guards`. A snapshot is
taken at the first read, so that what the trace itself changes afterwards can be told.
"""

from __future__ import annotations

import builtins
import sys
import weakref
from types import FunctionType, ModuleType
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from tapeline.compiler.frontend.convert.installed import is_installed
from tapeline.compiler.frontend.convert.numpy_calls import JOINED
from tapeline.compiler.frontend.convert.size_tables import GRIDS
from tapeline.compiler.frontend.convert.state import UNDEF, outer_graph, read_cell
from tapeline.compiler.frontend.snapshots import holds_containers, take_snapshot
from tapeline.runtime.tensor import Tensor

ATTRIBUTE: Final = "attribute"
GLOBAL: Final = "global"
CELL: Final = "closure variable"
CONTENTS: Final = "contents"
_BYTES = 4096
"""Arrays of NumPy up to this size are watched where Python computes with their elements."""


class Read(NamedTuple):
    """One place that was read, and what was there."""

    holder: Any
    name: str
    kind: str
    value: Any
    snapshot: Any


class Reads:
    """The reads of one trace, each place once.

    Attributes
    ----------
    places : dict
        By id of the holder and name.
    inherited : list
        Guards of compiled functions that the trace called.
    poisoned : dict
        Variables that have a value only on some path, and what to say when one is used.
    outside_calls : list
        Calls of generators and clocks: what they are called, and the generators.
    seeded : list
        Generators that the trace gave a state.
    """

    __slots__ = (
        "_functions", "_traced", "functions", "inherited", "outside_calls", "places", "poisoned",
        "seeded",
    )  # fmt: skip

    def __init__(self) -> None:
        self.places: dict[tuple[int, str], Read] = {}
        self.functions: list[tuple[weakref.ref[FunctionType], list[Read]]] = []
        """Functions that ran, and the reads of their cells."""
        self.inherited: list[Any] = []
        self.poisoned: dict[str, str] = {}
        self.outside_calls: list[tuple[str, Any]] = []
        self.seeded: list[Any] = []
        self._functions: set[int] = set()
        self._traced: set[int] = set()

    def note(self, holder: Any, name: str, kind: str, value: Any) -> None:
        """Takes down one read; the first one of a place counts."""
        key = id(holder), name
        if key not in self.places and is_worth_a_guard(value):
            self.places[key] = Read(holder, name, kind, value, take_snapshot(value))

    def note_contents(self, array: npt.NDArray[Any]) -> None:
        """Takes down the elements of an array that Python computes with. Those of larger ones are
        taken to stay."""
        key = id(array), CONTENTS
        if array.nbytes <= _BYTES and array.dtype.kind in "biufc" and key not in self.places:
            held = array.tobytes()
            self.places[key] = Read(array, CONTENTS, CONTENTS, held, held)

    def note_absent(self, holder: Any, name: str, kind: str) -> None:
        """Takes down that there is nothing at a place."""
        self.places.setdefault((id(holder), name), Read(holder, name, kind, UNDEF, UNDEF))

    def forget(self, value: Any) -> None:
        """Drops the one place that holds this very value. Where several do, all are kept."""
        if value is None or isinstance(value, bool):
            return  # which are in many places
        places = [key for key, read in self.places.items() if read.value is value]
        cells = [
            (reads, read) for _, reads in self.functions for read in reads if read.value is value
        ]
        if len(places) + len(cells) != 1:
            return
        for key in places:
            del self.places[key]
        for reads, read in cells:
            reads[:] = [one for one in reads if one is not read]

    def note_globals(self, scope: dict[str, Any], names: tuple[str, ...]) -> None:
        """Takes down the globals of these names."""
        for name in names:
            value = scope.get(name, UNDEF)
            if value is not UNDEF:
                self.note(scope, name, GLOBAL, value)
            elif not hasattr(builtins, name):
                self.note_absent(scope, name, GLOBAL)

    def note_function(self, function: FunctionType, names: tuple[str, ...]) -> None:
        """Takes down the globals, the closure and the code of a function that runs; not the code
        of the first one, which is what is traced."""
        if id(function) in self._functions:
            return
        self._functions.add(id(function))
        self.note_globals(function.__globals__, names)
        cells = []
        for name, cell in zip(
            function.__code__.co_freevars, function.__closure__ or (), strict=True
        ):
            value = read_cell(cell)
            if name.startswith("@") or name == "__class__" or not is_worth_a_guard(value):
                continue
            cells.append(Read(cell, name, CELL, value, take_snapshot(value)))
        if self.functions:
            cells += _read_code(function)
            cells += _read_defaults(function)
        self.functions.append((weakref.ref(function), cells))

    def note_code(self, function: FunctionType) -> None:
        """Takes down the code of a function that has a trace of its own."""
        if id(function) not in self._functions | self._traced:
            self._traced.add(id(function))
            self.functions.append((weakref.ref(function), _read_code(function)))


def _read_code(function: FunctionType) -> list[Read]:
    """The code of a function of the user's, which reloading replaces in place."""
    code = function.__code__
    if is_installed(code.co_filename):
        return []
    return [Read(function, "__code__", ATTRIBUTE, code, take_snapshot(code))]


def _read_defaults(function: FunctionType) -> list[Read]:
    """The default values of a function that is called, where they may change inside."""
    found = []
    for name in ("__defaults__", "__kwdefaults__"):
        value = getattr(function, name)
        snapshot = take_snapshot(tuple(value.values()) if type(value) is dict else value)
        if holds_containers(snapshot) and not is_installed(function.__code__.co_filename):
            found.append(Read(function, name, ATTRIBUTE, value, take_snapshot(value)))
    return found


def is_worth_a_guard(value: Any) -> bool:
    """Whether a value can differ at the next call: modules, classes and what is new at each read
    are taken to stay."""
    if isinstance(value, type | ModuleType):
        return False
    if value is UNDEF:
        return False
    if isinstance(value, FunctionType):
        return not is_installed(value.__code__.co_filename)
    return not callable(value) or hasattr(value, "__dict__")


_OF_ELEMENTS = frozenset(
    {
        "all", "any", "argmax", "argmin", "argsort", "astype", "copy", "cumprod", "cumsum", "dot",
        "item", "max", "mean", "min", "nonzero", "prod", "ptp", "round", "searchsorted", "std",
        "sum", "tobytes", "tolist", "trace", "var",
    }
)  # fmt: skip
"""Methods of arrays whose results are no views."""


def is_users_module(module: ModuleType) -> bool:
    """Whether a module is the program's; one without a file is, unless it is built in."""
    file = getattr(module, "__file__", None)
    return not is_installed(file) if file else module.__name__ not in sys.builtin_module_names


def note_attribute(holder: Any, name: str) -> Any:
    """`holder.name`, taken down by the trace that is under way."""
    graph = outer_graph()
    if graph is None or graph.reads is None:
        return getattr(holder, name)
    kind = type(holder)
    if kind is Tensor:
        return getattr(holder, name)
    if kind is np.ndarray and name in _OF_ELEMENTS:
        graph.reads.note_contents(holder)
        return getattr(holder, name)
    member = getattr(kind, name, None)
    if type(member) is property and type(member.fget) is FunctionType:
        from tapeline.compiler.frontend.convert.calls import callee

        return callee(member.fget)(holder)
    try:
        value = getattr(holder, name)
    except AttributeError:
        if kind is not ModuleType and kind.__module__ not in ("builtins", "numpy"):
            graph.reads.note_absent(holder, name, ATTRIBUTE)
        raise
    if holder is np:
        return JOINED.get(id(value)) or GRIDS.get(id(value), value)
    if kind is not ModuleType or is_users_module(holder):
        graph.reads.note(holder, name, ATTRIBUTE, value)
    return value
