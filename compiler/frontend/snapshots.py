"""What tells a value from another one at a later time: snapshots of what a trace read."""

from __future__ import annotations

import array
import enum
import weakref
from collections import ChainMap, UserDict, UserList, deque
from collections.abc import Callable, Collection
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from tapeline.runtime.open_numbers import OpenNumber
from tapeline.runtime.tensor import Tensor

_PLAIN = (bool, int, float, complex, str, bytes, type(None))
_ITEMS = 64
"""Containers of more items are told by identity and length alone."""
_BYTES = 512
_DEPTH = 4
_EXACT = frozenset({list, tuple, set, frozenset, deque})
_ITERATE: tuple[tuple[type, Callable[[Any], Any]], ...] = (
    (dict, lambda x: [part for pair in dict.items(x) for part in pair]),
    (list, list.__iter__),
    (tuple, tuple.__iter__),
    (set, set.__iter__),
    (frozenset, frozenset.__iter__),
    (deque, deque.__iter__),
    (UserDict, lambda x: [part for pair in x.data.items() for part in pair]),
    (UserList, lambda x: x.data),
    (ChainMap, lambda x: x.maps),
    (MappingProxyType, lambda x: [part for pair in x.items() for part in pair]),
)
"""How to get at the items of containers, subclasses included, past methods that those override."""


def _shown(value: Any) -> str:
    return f"{type(value).__name__} at {id(value):#x}"


class Identity:
    """Stands for an object in a snapshot, without keeping it alive."""

    __slots__ = ("ref", "shown")

    def __init__(self, value: Any) -> None:
        self.shown = _shown(value)
        if type(value) is OpenNumber:
            side = {1: " above 0", -1: " below 0"}.get(value.sign, "")
            self.shown = f"any {value.kind.__name__}{side}"
        try:
            self.ref: Callable[[], Any] = weakref.ref(value)
        except TypeError:
            self.ref = lambda: value

    def __repr__(self) -> str:
        return self.shown


def hold_weakly(leaf: Any) -> Any:
    """An `Identity` in the place of an object that others own; data and tensors as they are."""
    kind = type(leaf)
    if kind in _PLAIN or kind is Tensor or isinstance(leaf, np.generic | np.dtype | enum.Enum):
        return leaf
    if kind is range or kind is slice or isinstance(leaf, type):
        return leaf
    return Identity(leaf)


class Items(NamedTuple):
    """A container in a snapshot: its type and what is in it."""

    kind: type
    items: tuple[Any, ...]


class Sized(NamedTuple):
    """A large container in a snapshot."""

    identity: Identity
    length: int


def _parts(value: Any) -> Collection[Any] | None:
    """What a container holds, keys and values of a mapping in turn; None for what is none."""
    kind = type(value)
    if kind in _EXACT:
        return value  # type: ignore[no-any-return]  # a collection
    if kind is array.array or kind is bytearray:
        return (bytes(value),) if len(value) <= _BYTES else value
    for base, parts in _ITERATE:
        if isinstance(value, base):
            return list(parts(value))
    return None


def take_snapshot(value: Any, depth: int = _DEPTH) -> Any:
    """What tells a value from another one at a later time."""
    kind = type(value)
    if kind in _PLAIN or isinstance(value, np.generic | enum.Enum):
        return value
    parts = _parts(value)
    if parts is None:
        return Identity(value)
    if (len(value) > _ITEMS and len(parts) > 1) or depth == 0:
        return Sized(Identity(value), len(value))
    return Items(kind, tuple([take_snapshot(item, depth - 1) for item in parts]))


def is_unchanged(value: Any, snapshot: Any) -> bool:
    """Whether a value is still what the snapshot says."""
    kind = type(snapshot)
    if kind is Identity:
        return value is snapshot.ref()
    if kind is Items:
        parts = _parts(value) if type(value) is snapshot.kind else None
        if parts is None or len(parts) != len(snapshot.items):
            return False
        return all(map(is_unchanged, parts, snapshot.items))
    if kind is Sized:
        return value is snapshot.identity.ref() and len(value) == snapshot.length
    if value is snapshot:
        return True
    if type(value) is not kind:
        return False
    if isinstance(snapshot, float | complex | np.generic):
        return repr(value) == repr(snapshot)  # tells -0.0 from 0.0, and lets NaN equal itself
    return bool(value == snapshot)


def holds_containers(snapshot: Any) -> bool:
    """Whether there is something in it that may change inside."""
    if type(snapshot) is not Items:
        return type(snapshot) is Sized
    is_fixed = issubclass(snapshot.kind, tuple | frozenset)
    return not is_fixed or any(map(holds_containers, snapshot.items))
