"""The examples in the docstrings of the namespaces print what they say."""

from __future__ import annotations

import doctest
import importlib
import types

import pytest

NAMESPACES = ("tapeline.nn", "tapeline.optimizers", "tapeline.random")


def modules_behind(namespace: str) -> set[str]:
    """The modules that define what a namespace shows."""
    shown = vars(importlib.import_module(namespace)).values()
    return {value.__module__ for value in shown if isinstance(value, types.FunctionType | type)}


@pytest.mark.parametrize(
    "name", sorted(set().union(*[modules_behind(namespace) for namespace in NAMESPACES]))
)
def test_examples_print_what_they_say(name: str) -> None:
    result = doctest.testmod(importlib.import_module(name))
    assert not result.failed


@pytest.mark.parametrize("namespace", NAMESPACES)
def test_every_public_function_of_a_namespace_shows_an_example(namespace: str) -> None:
    for name, value in vars(importlib.import_module(namespace)).items():
        if isinstance(value, types.FunctionType) and not name.startswith("_"):
            assert ">>> " in (value.__doc__ or ""), f"{namespace}.{name} has no example"
