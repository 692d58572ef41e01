"""tl.debugging."""

from __future__ import annotations

from typing import Any

import pytest

import tapeline as tl
from tapeline.runtime.errors import ArgumentTypeError


def branches(x: Any) -> Any:
    if x > 0:
        return x
    return -x


def test_converted_source_shows_the_operators() -> None:
    for function in (branches, tl.function(branches)):
        text = tl.debugging.converted_source(function)
        assert text.startswith("def branches(x):")
        assert "@tl.if_(x > 0, @then1, @else1, @get1, @set1, (" in text


def test_converted_source_says_why_there_is_none() -> None:
    scope: dict[str, Any] = {}
    exec("def f(x):\n    return x", scope)
    assert tl.debugging.converted_source(scope["f"]).startswith("# not converted: there is no")
    with pytest.raises(ArgumentTypeError, match="expected a Python function"):
        tl.debugging.converted_source(len)
