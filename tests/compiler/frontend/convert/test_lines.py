"""Errors over two paths name the line of each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tapeline as tl
from tapeline.runtime.errors import PathError


class Box:
    v: Any


def attribute(x: Any) -> Any:
    b = Box()
    if x > 0:
        b.v = tl.ones(3)
    else:
        b.v = tl.ones(2)
    return b.v


def item_that_was_there(x: Any) -> Any:
    d = {
        "k": x,
    }
    if x > 0:
        d["k"] = tl.ones(3)
    return d["k"]


def attribute_of_one_path(x: Any) -> Any:
    b = Box()
    if x > 0:
        b.v = x
    return b.v


def conditional_expression(x: Any) -> Any:
    return (
        tl.ones(3)
        if x > 0
        else tl.ones(2)
    )  # fmt: skip


def logical(x: Any) -> Any:
    return x > 0 and tl.ones(3)


def attribute_in_a_loop(x: Any) -> Any:
    b = Box()
    b.v = x
    while x > 0:
        x = x - 1
        b.v = tl.ones(2)
    return b.v


PROGRAMS = [
    (attribute, r"\(line {3}\) and .*\(line {5}\)"),
    (item_that_was_there, r"d\['k'\] is .*\(line {5}\) and .*\(line {1}\)"),
    (attribute_of_one_path, r"\(line {3}\) and undefined;"),
    (conditional_expression, r"expression at line {2} of .*\(line {2}\) and .*\(line {4}\)"),
    (logical, r"and/or at line {1} of .*\(line {1}\)"),
    (attribute_in_a_loop, r"b\.v is .*before a round \(line {2}\) and .* after it \(line {5}\)"),
]


@pytest.mark.parametrize(("program", "pattern"), PROGRAMS, ids=lambda x: getattr(x, "__name__", ""))
def test_the_error_names_the_line_of_each_path(program: Callable[..., Any], pattern: str) -> None:
    first = program.__code__.co_firstlineno
    for number in range(1, 6):
        pattern = pattern.replace(f"{{{number}}}", str(first + number))
    with pytest.raises(PathError, match=pattern):
        tl.function(program)(tl.asarray(1.0))
