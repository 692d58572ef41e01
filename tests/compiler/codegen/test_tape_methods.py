"""Tapes entered, watched, left and dropped by machine code behave as those that Python serves."""

from __future__ import annotations

import gc
import inspect
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tapeline as tl
from tapeline.compiler.codegen import layout, tape_code
from tapeline.runtime import record
from tapeline.runtime.dispatch import RECORDING, STATE
from tapeline.runtime.errors import ArgumentError, TapeError

pytestmark = pytest.mark.skipif(not layout.native_entry_allowed(), reason="no native entries here")


@pytest.fixture(params=["machine code", "Python"], autouse=True)
def _served_by(request: pytest.FixtureRequest) -> Iterator[None]:
    assert tape_code.install()
    methods = tape_code.NATIVE_METHODS
    assert len(methods) == 5
    for cls, name, function, native in methods:
        setattr(cls, name, native if request.param == "machine code" else function)
    yield
    for cls, name, _, native in methods:
        setattr(cls, name, native)
    assert STATE.active is None
    assert STATE.open == ()


def slope(function: Callable[[Any], Any], x: Any) -> Any:
    with tl.GradientTape() as tape:
        tape.watch(x)
        y = function(x)
    return tape.gradient(y, x)


def test_entering_and_leaving_is_seen_in_the_state() -> None:
    tape = tl.GradientTape()
    recording = dict(RECORDING)
    with tape as entered:
        assert entered is tape
        assert STATE.open == (tape,)
        assert STATE.active is tape._own
        assert list(RECORDING) == [*recording, *tape._own.ids]  # type: ignore[union-attr]
    assert recording == RECORDING


def test_tapes_in_tapes_are_left_in_any_order() -> None:
    x = tl.asarray(3.0)
    a, b = tl.GradientTape(), tl.GradientTape()
    a.__enter__()
    b.__enter__()
    a.watch(x)
    b.watch(x)
    y = x * x * x
    a.__exit__(None, None, None)
    z = y * 2.0
    b.__exit__(None, None, None)
    assert a.gradient(z, x) is None
    assert b.gradient(z, x).item() == 54.0


def test_a_second_derivative() -> None:
    x = tl.asarray(2.0)
    assert slope(lambda x: slope(lambda x: x * x * x, x), x).item() == 12.0


def test_a_tape_is_entered_again() -> None:
    x, tape = tl.asarray(3.0), tl.GradientTape()
    for _ in range(3):
        with tape:
            tape.watch(x)
            y = x * x
        assert tape.gradient(y, x).item() == 6.0
        with pytest.raises(TapeError):
            tape.gradient(y, x)
    with tl.GradientTape() as tape:
        tape.watch(x)
        y = x * x
    with tape:
        z = y * x
    assert tape.gradient(z, x).item() == 27.0


def test_a_gradient_inside_of_the_block_ends_the_tape() -> None:
    x = tl.asarray(3.0)
    with tl.GradientTape() as tape:
        tape.watch(x)
        y = x * x
        assert tape.gradient(y, x).item() == 6.0
        assert STATE.active is None


def test_wrong_uses_are_refused() -> None:
    tape = tl.GradientTape()
    with pytest.raises(ArgumentError, match="not recording"):
        tape.__exit__(None, None, None)
    with pytest.raises(TapeError, match="nothing is recorded yet"):
        tape.watch(tl.asarray(1.0))
    with tape, pytest.raises(ArgumentError, match="recording already"):
        tape.__enter__()
    with tl.GradientTape() as tape:
        with pytest.raises(ArgumentError, match="expected a tensor"):
            tape.watch(None)
        with pytest.raises(TypeError):
            tape.watch()  # type: ignore[call-arg]
        with pytest.raises(TypeError):
            tape.watch(tl.asarray(1.0), other=2)  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        tape.gradient(tl.asarray(1.0))  # type: ignore[call-arg]


def test_arguments_by_name_and_rows_of_sources() -> None:
    x, w, v = tl.asarray(3.0), tl.asarray(4.0), tl.Variable(5.0)
    expected = {id(x): 20.0, id(w): 15.0, id(v): 12.0}

    def product() -> tuple[tl.GradientTape, Any]:
        with tl.GradientTape() as tape:
            tape.watch(tensor=x)
            tape.watch([w])
            y = x * w * v
        return tape, y

    rows: list[Any] = [[x, w], (w, x), [v], (), [x, x]]
    for sources in rows:
        tape, y = product()
        found = tape.gradient(target=y, sources=sources)
        assert type(found) is type(sources)
        assert [part.item() for part in found] == [expected[id(each)] for each in sources]
        tape, y = product()
        again = tape.gradient(y, sources)
        assert type(again) is type(sources)
        assert [part.item() for part in again] == [part.item() for part in found]
    tape, y = product()
    named = tape.gradient(y, {"a": x, "b": [w]})
    assert (named["a"].item(), named["b"][0].item()) == (20.0, 15.0)
    tape, y = product()
    assert tape.gradient(y, v).item() == 12.0


def test_seeds_of_many_shapes_and_dtypes() -> None:
    rng = np.random.default_rng(0)
    shapes = [(), (1,), (3,), (3, 1), (1, 3), (2, 3), (0,), (40, 40)]
    for _ in range(3):
        for shape in [shapes[k] for k in rng.permutation(len(shapes))]:
            for dtype in ("float32", "float64"):
                x = tl.asarray(rng.normal(size=shape).astype(dtype))
                found = slope(lambda x: x * 3.0, x)
                assert found.dtype == dtype
                np.testing.assert_array_equal(found.numpy(), np.full(shape, 3.0, dtype))
    x = tl.asarray(np.ones((2, 3)))
    ones = slope(lambda x: x + 0.0, x)
    np.testing.assert_array_equal(ones.numpy(), np.ones((2, 3)))


def test_records_die_while_others_live() -> None:
    x, kept = tl.asarray(3.0), []
    with tl.GradientTape() as tape:
        tape.watch(x)
        for k in range(20):
            y = x * float(k)
            if k % 3 == 0:
                kept.append(y)
    nodes = [each._node for each in kept]
    assert tape.gradient(kept[1], x).item() == 3.0
    assert all(node is not None and node.parents == () for node in nodes)
    assert all(node is not None and not node.tapes.ids for node in nodes)


def test_what_a_class_derived_from_the_tape_says_is_done() -> None:
    said: list[str] = []

    class Loud(tl.GradientTape):
        __slots__ = ()

        def start(self) -> None:
            said.append("start")
            super().start()

        def watch_tensor(self, tensor: Any) -> None:
            said.append("watch")
            super().watch_tensor(tensor)

        def stop(self) -> None:
            said.append("stop")
            super().stop()

    x = tl.asarray(3.0)
    with Loud() as tape:
        tape.watch(x)
        y = x * x
    assert tape.gradient(y, x).item() == 6.0
    assert said == ["start", "watch", "stop"]


def test_a_set_in_use_is_not_used_again() -> None:
    x = tl.asarray(3.0)
    tapes, results = [], []
    for k in range(5):
        with tl.GradientTape() as tape:
            tape.watch(x)
            results.append(x * float(k))
        tapes.append(tape)
    assert len({id(tape._own) for tape in tapes}) == 5
    assert [t.gradient(y, x).item() for t, y in zip(tapes, results, strict=True)] == [*range(5)]
    kept = slope(lambda x: x * x, x)
    with tl.GradientTape() as tape:
        tape.watch(x)
        y = x + kept
    assert tape.gradient(y, kept) is None


def test_a_value_kept_after_its_tape_knows_nothing_of_the_next_one() -> None:
    x = tl.asarray(3.0)
    with tl.GradientTape() as tape:
        tape.watch(x)
        y = x * x
    tape.gradient(y, x)
    del tape
    with tl.GradientTape() as following:
        following.watch(x)
        z = x * y
    assert following.gradient(z, y) is None
    assert y._node is None or not y._node.tapes.ids
    with tl.GradientTape() as last:
        last.watch(x)
        z = x * y
    assert last.gradient(z, x).item() == 9.0


def test_tapes_that_are_dropped_release_what_they_recorded() -> None:
    x = tl.asarray(np.ones(4))
    before = len(record.OWN)
    with tl.GradientTape() as tape:
        tape.watch(x)
        y = x * x
    node = weakref.ref(y._node)
    del tape
    assert len(record.OWN) == before
    assert node() is not None
    assert node().parents == ()  # type: ignore[union-attr]
    tl.GradientTape()
    blank = tl.GradientTape.__new__(tl.GradientTape)
    del blank


def test_nothing_is_left_behind() -> None:
    x, w = tl.asarray(np.ones(4, np.float32)), tl.asarray(np.ones(4, np.float32))

    def one() -> None:
        with tl.GradientTape() as tape:
            tape.watch(x)
            tape.watch(w)
            y = tl.tanh(x * w)
        tape.gradient(y, [x, w])
        slope(lambda x: x * x, tl.asarray(2.0))

    for _ in range(50):
        one()
    gc.collect()
    objects, own = len(gc.get_objects()), len(record.OWN)
    counts = [sys.getrefcount(each) for each in (None, (), False, True, record.EMPTY)]
    for _ in range(500):
        one()
    gc.collect()
    assert len(gc.get_objects()) - objects < 50
    assert len(record.OWN) == own
    after = [sys.getrefcount(each) for each in (None, (), False, True, record.EMPTY)]
    assert max(abs(b - a) for a, b in zip(counts, after, strict=True)) < 100


def test_watching_waits_for_another_thread_at_work_on_records() -> None:
    x, done = tl.asarray(3.0), threading.Event()

    def watch() -> None:
        tape.watch(x)
        done.set()

    with tl.GradientTape() as tape:
        record.LOCK.acquire()
        try:
            other = threading.Thread(target=watch)
            other.start()
            assert not done.wait(0.05)
            assert x._node is None
        finally:
            record.LOCK.release()
        other.join()
        y = x * x
    assert tape.gradient(y, x).item() == 6.0


def test_a_tape_ends_while_another_thread_is_at_work_on_records() -> None:
    x, found = tl.asarray(3.0), []
    with tl.GradientTape() as tape:
        tape.watch(x)
        y = x * x
    record.LOCK.acquire()
    try:
        other = threading.Thread(target=lambda: found.append(tape.gradient(y, x).item()))
        other.start()
        other.join(0.05)
        assert not found
    finally:
        record.LOCK.release()
    other.join()
    assert found == [6.0]


def test_threads_have_their_own_tapes() -> None:
    shared, errors = tl.asarray(3.0), []

    def work(scale: float) -> None:
        for _ in range(300):
            with tl.GradientTape() as tape:
                tape.watch(shared)
                y = shared * shared * scale
            found = tape.gradient(y, shared)
            if found is None or found.item() != 6.0 * scale:
                errors.append(found)

    threads = [threading.Thread(target=work, args=(float(k + 1),)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors


def test_signatures_and_docstrings_stay() -> None:
    method = tl.GradientTape.gradient
    names = list(inspect.signature(method).parameters)
    assert names[1:] == ["target", "sources", "output_gradients", "unconnected_gradients", "sparse"]
    assert (method.__doc__ or "").startswith("The gradient of the sum of the targets")
    assert "watch_accessed_variables" in inspect.signature(tl.GradientTape).parameters
