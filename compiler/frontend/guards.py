"""Guards: what a trace took from globals, closures and attributes, and whether it is still so.

A trace holds for as long as its guards do. They are one generated function of straight-line tests,
asked before the trace serves a call. Objects are held weakly, so guards keep nothing alive.
"""

from __future__ import annotations

import ctypes
import sys
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import CellType, FunctionType, MethodType
from typing import Any, NamedTuple

from tapeline.compiler.frontend.convert.reads import (
    ATTRIBUTE,
    CELL,
    CONTENTS,
    GLOBAL,
    Read,
    Reads,
)
from tapeline.compiler.frontend.convert.state import UNDEF, read_cell
from tapeline.compiler.frontend.snapshots import (
    Identity,
    Items,
    Sized,
    is_unchanged,
    take_snapshot,
)


class Word(NamedTuple):
    """A word of memory that must hold an integer, or the pointer to an object; `holder` is what
    keeps the memory there. Words are to be read in order: one says where the next one is."""

    address: int
    expected: Any
    is_object: bool
    holder: Any


@dataclass(frozen=True, slots=True)
class Guard:
    """One place that must hold what it held."""

    holder: Callable[[], Any]
    """Gives the dict of globals, the cell or the object; None once that is gone."""
    name: str
    kind: str
    snapshot: Any
    shown: str
    """What it held, for people."""
    owner: str

    def read(self) -> Any:
        """What is there now."""
        holder = self.holder()
        if self.kind == GLOBAL:
            return holder.get(self.name, UNDEF)
        if self.kind == CELL:
            return read_cell(holder)
        if self.kind == CONTENTS:
            return holder.tobytes()
        return getattr(holder, self.name, UNDEF)

    def holds(self) -> bool:
        """Whether it is what it was."""
        if self.holder() is None:
            return True  # nothing can lead to an object that is gone; what led there has a guard
        return is_unchanged(self.read(), self.snapshot)

    @property
    def title(self) -> str:
        """What a person calls the place."""
        if self.name == "__code__":
            return f"the code of {self.owner}"
        if self.kind == CONTENTS:
            return "the elements of an array that Python computes with"
        of = f" of {self.owner}" if self.kind == ATTRIBUTE else ""
        return f"{self.kind} {self.name}{of}"


class Guards:
    """All guards of one trace; call it to ask whether they hold."""

    def __init__(self, guards: list[Guard], inherited: list[Guards]) -> None:
        self.guards = guards
        self.inherited = inherited
        self.hold: Callable[[], bool] = _generate(guards, inherited)

    def __len__(self) -> int:
        return len(self.guards) + sum(map(len, self.inherited))

    def __iter__(self) -> Iterator[Guard]:
        yield from self.guards
        for other in self.inherited:
            yield from other

    def failure(self) -> tuple[str, str, str] | None:
        """The place that holds something else now, what it held and what it holds; None: none."""
        for guard in self:
            if not guard.holds():
                value = guard.read()
                now = "gone" if value is UNDEF else f"{show(take_snapshot(value))} now"
                return guard.title, f"{guard.shown} when traced", now
        return None

    def words(self) -> list[Word] | None:
        """The same as comparisons of memory, for machine code. None where pointers do not tell."""
        found: list[Word] = []
        for guard in self:
            if not _is_told_by_identity(guard.snapshot):
                return None
            holder = guard.holder()
            if type(holder) is CellType:
                words = _cell_words(holder)
            elif type(holder) is FunctionType and guard.name == "__code__":
                words = _code_words(holder)
            elif guard.kind == GLOBAL and type(holder) is dict:
                words = _dict_words(holder, guard.name)
            else:
                return None
            if words is None:
                return None
            found += words
        return found


def take_guards(reads: Reads) -> list[Guard]:
    """A guard for each place that a trace that is over has read; not for objects that it made."""
    places = list(reads.places.values())
    for function, cells in reads.functions:
        if function() is not None:
            places += cells
    reads.places.clear()
    reads.functions.clear()
    return [guard for guard in _as_guards(places) if guard.holder() is not None]


def build_guards(guards: list[Guard], inherited: list[Guards]) -> Guards | None:
    """Those that hold: places that the trace itself changed are left out. `inherited` are those of
    compiled functions that it called."""
    made = [guard for guard in guards if guard.holds()]
    distinct = list(dict.fromkeys(inherited))
    return Guards(made, distinct) if made or distinct else None


def _as_guards(places: list[Read]) -> list[Guard]:
    found = []
    while places:
        holder, name, kind, _, snapshot = places.pop()
        reference = _reference(holder)
        if reference is not None:
            owner = _owner_name(holder)
            found.append(Guard(reference, name, kind, snapshot, show(snapshot), owner))
    return found[::-1]


def _owner_name(holder: Any) -> str:
    """What holds an attribute, for messages. Objects are not asked, whose `__getattr__` may say
    anything."""
    is_named = isinstance(holder, type | FunctionType | MethodType)
    return holder.__qualname__ if is_named else type(holder).__name__


def _reference(holder: Any) -> Callable[[], Any] | None:
    if type(holder) is dict or type(holder) is CellType:
        return lambda: holder
    try:
        return weakref.ref(holder)
    except TypeError:
        return lambda: holder  # such as a SimpleNamespace, which nothing refers to weakly


def show(snapshot: Any) -> str:
    """What a person is shown of a snapshot."""
    if type(snapshot) is Items:
        return _cut(f"{snapshot.kind.__name__} of {len(snapshot.items)}: {list(snapshot.items)}")
    if snapshot is UNDEF:
        return "missing"
    if type(snapshot) is Sized:
        return f"{snapshot.identity} of {snapshot.length} items"
    return _cut(repr(snapshot))


def _cut(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "..."


def _generate(guards: list[Guard], inherited: list[Guards]) -> Callable[[], bool]:
    """Straight-line tests; each holder is fetched once."""
    scope: dict[str, Any] = {"same": is_unchanged, "U": UNDEF}
    tests: list[str] = []
    of_objects: dict[int, list[str]] = {}
    for k, guard in enumerate(guards):
        holder = guard.holder()
        place = f"h{id(holder)}"
        if guard.kind in (ATTRIBUTE, CONTENTS):
            scope[place] = guard.holder
            value = "o.tobytes()" if guard.kind == CONTENTS else f"o.{guard.name}"
        else:
            scope[place] = holder
            value = f"{place}[{guard.name!r}]" if guard.kind == GLOBAL else f"{place}.cell_contents"
        if guard.snapshot is UNDEF:
            value = f"getattr(o, {guard.name!r}, U)"
            if guard.kind == GLOBAL:
                value = f"{place}.get({guard.name!r}, U)"
            test = f"{value} is U"
        elif type(guard.snapshot) is Identity:
            scope[f"s{k}"] = guard.snapshot.ref
            test = f"{value} is s{k}()"
        else:
            scope[f"s{k}"] = guard.snapshot
            test = f"((w := {value}) is s{k} or same(w, s{k}))"
        if guard.kind in (ATTRIBUTE, CONTENTS):
            of_objects.setdefault(id(holder), []).append(test)
        else:
            tests.append(test)
    for number, found in of_objects.items():
        tests.append(f"((o := h{number}()) is None or {' and '.join(found)})")
    for k, other in enumerate(inherited):
        scope[f"i{k}"] = other.hold
        tests.append(f"i{k}()")
    source = f"""
def hold():
    try:
        return {" and ".join(tests)}
    except Exception:
        return False
"""
    exec(source, scope)
    made: Callable[[], bool] = scope.pop("hold")
    return made


# Pointers in CPython's cells and dicts. Each is compared with what Python says before it is used.

_KNOWN = frozenset({(3, 11), (3, 12), (3, 13)})
_POINTER = 8
_CELL_CONTENTS = 16
_FUNCTION_CODE = 48
_DICT_KEYS = 32
_KEYS_KIND = 10
_KEYS_INDEX_LOG2 = 9
_KEYS_COUNT = 24
_KEYS_HEADER = 32
_UNICODE_KEYS = 1


def _word(address: int) -> int:
    return ctypes.c_uint64.from_address(address).value


def _is_told_by_identity(snapshot: Any) -> bool:
    """Whether the same object at a place is the same value."""
    return not isinstance(snapshot, tuple) and snapshot is not UNDEF  # containers change inside


def _cell_words(cell: CellType) -> list[Word] | None:
    address = id(cell) + _CELL_CONTENTS
    value = cell.cell_contents
    return [Word(address, value, True, cell)] if _word(address) == id(value) else None


def _code_words(function: FunctionType) -> list[Word] | None:
    if sys.version_info[:2] not in _KNOWN:
        return None
    address, code = id(function) + _FUNCTION_CODE, function.__code__
    return [Word(address, code, True, function)] if _word(address) == id(code) else None


def _dict_words(table: dict[str, Any], name: str) -> list[Word] | None:
    """The pointer to the table of entries, which must be the same, and the one in the entry."""
    if sys.version_info[:2] not in _KNOWN:
        return None
    keys = _word(id(table) + _DICT_KEYS)
    if ctypes.c_uint8.from_address(keys + _KEYS_KIND).value != _UNICODE_KEYS:
        return None
    index_bytes = 1 << ctypes.c_uint8.from_address(keys + _KEYS_INDEX_LOG2).value
    count = _word(keys + _KEYS_COUNT)
    if count > 100_000:
        return None
    value = table[name]
    start = keys + _KEYS_HEADER + index_bytes
    for k in range(count):
        entry = start + 2 * _POINTER * k
        if _word(entry + _POINTER) == id(value) and _word(entry):
            if ctypes.cast(_word(entry), ctypes.py_object).value != name:
                continue
            return [
                Word(id(table) + _DICT_KEYS, keys, False, table),
                Word(entry + _POINTER, value, True, table),
            ]
    return None
