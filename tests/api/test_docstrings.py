"""Every public function says what it takes, what it gives, and shows it."""

from __future__ import annotations

import inspect
import re
import types
from collections.abc import Iterator
from typing import Any

import pytest

import tapeline as tl

NAMESPACES = (
    "debugging", "export", "fft", "linalg", "nest", "nn", "optimizers", "random", "special", "tape",
    "testing",
)  # fmt: skip


def public_functions() -> Iterator[tuple[str, types.FunctionType]]:
    spaces: list[tuple[str, Any]] = [("tl", tl)]
    spaces += [(f"tl.{name}", getattr(tl, name)) for name in NAMESPACES]
    for prefix, namespace in spaces:
        for name in sorted(dir(namespace)):
            value = getattr(namespace, name)
            is_shown = isinstance(value, types.FunctionType) and not name.startswith("_")
            if is_shown and value.__module__.startswith("tapeline"):
                yield f"{prefix}.{name}", value


FUNCTIONS = dict(public_functions())
every_function = pytest.mark.parametrize("name", FUNCTIONS)


def section(doc: str, title: str) -> str | None:
    """The text under a heading, or None if there is none."""
    found = re.search(rf"^{title}\n-+\n(.*?)(?=^\w+\n---|\Z)", doc, re.MULTILINE | re.DOTALL)
    return None if found is None else found.group(1)


def documentation(name: str) -> str:
    return inspect.getdoc(FUNCTIONS[name]) or ""


@every_function
def test_it_shows_an_example(name: str) -> None:
    assert ">>> " in documentation(name)


@every_function
def test_it_names_each_parameter(name: str) -> None:
    parameters = inspect.signature(FUNCTIONS[name]).parameters
    text = section(documentation(name), "Parameters")
    if parameters:
        assert text is not None, "there is no section Parameters"
        missing = [each for each in parameters if not re.search(rf"\b{each}\b", text)]
        assert not missing


@every_function
def test_it_says_what_it_gives(name: str) -> None:
    if inspect.signature(FUNCTIONS[name]).return_annotation not in ("None", None):
        doc = documentation(name)
        assert section(doc, "Returns") or section(doc, "Yields")


def test_a_function_without_documentation_would_be_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def bare(x: int) -> int:
        """One line."""
        return x

    monkeypatch.setitem(FUNCTIONS, "tl.bare", bare)
    for test in (
        test_it_shows_an_example, test_it_names_each_parameter, test_it_says_what_it_gives,
    ):  # fmt: skip
        with pytest.raises(AssertionError):
            test("tl.bare")
