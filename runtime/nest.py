"""Structures: nested dicts, lists, tuples, named tuples, dataclasses and None, with leaves inside.

A dict is flattened in its own order, None is a structure without leaves, everything else is a leaf.
Classes of `attrs` are taken as dataclasses; other classes join by `register`, or where JAX or
optree are loaded, by being registered there.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

from tapeline.runtime.errors import ArgumentError
from tapeline.runtime.foreign_trees import find_registration

Flatten: TypeAlias = Callable[[Any], tuple[Sequence[Any], Hashable]]
Unflatten: TypeAlias = Callable[[Any, Sequence[Any]], Any]


class Registered(NamedTuple):
    """How the objects of a class are taken apart and put together."""

    flatten: Flatten
    unflatten: Unflatten


_REGISTERED: dict[type, Registered] = {}
_FOREIGN: set[type] = set()
"""Classes that other libraries told of."""
_LEAF_TYPES: dict[type, bool] = {}
_LEAF_TYPES_LIMIT = 1000


def is_leaf(x: Any) -> bool:
    """Whether `x` is taken as a whole: no container that `flatten` looks into."""
    kind = type(x)
    found = _LEAF_TYPES.get(kind)
    if found is None:
        if len(_LEAF_TYPES) >= _LEAF_TYPES_LIMIT:
            _LEAF_TYPES.clear()
        is_container = (
            issubclass(kind, (dict, list, tuple))
            or kind in _REGISTERED
            or dataclasses.is_dataclass(kind)
            or hasattr(kind, "__attrs_attrs__")
        )
        if not is_container and x is not None:
            halves = find_registration(x)
            if halves is not None:
                _REGISTERED[kind] = Registered(*halves)
                _FOREIGN.add(kind)
                is_container = True
        found = _LEAF_TYPES[kind] = x is not None and not is_container
    return found


def register(cls: type, flatten: Flatten, unflatten: Unflatten) -> None:
    """Let the objects of a class be structures: in arguments and results of compiled functions, as
    sources and targets of gradients.

    Parameters
    ----------
    cls : type
        The class itself; subclasses register on their own.
    flatten : function x -> (children, auxiliary)
        What `x` holds, as a sequence that may hold structures again, and whatever else tells it
        from another: hashable, and the same for objects that share a trace.
    unflatten : function (auxiliary, children) -> x
        The way back.

    Raises
    ------
    ArgumentError
        If the class is registered already, or a structure by itself.

    Examples
    --------
    >>> import tapeline as tl
    >>> class Affine:
    ...     def __init__(self, w, b):
    ...         self.w, self.b = w, b
    >>> tl.nest.register(
    ...     Affine, lambda x: ((x.w, x.b), None), lambda auxiliary, parts: Affine(*parts)
    ... )
    >>> f = tl.function(lambda layer, x: Affine(layer.w * x, layer.b + x))
    >>> f(Affine(tl.asarray(2.0), tl.asarray(1.0)), 3.0).w.item()
    6.0
    """
    if (cls in _REGISTERED and cls not in _FOREIGN) or issubclass(cls, (dict, list, tuple)):
        raise ArgumentError(f"nest.register: {cls.__name__} is a structure already")
    _FOREIGN.discard(cls)
    _REGISTERED[cls] = Registered(flatten, unflatten)
    _LEAF_TYPES.clear()


def auxiliary(x: Any) -> Hashable:
    """What tells the container `x` from another of its class besides its children."""
    registered = _REGISTERED.get(type(x))
    return None if registered is None else registered.flatten(x)[1]


def named_children(x: Any) -> list[tuple[str, Any]]:
    """What the container `x` holds, in order, each with the text that leads to it from `x`."""
    if isinstance(x, dict):
        return [(f"[{key!r}]", child) for key, child in x.items()]
    if isinstance(x, list | tuple):
        fields = getattr(x, "_fields", None)
        return [(f".{fields[k]}" if fields else f"[{k}]", child) for k, child in enumerate(x)]
    if type(x) in _REGISTERED:
        return [(f"[{k}]", child) for k, child in enumerate(children(x))]
    return [(f".{name}", getattr(x, name)) for name in _field_names(x)]


def _field_names(x: Any) -> list[str]:
    """The fields of a dataclass or of a class of `attrs`; none of None."""
    if x is None:
        return []
    attributes = getattr(type(x), "__attrs_attrs__", None)
    return [field.name for field in (dataclasses.fields(x) if attributes is None else attributes)]


def children(x: Any) -> list[Any]:
    """What the container `x` holds, in order."""
    if x is None:
        return []
    if isinstance(x, dict):
        return list(x.values())
    if isinstance(x, list | tuple):
        return list(x)
    registered = _REGISTERED.get(type(x))
    if registered is not None:
        return list(registered.flatten(x)[0])
    return [getattr(x, name) for name in _field_names(x)]


def rebuild(like: Any, children: list[Any]) -> Any:
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
    registered = _REGISTERED.get(type(like))
    if registered is not None:
        return registered.unflatten(registered.flatten(like)[1], children)
    made = object.__new__(type(like))
    for name, value in zip(_field_names(like), children, strict=True):
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
    """The leaves of a structure, from left to right.

    Parameters
    ----------
    structure : any structure
        Nested lists, tuples, dicts and registered classes.

    Returns
    -------
    list
        Its leaves; those of a dict in the order of the dict.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.nest.flatten({"b": (1, 2), "a": [3]})
    [1, 2, 3]
    """
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

    Parameters
    ----------
    structure : any structure
        Gives the form.
    leaves : sequence
        As many as it has leaves, in the order of `flatten`.

    Returns
    -------
    any structure
        Of that form with those leaves.

    Raises
    ------
    ArgumentError
        If the number of leaves is not that of the structure.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.nest.unflatten({"a": [0, 0], "b": 0}, [1, 2, 3])
    {'a': [1, 2], 'b': 3}
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
    return rebuild(structure, [_fill(child, rest) for child in children(structure)])


def map_structure(function: Callable[..., Any], structure: Any, *others: Any) -> Any:
    """A structure of the same form with `function` of each leaf, and of the leaves of `others` that
    stand at the same place.

    Parameters
    ----------
    function : callable
        Takes one leaf of each structure.
    structure, *others : any structure
        Of one form.

    Returns
    -------
    any structure
        Of that form, with what the function gives as leaves.

    Raises
    ------
    ArgumentError
        If one of the others has another form.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.nest.map_structure(lambda x, y: x + y, {"a": [1, 2]}, {"a": [10, 20]})
    {'a': [11, 22]}
    """
    for other in others:
        assert_same_structure(structure, other)
    columns = zip(flatten(structure), *[flatten(other) for other in others], strict=True)
    return unflatten(structure, [function(*column) for column in columns])


def assert_same_structure(a: Any, b: Any) -> None:
    """Raise an `ArgumentError` that names the place where two structures differ in form.

    Parameters
    ----------
    a, b : any structure
        Nested lists, tuples, dicts and registered classes.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.nest.assert_same_structure({"a": [1, 2]}, {"a": [3, 4]})
    """
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
        return f"{where}: {type(a).__name__} of {_listed(names_a)} and of {_listed(names_b)}"
    for name, x, y in zip(names_a, children(a), children(b), strict=True):
        found = _difference(x, y, f"{path}{name}")
        if found:
            return found
    return ""


def _names(x: Any) -> list[str]:
    return [name for name, _ in named_children(x)]


def _listed(names: list[str]) -> str:
    return ", ".join(names) or "nothing"
