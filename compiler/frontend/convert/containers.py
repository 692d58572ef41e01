"""Watches lists, dicts, sets, arrays and objects that a traced block may change behind our back.

A block over tensors is traced once, whatever the tensors say later. So what it does to a container
of outside is undone after the trace; a changed item or attribute becomes a result of the block,
other changes are errors.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

from tapeline.compiler.frontend.convert.state import UNDEF, read_cell
from tapeline.runtime.tensor import Tensor

_DEPTH = 4
_LIMIT = 2000
_LARGE = 100_000
"""Containers of more items, and arrays of more bytes, are not watched."""
_LOOKED_THROUGH = 1000
"""In containers of more items, the items are not watched in turn."""


@dataclass(frozen=True, slots=True, eq=False)
class Slot:
    """A place in a container: an item of a list or dict, an attribute of an object."""

    holder: Any
    container: Any
    """The list, or the dict that the place is an entry of."""
    key: Any
    path: str

    @property
    def identity(self) -> tuple[int, Any]:
        """Equal for two slots that are the same place."""
        return id(self.container), self.key

    def read(self) -> Any:
        """What is there now."""
        if isinstance(self.container, dict):
            return self.container.get(self.key, UNDEF)
        return self.container[self.key]

    def write(self, value: Any) -> None:
        """Puts a value there; none at all for an undefined one."""
        if value is UNDEF:
            self.container.pop(self.key, None)
        else:
            self.container[self.key] = value


@dataclass(frozen=True, slots=True, eq=False)
class CellSlot(Slot):
    """The contents of a closure cell."""

    def read(self) -> Any:
        """What is there now."""
        return read_cell(self.container)

    def write(self, value: Any) -> None:
        """Puts a value there; none at all for an undefined one."""
        if value is UNDEF:
            del self.container.cell_contents
        else:
            self.container.cell_contents = value


@dataclass(frozen=True, slots=True, eq=False)
class Watched:
    """A container, and what was in it."""

    holder: Any
    container: Any
    before: Any
    path: str


class Containers:
    """The containers that can be reached from the variables of the user's frames."""

    def __init__(self, roots: Iterable[tuple[str, Any]]) -> None:
        self._watched: dict[int, Watched] = {}
        self.raised: list[Any] = []
        """What `raise` statements of the block raised."""
        self._places: dict[tuple[int, Any], tuple[Slot, Any]] = {}
        for name, value in roots:
            self._watch(value, name, 0)

    def _watch(self, value: Any, path: str, depth: int) -> None:
        kind = type(value)
        if kind is list or kind is dict or kind is set:
            holder, container = value, value
        elif _has_plain_attributes(value):
            holder, container = value, value.__dict__
        elif kind is tuple:
            for index, item in enumerate(value):
                self._watch(item, f"{path}[{index}]", depth)
            return
        elif kind is np.ndarray and value.flags.writeable and value.nbytes <= _LARGE:
            self._watched.setdefault(id(value), Watched(value, value, value.copy(), path))
            return
        else:
            return
        if id(container) in self._watched or len(self._watched) >= _LIMIT:
            return
        if len(container) > _LARGE:
            return
        self._watched[id(container)] = Watched(holder, container, container.copy(), path)
        if depth == _DEPTH or kind is set or len(container) > _LOOKED_THROUGH:
            return
        items = container.items() if isinstance(container, dict) else enumerate(container)
        is_object = holder is not container
        for key, item in list(items):
            name = f"{path}.{key}" if is_object else f"{path}[{key!r}]"
            self._watch(item, name, depth + 1)

    def all(self) -> Iterable[Watched]:
        """All that are watched."""
        return self._watched.values()

    def watch_place(self, slot: Slot) -> None:
        """Watches one place more, from now on."""
        self._places.setdefault(slot.identity, (slot, slot.read()))

    def changed_slots(
        self,
    ) -> tuple[list[Slot], list[tuple[Watched, list[Any]]], list[Watched]]:
        """The places whose values were replaced, the lists that got new items at their end with
        these, and other containers that grew or shrank, or arrays that changed."""
        slots = [slot for slot, before in self._places.values() if slot.read() is not before]
        grown: list[tuple[Watched, list[Any]]] = []
        others: list[Watched] = []
        for watched in self._watched.values():
            now, before = watched.container, watched.before
            if isinstance(now, dict):
                is_object = watched.holder is not now
                for key in [*before, *(key for key in now if key not in before)]:
                    if now.get(key, UNDEF) is not before.get(key, UNDEF):
                        name = f"{watched.path}.{key}" if is_object else f"{watched.path}[{key!r}]"
                        slots.append(Slot(watched.holder, now, key, name))
            elif isinstance(now, set):
                if now != before:
                    others.append(watched)
            elif isinstance(now, np.ndarray):
                if now.tobytes() != before.tobytes():
                    others.append(watched)
            elif len(now) > len(before) and all(map(operator.is_, now, before)):
                grown.append((watched, now[len(before) :]))
            elif len(now) != len(before):
                others.append(watched)
            else:
                for key, (a, b) in enumerate(zip(now, before, strict=True)):
                    if a is not b:
                        slots.append(Slot(now, now, key, f"{watched.path}[{key}]"))
        return slots, grown, others

    def restore(self) -> None:
        """Gives every container the contents that it had."""
        for slot, before in self._places.values():
            if slot.read() is not before:
                slot.write(before)
        for watched in self._watched.values():
            now, before = watched.container, watched.before
            if isinstance(now, list):
                if len(now) != len(before) or any(
                    a is not b for a, b in zip(now, before, strict=True)
                ):
                    now[:] = before
            elif isinstance(now, set):
                if now != before:
                    now.clear()
                    now.update(before)
            elif isinstance(now, np.ndarray):
                np.copyto(now, before)
            elif len(now) != len(before) or any(
                now.get(key, UNDEF) is not value for key, value in before.items()
            ):
                now.clear()
                now.update(before)


def _has_plain_attributes(value: Any) -> bool:
    kind = type(value)
    if issubclass(kind, type | ModuleType | FunctionType | Tensor):
        return False
    if kind.__module__.partition(".")[0] in _LEFT_ALONE:
        return False
    return type(getattr(value, "__dict__", None)) is dict


_LEFT_ALONE = frozenset({"builtins", "tapeline", "numpy", "threading", "logging", "types"})


def user_variables(
    is_ours: Callable[[CodeType], bool], blocks: Iterable[Callable[..., Any]]
) -> list[tuple[str, Any]]:
    """The variables of the innermost frame of the user's, and the globals that blocks name."""
    frame = sys._getframe(1)
    while frame.f_back is not None and is_ours(frame.f_code):
        frame = frame.f_back
    found = [(name, value) for name, value in frame.f_locals.items() if not name.startswith("@")]
    scope = frame.f_globals
    names: dict[str, None] = {}
    for block in blocks:
        if isinstance(block, FunctionType):
            names.update(dict.fromkeys(names_of(block.__code__)))
    found += [(n, scope[n]) for n in names if type(scope.get(n)) in (list, dict, set)]
    return found


def names_of(code: CodeType) -> list[str]:
    """The names of globals and attributes in a code object and those nested in it."""
    found = list(code.co_names)
    for item in code.co_consts:
        if isinstance(item, CodeType):
            found += names_of(item)
    return found
