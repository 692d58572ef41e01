"""Named lists that traced functions see as copies."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import tapeline as tl
from tapeline.runtime.collections import _OUTSIDE


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    before = dict(_OUTSIDE)
    _OUTSIDE.clear()
    yield
    _OUTSIDE.clear()
    _OUTSIDE.update(before)


def test_a_trace_reads_what_was_there_and_keeps_what_it_adds() -> None:
    tl.add_to_collection("kept", "outside")
    seen: list[Any] = []

    @tl.function
    def inner(x: Any) -> Any:
        tl.add_to_collection("kept", "inner")
        seen.append(tl.get_collection("kept"))
        return x * 2.0

    @tl.function
    def outer(x: Any) -> Any:
        tl.add_to_collection("kept", "outer")
        y = inner(x)
        seen.append(tl.get_collection("kept"))
        return y

    outer(tl.asarray(1.0))
    assert seen == [["outside", "outer", "inner"], ["outside", "outer"]]
    assert tl.get_collection("kept") == ["outside"]


def test_branches_and_maps_see_copies_too() -> None:
    tl.add_to_collection("kept", 1)

    @tl.function
    def f(x: Any) -> Any:
        def then() -> Any:
            tl.add_to_collection("kept", 2)
            return x * float(len(tl.get_collection("kept")))

        y = tl.cond(tl.sum(x) > 0.0, then, lambda: x)
        return y, len(tl.get_collection("kept"))

    y, count = f(tl.asarray([1.0]))
    assert (y.item(), count) == (2.0, 1)

    def noting(x: Any) -> Any:
        tl.add_to_collection("kept", 3)
        return x

    tl.vmap(noting)(tl.ones(2))
    assert tl.get_collection("kept") == [1, 3]


def test_the_list_given_is_a_copy() -> None:
    tl.add_to_collection("kept", 1)
    tl.get_collection("kept").append(2)
    assert tl.get_collection("kept") == [1]
