"""Machine code walks tapes as Python does: the same bits, the same errors, nothing left behind."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tapeline as tl
from tapeline.compiler.codegen import tape_code
from tapeline.compiler.codegen.layout import native_entry_allowed
from tapeline.runtime import array_walk, backprop, record
from tapeline.runtime.dispatch import STATE, bind
from tapeline.runtime.errors import GradientError, TapeError
from tapeline.runtime.op import define_op

pytestmark = pytest.mark.skipif(not native_entry_allowed(), reason="no native entries here")

Gradient = Callable[..., Any]


@pytest.fixture(autouse=True)
def _installed() -> Iterator[None]:
    before = array_walk.WALKER[0], backprop.GRADIENT_OF[0]
    assert tape_code.install()
    use_machine_code()
    yield
    use_machine_code()
    array_walk.WALKER[0], backprop.GRADIENT_OF[0] = before


_NATIVE: list[Any] = []


def use_machine_code() -> None:
    if not _NATIVE:
        assert type(array_walk.WALKER[0]).__name__ == "builtin_function_or_method"
        _NATIVE.extend([array_walk.WALKER[0], backprop.GRADIENT_OF[0]])
    array_walk.WALKER[0], backprop.GRADIENT_OF[0] = _NATIVE
    for cls, name, _, native in tape_code.NATIVE_METHODS:
        setattr(cls, name, native)


def use_python() -> None:
    array_walk.WALKER[0], backprop.GRADIENT_OF[0] = array_walk.walk_arrays, backprop.gradient_of
    for cls, name, function, _ in tape_code.NATIVE_METHODS:
        setattr(cls, name, function)


def random_program(rng: np.random.Generator, pool: list[Any], length: int) -> Any:
    """A random graph with fan-out, broadcasting, ops of several outputs and rules that mask."""
    for _ in range(length):
        a, b = (pool[k] for k in rng.integers(len(pool), size=2))
        choice = rng.integers(8)
        if choice == 0:
            pool.append(tl.tanh(a) * b)
        elif choice == 1:
            pool.append(a + b)
        elif choice == 2:
            pool.extend(tl.split(tl.stack([tl.sum(a), tl.sum(b)]), 2))
        elif choice == 3:
            pool.append(tl.where(a > 0.1, tl.sqrt(tl.abs(a)), a))
        elif choice == 4:
            pool.append(a - b * 0.5)
        elif choice == 5:
            pool.append(a + a + a + a)
        elif choice == 6:
            pool.append(tl.stop_gradient(a) * b)
        else:
            pool.append(tl.exp(tl.tanh(a)) / 2)
    total = tl.sum(pool[-1])
    for x in pool[-5:-1]:
        total = total + tl.sum(x)
    return total


def gradient_of_program(seed: int, persistent: bool = False) -> list[Any]:
    rng = np.random.default_rng(seed)
    leaves = [tl.asarray(rng.uniform(-1, 1, shape)) for shape in [(3,), (), (2, 3)]]
    other = tl.asarray(rng.uniform(-1, 1, 3))
    variable = tl.Variable(rng.uniform(-1, 1, 3))
    with tl.GradientTape(persistent=persistent) as tape:
        tape.watch(leaves)
        y = random_program(rng, [*leaves, other, variable.read_value()], int(rng.integers(1, 16)))
    return tape.gradient(y, [*leaves, variable])  # type: ignore[no-any-return]


@pytest.mark.parametrize("persistent", [False, True])
def test_random_graphs_give_the_same_bits(persistent: bool) -> None:
    for seed in range(150):
        use_machine_code()
        found = gradient_of_program(seed, persistent)
        use_python()
        expected = gradient_of_program(seed, persistent)
        for a, b in zip(found, expected, strict=True):
            assert (a is None) == (b is None)
            if a is not None:
                assert type(a) is tl.Tensor
                assert a.dtype is b.dtype
                np.testing.assert_array_equal(a.numpy(), b.numpy())


def taped_square() -> tuple[Any, Any, Any]:
    x = tl.asarray([1.0, 2.0])
    with tl.GradientTape() as tape:
        tape.watch(x)
        y = x * x
    return tape, y, x


def test_a_used_tape_is_refused_and_holds_nothing() -> None:
    before = len(record.OWN)
    tape, y, x = taped_square()
    np.testing.assert_array_equal(tape.gradient(y, x), [2, 4])
    assert len(record.OWN) == before
    assert y._node.parents == y._node.saved == ()
    assert y._node.rec is y._node.tapes is record.EMPTY
    with pytest.raises(TapeError, match="this tape was used"):
        tape.gradient(y, x)
    assert tape.export() == []


def test_structures_and_sources_without_a_path() -> None:
    tape, y, x = taped_square()
    unknown = tl.asarray([3.0, 4.0])
    found = tape.gradient(y, (x, unknown))
    assert type(found) is tuple
    assert found[1] is None
    np.testing.assert_array_equal(found[0], [2, 4])
    tape, y, x = taped_square()
    assert tape.gradient(y, []) == []
    tape, y, x = taped_square()
    assert tape.gradient(tl.asarray(1.0), x) is None
    tape, y, x = taped_square()
    np.testing.assert_array_equal(tape.gradient(y, y), [1, 1])
    tape, y, x = taped_square()
    np.testing.assert_array_equal(tape.gradient(x, [x])[0], [1, 1])


def test_an_infinite_slope_behind_a_mask_is_zero() -> None:
    x = tl.asarray([0.0, 4.0])
    with tl.GradientTape() as tape:
        tape.watch(x)
        y = tl.sum(tl.where(x > 1, tl.sqrt(x), x * 0))
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(tape.gradient(y, x), [0, 0.25])


def test_an_outer_tape_sees_the_gradient() -> None:
    x = tl.asarray([1.0, 2.0])
    with tl.GradientTape() as outer:
        outer.watch(x)
        with tl.GradientTape() as inner:
            inner.watch(x)
            y = x * x * x
        first = inner.gradient(y, x)
    np.testing.assert_array_equal(outer.gradient(first, x), [6, 12])


def test_a_cell_that_was_rebound_names_the_watched_value() -> None:
    x = tl.asarray([1.0, 2.0])
    with tl.GradientTape() as tape:
        tape.watch(x)
        y = x * x
        x += 1.0
    np.testing.assert_array_equal(tape.gradient(y, x), [2, 4])


def failing(x: Any) -> Any:
    @tl.custom_gradient
    def op(value: Any) -> Any:
        def grad(ct: Any) -> Any:
            raise KeyError("no gradient today")

        return value * 2, grad

    return op(x)


def test_an_error_in_a_rule_ends_the_tape(monkeypatch: pytest.MonkeyPatch) -> None:
    before = len(record.OWN)
    x = tl.asarray([1.0, 2.0])
    with tl.GradientTape() as tape:
        tape.watch(x)
        y = tl.sum(failing(x))
    with pytest.raises(KeyError, match="no gradient today"):
        tape.gradient(y, x)

    def broken(*_: Any) -> Any:
        raise ZeroDivisionError

    tape, y, x = taped_square()
    monkeypatch.setattr(y._node.op, "vjps", (broken, broken))
    STATE.masked = True
    with pytest.raises(ZeroDivisionError):
        tape.gradient(y, x)
    assert STATE.masked is True
    STATE.masked = False
    with pytest.raises(TapeError):
        tape.gradient(y, x)
    assert y._node is not None
    assert y._node.parents == ()
    assert len(record.OWN) == before
    assert record.LOCK.acquire(blocking=False)
    record.LOCK.release()


def test_a_joint_rule_must_give_a_part_per_input() -> None:
    for rule in (lambda *_: (None,), lambda *_: None, lambda *_: (None, None, None)):
        op = define_op(
            "two", kernel=lambda x, y: x * y, infer=lambda x, _: x, n_inputs=2, saves=(0, 1),
            joint_vjp=rule, masks=False, register=False,
        )  # fmt: skip
        x = tl.asarray([1.0, 2.0])
        with tl.GradientTape() as tape:
            tape.watch(x)
            y = bind(op, (x, x))
        with pytest.raises(GradientError, match=r"two: its gradient rule returned . cotangents"):
            tape.gradient(y, x)


def test_a_joint_rule_hears_what_is_needed() -> None:
    heard: list[Any] = []

    def rule(cts: Any, attrs: Any, needed: Any, x: Any, y: Any) -> Any:
        heard.append((len(cts), attrs, needed))
        return cts[0] * y, cts[0] * x

    op = define_op(
        "two", kernel=lambda x, y: x * y, infer=lambda x, _: x, n_inputs=2, saves=(0, 1),
        joint_vjp=rule, masks=False, register=False,
    )  # fmt: skip
    x, z = tl.asarray([1.0, 2.0]), tl.asarray([3.0, 5.0])
    for inputs, needed, expected in [
        ((x, z), (True, False), [3, 5]),
        ((z, x), (False, True), [3, 5]),
        ((x, x), (True, True), [2, 4]),
    ]:
        with tl.GradientTape() as tape:
            tape.watch(x)
            y = bind(op, inputs)
        np.testing.assert_array_equal(tape.gradient(y, x), expected)
        assert heard[-1] == (1, (), needed)


def test_an_op_without_rules_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    tape, y, x = taped_square()
    monkeypatch.setattr(y._node.op, "vjps", ())
    with pytest.raises(GradientError, match="multiply: the op has no gradient rule"):
        tape.gradient(y, x)


def test_nothing_is_left_for_the_collector_and_no_reference_drifts() -> None:
    shared = [None, True, False, (), 1, record.EMPTY, STATE, tl.Tensor]
    for k in range(20):
        gradient_of_program(k)
    gc.collect()
    gc.disable()
    try:
        objects = len(gc.get_objects())
        before = [sys.getrefcount(one) for one in shared]
        for _ in range(300):
            gradient_of_program(7)
            tape, y, x = taped_square()
            tape.gradient(y, [x, x])
        after = [sys.getrefcount(one) for one in shared]
        assert len(gc.get_objects()) - objects < 50
    finally:
        gc.enable()
    assert max(abs(b - a) for a, b in zip(before, after, strict=True)) < 100


def test_a_long_chain_is_walked_and_freed() -> None:
    x = tl.asarray([0.5])
    with tl.GradientTape() as tape:
        tape.watch(x)
        y = x
        for _ in range(20_000):
            y = y + x
    np.testing.assert_array_equal(tape.gradient(y, x), [20_001])
    assert y._node is not None
    assert y._node.parents == ()


def test_only_one_of_two_threads_gets_the_gradient() -> None:
    for _ in range(30):
        tape, y, x = taped_square()
        results: list[Any] = []
        barrier = threading.Barrier(2)

        def ask(tape: Any = tape, y: Any = y, x: Any = x, barrier: Any = barrier) -> None:
            barrier.wait()
            try:
                results.append(tape.gradient(y, x))  # noqa: B023  # the thread ends in this turn
            except TapeError:
                results.append(None)  # noqa: B023  # as above

        threads = [threading.Thread(target=ask) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sum(result is None for result in results) == 1


def test_many_gradients_load_it(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    monkeypatch.setattr(backprop, "WARM_UP", [lambda: asked.append(1)])
    numbers = iter(range(backprop.WARM_AFTER - 2, backprop.WARM_AFTER + 3))
    monkeypatch.setattr(backprop, "_next_gradient", lambda: next(numbers))
    use_python()
    for _ in range(5):
        tape, y, x = taped_square()
        tape.gradient(y, x)
    assert asked == [1]


@pytest.mark.parametrize(
    ("last", "holder"),
    [("open", "sys"), ("open", "numpy"), ("open", "__main__"), ("left", "sys"), ("asked", "numpy")],
)
def test_tapes_may_outlive_the_modules_when_python_ends(last: str, holder: str) -> None:
    program = f"""
import sys
import tapeline as tl
from tapeline.compiler.codegen import tape_code
assert tape_code.install()

class Cycle:
    def __init__(self, tape):
        self.me, self.tape = self, tape

    def __del__(self):
        with tl.GradientTape() as tape:
            tape.watch(x)
            y = x * x
        tape.gradient(y, x)

x, tape = tl.asarray(3.0), tl.GradientTape()
tape.__enter__()
tape.watch(x)
y = x * x
if {last!r} != "open":
    tape.__exit__(None, None, None)
if {last!r} == "asked":
    assert tape.gradient(y, x).item() == 6.0
holder = __import__({holder!r})
holder.first_of_all, holder.zero, holder.y = tape, Cycle(tape), y
del tape, y
"""
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", program], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_the_tests_of_the_tape_pass_on_machine_code() -> None:
    here = Path(__file__).resolve().parent
    tests = here.parents[1] / "runtime"
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider"]
    command += ["-p", "with_tape_code"]
    command += [
        str(tests / name) for name in ("test_tape.py", "test_backprop.py", "test_operators.py")
    ]
    path = os.pathsep.join([str(here), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout
