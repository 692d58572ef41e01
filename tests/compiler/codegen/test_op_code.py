"""Machine code for single ops gives what the closures give: bits, nodes, errors."""

from __future__ import annotations

import gc
import inspect
import itertools
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapeline as tl
from tapeline.compiler.codegen import op_code, tape_code
from tapeline.compiler.codegen.layout import native_entry_allowed
from tapeline.runtime.dispatch import STATE
from tapeline.runtime.operators import Closure

pytestmark = pytest.mark.skipif(not native_entry_allowed(), reason="no native entries here")

if native_entry_allowed():
    tape_code.install()
PAIRS = [*op_code.FUNCTIONS, *op_code.METHODS]
NAMES = [
    f"{'method' if k >= len(op_code.FUNCTIONS) else 'function'}-{closure.op.name}"
    for k, (closure, _) in enumerate(PAIRS)
]
ATTRS: dict[str, tuple[Any, ...]] = {
    "sum": ((0,), False), "round": (0,), "leaky_relu": (0.1,), "elu": (0.7,), "celu": (0.7,),
}  # fmt: skip
every_closure = pytest.mark.parametrize(("closure", "native"), PAIRS, ids=NAMES)


def outcome(function: Callable[..., Any], *args: Any) -> Any:
    """The result, or the error as type and text."""
    try:
        return function(*args)
    except Exception as error:
        return type(error), str(error)


def assert_same(found: Any, expected: Any) -> None:
    assert type(found) is type(expected)
    if type(found) is not tl.Tensor:
        assert found == expected
        return
    a, b = found._value, expected._value
    assert type(a) is type(b) is np.ndarray
    assert a.dtype is b.dtype
    assert a.shape == b.shape
    np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(np.signbit(a.real), np.signbit(b.real))


def arrays() -> list[Any]:
    rng = np.random.default_rng(5)
    floats = [rng.uniform(0.1, 0.9, shape) for shape in [(4,), (), (3, 4), (0, 4)]]
    made = [floats[0], floats[1], floats[2].T[::-1], floats[3], -floats[0]]
    made += [x.astype("float32") for x in made[:3]]
    made += [np.array([1, 2, 3, 4]), np.array([5], "int32"), np.array([True, False, True, True])]
    made += [np.array([1, 2, 3, 4], "uint8"), np.array([1 + 1j, 2.0, 3.0, 4.0])]
    return [tl.asarray(x) for x in made]


def attrs_of(closure: Closure) -> list[tuple[Any, ...]]:
    """What follows the tensors in calls: nothing, or each of some tuples of attributes."""
    if not closure.op.attr_names:
        return [()]
    sampled = dict.fromkeys(sample.attrs for sample in closure.op.samples)
    return [(attrs,) for attrs in sampled] or [(ATTRS[closure.op.name],)]


@every_closure
@pytest.mark.filterwarnings("ignore")
def test_results_and_errors_are_those_of_the_closure(closure: Closure, native: Any) -> None:
    others: list[Any] = [2, 2.5, -0.0, float("nan"), True, None, "x", np.ones(4), 1j, 10**30]
    pool = arrays()
    if closure.n_inputs == 1:
        calls: Any = [(x, *attrs) for x in pool for attrs in attrs_of(closure)]
    else:
        calls = itertools.product(pool, [*pool, *others])
    for args in calls:
        assert_same(outcome(native, *args), outcome(closure.function, *args))


@every_closure
@pytest.mark.filterwarnings("ignore")
def test_nodes_are_those_of_the_closure(closure: Closure, native: Any) -> None:
    for dtype in ("float32", "float64"):
        x, y = (tl.asarray(np.array([0.25, 0.5, 0.75], dtype)) for _ in range(2))
        inputs = [x, y][: closure.n_inputs]
        for watched, attrs in itertools.product(([x], [y], [x, y], []), attrs_of(closure)):
            with tl.GradientTape() as tape:
                tape.watch(watched)
                found = outcome(native, *inputs, *attrs)
                expected = outcome(closure.function, *inputs, *attrs)
                assert_same(found, expected)
                if type(found) is tl.Tensor:
                    assert_same_node(found._node, expected._node)
            tape.gradient(x, x)


def assert_same_node(node: Any, other: Any) -> None:
    assert (node is None) == (other is None)
    if node is None:
        return
    assert (node.op, node.attrs, node.parents) == (other.op, other.attrs, other.parents)
    assert node.rec is node.tapes is other.rec is STATE.active
    assert len(node.saved) == len(other.saved)
    for item, its in zip(node.saved, other.saved, strict=True):
        np.testing.assert_array_equal(item, its)


def test_operators_between_tapes() -> None:
    x = tl.asarray([0.5, 2.0])
    stale = tl.asarray([1.0, 3.0])
    with tl.GradientTape() as tape:
        tape.watch(stale)
    tape.gradient(stale, stale)
    with tl.GradientTape() as outer:
        outer.watch(x)
        with tl.GradientTape() as inner:
            inner.watch(x)
            y = x * x * stale
        first = inner.gradient(y, x)
        with outer.stop_recording():
            assert (x * x)._node is None
    np.testing.assert_array_equal(outer.gradient(first, x), 2 * stale.numpy())
    assert (x * stale)._node is None


def test_methods_look_like_methods() -> None:
    x = tl.asarray([1.0])
    assert inspect.signature(tl.Tensor.__add__).parameters.keys() == {"self", "other"}
    assert x.__add__("text") is NotImplemented
    add: Any = tl.Tensor.__add__
    for args in [(x,), (x, x, x), ()]:
        with pytest.raises(TypeError):
            add(*args)
    with pytest.raises(TypeError):
        add(3, x)
    (tanh,) = [native for closure, native in op_code.FUNCTIONS if closure.op.name == "tanh"]
    for args in [(), (x, x)]:
        with pytest.raises(TypeError):
            tanh(*args)


def test_a_trace_and_a_callback_see_the_ops() -> None:
    seen: list[str] = []
    x = tl.asarray([1.0, 2.0])
    with tl.debugging.op_callback(lambda name, *_: seen.append(name)):
        tl.tanh(x * 2.0) + x
    assert seen == ["multiply", "tanh", "add"]
    function = tl.function(lambda x: tl.tanh(x * 2.0) + x)
    np.testing.assert_allclose(function(x), np.tanh(x.numpy() * 2) + x.numpy(), rtol=1e-15)


def test_warnings_that_are_errors_come_through() -> None:
    with pytest.raises(RuntimeWarning, match="divide by zero"):
        tl.asarray([1.0]) / 0.0


def test_no_reference_drifts() -> None:
    x, y = tl.asarray([1.0, 2.0]), tl.asarray([0.5, 0.5])
    wrong = tl.asarray([1.0, 2.0, 3.0])

    def turn() -> None:
        with tl.GradientTape() as tape:
            tape.watch([x, y])
            z = tl.sum(tl.tanh(x * y + 1.5) * x - 2)
            outcome(lambda: x + wrong)
            outcome(lambda: tl.sum(x, 7))
        tape.gradient(z, [x, y])
        x == y  # noqa: B015  # for its side effects on references
        x * 3.0 + y

    for _ in range(20):
        turn()
    shared = [None, True, (), 1, STATE, x, y, x._value, y._value, tl.Tensor, np.multiply]
    gc.collect()
    gc.disable()
    try:
        objects = len(gc.get_objects())
        before = [sys.getrefcount(one) for one in shared]
        for _ in range(500):
            turn()
        after = [sys.getrefcount(one) for one in shared]
        assert len(gc.get_objects()) - objects < 50
    finally:
        gc.enable()
    assert max(abs(b - a) for a, b in zip(before, after, strict=True)) < 100
