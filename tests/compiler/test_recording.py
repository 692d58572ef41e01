"""Compiled calls under tapes: machine code records them as the Python path does."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapeline as tl
from tapeline.compiler.codegen.layout import native_entry_allowed
from tapeline.compiler.differentiable import DifferentiableGraph
from tapeline.runtime import nest
from tapeline.runtime.dispatch import STATE

pytestmark = pytest.mark.skipif(not native_entry_allowed(), reason="no native entries here")


@pytest.fixture
def python_calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the graphs whose recorded calls took the Python path."""
    calls: list[str] = []
    original = DifferentiableGraph._call_taped

    def noted(self: DifferentiableGraph, *args: Any) -> Any:
        calls.append(self.graph.name)
        return original(self, *args)

    monkeypatch.setattr(DifferentiableGraph, "_call_taped", noted)
    return calls


def line(x: Any) -> Any:
    return x * 2 + 1


def layer(x: Any, w: Any, b: Any) -> Any:
    return tl.sum(tl.tanh(x * w + b) * tl.exp(w))


def tensors(count: int) -> list[Any]:
    rng = np.random.default_rng(3)
    return [tl.asarray(rng.uniform(-1, 1, 4)) for _ in range(count)]


def gradients(function: Callable[..., Any], args: list[Any], watched: list[int]) -> Any:
    with tl.GradientTape() as tape:
        sources = [args[k] for k in watched]
        tape.watch(sources)
        y = function(*args)
        entries = [(entry.op, len(entry.inputs)) for entry in tape.export()]
    return y, tape.gradient(y, sources), entries


@pytest.mark.parametrize("watched", [[0], [1], [2], [0, 2], [1, 2], [0, 1, 2]])
def test_each_set_of_watched_inputs_is_served(watched: list[int], python_calls: list[str]) -> None:
    compiled = tl.function(layer)
    args = tensors(3)
    y, expected, _ = gradients(layer, args, watched)
    for turn in range(6):
        python_calls.clear()
        found, parts, entries = gradients(compiled, tensors(3), watched)
        assert entries == [("call:layer", 3)]
        assert (len(python_calls) == 0) == (turn >= 2)
        np.testing.assert_allclose(found, y, rtol=1e-14)
        for a, b in zip(parts, expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-13)
    assert compiled.trace_count == 1


def test_only_some_sets_of_watched_inputs_get_machine_code() -> None:
    compiled: Any = tl.function(lambda a, b, c, d: tl.sum(a * b * c * d))
    args = tensors(4)
    for mask in range(1, 16):
        watched = [k for k in range(4) if mask >> k & 1]
        for _ in range(3):
            _, parts, _ = gradients(compiled, args, watched)
            for k, part in zip(watched, parts, strict=True):
                np.testing.assert_allclose(part, _others(args, k), rtol=1e-13)
    entry, count = compiled._entry, 0
    while entry is not None:
        entry, count = entry.following, count + 1
    assert count == 9


def _others(args: list[Any], left_out: int) -> Any:
    product = np.ones(4)
    for k, arg in enumerate(args):
        if k != left_out:
            product = product * arg.numpy()
    return product


def test_the_node_is_that_of_the_python_path(python_calls: list[str]) -> None:
    compiled: Any = tl.function(layer)
    args = tensors(3)
    nodes = []
    for _ in range(4):
        with tl.GradientTape() as tape:
            tape.watch([args[1], args[2]])
            y = compiled(*args)
            node = y._node
            assert node is not None
            assert node.parents == (None, args[1]._node, args[2]._node)
            assert node.saved[:3] == tuple(arg._value for arg in args)
            assert node.rec is node.tapes is STATE.active
            nodes.append((type(node), node.op, node.attrs, [np.copy(s) for s in node.saved]))
            assert [entry.serial for entry in tape.export()] == [node.serial]
    assert len(python_calls) == 2
    for kind, op, attrs, saved in nodes[1:]:
        assert (kind, op, attrs) == nodes[0][:3]
        for a, b in zip(saved, nodes[0][3], strict=True):
            np.testing.assert_array_equal(a, b)


def test_calls_between_tapes_take_the_path_that_is_right(python_calls: list[str]) -> None:
    compiled: Any = tl.function(lambda x: x * x * x)
    x, other = tensors(2)
    value = x.numpy().copy()
    for turn in range(5):
        python_calls.clear()
        with tl.GradientTape() as outer:
            outer.watch(x)
            with tl.GradientTape() as inner:
                inner.watch(x)
                y = compiled(x)
            first = inner.gradient(y, x)
        np.testing.assert_allclose(outer.gradient(first, x), 6 * value, rtol=1e-14)
        with tl.GradientTape() as outer:
            outer.watch(x)
            with tl.GradientTape() as inner:
                inner.watch(other)
                y = compiled(x)
            assert inner.gradient(y, other) is None
        np.testing.assert_allclose(outer.gradient(y, x), 3 * value**2, rtol=1e-14)
        with tl.GradientTape() as tape:
            tape.watch(x)
            with tape.stop_recording():
                y = compiled(x)
            z = compiled(x)
        assert y._node is None
        np.testing.assert_allclose(tape.gradient(z, x), 3 * value**2, rtol=1e-14)
        if turn > 2:
            assert python_calls.count("<lambda>") == 1  # what the outer tape alone watches


def test_a_thread_without_a_tape_records_nothing() -> None:
    compiled: Any = tl.function(line)
    (x,) = tensors(1)
    found: list[Any] = []
    with tl.GradientTape() as tape:
        tape.watch(x)
        for _ in range(4):
            compiled(x)
        thread = threading.Thread(target=lambda: found.append(compiled(x)))
        thread.start()
        thread.join()
        y = compiled(x)
    assert found[0]._node is None
    np.testing.assert_array_equal(found[0], y)
    np.testing.assert_array_equal(tape.gradient(y, x), np.full(4, 2.0))


def test_spellings_shapes_and_containers(python_calls: list[str]) -> None:
    compiled: Any = tl.function(lambda p, scale=2.0: p["w"] * scale + p["b"])
    w, b = tensors(2)
    for turn in range(6):
        python_calls.clear()
        with tl.GradientTape() as tape:
            tape.watch([w, b])
            y = compiled({"w": w, "b": b}, scale=3.0)
        dw, db = tape.gradient(y, [w, b])
        np.testing.assert_array_equal(dw, np.full(4, 3.0))
        np.testing.assert_array_equal(db, np.ones(4))
        assert (len(python_calls) == 0) == (turn >= 2)


SEVERAL: list[Callable[[Any], Any]] = [
    lambda x: (x * 2, tl.tanh(x) * x),
    lambda x: [tl.exp(x), tl.astype(x * 10, "int32"), x],
    lambda x: {"loss": tl.sum(x * x), "rest": (x + 1, "text", None)},
    lambda x: (tl.stop_gradient(x), tl.sin(x)),
]


@pytest.mark.parametrize("number", range(len(SEVERAL)))
def test_several_results(number: int, python_calls: list[str]) -> None:
    plain = SEVERAL[number]
    compiled: Any = tl.function(plain)
    (x,) = tensors(1)

    def weighted(function: Callable[[Any], Any]) -> tuple[Any, Any, Any]:
        with tl.GradientTape() as outer:
            outer.watch(x)
            with tl.GradientTape() as tape:
                tape.watch(x)
                leaves = nest.flatten(function(x))
                floats = [y for y in leaves if type(y) is tl.Tensor and y.dtype.kind == "f"]
                total = sum(((k + 1) * tl.sum(y) for k, y in enumerate(floats)), tl.asarray(0.0))
            first = tape.gradient(total, x)
        kinds = [(type(y), getattr(y, "_node", None) is None) for y in leaves]
        return kinds, first, outer.gradient(first, x)

    kinds, first, second = weighted(plain)
    for _ in range(5):
        found = weighted(compiled)
        np.testing.assert_allclose(found[1], first, rtol=1e-13)
        if second is not None:
            np.testing.assert_allclose(found[2], second, rtol=1e-12)
        assert [kind for kind, _ in found[0]] == [kind for kind, _ in kinds]
    python_calls.clear()
    with tl.GradientTape() as tape:
        tape.watch(x)
        compiled(x)
        found_entries = [entry.op for entry in tape.export()]
    assert python_calls in ([], ["<lambda>"])
    assert set(found_entries) <= {"call:<lambda>"}


def test_results_without_gradient() -> None:
    rounded: Any = tl.function(lambda x: tl.astype(x, "int32"))
    (x,) = tensors(1)
    for _ in range(5):
        with tl.GradientTape() as tape:
            tape.watch(x)
            assert rounded(x)._node is None
        assert tape.gradient(x, x) is not None


def test_inputs_that_an_ended_tape_watched_count_as_unwatched(python_calls: list[str]) -> None:
    compiled: Any = tl.function(layer)
    args = tensors(3)
    gradients(layer, args, [0, 1, 2])
    y, expected, _ = gradients(layer, args, [1])
    for turn in range(5):
        python_calls.clear()
        found, parts, _ = gradients(compiled, args, [1])
        assert (len(python_calls) == 0) == (turn >= 2)
        np.testing.assert_allclose(found, y, rtol=1e-14)
        np.testing.assert_allclose(parts[0], expected[0], rtol=1e-13)


def test_higher_orders_through_recorded_calls() -> None:
    compiled: Any = tl.function(lambda x: tl.tanh(x) * x)
    (x,) = tensors(1)

    def third(function: Any) -> Any:
        with tl.GradientTape() as a:
            a.watch(x)
            with tl.GradientTape() as b:
                b.watch(x)
                with tl.GradientTape() as c:
                    c.watch(x)
                    y = function(x)
                first = c.gradient(y, x)
            second = b.gradient(first, x)
        return a.gradient(second, x)

    expected = third(lambda x: tl.tanh(x) * x)
    for _ in range(4):
        np.testing.assert_allclose(third(compiled), expected, rtol=1e-10)


def test_memory_stays_flat_and_nothing_is_left_for_the_collector() -> None:
    compiled: Any = tl.function(layer)
    args = tensors(3)
    for _ in range(5):
        gradients(compiled, args, [1, 2])
    shared = [None, (), True, args[1], args[1]._value, STATE]
    gc.collect()
    gc.disable()
    try:
        objects = len(gc.get_objects())
        before = [sys.getrefcount(one) for one in shared]
        for _ in range(500):
            gradients(compiled, args, [1, 2])
        after = [sys.getrefcount(one) for one in shared]
        assert len(gc.get_objects()) - objects < 20
    finally:
        gc.enable()
    assert max(abs(b - a) for a, b in zip(before, after, strict=True)) < 100


def test_a_dropped_function_dies_at_once() -> None:
    import weakref

    compiled: Any = tl.function(line)
    (x,) = tensors(1)
    for _ in range(4):
        gradients(compiled, [x], [0])
    (concrete,) = compiled.concrete_functions
    graph = weakref.ref(concrete.differentiable)
    gc.collect()
    gc.disable()
    try:
        del compiled, concrete
        assert graph() is None
    finally:
        gc.enable()
