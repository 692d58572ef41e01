"""Modules that are loaded again, and code that is replaced in place, as notebooks do it."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import pytest

import tapeline as tl

FIRST = """
import tapeline as tl

SCALE = 2.0


def helper(x):
    return x * SCALE


@tl.function
def scaled(x):
    return helper(x) + 1


class Model:
    def __init__(self):
        self.rate = 3.0

    @tl.function
    def __call__(self, x):
        return self.inner(x)

    def inner(self, x):
        return x * self.rate
"""
SECOND = FIRST.replace("x * SCALE", "x * SCALE * 10").replace("x * self.rate", "x * self.rate - 1")

Load = Callable[[str], ModuleType]


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Load]:
    """Writes a module and loads it, again if it was loaded before."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def write_and_load(text: str) -> ModuleType:
        (tmp_path / "written_again.py").write_text(text)
        importlib.invalidate_caches()
        known = sys.modules.get("written_again")
        return (
            importlib.import_module("written_again") if known is None else importlib.reload(known)
        )

    yield write_and_load
    sys.modules.pop("written_again", None)


def replace_in_place(old: Any, new: Any) -> None:
    """What `%autoreload 2` does to objects of a module: plain functions get the new code, classes
    the new members."""
    if isinstance(old, FunctionType):
        old.__code__, old.__defaults__ = new.__code__, new.__defaults__
    elif isinstance(old, type):
        for name, member in vars(new).items():
            if isinstance(member, FunctionType) and name in vars(old):
                replace_in_place(vars(old)[name], member)
            elif not name.startswith("__") or name == "__call__":
                setattr(old, name, member)


def test_a_module_that_is_loaded_again_has_new_functions(load: Load) -> None:
    module = load(FIRST)
    before, model = module.scaled, module.Model()
    assert float(before(1.0)) == 3.0
    assert float(model(1.0)) == 3.0
    again = load(SECOND)
    assert float(again.scaled(1.0)) == 21.0
    assert float(before(1.0)) == 21.0, "its globals are those of the module"
    assert float(again.Model()(1.0)) == 2.0
    assert float(model(1.0)) == 3.0, "an object of the old class"


def test_code_that_is_replaced_in_place_is_seen(load: Load) -> None:
    module = load(FIRST)
    helper, old_class, model = module.helper, module.Model, module.Model()

    @tl.function
    def caller(x: Any) -> Any:
        return helper(x) + model.inner(x)

    for _ in range(3):
        assert float(caller(1.0)) == 5.0
        assert float(model(1.0)) == 3.0
    again = load(SECOND)
    replace_in_place(helper, again.helper)
    replace_in_place(old_class, again.Model)
    for _ in range(3):
        assert float(caller(1.0)) == 22.0
        assert float(model(1.0)) == 2.0
    assert caller.trace_count == 2
    assert caller.explain()[1].reason.startswith("the code of helper was")


def test_a_call_asks_for_the_code_without_python(load: Load) -> None:
    helper = load(FIRST).helper

    @tl.function
    def caller(x: Any) -> Any:
        return helper(x)

    for _ in range(3):
        caller(1.0)
    guards = caller.concrete_functions[0].guards
    assert guards is not None
    assert [guard.title for guard in guards if guard.name == "__code__"] == ["the code of helper"]
    if sys.version_info[:2] <= (3, 13):
        assert guards.words() is not None


def test_a_cell_that_is_run_again_makes_a_new_function() -> None:
    scope: dict[str, Any] = {"tl": tl}
    for factor in (2.0, 3.0, 3.0):
        cell = "@tl.function\ndef cell(x):\n    return inner(x)\n"
        exec(f"{cell}def inner(x):\n    return x * {factor}", scope)
        assert float(scope["cell"](1.0)) == factor
        assert float(scope["cell"](1.0)) == factor


BY_NAME = """
import tapeline as tl

@tl.function
def double(x):
    return x * 2

@tl.function
def narrow(x, factor=1.0):
    return x * factor

class Layer:
    @tl.function
    def __call__(self, x):
        return x + 1
"""


def superreload(module: ModuleType, load: Load, text: str, rules: list[Any]) -> None:
    """What `%autoreload` does with a module: everything in it that is reached from elsewhere gets
    the new contents, by the first rule that knows it."""
    before = dict(vars(module))
    load(text)
    for name, new in vars(module).items():
        old = before.get(name)
        for check, update in rules:
            if old is not new and check(old, new):
                update(old, new)
                break


def test_autoreload_updates_functions_that_were_imported_by_name(
    load: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    extension = ModuleType("IPython.extensions.autoreload")
    rules: list[Any] = []
    extension.UPDATE_RULES = rules  # type: ignore[attr-defined]  # as the extension has it
    monkeypatch.setitem(sys.modules, extension.__name__, extension)
    module = load(BY_NAME)
    assert len(rules) == 1, "the extension was told once"
    double, narrow = module.double, module.narrow

    @tl.function
    def caller(x: Any) -> Any:
        return double(x) + 1

    gradient = tl.grad(double)
    for _ in range(3):
        assert float(double(3.0)) == 6.0
        assert float(narrow(3.0)) == 3.0
        assert float(caller(3.0)) == 7.0
        assert float(gradient(tl.asarray(3.0))) == 2.0
    text = BY_NAME.replace("x * 2", "x * 5").replace("factor=1.0", "factor=4.0, *, shift=1")
    superreload(module, load, text, rules)
    for _ in range(3):
        assert float(double(3.0)) == 15.0
        assert float(narrow(3.0)) == 12.0
        assert float(narrow(3.0, shift=2)) == 12.0
        assert float(caller(3.0)) == 16.0
        assert float(gradient(tl.asarray(3.0))) == 5.0
    assert caller.explain()[1].reason.startswith("the code of double was")
    assert double.trace_count == 2, "of a number and of a tensor, both of the new code"
