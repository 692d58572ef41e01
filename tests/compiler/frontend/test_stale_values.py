"""Whatever a function reads of Python's state: when it changes, the next call sees it."""

from __future__ import annotations

import argparse
import array
import collections
import dataclasses
import functools
import itertools
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapeline as tl


class Slots:
    __slots__ = ("k",)

    def __init__(self) -> None:
        self.k = 2.0


@dataclasses.dataclass(slots=True)
class Settings:
    k: float = 2.0


class Attributes(dict[str, float]):
    """Items as attributes, and errors of its own for what is not there."""

    def __getattr__(self, name: str) -> float:
        return self[name]


class Items(list[float]):
    pass


class Layers:
    """A container of the program's own, with all that Python asks such a one."""

    def __init__(self) -> None:
        self.parts = [2.0, 1.0]

    def __iter__(self) -> Any:
        yield from self.parts

    def __len__(self) -> int:
        return int(self._first())

    def __getitem__(self, place: int) -> float:
        return self.parts[place]

    def __contains__(self, k: object) -> bool:
        return k in self.parts

    def __bool__(self) -> bool:
        return self.parts[0] < 3

    def __float__(self) -> float:
        return self._first()

    def __enter__(self) -> float:
        return self._first()

    def __exit__(self, *_: object) -> None:
        pass

    def _first(self) -> float:
        return self.parts[0]


class World:
    """All of the state at once, with one number in it."""

    def __init__(self) -> None:
        self.namespace = types.SimpleNamespace(k=2.0)
        self.arguments = argparse.Namespace(k=2.0)
        self.slots, self.settings = Slots(), Settings()
        self.attributes, self.items = Attributes(k=2.0), Items([2.0])
        self.default = collections.defaultdict(float, k=2.0)
        self.ordered, self.counter = collections.OrderedDict(k=2.0), collections.Counter(k=2)
        self.queue, self.user = collections.deque([2.0]), collections.UserDict(k=2.0)
        self.chain = collections.ChainMap({"k": 2.0})
        self.base = {"k": 2.0}
        self.proxy = types.MappingProxyType(self.base)
        self.numbers, self.bytes = array.array("d", [2.0]), bytearray([2])
        self.layers = Layers()
        self.vector = np.array([2.0, 0.0])
        self.module = types.ModuleType("made_here")
        self.partial = functools.partial(lambda x, box: x * box["k"], box=self.base)

    def set(self, k: float) -> None:
        holders: list[Any] = [self.namespace, self.arguments, self.slots, self.settings]
        for holder in (*holders, self.module):
            holder.k = k
        tables: list[Any] = [self.attributes, self.default, self.ordered, self.counter, self.user]
        for table in tables:
            table["k"] = k
        self.chain["k"] = self.base["k"] = k
        self.items[0] = self.queue[0] = self.numbers[0] = self.layers.parts[0] = k
        self.bytes[0], self.vector[0] = int(k), k


world = World()


def with_default(x: Any, table: dict[str, float] = world.base, *, more: Any = world.items) -> Any:
    return x * table["k"] + 0 * more[0]


def summed(x: Any, parts: Layers) -> Any:
    total = x * 0
    for part in parts:
        total = total + part
    return total - 1


def entered(x: Any) -> Any:
    with world.layers as k:
        return x * k


READS: dict[str, Callable[[Any], Any]] = {
    "SimpleNamespace": lambda x: x * world.namespace.k,
    "argparse.Namespace": lambda x: x * world.arguments.k,
    "slots": lambda x: x * world.slots.k,
    "dataclass with slots": lambda x: x * world.settings.k,
    "attributes of a dict": lambda x: x * world.attributes.k,
    "items of a dict of a class": lambda x: x * world.attributes["k"],
    "list of a class": lambda x: x * world.items[0],
    "defaultdict": lambda x: x * world.default["k"],
    "OrderedDict": lambda x: x * world.ordered["k"],
    "Counter": lambda x: x * world.counter["k"],
    "deque": lambda x: x * world.queue[0],
    "UserDict": lambda x: x * world.user["k"],
    "ChainMap": lambda x: x * world.chain["k"],
    "mapping proxy": lambda x: x * world.proxy["k"],
    "array": lambda x: x * world.numbers[0],
    "bytearray": lambda x: x * world.bytes[0],
    "getattr": lambda x: x * getattr(world.slots, "k"),  # noqa: B009  # what is tested
    "getattr with a default": lambda x: x * getattr(world.arguments, "k", 7.0),
    "vars": lambda x: x * vars(world.arguments)["k"],
    "__dict__": lambda x: x * world.namespace.__dict__["k"],
    "partial": lambda x: world.partial(x),
    "defaults of what is called": lambda x: with_default(x),
    "own defaults": lambda x, table=world.base: x * table["k"],  # type: ignore[misc]
    "module without a file": lambda x: x * world.module.k,
    "element of an array": lambda x: x * world.vector[0],
    "element of an array as a number": lambda x: x * float(world.vector[0]),
    "elements of an array": lambda x: x * sum(world.vector),
    "sum of an array": lambda x: x * float(world.vector.sum()),
    "reduce": lambda x: functools.reduce(lambda a, box: a * box.k, [world.slots], x),
    "starmap": lambda x: x * max(itertools.starmap(lambda a, b: a * b.k, [(1, world.slots)])),
    "asdict": lambda x: x * dataclasses.asdict(world.settings)["k"],
    "replace": lambda x: x * dataclasses.replace(world.settings).k,
    "for": lambda x: summed(x, world.layers),
    "comprehension": lambda x: x * max([k + 0 for k in world.layers]),
    "sum": lambda x: x * (sum(world.layers) - 1),
    "list": lambda x: x * max(list(world.layers)),
    "len": lambda x: x * len(world.layers),
    "item": lambda x: x * world.layers[0],
    "float": lambda x: x * float(world.layers),
    "with": entered,
    "in": lambda x: x * (2.0 if 2.0 in world.layers else world.base["k"]),
    "truth": lambda x: x * (2.0 if world.layers else world.base["k"]),
    "and": lambda x: x * ((world.layers and 2.0) or world.base["k"]),
}


@pytest.mark.parametrize("name", READS)
@pytest.mark.filterwarnings("ignore:.* was traced in 5 calls in a row")
def test_changes_are_seen_by_the_next_call(name: str) -> None:
    world.set(2.0)
    function = tl.function(READS[name])
    for k in (2.0, 3.0, 4.0, 3.0, 5.0):
        world.set(k)
        for _ in range(3):
            assert function(tl.asarray(1.0)).item() == k
    assert function.trace_count <= 4


def test_the_reason_names_what_changed() -> None:
    world.set(2.0)
    function = tl.function(lambda x: x * len(world.layers) + world.namespace.k)
    function(tl.asarray(1.0))
    world.layers.parts[0] = 4.0
    function(tl.asarray(1.0))
    reason = "attribute parts of Layers was list of 2: [2.0, 1.0] when traced, is list of 2"
    assert reason in function.explain()[1].reason
    world.namespace.k = 7.0
    function(tl.asarray(1.0))
    reason = "attribute k of SimpleNamespace was 2.0 when traced, is 7.0 now"
    assert reason in function.explain()[2].reason


class Weights:
    """What a program's own methods read of Variables and properties is no state to watch."""

    def __init__(self) -> None:
        self.w = tl.Variable(2.0)
        self.calls = 0

    @property
    def value(self) -> Any:
        self.calls += 1
        return self.w.value

    def __len__(self) -> int:
        return 2 if self.w.shape == () and self.value is not None else 3


@pytest.mark.filterwarnings("ignore:.*while it was traced it changed")
def test_what_is_new_at_each_read_is_not_watched() -> None:
    weights = Weights()
    function = tl.function(lambda x: x * len(weights) * weights.w)
    for k in (2.0, 3.0, 4.0):
        weights.w.assign(k)
        assert function(tl.asarray(1.0)).item() == 2 * k
    assert function.trace_count == 1


def missing_attribute(x: Any, holder: Any) -> Any:
    try:
        return x * holder.k
    except AttributeError:
        return x


def missing_global(x: Any, _: Any) -> Any:
    try:
        return x * not_there_yet  # type: ignore[name-defined]  # that is the point
    except NameError:
        return x


@pytest.mark.parametrize(
    "function",
    [
        lambda x, holder: x * holder.k if hasattr(holder, "k") else x,
        lambda x, holder: x * getattr(holder, "k", 1.0),
        missing_attribute,
        missing_global,
    ],
)
def test_what_was_missing_is_seen_once_it_is_there(
    function: Callable[[Any, Any], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    traced, holder, x = tl.function(function), Weights(), tl.asarray(1.0)
    for _ in range(3):
        assert traced(x, holder).item() == 1.0
    holder.k = 5.0  # type: ignore[attr-defined]  # which it had not
    monkeypatch.setitem(globals(), "not_there_yet", 5.0)
    for _ in range(3):
        assert traced(x, holder).item() == 5.0
    assert "was missing when traced, is 5.0 now" in traced.explain()[1].reason
    del holder.k  # type: ignore[attr-defined]
    monkeypatch.delitem(globals(), "not_there_yet")
    assert traced(x, holder).item() == 1.0


def test_attributes_that_the_first_call_makes_are_no_change() -> None:
    holder = Weights()

    @tl.function
    def lazily(x: Any) -> Any:
        if not hasattr(holder, "made"):
            holder.made = tl.Variable(3.0)  # type: ignore[attr-defined]
        return x * holder.made  # type: ignore[attr-defined]

    for _ in range(4):
        assert lazily(tl.asarray(2.0)).item() == 6.0
    assert lazily.trace_count == 1


def test_arrays_that_go_in_whole_or_in_part_are_read_at_each_call() -> None:
    table = np.array([[1.0, 2.0], [3.0, 4.0]])
    whole = tl.function(lambda x: x * table)
    part = tl.function(lambda x: x * table[1])
    rows = tl.function(lambda x: sum([x * row for row in table]))
    for k in (1.0, 5.0, 7.0):
        table[1, 0] = k
        x = tl.ones(2)
        assert whole(x).tolist() == table.tolist()
        assert part(x).tolist() == table[1].tolist()
        assert rows(x).tolist() == table.sum(0).tolist()
    assert (whole.trace_count, part.trace_count, rows.trace_count) == (1, 1, 1)
