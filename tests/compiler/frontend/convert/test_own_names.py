"""Functions that name themselves, or the class that they stand in, are converted like others."""

from __future__ import annotations

from typing import Any

import pytest

import tapeline as tl
from tapeline.compiler.frontend.convert.conversion import conversion_of


def doubled(x: Any, n: int) -> Any:
    if n == 0:
        return x
    if tl.sum(x) > doubled.limit:  # type: ignore[attr-defined]
        return x
    return doubled(x * 2, n - 1)


doubled.limit = 3.0  # type: ignore[attr-defined]


@tl.function
def powers(x: Any, n: int) -> Any:
    if n == 0:
        return tl.ones_like(x)
    below = powers(x, n - 1)
    if tl.sum(below) > 100.0:
        below = below * 0.5
    return below * x


class Scaled:
    scale = 2.0

    def by_class(self, x: Any) -> Any:
        return x * Scaled.scale if tl.sum(x) > 0 else x

    @staticmethod
    def by_other(x: Any) -> Any:
        if tl.sum(x) > 0:
            return Scaled().by_class(x)
        return -x

    def __private(self, x: Any) -> Any:
        return Scaled.scale * x

    def by_private(self, x: Any) -> Any:
        if tl.sum(x) > 0:
            return Scaled.__private(self, x)
        return x


halved: Any = lambda x, n: halved(x / 2, n - 1) if n and x.size else x  # noqa: E731  # one that names itself


@pytest.mark.parametrize(
    "function",
    [doubled, powers.python_function, Scaled.by_class, Scaled.by_other, Scaled.by_private, halved],
)
def test_they_are_converted(function: Any) -> None:
    assert conversion_of(function).reason == ""


def test_recursion_of_a_module_with_branches_over_tensors() -> None:
    step = tl.function(doubled)
    for start, wanted in ((1.0, 4.0), (0.25, 2.0), (-1.0, -8.0)):
        assert step(tl.asarray(start), 3).item() == wanted
    x = tl.asarray(10.0)
    with tl.GradientTape() as tape:
        tape.watch(x)
        y = powers(x, 3)
    assert (y.item(), tape.gradient(y, x).item()) == (1000.0, 300.0)


def test_attributes_of_the_function_and_of_the_class_are_watched(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    step, scaled = tl.function(doubled), tl.function(Scaled.by_other)
    private = tl.function(Scaled().by_private)
    x = tl.asarray(1.0)
    assert (step(x, 3).item(), scaled(x).item(), private(x).item()) == (4.0, 2.0, 2.0)
    monkeypatch.setattr(doubled, "limit", 5.0)
    monkeypatch.setattr(Scaled, "scale", 3.0)
    assert (step(x, 3).item(), scaled(x).item(), private(x).item()) == (8.0, 3.0, 3.0)
