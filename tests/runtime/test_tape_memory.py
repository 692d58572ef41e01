"""What a tape keeps alive, and for how long. None of this counts on the cyclic collector."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
import traceback
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tapeline.runtime import record
from tapeline.runtime.gradient_tape import GradientTape
from tapeline.runtime.op import define_op
from tapeline.runtime.operators import make_binary
from tapeline.runtime.tensor import as_tensor
from tapeline.runtime.variable import Variable


@pytest.fixture(autouse=True)
def _without_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def test_dead_intermediates_leave_no_entries(tiny: Any) -> None:
    x = as_tensor([1.0, 2.0])
    with GradientTape() as tape:
        tape.watch(x)

        def forward() -> None:
            y = tiny.exp(x) * x
            tiny.total(y)

        forward()
        assert tape.export() == []


def test_an_entry_lives_as_long_as_a_value_needs_it(tiny: Any) -> None:
    x = as_tensor([1.0, 2.0])
    with GradientTape() as tape:
        tape.watch(x)
        h = tiny.exp(x)
        array, node = weakref.ref(h._value), weakref.ref(h._node)
        k = h * h
        del h
        assert array() is not None
        assert len(tape.export()) == 2
        del k
        assert array() is None
        assert node() is None
        assert tape.export() == []


def test_gradient_releases_what_the_caller_still_holds(tiny: Any) -> None:
    x = as_tensor([1.0, 2.0])
    with GradientTape() as tape:
        tape.watch(x)
        h = tiny.exp(x)
        head = tiny.sin(h)
        y = tiny.total(h * h)
    tape.gradient(y, x)
    array = weakref.ref(h._value)
    del h
    assert array() is None
    assert head._node.parents == ()
    assert y._node.saved == ()


def test_values_outlive_their_tape_without_history(tiny: Any) -> None:
    x = as_tensor([1.0, 2.0])
    with GradientTape(persistent=True) as tape:
        tape.watch(x)
        h = tiny.exp(x)
        loss = tiny.total(h)
    array = weakref.ref(h._value)
    del h
    assert array() is not None
    del tape
    assert array() is None
    assert loss._node.parents == ()


def test_outer_tape_keeps_what_an_inner_one_released(tiny: Any) -> None:
    x = as_tensor([1.0, 2.0])
    with GradientTape() as outer:
        outer.watch(x)
        with GradientTape() as inner:
            inner.watch(x)
            h = tiny.exp(x)
            y = h * h
        inner.gradient(y, x)
        assert len(outer.export()) >= 2
    np.testing.assert_allclose(outer.gradient(y, x), 2 * np.exp(2 * x.numpy()))
    assert y._node.parents == ()


def test_dropping_an_unused_tape_forgets_its_sets() -> None:
    before = len(record.OWN), len(record.COMBINED), len(record.CELLS)
    x = as_tensor(1.0)
    for _ in range(3):
        with GradientTape(), GradientTape() as inner:
            inner.watch(x)
    del inner
    assert (len(record.OWN), len(record.COMBINED), len(record.CELLS)) == before


def test_combined_sets_die_with_their_tapes(tiny: Any) -> None:
    before = len(record.OWN), len(record.COMBINED), len(record.CELLS)
    x = as_tensor(1.0)
    with GradientTape() as outer:
        outer.watch(x)
        with GradientTape() as inner:
            inner.watch(x)
            y = x * x
            x += 1.0
        inner.gradient(y, x)
    del outer, inner
    assert (len(record.OWN), len(record.COMBINED), len(record.CELLS)) == before


def test_a_changed_cell_that_dies_is_forgotten(tiny: Any) -> None:
    with GradientTape(persistent=True) as tape:
        x = as_tensor(1.0)
        tape.watch(x)
        node = weakref.ref(x._node)
        x += 1.0
        assert node() is not None
        del x
        assert node() is None


def test_training_loop_makes_no_garbage(tiny: Any) -> None:
    w, v = as_tensor([1.0, 2.0]), Variable([1.0, 1.0])
    for _ in range(3):
        with GradientTape() as outer:
            outer.watch(w)
            with GradientTape() as tape:
                tape.watch(w)
                s, c = tiny.sin_cos(w * v)
                loss = tiny.total(tiny.exp(s) * c)
            g = tape.gradient(loss, (w, v))
            penalty = tiny.total(g[0])
        second = outer.gradient(penalty, w)
        v.assign_sub(g[1] * 0.1)
    del outer, tape, s, c, loss, g, second, penalty
    assert gc.collect() == 0


def test_variable_that_is_not_used_leaves_nothing(tiny: Any) -> None:
    v = Variable([1.0, 2.0])
    with GradientTape(persistent=True) as tape:
        for _ in range(5):
            v.assign((v * 2.0).numpy())
        assert tape.export() == []


def test_same_numbers_of_references_after_many_calls(tiny: Any) -> None:
    w = as_tensor([1.0, 2.0])

    def step() -> None:
        with GradientTape() as tape:
            tape.watch(w)
            y = tiny.total(tiny.tanh(w * w))
        tape.gradient(y, w)

    step()
    watched = (None, 0.0, w, tiny.ops["times"], record.EMPTY)
    before = [sys.getrefcount(thing) for thing in watched]
    for _ in range(500):
        step()
    after = [sys.getrefcount(thing) for thing in watched]
    assert all(abs(a - b) < 50 for a, b in zip(before, after, strict=True))


def chain(length: int, tiny: Any) -> float:
    x = as_tensor(1.0)
    with GradientTape() as tape:
        tape.watch(x)
        y = x
        for _ in range(length):
            y = y + x
    return float(tape.gradient(y, x))


@pytest.mark.slow
def test_a_million_ops_on_a_small_stack(tiny: Any) -> None:
    found: list[float] = []
    # From 3.13 on CPython counts on a stack of usual size: a deep list, too, dies on a small one.
    small = 256 * 1024 if sys.version_info < (3, 13) else 0
    before = threading.stack_size(small)
    try:
        thread = threading.Thread(target=lambda: found.append(chain(1_000_000, tiny)))
        thread.start()
        thread.join()
    finally:
        threading.stack_size(before)
    assert found == [1_000_001.0]


@pytest.mark.slow
def test_a_million_ops_can_be_dropped_unused(tiny: Any) -> None:
    x = as_tensor(1.0)
    with GradientTape() as tape:
        tape.watch(x)
        y = x
        for _ in range(1_000_000):
            y = y + x
        del y
        assert tape.export() == []


def test_few_frames_stand_above_a_kernel(tiny: Any) -> None:
    depths: list[int] = []

    def kernel(a: Any, b: Any) -> Any:
        depths.append(len(traceback.extract_stack()))
        return np.multiply(a, b)

    from tapeline.runtime.dispatch import bind

    spy = define_op(
        "spy", kernel=kernel, infer=lambda *_: _[0], n_inputs=2, saves=(0, 1), register=False,
        vjps=(
            lambda ct, attrs, x, y: bind(spy, (ct, y)),
            lambda ct, attrs, x, y: bind(spy, (ct, x)),
        ),
    )  # fmt: skip
    multiply = make_binary(spy)
    x = as_tensor([1.0, 2.0])
    multiply(x, x)  # the first call of all makes the code of the closure
    base = len(traceback.extract_stack())
    with GradientTape() as outer, GradientTape() as tape:
        outer.watch(x)
        tape.watch(x)
        y = multiply(x, x)
        assert depths[-1] - base <= 2
        tape.gradient(y, x)
        assert depths[-1] - base <= 8


def test_interpreter_ends_well_with_an_open_tape() -> None:
    code = """
import builtins
from tapeline.runtime.gradient_tape import GradientTape
from tapeline.runtime.tensor import as_tensor
from tapeline.runtime.dispatch import bind
tape = GradientTape(persistent=True).__enter__()
x = as_tensor([1.0, 2.0])
tape.watch(x)
builtins.keep = (tape, x)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_thread_may_end_with_an_open_tape(tiny: Any) -> None:
    kept: list[Any] = []

    def work() -> None:
        tape = GradientTape(persistent=True).__enter__()
        x = as_tensor(2.0)
        tape.watch(x)
        kept.append(x * x)

    before = len(record.OWN)
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    del thread
    assert len(record.OWN) == before
    assert kept[0]._node.parents == ()
