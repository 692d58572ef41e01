"""Collections: named lists beside a program, which a traced function gets a copy of.

Programs written for TensorFlow keep losses, summaries and the like in them.
"""

from __future__ import annotations

from typing import Any

from tapeline.runtime.dispatch import STATE

_OUTSIDE: dict[str, list[Any]] = {}
"""Those of the program around all traces."""


def collections_here() -> dict[str, list[Any]]:
    """The collections of the present trace; outside of traces, those of the program."""
    handler = STATE.handler
    while handler is not None:
        found = getattr(handler, "collections", None)
        if found is not None:
            return found  # type: ignore[no-any-return]  # a dict, of a trace
        handler = getattr(handler, "outer", None)
    return _OUTSIDE


def copy_of_collections() -> dict[str, list[Any]]:
    """What a trace that begins here starts with."""
    return {name: list(values) for name, values in collections_here().items()}


def add_to_collection(name: str, value: Any) -> None:
    """Append a value to a named list.

    Inside of a traced function, and of a branch or loop body in it, lists are copies of those
    around, so what is added there stays there.

    Parameters
    ----------
    name : str
        The list; it is made if there is none.
    value : object
        Anything.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.add_to_collection("losses", 1.0)
    >>> @tl.function
    ... def f(x):
    ...     tl.add_to_collection("losses", 2.0)
    ...     return x * sum(tl.get_collection("losses"))
    >>> f(tl.asarray(10.0))
    tl.Tensor(30., shape=(), dtype=float64)
    >>> tl.get_collection("losses")
    [1.0]
    """
    collections_here().setdefault(name, []).append(value)


def get_collection(name: str) -> list[Any]:
    """A copy of a named list; empty if there is none. See `add_to_collection`.

    Parameters
    ----------
    name : str
        The name of the collection.

    Returns
    -------
    list
        A copy of what is in it, in the order in which it was added.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.get_collection("no such list")
    []
    """
    return list(collections_here().get(name, ()))
