"""Arguments and results as JSON: containers of tensors and plain values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tapeline.compiler.frontend.signature import ordered_keys
from tapeline.compiler.ir.interchange_values import attr_from_document, attr_to_document
from tapeline.runtime import nest
from tapeline.runtime.errors import ArgumentTypeError, GraphError

Encode = Callable[[Any], Any]
"""What stands for a leaf, or None where the leaf is no tensor."""

MAX_DEPTH = 64


class Part:
    """A leaf that is no plain value: the name and the content that `read_structure` meets."""

    def __init__(self, name: str, content: Any) -> None:
        self.name = name
        self.content = content


class Pickled:
    """Stands for the document of a structure in a pickle, which holds structures of all types: the
    structure itself, with a `Part` for each leaf that is no plain value."""

    def __init__(self, structure: Any) -> None:
        self.structure = structure

    def read(self, leaf: Callable[[str, Any], Any]) -> Any:
        """As `read_structure`."""
        return nest.map_structure(
            lambda x: leaf(x.name, x.content) if type(x) is Part else x, self.structure
        )


class Elsewhere:
    """Stands for an object of another process, such as the `self` of a method; shows as that."""

    def __init__(self, shown: str) -> None:
        self.shown = shown

    def __repr__(self) -> str:
        return self.shown


def write_structure(value: Any, leaf: Encode, what: str) -> Any:
    """The document of a structure.

    Parameters
    ----------
    value : structure
    leaf : function
        Gives what stands for a tensor; None for anything else.
    what : str
        What the structure is, for messages.
    """
    encoded = leaf(value)
    if encoded is not None:
        return encoded
    if type(value) in (tuple, list):
        name = "tuple" if type(value) is tuple else "list"
        return {name: [write_structure(v, leaf, f"{what}[{k}]") for k, v in enumerate(value)]}
    if type(value) is dict:
        items = []
        for key in ordered_keys(value):
            if type(key) not in (str, int):
                raise _cannot(f"the key {key!r} of {what}", key)
            items.append([key, write_structure(value[key], leaf, f"{what}[{key!r}]")])
        return {"dict": items}
    if value is None or type(value) in (bool, int, float, complex, str):
        return {"value": attr_to_document(value)}
    if isinstance(value, np.dtype):
        return {"value": attr_to_document(value)}
    raise _cannot(what, value)


def _cannot(what: str, value: Any) -> ArgumentTypeError:
    return ArgumentTypeError(
        f"save: {what} is of type {type(value).__name__}; a file holds tensors, numbers, strings, "
        "None, and tuples, lists and dicts of these"
    )


def read_structure(document: Any, leaf: Callable[[str, Any], Any], depth: int = 0) -> Any:
    """The structure of a document; `leaf(name, content)` gives what stands for a tensor."""
    if type(document) is Pickled:
        return document.read(leaf)
    if depth > MAX_DEPTH or not isinstance(document, dict) or len(document) != 1:
        raise GraphError("a structure is an object with one key")
    ((name, content),) = document.items()
    if name in ("tuple", "list"):
        items = [read_structure(one, leaf, depth + 1) for one in content]
        return tuple(items) if name == "tuple" else items
    if name == "dict":
        return {key: read_structure(one, leaf, depth + 1) for key, one in content}
    if name == "value":
        return attr_from_document(content)
    return leaf(name, content)
