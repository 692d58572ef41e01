"""Our `dataclass` against the standard library's."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from collections.abc import Callable
from typing import Any, ClassVar

import pytest

import tapeline.runtime.dataclass as own

Maker = Callable[..., Any]


def define(module: Any, **options: Any) -> tuple[Any, Any]:
    """A class with fields of every kind, and one that derives from it."""

    @module.dataclass(**options)
    class Base:
        """A class."""

        a: int
        b: str = "b"
        c: list[int] = module.field(default_factory=list)
        shared: ClassVar[int] = 3

        def double(self) -> int:
            return self.a * 2

    @module.dataclass(**options)
    class Derived(Base):
        d: Any = None
        hidden: Any = module.field(default=7, repr=False, compare=False)

        @property
        def sum(self) -> int:
            return self.a + 1

    return Base, Derived


OPTIONS: tuple[dict[str, Any], ...] = (
    {},
    {"slots": True},
    {"frozen": True},
    {"frozen": True, "slots": True},
    {"frozen": True, "slots": True, "eq": False},
    {"eq": False},
)


def outcome(action: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """What a call gives, or the class of its error."""
    try:
        return action(*args, **kwargs)
    except Exception as error:
        return type(error)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_classes_behave_as_those_of_the_standard_library(options: dict[str, Any]) -> None:
    results = []
    for module in (own, dataclasses):
        base, derived = define(module, **options)
        x, y = base(1), base(1)
        z = derived(1, "q", [2], d=(3,))
        found: list[Any] = [
            repr(x), repr(z), x == y, x == z, x != y, z == derived(1, "q", [2], (3,), hidden=8),
            x.c is y.c, x.double(), z.sum, base.shared, base.__match_args__, derived.__match_args__,
            outcome(base), outcome(base, 1, 2, [], 4), outcome(base, 1, e=2), outcome(base, 1, a=2),
            outcome(setattr, x, "a", 5), x.a, outcome(delattr, x, "b"),
            isinstance(outcome(setattr, x, "other", 5), type), hasattr(x, "__dict__"),
            [field.name for field in dataclasses.fields(z)], dataclasses.is_dataclass(z),
            repr(dataclasses.replace(z, a=9, b="new")), repr(copy.copy(z)), repr(copy.deepcopy(z)),
            type(outcome(hash, x)),
            base.__doc__, derived.__hash__ is None,
        ]  # fmt: skip
        results.append(found)
    assert results[0] == results[1]


def test_equal_frozen_objects_have_one_hash() -> None:
    @own.dataclass(frozen=True, slots=True)
    class Pair:
        a: Any
        b: Any = 2

    @own.dataclass(frozen=True, slots=True)
    class Nothing:
        pass

    assert {Pair(1): "x"}[Pair(1, 2)] == "x"
    assert Pair(1) != Pair(2)
    assert hash(Nothing()) == hash(Nothing())
    assert Nothing() == Nothing()
    assert repr(Nothing()).endswith("Nothing()")


def test_fields_that_init_leaves_out_and_what_follows_it() -> None:
    @own.dataclass(slots=True)
    class Late:
        a: int
        b: int = own.field(init=False)
        c: list[int] = own.field(default_factory=lambda: [1])

        def __post_init__(self) -> None:
            self.b = self.a + 1

    late = Late(2)
    assert (late.a, late.b, late.c) == (2, 3, [1])
    assert Late(2, [4]).c == [4]


def test_methods_of_the_class_itself_stay() -> None:
    @own.dataclass(frozen=True, slots=True)
    class Own:
        a: int

        def __repr__(self) -> str:
            return "mine"

        def __hash__(self) -> int:
            return 5

        def __eq__(self, other: object) -> bool:
            return True

    assert (repr(Own(1)), hash(Own(1)), Own(1) == 7) == ("mine", 5, True)


@own.dataclass(frozen=True, slots=True)
class Kept:
    """What pickles find by name."""

    a: int
    b: tuple[int, ...] = ()


def test_frozen_objects_with_slots_pickle_and_copy() -> None:
    kept = Kept(1, (2, 3))
    assert pickle.loads(pickle.dumps(kept)) == kept
    assert copy.deepcopy(kept) == kept


def test_a_list_as_default_is_refused() -> None:
    with pytest.raises(ValueError, match="default_factory"):

        @own.dataclass
        class Wrong:
            a: list[int] = []  # type: ignore[misc, unused-ignore]  # noqa: RUF012  # the mistake


def test_an_object_of_a_subclass_made_first_leaves_the_base_right() -> None:
    base, derived = define(own, slots=True)
    assert derived(1).d is None
    assert base(2).a == 2
    assert derived(3, "x", [], 4).d == 4
