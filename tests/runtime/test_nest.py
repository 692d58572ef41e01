"""Structures: flattening, rebuilding, comparing."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest

from tapeline.runtime import nest
from tapeline.runtime.errors import ArgumentError


class Pair(NamedTuple):
    left: Any
    right: Any


@dataclass(frozen=True)
class Layer:
    weight: Any
    bias: Any = None


STRUCTURES = [
    5,
    [1, 2],
    (1, (2, [3])),
    {"b": 1, "a": {"x": 2}},
    Pair(1, [2, 3]),
    Layer(1, (2, 3)),
    [],
    None,
    {"empty": (), "none": None, "leaf": 1},
    OrderedDict(b=1, a=2),
    [Pair(Layer(1, 2), None), 3],
]


@pytest.mark.parametrize("structure", STRUCTURES, ids=str)
def test_unflatten_inverts_flatten(structure: Any) -> None:
    built = nest.unflatten(structure, nest.flatten(structure))
    assert built == structure
    assert type(built) is type(structure)


def test_flatten_keeps_dict_order_and_drops_none() -> None:
    assert nest.flatten({"b": 1, "a": [2, None, (3,)]}) == [1, 2, 3]


def test_flatten_takes_strings_and_classes_as_leaves() -> None:
    assert nest.flatten(["ab", Layer]) == ["ab", Layer]


def test_flatten_is_iterative() -> None:
    deep: Any = 1
    for _ in range(100_000):
        deep = [deep]
    assert nest.flatten(deep) == [1]
    while deep != 1:
        (deep,) = deep


def test_unflatten_rejects_wrong_number_of_leaves() -> None:
    for leaves in ([1], [1, 2, 3]):
        with pytest.raises(ArgumentError, match=rf"{len(leaves)} leaves for a structure of 2"):
            nest.unflatten({"a": 0, "b": 0}, leaves)


def test_unflatten_accepts_iterators_as_leaves_inside() -> None:
    iterators = [iter([1]), iter([2])]
    assert nest.unflatten({"a": 0, "b": 0}, iterators) == {"a": iterators[0], "b": iterators[1]}


def test_map_structure_takes_several_structures() -> None:
    added = nest.map_structure(lambda x, y: x + y, {"a": 1, "b": (2,)}, {"a": 10, "b": (20,)})
    assert added == {"a": 11, "b": (22,)}


@pytest.mark.parametrize(
    ("a", "b", "place"),
    [
        ([1, 2], (1, 2), "the top: list and tuple"),
        ({"a": [1]}, {"a": [1, 2]}, r"\['a'\]: list of \[0\] and of \[0\], \[1\]"),
        ({"a": 1}, {"b": 1}, "dict of"),
        ([1, None], [1, 2], r"\[1\]: NoneType and int"),
    ],
)
def test_map_structure_names_where_structures_differ(a: Any, b: Any, place: str) -> None:
    with pytest.raises(ArgumentError, match=place):
        nest.map_structure(lambda x, y: x, a, b)


class Affine:
    def __init__(self, w: Any, b: Any, kind: str = "dense") -> None:
        self.w, self.b, self.kind = w, b, kind


nest.register(
    Affine, lambda x: ((x.w, x.b), x.kind), lambda kind, parts: Affine(parts[0], parts[1], kind)
)


def test_registered_classes_are_structures() -> None:
    model = {"first": Affine(1, [2, 3]), "second": Affine(4, None, "sparse")}
    assert nest.flatten(model) == [1, 2, 3, 4]
    again = nest.map_structure(lambda leaf: leaf * 10, model)
    assert (again["first"].w, again["first"].b) == (10, [20, 30])
    assert (again["second"].w, again["second"].b) == (40, None)
    assert again["second"].kind == "sparse"
    with pytest.raises(ArgumentError, match="Affine is a structure already"):
        nest.register(Affine, lambda x: ((), None), lambda kind, parts: None)
    with pytest.raises(ArgumentError, match="dict is a structure already"):
        nest.register(dict, lambda x: ((), None), lambda kind, parts: None)


def test_attrs_classes_are_structures() -> None:
    class Attribute:
        def __init__(self, name: str) -> None:
            self.name = name

    class Point:  # what `attrs.define` makes, as far as structures look at it
        __attrs_attrs__ = (Attribute("x"), Attribute("y"))
        x: Any
        y: Any

    point = object.__new__(Point)
    point.x, point.y = 1, (2, 3)
    assert nest.flatten(point) == [1, 2, 3]
    assert nest.map_structure(lambda leaf: -leaf, point).y == (-2, -3)
    assert nest.named_children(point)[1] == (".y", (2, 3))
