"""Warnings about what a trace does and its calls do not: state of Python that it changes, numbers
that generators and clocks give it, and containers that are too large to be watched in full.
"""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Callable, Iterable, Sequence
from types import CodeType
from typing import Any, Final

import numpy as np

from tapeline.compiler.frontend.convert.outside_calls import shared_generators
from tapeline.compiler.frontend.convert.reads import CONTENTS, Reads
from tapeline.compiler.frontend.guards import Guard
from tapeline.compiler.frontend.location import frames_of_library
from tapeline.compiler.frontend.signature import is_iterator
from tapeline.compiler.frontend.snapshots import Identity, Sized
from tapeline.runtime import nest
from tapeline.runtime.errors import TracingWarning

_WARNED: Final[weakref.WeakSet[CodeType]] = weakref.WeakSet()
"""Code that there was a warning for; functions made of it anew need no other one."""


def warn_of_effects(
    name: str,
    function: Callable[..., Any],
    reads: Reads,
    guards: Iterable[Guard],
    arguments: Iterable[Any],
) -> None:
    """The warnings for a trace that is over, once for each piece of code."""
    code = getattr(function, "__code__", None)
    if code is None or code in _WARNED:
        return
    texts = [_about_effects(name, reads, guards, arguments), _about_size(name, guards)]
    for text in texts:
        if text is not None:
            _WARNED.add(code)
            warnings.warn(text, TracingWarning, stacklevel=frames_of_library())


def _about_effects(
    name: str, reads: Reads, guards: Iterable[Guard], arguments: Iterable[Any]
) -> str | None:
    effects = [f"changed {guard.title} (it was {guard.shown})" for guard in _changed(guards)]
    effects += [f"called {title}()" for title in _lasting(reads, guards, arguments)]
    effects += [f"went on with {guard.title}, an iterator" for guard in _iterators(guards)]
    if not effects:
        return None
    return (
        f"{name}: while it was traced it {_listed(effects)}. That happens once a trace, not at "
        "each call: keep state in a tl.Variable, draw with tl.random, pass what an iterator gives "
        "as an argument, and wrap what must run at each call in tl.py_function"
    )


def _changed(guards: Iterable[Guard]) -> list[Guard]:
    """Places that the trace changed, but for flags, what is set up at first use, methods and
    properties, which are new at each read, and arrays of its own."""
    every = list(guards)
    return [
        guard
        for guard in every
        if guard.snapshot is not None
        and type(guard.snapshot) is not bool
        and not guard.holds()
        and not _is_new_at_each_read(guard)
        and (guard.kind != CONTENTS or _is_of_outside(guard.holder(), every))
    ]


def _is_of_outside(array: Any, guards: Iterable[Guard]) -> bool:
    """Whether one of the places of outside leads to an array."""
    return any(
        leaf is array or leaf is array.base
        for guard in guards
        if guard.kind != CONTENTS
        for leaf in nest.flatten(guard.read())
        if isinstance(leaf, np.ndarray)
    )


def _is_new_at_each_read(guard: Guard) -> bool:
    """Whether the place holds nothing, but makes what it gives."""
    return type(guard.snapshot) is Identity and guard.read() is not guard.read()


def _lasting(reads: Reads, guards: Iterable[Guard], arguments: Iterable[Any]) -> list[str]:
    """The calls of clocks, and of generators that the trace did not make itself."""
    known = [*shared_generators().values(), *arguments, *[guard.read() for guard in guards]]
    lasting = [
        title
        for title, owner in reads.outside_calls
        if owner is None or any(owner is one for one in known)
    ]
    return list(dict.fromkeys(lasting))


def _iterators(guards: Iterable[Guard]) -> list[Guard]:
    """Places of outside that hold an iterator, of which a trace takes what the first call is to
    get."""
    found = []
    for guard in guards:
        value = guard.read() if type(guard.snapshot) is Identity else None
        if is_iterator(value):
            found.append(guard)
    return found


def _about_size(name: str, guards: Iterable[Guard]) -> str | None:
    large = [guard for guard in guards if _may_miss(guard) and guard.holds()]
    if not large:
        return None
    places = _listed(
        [
            f"{guard.title}, a {type(guard.snapshot.identity.ref()).__name__} of "
            f"{guard.snapshot.length} items,"
            for guard in large
        ]
    )
    return (
        f"{name} reads {places} of which identity and length are watched, not the items: an item "
        "that changes goes unnoticed. Pass it as an argument, use an array, or freeze it with "
        "tl.constant"
    )


def _may_miss(guard: Guard) -> bool:
    snapshot = guard.snapshot
    return type(snapshot) is Sized and isinstance(snapshot.identity.ref(), list | dict | set)


def _listed(items: Sequence[str]) -> str:
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}"
