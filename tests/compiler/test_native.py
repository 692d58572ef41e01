"""Calls with containers take the native entry and give what the function itself gives."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapeline as tl
from tapeline.compiler.codegen.layout import native_entry_allowed
from tapeline.runtime import nest

pytestmark = pytest.mark.skipif(not native_entry_allowed(), reason="no native entries here")


def served_natively(function: Any) -> bool:
    """Whether the last calls were not passed on to Python."""
    return function._entry is not None


def assert_same(actual: Any, expected: Any) -> None:
    assert type(actual) is type(expected)
    mine, theirs = nest.flatten(actual), nest.flatten(expected)
    assert len(mine) == len(theirs)
    for a, b in zip(mine, theirs, strict=True):
        assert type(a) is type(b)
        if type(a) is tl.Tensor:
            np.testing.assert_array_equal(a.numpy(), b.numpy())
        else:
            assert a == b


def layers(order: tuple[str, ...]) -> dict[str, Any]:
    weights = {"w": 2.0, "b": 1.0, "a": 0.5}
    return {key: tl.asarray(np.full(3, weights[key])) for key in order}


CASES: list[tuple[Callable[..., Any], tuple[Any, ...]]] = [
    (lambda p, x: p["w"] * x + p["b"] - p["a"], (layers(("w", "b", "a")), tl.asarray([1.0] * 3))),
    (lambda p, x: p["w"] / x - p["a"], (layers(("a", "b", "w")), tl.asarray([1.0, 2.0, 4.0]))),
    (
        lambda rows, n: [row * n for row in rows],
        ([tl.asarray([1.0]), (tl.asarray([2.0]))], 3),
    ),
    (lambda x: {"z": x, "a": (x + 1, None, "text", 2.5)}, (tl.asarray([1.0, 2.0]),)),
    (lambda x, y: ((x + y, [y * x]), x), (tl.asarray([1.0]), np.array([2.0]))),
    (lambda p: (p[0][0]["k"] + p[1], ()), (([{"k": tl.asarray(1.0)}], tl.asarray(2.0)),)),
]


@pytest.mark.parametrize("number", range(len(CASES)))
def test_container_calls(number: int) -> None:
    plain, args = CASES[number]
    compiled: Any = tl.function(plain)
    expected = plain(*args)
    for _ in range(5):
        assert_same(compiled(*args), expected)
    assert served_natively(compiled)


def test_dicts_filled_in_any_order_give_the_same() -> None:
    compiled: Any = tl.function(lambda p: p["w"] * 100 + p["b"] * 10 + p["a"])
    for order in itertools.permutations(("w", "b", "a")):
        for _ in range(3):
            np.testing.assert_array_equal(compiled(layers(order)).numpy(), np.full(3, 210.5))
    assert compiled.trace_count == 1


def test_tensors_and_arrays_share_an_entry() -> None:
    compiled: Any = tl.function(lambda x: x * 2)
    x = np.arange(3.0)
    for value in [tl.asarray(x)] * 3 + [x] * 3:
        np.testing.assert_array_equal(compiled(value).numpy(), x * 2)
    assert compiled.trace_count == 1


def test_gradients_through_container_calls() -> None:
    compiled: Any = tl.function(lambda p: {"loss": tl.sum(p["w"] * p["w"]), "more": [p["w"]]})
    w = tl.asarray([1.0, 2.0])
    for _ in range(4):
        compiled({"w": w})
    with tl.GradientTape() as tape:
        tape.watch(w)
        loss = compiled({"w": w})["loss"]
    gradient: Any = tape.gradient(loss, w)
    np.testing.assert_array_equal(gradient.numpy(), [2.0, 4.0])


def test_keywords_defaults_and_constants_are_served() -> None:
    def plain(x: Any, scale: float = 2.0, *, shift: Any = None, name: str = "n") -> Any:
        return x * scale if shift is None else x * scale + shift

    compiled: Any = tl.function(plain)
    x, y = tl.asarray([1.0, 2.0]), tl.asarray([10.0, 20.0])
    spellings: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
        ((x,), {}),
        ((x, 0.5), {}),
        ((x,), {"scale": 0.5}),
        ((x,), {"shift": y}),
        ((), {"shift": x, "x": y}),
        ((), {"x": y, "shift": x}),
        ((x, 1000), {"name": "m"}),
        ((x, -0.0), {}),
        ((x, 0.0), {}),
    ]
    for _ in range(4):
        for args, kwargs in spellings:
            actual, expected = compiled(*args, **kwargs).numpy(), plain(*args, **kwargs).numpy()
            np.testing.assert_array_equal(actual, expected)
            np.testing.assert_array_equal(np.signbit(actual), np.signbit(expected))
    assert sum(compiled._has_entry.values()) == 8
    with pytest.raises(TypeError, match=r"unexpected|wrong"):
        compiled(x, wrong=1)


def test_a_default_that_is_a_tensor_is_left_to_python() -> None:
    default = tl.asarray([1.0])
    compiled: Any = tl.function(lambda x, y=default: x + y)
    for _ in range(4):
        np.testing.assert_array_equal(compiled(tl.asarray([2.0])).numpy(), [3.0])


def test_guards_on_attributes_and_containers_keep_the_native_entry() -> None:
    class Model:
        def __init__(self) -> None:
            self.scale = 2.0
            self.parts = [tl.Variable(1.0), tl.Variable(2.0)]

    model = Model()

    @tl.function
    def f(x: Any) -> Any:
        return x * model.scale + model.parts[0] + model.parts[1]

    x = tl.asarray([1.0])
    for _ in range(4):
        assert f(x).tolist() == [5.0]
    calls = []

    def spy(*args: Any, **kwargs: Any) -> Any:
        calls.append(args)
        return f._call(*args, **kwargs)

    if native_entry_allowed():
        f._slow = spy
    assert f(x).tolist() == [5.0]
    assert calls == []
    model.scale = 3.0
    for _ in range(4):
        assert f(x).tolist() == [6.0]
    model.parts[0] = tl.Variable(10.0)
    for _ in range(4):
        assert f(x).tolist() == [15.0]
    model.scale = 2.0
    assert f(x).tolist() == [14.0]
    assert f.trace_count == 4
