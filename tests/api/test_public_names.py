"""The public names are those of `public_names.txt`, so a change to the API is always seen."""

from __future__ import annotations

import re
import tomllib
import types
from pathlib import Path

import tapeline as tl

TYPING = ("TYPE_CHECKING", "Any")
ROOT = Path(__file__).resolve().parent.parent.parent
LISTED = Path(__file__).with_name("public_names.txt")


def public_names() -> list[str]:
    """The names that `import tapeline` promises; submodules that are no namespace do not count."""
    return sorted(
        name
        for name in dir(tl)
        if not name.startswith("_") and not hidden(getattr(tl, name)) and name not in TYPING
    )


def hidden(value: object) -> bool:
    """Whether the value is one of the two linked packages."""
    names = ("tapeline.runtime", "tapeline.compiler")
    return isinstance(value, types.ModuleType) and value.__name__ in names


def test_public_names_are_those_listed() -> None:
    listed = LISTED.read_text().split()
    assert listed == sorted(listed), f"sort the lines of {LISTED.name}"
    found = public_names()
    missing, new = set(listed) - set(found), set(found) - set(listed)
    assert not missing, f"names are gone from tapeline: {sorted(missing)}"
    assert not new, f"names are new in tapeline; add them to {LISTED.name}: {sorted(new)}"


def test_every_public_function_says_what_it_does() -> None:
    for name in public_names():
        value = getattr(tl, name)
        if isinstance(value, types.FunctionType | type):
            assert value.__doc__, f"tl.{name} has no docstring"


def test_every_op_function_shows_an_example() -> None:
    for name in public_names():
        value = getattr(tl, name)
        if isinstance(value, types.FunctionType) and value.__module__.startswith(
            "tapeline.runtime.ops"
        ):
            assert ">>> " in (value.__doc__ or ""), f"tl.{name} has no example that runs"


def test_the_package_has_the_version_that_the_module_says() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert project["tool"]["setuptools"]["dynamic"]["version"] == {"attr": "tapeline.__version__"}
    assert re.fullmatch(r"\d+\.\d+\.\d+(\.dev\d+)?", tl.__version__)
