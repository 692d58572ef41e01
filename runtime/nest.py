"""Structures: nested dicts, lists, tuples, named tuples, dataclasses and None, with leaves inside.

A dict is flattened in its own order, None is a structure without leaves, everything else is a leaf.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tapeline.runtime.errors import ArgumentError

_LEAF_TYPES: dict[type, bool] = {}
_LEAF_TYPES_LIMIT = 1000


def is_leaf(x: Any) -> bool:
    """Whether `x` is taken as a whole: no container that `flatten` looks into."""
    kind = type(x)
    found = _LEAF_TYPES.get(kind)
    if found is None:
        if len(_LEAF_TYPES) >= _LEAF_TYPES_LIMIT:
            _LEAF_TYPES.clear()
        is_container = issubclass(kind, (dict, list, tuple)) or dataclasses.is_dataclass(kind)
        found = _LEAF_TYPES[kind] = x is not None and not is_container
    return found


def children(x: Any) -> list[Any]:
    """What the container `x` holds, in order."""
    if x is None:
        return []
    if isinstance(x, dict):
        return list(x.values())
    if isinstance(x, list | tuple):
        return list(x)
    return [getattr(x, field.name) for field in dataclasses.fields(x)]


def _rebuild(like: Any, children: list[Any]) -> Any:
    """A container as `like` with other children."""
    if like is None:
        return None
    if isinstance(like, dict):
        return _rebuild_dict(like, children)
    if isinstance(like, tuple):
        made = type(like)
        if hasattr(made, "_make"):
            return made._make(children)
        return tuple(children) if made is tuple else made(children)
    if isinstance(like, list):
        return children if type(like) is list else type(like)(children)
    values = {f.name: c for f, c in zip(dataclasses.fields(like), children, strict=True)}
    made = object.__new__(type(like))
    for name, value in values.items():
        object.__setattr__(made, name, value)
    return made


def _rebuild_dict(like: dict[Any, Any], children: list[Any]) -> Any:
    pairs = zip(like, children, strict=True)
    if type(like) is dict:
        return dict(pairs)
    made = like.copy()  # keeps what a subclass holds besides its items
    for key, child in pairs:
        made[key] = child
    return made


def _is_row(structure: Any) -> bool:
    """Whether it is a list or tuple of leaves: the common case, done quickly."""
    if type(structure) is not list and type(structure) is not tuple:
        return False
    for item in structure:  # noqa: SIM110  # a generator costs more than a short row
        if not is_leaf(item):
            return False
    return True


def flatten(structure: Any) -> list[Any]:
    """The leaves of a structure, from left to right."""
    if is_leaf(structure):
        return [structure]
    if _is_row(structure):
        return list(structure)
    leaves: list[Any] = []
    stack = [iter(children(structure))]
    while stack:
        for item in stack[-1]:
            if is_leaf(item):
                leaves.append(item)
            else:
                stack.append(iter(children(item)))
                break
        else:
            stack.pop()
    return leaves


def unflatten(structure: Any, leaves: Sequence[Any]) -> Any:
    """A structure of the same form with other leaves.

    Raises
    ------
    ArgumentError
        If the number of leaves is not that of the structure.
    """
    if _is_row(structure) and len(structure) == len(leaves):
        return type(structure)(leaves)
    rest = iter(leaves)
    try:
        built = _fill(structure, rest)
    except StopIteration:
        built = rest
    if built is rest or next(rest, rest) is not rest:
        raise ArgumentError(
            f"unflatten: {len(leaves)} leaves for a structure of {len(flatten(structure))}"
        )
    return built


def _fill(structure: Any, rest: Iterator[Any]) -> Any:
    if is_leaf(structure):
        return next(rest)
    return _rebuild(structure, [_fill(child, rest) for child in children(structure)])


def map_structure(function: Callable[..., Any], structure: Any, *others: Any) -> Any:
    """A structure of the same form with `function` of each leaf, and of the leaves of `others` that
    stand at the same place.

    Raises
    ------
    ArgumentError
        If one of the others has another form.
    """
    for other in others:
        assert_same_structure(structure, other)
    columns = zip(flatten(structure), *[flatten(other) for other in others], strict=True)
    return unflatten(structure, [function(*column) for column in columns])


def assert_same_structure(a: Any, b: Any) -> None:
    """Raise an `ArgumentError` that names the place where two structures differ in form."""
    found = _difference(a, b, "")
    if found:
        raise ArgumentError(f"the structures differ at {found}")


def _difference(a: Any, b: Any, path: str) -> str:
    where = path or "the top"
    if is_leaf(a) or is_leaf(b):
        if is_leaf(a) and is_leaf(b):
            return ""
        return f"{where}: {type(a).__name__} and {type(b).__name__}"
    if type(a) is not type(b):
        return f"{where}: {type(a).__name__} and {type(b).__name__}"
    names_a, names_b = _names(a), _names(b)
    if names_a != names_b:
        return f"{where}: {type(a).__name__} of {names_a} and of {names_b}"
    for name, x, y in zip(names_a, children(a), children(b), strict=True):
        found = _difference(x, y, f"{path}[{name!r}]")
        if found:
            return found
    return ""


def _names(x: Any) -> list[Any]:
    if isinstance(x, dict):
        return list(x)
    if dataclasses.is_dataclass(x):
        return [field.name for field in dataclasses.fields(x)]
    return list(range(len(children(x))))
