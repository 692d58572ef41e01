"""Functions of thousands of ops one after the other: no recursion, and text that grows with them.

Times are not asserted but what they follow from: how much text is emitted, and in what pieces.
"""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapeline as tl
from tapeline.compiler.codegen import module
from tapeline.compiler.codegen.engine import Engine

COUNT = 800
"""Turns of three ops; more than twice as many nodes as Python lets calls nest."""


def chain(count: int) -> Callable[[Any], Any]:
    """A function of `3 * count` ops, each of the one before."""
    turns = list(range(count))

    def deep(x: Any) -> Any:
        for _ in turns:
            x = tl.sin(x) * 1e-3 + x
        return x

    return deep


def expected_of(x: Any, count: int) -> tuple[Any, Any]:
    """The values and the derivatives of `chain(count)`, by NumPy."""
    slope = np.ones_like(x)
    for _ in range(count):
        x, slope = np.sin(x) * 1e-3 + x, slope * (np.cos(x) * 1e-3 + 1)
    return x, slope


def gradient(f: Callable[[Any], Any], x: tl.Tensor) -> tl.Tensor:
    """The derivative of the sum of `f(x)`."""
    found: tl.Tensor = tl.grad(lambda x: tl.sum(f(x)))(x)
    return found


@pytest.fixture
def texts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The modules that are emitted from now on."""
    found: list[str] = []
    plain = Engine.emit_object

    def emit_object(self: Engine, text: str, quick: bool = False) -> bytes:
        found.append(text)
        return plain(self, text, quick)

    monkeypatch.setattr(Engine, "emit_object", emit_object)
    return found


def longest_function(text: str) -> int:
    """Lines of the longest function of a module."""
    return max(part.count("\n") for part in text.split("\ndefine "))


def test_a_deep_graph_is_traced_printed_compiled_and_differentiated(texts: list[str]) -> None:
    f = tl.function(chain(COUNT), autograph=False)
    x = np.linspace(0.5, 1.5, 8)
    value, slope = expected_of(x, COUNT)
    concrete = f.get_concrete_function(tl.asarray(x))
    assert str(concrete.graph).count(" sin(") == COUNT
    np.testing.assert_allclose(f(tl.asarray(x)).numpy(), value, rtol=1e-12)
    for other in (pickle.loads(pickle.dumps(f)), copy.deepcopy(f)):
        np.testing.assert_array_equal(other(tl.asarray(x)), f(tl.asarray(x)))
    texts.clear()
    np.testing.assert_allclose(gradient(f, tl.asarray(x)).numpy(), slope, rtol=1e-9)
    lines = [text.count("\n") for text in texts]
    assert sum(lines) < 8 * 3 * COUNT, "more than a call and its share of a kernel for each op"
    assert max(longest_function(text) for text in texts) < 2 * module.LONG


def test_text_grows_with_the_graph_and_no_faster(texts: list[str]) -> None:
    x, sizes = tl.asarray(np.linspace(0.5, 1.5, 8)), []
    for count in (200, 400, 800):
        texts.clear()
        gradient(tl.function(chain(count), autograph=False), x)
        sizes.append(sum(len(text) for text in texts))
    assert sizes[2] - sizes[1] < 2.5 * (sizes[1] - sizes[0])


def test_a_program_in_parts_stops_where_a_part_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LONG", 5)

    def checked(x: Any) -> Any:
        if float(x[0]) < 0:
            raise KeyError("negative")
        return x + 1

    @tl.function
    def f(x: Any, i: Any) -> Any:
        for _ in range(4):
            x = tl.py_function(checked, [x], tl.TensorSpec([3]))
            x = tl.cumulative_sum(x)[i] * 2 - 20
        return x

    def eager(x: Any, i: Any) -> Any:
        for _ in range(4):
            x = np.cumsum(x + 1)[i] * 2 - 20
        return x

    x, i = np.array([20.0, 30.0, 40.0]), np.array([2, 1, 0])
    np.testing.assert_allclose(f(x, i).numpy(), eager(x, i))
    assert "@part3(" in f.concrete_functions[0].llvm_ir()
    with pytest.raises(KeyError, match="negative"):
        f(np.array([1.0, 1.0, 1.0]), i)
    with pytest.raises(IndexError):
        f(x, np.array([2, 1, 3]))
    np.testing.assert_allclose(f(x, i).numpy(), eager(x, i))
