"""Brings the values that a variable has on two paths to one form: the same object, or tensors of
one spec; or says why that cannot be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tapeline.compiler.frontend.convert.blocktrace import (
    BlockTrace,
    Leaf,
    Value,
    add_number,
    convert_node,
)
from tapeline.compiler.frontend.convert.state import UNDEF
from tapeline.runtime import nest
from tapeline.runtime.errors import ArgumentError
from tapeline.runtime.promotion import promoted_dtype
from tapeline.runtime.spec import TensorSpec, spec_of

_NUMBERS = (bool, int, float, complex)
_KIND = {"b": bool, "i": int, "u": int, "f": float, "c": complex}


@dataclass(frozen=True, slots=True)
class Joined:
    """A leaf of a joined value that is a tensor: its spec, and its Python type if it is weak."""

    spec: TensorSpec
    weak: type | None


class MismatchError(Exception):
    """Two values have no common form; `one` and `other` say what they are."""

    def __init__(self, one: str, other: str) -> None:
        super().__init__(f"{one} and {other}")
        self.one, self.other = one, other


def is_number(x: Any) -> bool:
    """Whether it is a Python number that a weak tensor can stand for."""
    return type(x) in _NUMBERS


def is_plain_number(leaf: Any) -> bool:
    """Whether a leaf is a number: Python's, or one that a trace holds in a tensor."""
    return leaf.weak is not None if type(leaf) is Leaf else is_number(leaf)


def same_object(a: Any, b: Any) -> bool:
    """Whether two Python values cannot be told apart."""
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    if isinstance(a, float | complex):
        return repr(a) == repr(b)
    if isinstance(a, np.ndarray):
        return False
    try:
        return bool(a == b)
    except Exception:
        return False


def join_leaves(a: Any, b: Any) -> Any:
    """The common form of two leaves: a Python object, or a `Joined`.

    Raises
    ------
    MismatchError
        If there is none.
    """
    if type(a) is not Leaf and type(b) is not Leaf:
        if same_object(a, b):
            return a
        if not (is_number(a) and is_number(b)):
            raise MismatchError(describe(a), describe(b))
    weak_a, weak_b = _weak_type(a), _weak_type(b)
    if weak_a and weak_b:
        dtype = promoted_dtype(_default_dtype(weak_a), _default_dtype(weak_b))
        return Joined(spec_of((), dtype), _KIND[dtype.kind])
    for strong, other, other_weak in ((a, b, weak_b), (b, a, weak_a)):
        if type(strong) is not Leaf or (other_weak is None and type(other) is not Leaf):
            continue
        spec = strong.spec
        if other_weak is not None:
            if promoted_dtype(spec.dtype, other_weak) != spec.dtype or spec.static_shape:
                break
            return Joined(spec, None)
        if spec == other.spec:
            return Joined(spec, None)
    raise MismatchError(describe(a), describe(b))


def _weak_type(leaf: Any) -> type | None:
    if type(leaf) is Leaf:
        return leaf.weak
    return type(leaf) if is_number(leaf) else None


def _default_dtype(kind: type) -> np.dtype[Any]:
    return np.dtype(kind)


def describe(x: Any) -> str:
    """What a person calls a leaf."""
    if type(x) is Leaf:
        return f"a tensor of {x.spec.dtype.name} and shape {x.spec.static_shape}"
    if x is UNDEF:
        return "undefined"
    if x is None or is_number(x) or isinstance(x, str):
        return repr(x)
    return f"a {type(x).__name__}"


def describe_value(value: Value) -> str:
    """What a person calls a value."""
    if nest.is_leaf(value.original):
        return describe(value.leaves[0])
    if value.original is None:
        return "None"
    return f"a {type(value.original).__name__} of {len(nest.children(value.original))}"


def join_values(a: Value, b: Value) -> tuple[Any, ...]:
    """The common leaves of two values of one structure.

    Raises
    ------
    MismatchError
        If the structures, or two leaves, have no common form.
    """
    try:
        nest.assert_same_structure(a.original, b.original)
    except ArgumentError:
        raise MismatchError(describe_value(a), describe_value(b)) from None
    return tuple([join_leaves(x, y) for x, y in zip(a.leaves, b.leaves, strict=True)])


def node_of(traced: BlockTrace, leaf: Any, wanted: Joined) -> int:
    """The node of a leaf in the form that was agreed on."""
    graph = traced.graph
    if type(leaf) is Leaf:
        return convert_node(graph, leaf.node, wanted.spec)
    return add_number(graph, leaf, wanted.spec.dtype, wanted.spec.static_shape)


def zeros(traced: BlockTrace, wanted: Joined) -> int:
    """A node for a value that nobody will look at."""
    return add_number(traced.graph, 0, wanted.spec.dtype, wanted.spec.static_shape)
